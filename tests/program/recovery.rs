//! The catalogue is saved, lost, and made anew; and what `docs/recover.md` says of it is typed as it stands.

mod backup;
mod damage;
mod doctor;
mod gone;
mod history;
mod newer;
mod upgrade;

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::before::make_catalogue_of_before;
use crate::common::{World, manifests, segments};
use serde_json::Value;

const RECOVER: &str = include_str!("../../docs/recover.md");
const ASAT: &str = env!("CARGO_BIN_EXE_asat");

/// A daemon with three versions: to the first a tag leads, the second is given up, and the third is published twice and has a pin.
fn world() -> World {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.start();
    for version in 1..=3 {
        world
            .sqlite()
            .execute("insert into ledger values (?1)", [format!("{version}").repeat(9000)])
            .unwrap();
        world.publish(&format!("close {version}"));
    }
    world.publish("once more");
    world.send("PUT", "/versions/report@3/pin", &serde_json::json!({ "reason": "audit" }));
    world.send("PUT", "/stores/report/tags/month-end", &serde_json::json!({ "version": "report@1" }));
    assert_eq!(world.request("DELETE", "/versions/report@2", &[], b"").status, 200);
    world
}

fn asat(world: &World, arguments: &[&str]) -> Output {
    let config = world.path("asat.toml");
    let mut command = Command::new(ASAT);
    command.args(arguments).arg("--json").arg("--config").arg(config).envs(world.env.iter().cloned());
    command.stdin(Stdio::null()).output().unwrap()
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Why a command was refused.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the archives say of every version: its instant, its fingerprint, its publications, its pin and its tags.
fn known(world: &World) -> Vec<Value> {
    let list = world.get("/versions").json();
    let versions = list["versions"].as_array().unwrap().iter();
    versions
        .map(|version| {
            let publications = version["publications"].as_array().unwrap().iter();
            let labels: Vec<&Value> = publications.map(|publication| &publication["label"]).collect();
            let [id, cut_at, fingerprint, pin, tags] =
                ["id", "cut_at", "fingerprint", "pin", "tags"].map(|field| &version[field]);
            serde_json::json!([id, cut_at, fingerprint, labels, pin, tags])
        })
        .collect()
}

/// Everything that is recorded of every version, but for the space that it takes.
fn recorded(world: &World) -> Vec<Value> {
    let list = world.get("/versions?state=any").json();
    let versions = list["versions"].as_array().unwrap().iter();
    let fields = ["id", "state", "fingerprint", "publications", "pin"];
    versions.map(|version| fields.map(|field| version[field].clone()).into_iter().collect()).collect()
}

/// The files in the state folder that are a catalogue or were one.
fn catalogues(world: &World) -> Vec<String> {
    let names = fs::read_dir(world.path("state")).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("catalogue"));
    names.sort();
    names
}

/// Flips a bit in the middle of a file.
fn flip_middle(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// Flips a bit of a label, wherever the catalogue's file has it. Answers the label that it has then.
fn flip_label(world: &World, label: &str) -> String {
    let file = fs::File::options().read(true).write(true).open(world.path("state/catalogue.db")).unwrap();
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut other = label.as_bytes().to_vec();
    other[0] ^= 1;
    let places: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(label.as_bytes())).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| file.write_all_at(&other, at as u64).unwrap());
    String::from_utf8(other).unwrap()
}

#[test]
fn a_copy_is_taken_beside_the_running_daemon_and_is_the_catalogue_again() {
    let mut world = world();
    let copy = world.path("copy.db");
    let to = copy.to_str().unwrap().to_owned();
    let told = answer(&asat(&world, &["backup", &to]));
    let head = world.get("/audit").json()["head"]["place"].clone();
    assert_eq!((&told["path"], &told["audit_head"]), (&Value::from(to.clone()), &head));
    let refusal = refused(&asat(&world, &["backup", &to]));
    assert!(refusal.contains(&format!("there is something at {to} already")), "{refusal}");
    assert!(refused(&asat(&world, &["backup", "/dev/full/copy.db"])).contains("/dev/full/copy.db"));
    let before = recorded(&world);
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    world.publish("later");
    assert!(world.stop().success());
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    fs::copy(&copy, world.path("state/catalogue.db")).unwrap();
    world.start();
    let after = recorded(&world);
    // What was published since the copy is in the archive, and is taken over from there.
    assert_eq!(after[0][3][0]["label"], "later");
    assert_eq!(after[1..], before[..]);
}

#[test]
fn a_catalogue_that_is_made_anew_knows_what_the_archives_say() {
    let mut world = world();
    let before = known(&world);
    let refusal = refused(&asat(&world, &["rebuild-catalogue", "--replace"]));
    assert!(refusal.contains("in use by another asat"), "{refusal}");
    assert!(world.stop().success());
    let refusal = refused(&asat(&world, &["rebuild-catalogue"]));
    assert!(refusal.contains("there is a catalogue") && refusal.contains("--replace"), "{refusal}");
    assert_eq!(catalogues(&world), ["catalogue.db", "catalogue.db-newest"], "nothing has changed");
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    let rebuilt = answer(&asat(&world, &["rebuild-catalogue"]));
    assert_eq!(rebuilt["versions"], serde_json::json!(["report@1", "report@3"]));
    assert_eq!(rebuilt["kept"], Value::Null);
    let again = answer(&asat(&world, &["rebuild-catalogue", "--replace"]));
    assert_eq!(again["versions"], rebuilt["versions"]);
    world.start();
    assert_eq!(known(&world), before);
    let report = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(report["ok"], true, "{report}");
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    assert_eq!(world.publish("goes on")["version"]["id"], "report@4");
}

/// A folder with the store's file, as a clone of it has one.
fn make_clone(world: &World, folder: &Path, mode: u32) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.parent().unwrap()).unwrap();
    fs::DirBuilder::new().mode(mode).create(folder).unwrap();
    fs::copy(world.store(), folder.join("report.db")).unwrap();
}

/// A clone of the store for this version, with everything that it says of itself. Answers its folder.
fn make_whole_clone(world: &World, version: &str) -> PathBuf {
    let catalogue = rusqlite::Connection::open(world.path("state/catalogue.db")).unwrap();
    let sql = "select value from meta where key = 'installation'";
    let installation: String = catalogue.query_row(sql, (), |row| row.get(0)).unwrap();
    catalogue.close().unwrap();
    let clone = world.path("state/clones").join(installation).join(version);
    make_clone(world, &clone, 0o700);
    let length = fs::metadata(world.store()).unwrap().len();
    let (pages, header) = (length / 4096, "53514c69746520666f726d617420330010000101");
    let witness = format!("file/12/{length}/1764000000.5/1764000001.5/{header:0<200}");
    let told =
        format!("cut=2026-11-19T17:00:03.000456Z\npages=4096/{pages}\nmode=rollback\nwitness={witness}\n");
    fs::write(clone.join("told"), told).unwrap();
    clone
}

/// What a version has, or the store.
fn content(database: &rusqlite::Connection) -> String {
    database.query_row("select group_concat(entry) from ledger", (), |row| row.get(0)).unwrap()
}

/// Whatever the store is cut by now: clones that were made of it before lie there still.
#[test]
fn clones_of_a_store_that_is_cut_by_pages_now_are_known_again_and_no_number_is_given_twice() {
    let mut world = world();
    assert!(world.stop().success());
    let clone = make_whole_clone(&world, "report@7");
    // It is none of asat's: others may look into it.
    let stray = clone.with_file_name("report@12");
    make_clone(&world, &stray, 0o755);
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    let log = world.start();
    for line in [
        format!("report@7 was found in its snapshot {}, and is adopted", clone.display()),
        format!("{} was taken for report@12, and is left alone: others may look into it", stray.display()),
    ] {
        assert!(log.contains(&line), "{line:?} is not in {log}");
    }
    world.archived("report@7");
    let version = rusqlite::Connection::open(world.open("report@7")).unwrap();
    assert_eq!(content(&version), content(&world.sqlite()));
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    assert_eq!(world.publish("goes on")["version"]["id"], "report@13");
    assert!(stray.join("report.db").exists());
}

/// A disk may fail for a moment, and the version is there still.
#[test]
fn a_clone_that_cannot_be_looked_into_is_found_at_the_start_at_which_it_can() {
    let mut world = world();
    assert!(world.stop().success());
    let told = make_whole_clone(&world, "report@7").join("told");
    let kept = world.path("told");
    fs::rename(&told, &kept).unwrap();
    // Whoever reads it gets an error.
    fs::create_dir(&told).unwrap();
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    for _ in 0..2 {
        let log = world.start();
        assert_eq!(world.get("/versions/report@7").json()["state"], "lost", "{log}");
        assert!(log.contains("report@7") && log.contains("told"), "{log}");
        assert!(world.stop().success());
    }
    fs::remove_dir(&told).unwrap();
    fs::rename(&kept, &told).unwrap();
    let log = world.start();
    assert!(log.contains("holds report@7, and is its snapshot again"), "{log}");
    world.archived("report@7");
    let version = rusqlite::Connection::open(world.open("report@7")).unwrap();
    assert_eq!(content(&version), content(&world.sqlite()));
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    assert_eq!(world.publish("goes on")["version"]["id"], "report@8");
}

/// It was put into the archive just before the machine went down, and its file did not last.
#[test]
fn a_version_in_its_clone_outlives_damage_to_its_file_and_is_archived_again() {
    for rubbish in [true, false] {
        let mut world = world();
        assert!(world.stop().success());
        // What was given up is merged away, so that the newest file is that of the version.
        let archive = asat_archive::Archive::open(&world.path("state/archive/report")).unwrap().0;
        archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        drop(archive);
        make_whole_clone(&world, "report@7");
        fs::remove_file(world.path("state/catalogue.db")).unwrap();
        world.start();
        world.settled("report@7");
        assert!(world.stop().success());
        // Later publications, pins and tags did not come there any more.
        let archive = world.path("state/archive/report");
        let segment = segments(&manifests(&archive)[0].1).into_iter().max().unwrap();
        let segment = world.segment(segment);
        let files = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| *file > segment).for_each(|file| fs::remove_file(file).unwrap());
        let whole = fs::read(&segment).unwrap();
        match rubbish {
            true => fs::write(&segment, "rubbish").unwrap(),
            false => fs::write(&segment, &whole[..whole.len() / 2]).unwrap(),
        }
        make_whole_clone(&world, "report@7");
        fs::remove_file(world.path("state/catalogue.db")).unwrap();
        let log = world.start();
        world.archived("report@7");
        let version = rusqlite::Connection::open(world.open("report@7")).unwrap();
        assert_eq!(content(&version), content(&world.sqlite()), "{log}");
        // The file that cannot be read is found once, and is not needed any more.
        let verify = || world.request("POST", "/stores/report/verify", &[], b"").json();
        let found = verify();
        assert_eq!(found["findings"][0]["file"].as_str(), segment.to_str(), "{found}");
        assert_eq!((&found["findings"][0]["repaired"], segment.exists()), (&true.into(), false), "{found}");
        let report = verify();
        assert_eq!(report["ok"], true, "{report}");
    }
}

#[test]
fn a_catalogue_that_cannot_be_read_is_kept_and_made_anew() {
    let mut world = world();
    let before = known(&world);
    assert!(world.stop().success());
    fs::write(world.path("state/catalogue.db"), "rubbish").unwrap();
    let rebuilt = answer(&asat(&world, &["rebuild-catalogue", "--replace"]));
    assert_eq!(fs::read(Path::new(rebuilt["kept"].as_str().unwrap())).unwrap(), b"rubbish");
    world.start();
    assert_eq!(known(&world), before);
}

/// What is kept may tell somebody what became of it, and what is in it still.
#[test]
fn a_catalogue_whose_log_is_damaged_is_kept_with_all_that_belongs_to_it_as_it_is() {
    let mut world = world();
    world.kill();
    flip_middle(&world.path("state/catalogue.db-wal"));
    let read = |name: &str, suffix: &str| fs::read(format!("{name}{suffix}")).unwrap();
    let suffixes = ["", "-wal", "-newest"];
    let path = world.path("state/catalogue.db");
    let before = suffixes.map(|suffix| read(path.to_str().unwrap(), suffix));
    let rebuilt = answer(&asat(&world, &["rebuild-catalogue", "--replace"]));
    let kept = rebuilt["kept"].as_str().unwrap();
    for (suffix, before) in suffixes.iter().zip(&before) {
        assert!(read(kept, suffix) == *before, "{kept}{suffix} is another one");
    }
    world.start();
    for (suffix, before) in suffixes.iter().zip(&before) {
        assert!(read(kept, suffix) == *before, "{kept}{suffix} was changed by a start");
    }
}

#[cfg(debug_assertions)]
#[test]
fn whoever_is_killed_amid_it_leaves_the_one_or_the_other() {
    let mut world = world();
    let before = known(&world);
    world.kill();
    for boundary in 1.. {
        world.env = vec![("ASAT_CRASH_AT".to_owned(), boundary.to_string())];
        let ran = asat(&world, &["rebuild-catalogue", "--replace"]);
        world.env.clear();
        world.start();
        assert_eq!(known(&world), before, "killed at boundary {boundary}");
        world.kill();
        if ran.status.success() {
            assert!(boundary > 3, "it is killed somewhere");
            break;
        }
    }
    let drafts = |name: &String| name.contains(".anew");
    assert!(!catalogues(&world).iter().any(drafts), "{:?}", catalogues(&world));
}

/// The commands of a section of the document, in the language that they are marked with.
fn recipe(heading: &str, language: &str) -> &'static str {
    let section = match heading {
        "" => RECOVER,
        heading => RECOVER.split_once(&format!("\n## {heading}\n")).unwrap().1,
    };
    let commands =
        section.split("\n## ").next().unwrap().split_once(&format!("\n```{language}\n")).unwrap().1;
    commands.split_once("\n```").unwrap().0
}

/// Types commands where the daemon's user would, in this world's folders.
fn type_in(world: &World, commands: &str) {
    let (config, state) = (world.path("asat.toml"), world.path("state"));
    let commands = commands
        .replace("runuser -u asat -- ", "")
        .replace("install -d -o asat -g asat", "install -d")
        .replace("/var/backups/asat", world.path("backups").to_str().unwrap())
        .replace("/etc/asat/asat.toml", config.to_str().unwrap())
        .replace("/var/lib/asat", state.to_str().unwrap());
    let path = format!("{}:{}", Path::new(ASAT).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", &commands]).env("PATH", path).stdin(Stdio::null());
    shell.env("ASAT_SERVER", format!("unix:{}", world.socket().display()));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The lines between those by which the daemon is stopped and started: the service manager's part is the test's.
fn while_stopped(commands: &str) -> &str {
    let commands = commands.strip_prefix("systemctl stop asat\n").unwrap();
    commands.strip_suffix("\nsystemctl start asat").unwrap()
}

#[test]
fn the_recipe_for_a_lost_catalogue_runs_as_it_stands() {
    let mut world = world();
    let before = known(&world);
    assert!(world.stop().success());
    fs::write(world.path("state/catalogue.db"), "rubbish").unwrap();
    type_in(&world, while_stopped(recipe("The catalogue is gone", "sh")));
    world.start();
    assert_eq!(known(&world), before);
}

#[test]
fn the_recipe_for_a_disk_that_died_runs_as_it_stands() {
    let mut world = world();
    type_in(&world, recipe("", "sh"));
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    world.publish("after the copy");
    let before = (known(&world), recorded(&world));
    let backup = world.path("backup");
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").args(["-a", "-T"]).arg(from).arg(to).status().unwrap().success());
    };
    copy(&world.path("state/archive"), &backup);
    world.kill();
    fs::remove_dir_all(world.path("state")).unwrap();
    fs::create_dir(world.path("state")).unwrap();
    let saved = fs::read_dir(world.path("backups")).unwrap().next().unwrap().unwrap().path();
    for (saved, name) in [(saved, "catalogue.db"), (backup, "archive")] {
        copy(&saved, &world.path("state").join(name));
    }
    world.start();
    assert_eq!(known(&world), before.0);
    // Of the one that is newer than the copy, the archive knows the instant of the cut and not of the request.
    assert_eq!(recorded(&world)[1..], before.1[1..]);
    type_in(&world, recipe("The disk died", "sh"));
}

#[test]
fn the_recipe_for_an_upgrade_that_went_wrong_runs_as_it_stands() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    fs::create_dir(world.path("state")).unwrap();
    let catalogue = world.path("state/catalogue.db");
    make_catalogue_of_before(&catalogue);
    let version = |path: &Path| -> u32 {
        let header = fs::read(path).unwrap();
        u32::from_be_bytes(header[60..64].try_into().unwrap())
    };
    world.start();
    world.publish("after the upgrade");
    let before = known(&world);
    world.kill();
    assert!(world.path("state/catalogue.db-wal").exists());
    type_in(&world, while_stopped(recipe("An upgrade went wrong", "text")));
    // That is what the older asat finds.
    assert_eq!(version(&catalogue), 9);
    assert_eq!(catalogues(&world), ["catalogue.db", "catalogue.db.v9"]);
    world.start();
    assert_eq!(known(&world), before);
}
