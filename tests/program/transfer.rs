//! History moves between machines: exported into a folder, imported from it, and not at all where the folder is not
//! what was exported or the history is another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::common::{World, parts};

/// A daemon with this many versions of a store, each with a row more; the last one is published twice.
fn source(versions: u32) -> World {
    let mut world = World::new();
    world.sqlite().execute_batch("pragma journal_mode = wal; create table ledger (entry text)").unwrap();
    world.start();
    (1..=versions).for_each(|version| publish(&world, version));
    assert_eq!(world.publish("once more")["reused"], true);
    world
}

fn publish(world: &World, version: u32) {
    world.sqlite().execute("insert into ledger values (?1)", [format!("{version}").repeat(9000)]).unwrap();
    assert_eq!(world.publish(&format!("close {version}"))["version"]["id"], format!("report@{version}"));
}

/// A daemon that does not run, with an empty store of the same name.
fn target() -> World {
    let world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world
}

fn export(world: &World, range: &str, name: &str) -> PathBuf {
    let folder = world.path(name);
    let ran = world.asat(&["export", range, "--to", folder.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", said(&ran));
    folder
}

fn import(world: &World, folder: &Path) -> Output {
    let config = world.write_config();
    world.asat(&["import", folder.to_str().unwrap(), "--json", "--config", config.to_str().unwrap()])
}

/// Imports what is taken; answers what is said of that.
fn imported(world: &World, folder: &Path) -> Value {
    let ran = import(world, folder);
    assert!(ran.status.success(), "{}", said(&ran));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Imports what is taken, nothing of which was lost; answers which versions were new, and which were there.
fn taken(world: &World, folder: &Path) -> Value {
    let answer = imported(world, folder);
    assert_eq!(answer["recovered"], json!([]));
    json!([answer["imported"], answer["there_already"]])
}

/// Imports what is refused; answers why.
fn refused(world: &World, folder: &Path) -> String {
    let ran = import(world, folder);
    assert!(!ran.status.success() && ran.stdout.is_empty(), "{}", said(&ran));
    said(&ran)
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&[&ran.stdout[..], &ran.stderr].concat()).into_owned()
}

/// What there is to know of every version, and its bytes.
fn history(world: &World) -> Vec<(Value, Vec<u8>)> {
    let list = world.get("/versions?state=any&limit=1000").json();
    let versions = list["versions"].as_array().unwrap().iter();
    let known = ["id", "state", "cut_at", "fingerprint", "size_bytes", "page_size", "publications"];
    let version = |version: &Value| {
        let said: Value = known.iter().map(|name| ((*name).to_owned(), version[*name].clone())).collect();
        let bytes = world.get(&format!("/versions/{}/database", version["id"].as_str().unwrap())).body;
        (said, bytes)
    };
    versions.map(version).collect()
}

#[test]
fn a_version_takes_all_its_publications_along() {
    let (source, mut target) = (source(1), target());
    for number in 1..=12 {
        source.publish(&format!("again {number}"));
    }
    let folder = export(&source, "report@1..1", "history");
    taken(&target, &folder);
    target.start();
    let publications = |world: &World| world.get("/versions/report@1/publications").json();
    assert_eq!(publications(&target)["publications"].as_array().unwrap().len(), 14);
    assert_eq!(publications(&target), publications(&source));
}

#[test]
fn history_moves_and_goes_on_elsewhere() {
    let (source, mut target) = (source(3), target());
    let folder = export(&source, "report@1..3", "history");
    let sums =
        Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&folder).output();
    assert!(sums.unwrap().status.success(), "stock tools can check it");
    assert_eq!(taken(&target, &folder), json!([["report@1", "report@2", "report@3"], []]));
    target.start();
    assert_eq!(history(&target), history(&source));
    let trail = target.get("/audit?verify=true").json();
    let entries = trail["entries"].as_array().unwrap();
    let imported = entries.iter().rev().map(|entry| {
        assert!(entry["actor"].as_str().unwrap().starts_with("uid "), "{entry}");
        (entry["action"].as_str().unwrap(), entry["version"].as_str().unwrap())
    });
    let expected = ["report@1", "report@2", "report@3", "report@3"].map(|version| ("import", version));
    assert_eq!(imported.collect::<Vec<_>>(), expected);
    assert_eq!(trail["verdict"]["ok"], true);
    let verified = target.asat(&["verify"]);
    assert!(verified.status.success(), "{}", said(&verified));
    // The daemon goes on with it, whatever its own clock says.
    target.sqlite().execute("insert into ledger values ('here')", []).unwrap();
    assert_eq!(target.publish("close 4")["version"]["id"], "report@4");
}

#[test]
fn a_version_that_was_exported_as_a_file_is_refused_with_how_one_alone_is_imported() {
    let (source, target) = (source(2), target());
    let file = export(&source, "report@2", "report.db");
    let said = refused(&target, &file);
    assert!(said.contains("report.db is a file, and what can be imported is a folder"), "{said}");
    assert!(said.contains("asat export report@1..1 --to FOLDER"), "{said}");
    let none = source.path("none");
    assert_eq!(import(&target, &none).status.code(), Some(3), "nothing of it is damaged");
    let said = refused(&target, &none);
    assert!(said.contains("none cannot be looked at: No such file or directory"), "{said}");
    assert!(said.contains("name a folder that asat export has written"), "{said}");
    assert!(!target.path("state").exists());
    assert_eq!(taken(&target, &export(&source, "report@1..1", "one")), json!([["report@1"], []]));
}

#[test]
fn importing_again_changes_nothing_and_a_later_range_goes_on() {
    let (source, mut target) = (source(2), target());
    let first = export(&source, "report@1..", "first");
    assert_eq!(taken(&target, &first), json!([["report@1", "report@2"], []]));
    assert_eq!(taken(&target, &first), json!([[], ["report@1", "report@2"]]));
    source.publish("and once more");
    publish(&source, 3);
    source.retire("report@1");
    let second = export(&source, "report@1..", "second");
    assert_eq!(
        taken(&target, &second),
        json!([["report@3"], ["report@2"]]),
        "what was given up is not there"
    );
    assert_eq!(taken(&target, &first), json!([[], ["report@1", "report@2"]]));
    target.start();
    let (here, there) = (history(&target), history(&source));
    assert_eq!(here[..2], there[..2], "the version that was there is published once more, too");
    assert_eq!((here.len(), here[2].0["id"].clone()), (3, json!("report@1")));
}

#[test]
fn what_does_not_fit_the_history_here_is_refused() {
    let source = source(3);
    let (all, later) = (export(&source, "report@1..", "all"), export(&source, "report@2..3", "later"));

    let mut running = target();
    running.start();
    assert!(refused(&running, &all).contains("in use by another asat"), "{}", refused(&running, &all));
    publish(&running, 1);
    running.stop();
    assert!(refused(&running, &all).contains("report@1 is here already, with another content"));
    // Cut here after they were there.
    assert!(refused(&running, &later).contains("report@2 was cut before"));

    let newer = target();
    taken(&newer, &later);
    assert!(refused(&newer, &all).contains("report@1 is not here, and report@3 is"));

    let mut given_up = target();
    taken(&given_up, &all);
    given_up.start();
    given_up.retire("report@2");
    given_up.stop();
    assert!(refused(&given_up, &all).contains("report@2 is here already, and retired"));

    let other = target();
    let config = other.write_config();
    let renamed = fs::read_to_string(&config).unwrap().replace("name = \"report\"", "name = \"ledger\"");
    fs::write(&config, renamed).unwrap();
    let ran = other.asat(&["import", all.to_str().unwrap(), "--config", config.to_str().unwrap()]);
    assert!(said(&ran).contains("a store report, which is not configured"), "{}", said(&ran));
}

#[test]
fn versions_that_are_lost_are_put_back() {
    let source = source(3);
    let (all, later) = (export(&source, "report@1..", "all"), export(&source, "report@2..", "later"));
    for is_noticed in [true, false] {
        let mut target = target();
        taken(&target, &all);
        let segments = [2, 3].map(|number| target.segment(number));
        segments.iter().for_each(|segment| fs::remove_file(segment).unwrap());
        if is_noticed {
            target.start();
            assert_eq!(target.get("/versions/report@3").json()["state"], "lost");
            assert!(target.stop().success());
        }
        let answer = imported(&target, &later);
        assert_eq!(answer["recovered"], json!(["report@2", "report@3"]), "{answer}");
        assert_eq!(taken(&target, &all), json!([[], ["report@1", "report@2", "report@3"]]));
        target.start();
        assert_eq!(history(&target), history(&source));
        assert_eq!(target.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
        let entries = target.get("/audit?action=recover&verify=true").json();
        let recovered: Vec<_> = entries["entries"].as_array().unwrap().iter().collect();
        assert_eq!(recovered.len(), if is_noticed { 2 } else { 0 }, "{entries}");
        assert!(recovered.iter().all(|entry| entry["actor"].as_str().unwrap().starts_with("uid ")));
    }
}

#[test]
fn what_is_left_of_a_damaged_version_is_no_obstacle() {
    let source = source(2);
    let all = export(&source, "report@1..", "all");
    let mut target = target();
    taken(&target, &all);
    let segment = target.segment(2);
    let mut damaged = fs::read(&segment).unwrap();
    let [index, ..] = parts(&damaged);
    damaged[index] ^= 0xff;
    fs::write(&segment, damaged).unwrap();
    let config = target.write_config();
    let rebuilt =
        target.asat(&["rebuild-catalogue", "--replace", "--json", "--config", config.to_str().unwrap()]);
    assert_eq!(rebuilt.status.code(), Some(0), "{}", said(&rebuilt));
    assert_eq!(imported(&target, &all)["recovered"], json!(["report@2"]));
    target.start();
    let (here, there) = (history(&target), history(&source));
    assert_eq!((&here[0].0["id"], &here[0].0["cut_at"]), (&json!("report@2"), &there[0].0["cut_at"]));
    assert!(here[0].1 == there[0].1, "its bytes are what they were");
}

#[test]
fn a_version_with_a_damaged_page_gets_it_back() {
    let source = source(2);
    let all = export(&source, "report@1..", "all");
    let mut target = target();
    taken(&target, &all);
    let segment = target.segment(1);
    let mut damaged = fs::read(&segment).unwrap();
    // A page of it lies behind its first twelve bytes.
    damaged[20] ^= 0xff;
    fs::write(&segment, damaged).unwrap();
    let answer = imported(&target, &all);
    assert!(answer["recovered"].as_array().unwrap().contains(&json!("report@1")), "{answer}");
    target.start();
    assert_eq!(history(&target), history(&source));
    assert_eq!(target.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
}

#[test]
fn a_version_that_is_lost_below_others_is_put_back_and_they_with_it() {
    let source = source(4);
    let (all, second) = (export(&source, "report@1..", "all"), export(&source, "report@2..2", "second"));
    // What the start has noticed, what is imported, and what of it was lost.
    for (is_noticed, folder, recovered) in [
        (true, &all, &["report@2", "report@3", "report@4"][..]),
        (true, &second, &["report@2"]),
        (false, &all, &["report@2", "report@3", "report@4"]),
        (false, &second, &["report@2"]),
    ] {
        let mut target = target();
        taken(&target, &all);
        fs::remove_file(target.segment(2)).unwrap();
        if is_noticed {
            target.start();
            assert_eq!(target.get("/versions/report@4").json()["state"], "lost");
            assert!(target.stop().success());
        }
        let answer = imported(&target, folder);
        assert_eq!(answer["recovered"], json!(recovered), "{answer}");
        target.start();
        assert_eq!(history(&target), history(&source));
        assert_eq!(target.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
        // It goes on with what was put back.
        assert_eq!(target.request("DELETE", "/versions/report@1", &[], b"").status, 200);
        assert_eq!(target.request("DELETE", "/versions/report@3", &[], b"").status, 200);
        target.sqlite().execute("insert into ledger values ('here')", []).unwrap();
        assert_eq!(target.publish("close 5")["version"]["id"], "report@5");
        let (here, there) = (history(&target), history(&source));
        assert!(here[3].1 == there[2].1, "the second one's bytes are what they were");
        assert_eq!(target.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
    }
}

#[test]
fn what_was_stored_and_not_recorded_is_taken_up_by_the_next_import_or_by_the_next_start() {
    let source = source(3);
    let (all, first) = (export(&source, "report@1..", "all"), export(&source, "report@1..1", "first"));
    let forget = |world: &World| {
        for entry in fs::read_dir(world.path("state")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("catalogue.db") {
                fs::remove_file(path).unwrap();
            }
        }
    };
    let mut target = target();
    taken(&target, &all);
    forget(&target);
    assert!(refused(&target, &first).contains("the last run of the daemon has left something"));
    assert_eq!(taken(&target, &all), json!([["report@1", "report@2", "report@3"], []]));
    target.start();
    assert_eq!(history(&target), history(&source));
    target.stop();
    forget(&target);
    target.start();
    let labels = |world: &World| -> Vec<Value> {
        history(world).iter().map(|(version, _)| version["publications"][0]["label"].clone()).collect()
    };
    assert_eq!(labels(&target), labels(&source));
    target.stop();
    assert_eq!(taken(&target, &first), json!([[], ["report@1"]]));
}

/// Edits a folder.
type Edit = fn(&Path);

/// Has the checksums fit what the folder holds by now: what is wrong with it was there when it was exported.
fn sum_anew(folder: &Path) {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name != "SHA256SUMS");
    let sums = Command::new("sha256sum").args(names).current_dir(folder).output().unwrap();
    fs::write(folder.join("SHA256SUMS"), sums.stdout).unwrap();
}

fn edit_manifest(folder: &Path, edit: impl FnOnce(&mut Value)) {
    let path = folder.join("manifest.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    sum_anew(folder);
}

fn edit_version(folder: &Path, field: &str, value: Value) {
    edit_manifest(folder, |manifest| manifest["versions"][1][field] = value);
}

fn edit_database(folder: &Path, at: usize, bytes: &[u8]) {
    let path = folder.join("report@2.db");
    let mut database = fs::read(&path).unwrap();
    database[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, database).unwrap();
}

const HOSTILE: [(&str, Edit, &str); 24] = [
    ("a byte of a page", |folder| edit_database(folder, 5000, b"?"), "report@2.db has the fingerprint"),
    (
        "a byte, with a new checksum",
        |folder| {
            edit_database(folder, 5000, b"?");
            sum_anew(folder);
        },
        "report@2.db has the fingerprint",
    ),
    (
        "a file that is cut off",
        |folder| {
            fs::File::options().write(true).open(folder.join("report@2.db")).unwrap().set_len(4096).unwrap()
        },
        "report@2.db cannot be read",
    ),
    (
        "a file that is longer",
        |folder| {
            let length = fs::metadata(folder.join("report@2.db")).unwrap().len();
            fs::File::options()
                .write(true)
                .open(folder.join("report@2.db"))
                .unwrap()
                .set_len(length + 1)
                .unwrap();
        },
        "is longer than it was",
    ),
    (
        "a file that is missing",
        |folder| fs::remove_file(folder.join("report@2.db")).unwrap(),
        "cannot be read",
    ),
    (
        "a link in its place",
        |folder| {
            fs::rename(folder.join("report@2.db"), folder.with_file_name("elsewhere")).unwrap();
            std::os::unix::fs::symlink("../elsewhere", folder.join("report@2.db")).unwrap();
        },
        "is not a regular file",
    ),
    (
        "no checksums",
        |folder| fs::remove_file(folder.join("SHA256SUMS")).unwrap(),
        "SHA256SUMS cannot be read",
    ),
    (
        "no manifest",
        |folder| fs::remove_file(folder.join("manifest.json")).unwrap(),
        "manifest.json cannot be read",
    ),
    (
        "empty checksums",
        |folder| fs::write(folder.join("SHA256SUMS"), "").unwrap(),
        "manifest.json is not named in SHA256SUMS",
    ),
    (
        "a log beside a version",
        |folder| fs::write(folder.join("report@2.db-wal"), "").unwrap(),
        "report@2.db-wal is not named in SHA256SUMS",
    ),
    (
        "a folder beside the versions",
        |folder| fs::create_dir(folder.join("more")).unwrap(),
        "more is not named in SHA256SUMS",
    ),
    (
        "a file that was not exported",
        |folder| {
            fs::write(folder.join("more.db"), "").unwrap();
            sum_anew(folder);
        },
        "which was not exported",
    ),
    (
        "a manifest that is no JSON",
        |folder| {
            fs::write(folder.join("manifest.json"), "{").unwrap();
            sum_anew(folder);
        },
        "manifest.json cannot be read",
    ),
    ("a newer format", |folder| edit_manifest(folder, |it| it["format"] = json!(3)), "has the format 3"),
    ("a field of another time", |folder| edit_manifest(folder, |it| it["more"] = json!(1)), "unknown field"),
    (
        "a store that leads elsewhere",
        |folder| edit_manifest(folder, |it| it["store"] = json!("../x")),
        "the manifest's store",
    ),
    (
        "versions out of order",
        |folder| edit_version(folder, "number", json!(1)),
        "is not after the one before it",
    ),
    ("no number", |folder| edit_version(folder, "number", json!(0)), "has no number"),
    (
        "a cut in the future",
        |folder| edit_version(folder, "cut_at", json!("2999-01-01T00:00:00Z")),
        "in the future",
    ),
    (
        "a cut before the one before",
        |folder| edit_version(folder, "cut_at", json!("2020-01-01T00:00:00Z")),
        "is not after",
    ),
    ("a size of no pages", |folder| edit_version(folder, "bytes", json!(4097)), "does not consist of pages"),
    (
        "another fingerprint",
        |folder| edit_version(folder, "fingerprint", json!(format!("blake3:{}", "0".repeat(64)))),
        "has the fingerprint",
    ),
    ("no publication", |folder| edit_version(folder, "publications", json!([])), "was never published"),
    (
        "a label with an escape sequence",
        |folder| {
            edit_manifest(folder, |it| it["versions"][1]["publications"][0]["label"] = json!("\u{1b}[2J"))
        },
        "label has control characters",
    ),
];

#[test]
fn a_folder_that_is_not_what_was_exported_is_refused_and_nothing_changes() {
    let (source, target) = (source(3), target());
    let sound = export(&source, "report@1..", "sound");
    for (what, edit, why) in HOSTILE {
        let folder = target.path("hostile");
        copy(&sound, &folder);
        edit(&folder);
        let said = refused(&target, &folder);
        assert!(said.contains(why), "{what}: {said}");
        assert!(!target.path("state").exists(), "{what}");
        fs::remove_dir_all(&folder).unwrap();
    }
    assert_eq!(taken(&target, &sound), json!([["report@1", "report@2", "report@3"], []]));
}

#[test]
fn a_file_that_is_no_database_is_refused_although_all_checksums_fit() {
    let (source, target) = (source(3), target());
    for (at, bytes, why) in [
        (1, &b"?"[..], "is no SQLite database"),
        (16, &[2, 0][..], "is no SQLite database with pages of that size"),
        (18, &[2, 2][..], "is not in rollback mode"),
    ] {
        let folder = export(&source, "report@1..", &format!("export {at}"));
        edit_database(&folder, at, bytes);
        // Whoever forges a file forges its fingerprint too.
        let said = refused(&target, &folder);
        let found = said.split("has the fingerprint ").nth(1).unwrap();
        edit_version(&folder, "fingerprint", json!(found[..71]));
        let said = refused(&target, &folder);
        assert!(said.contains(why), "{why}: {said}");
        assert!(!target.path("state").exists());
    }
}

#[test]
fn no_byte_of_the_manifest_or_the_checksums_can_differ() {
    let (source, target) = (source(1), target());
    let folder = export(&source, "report@1..", "history");
    for name in ["manifest.json", "SHA256SUMS"] {
        let sound = fs::read(folder.join(name)).unwrap();
        // Every byte would take long; the step shares no factor with the length of a line.
        for at in (0..sound.len()).step_by(7) {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            fs::write(folder.join(name), damaged).unwrap();
            refused(&target, &folder);
        }
        fs::write(folder.join(name), sound).unwrap();
    }
    assert_eq!(taken(&target, &folder), json!([["report@1"], []]));
}

#[test]
fn a_lost_version_is_named_by_the_export_that_leaves_it_out() {
    let mut source = source(3);
    assert!(source.stop().success());
    fs::remove_file(source.segment(3)).unwrap();
    source.start();
    let folder = source.path("history");
    let ran = source.asat(&["export", "report@1..", "--to", folder.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(said(&ran).contains("left out, as lost and not to be read: report@3"), "{}", said(&ran));
    assert!(folder.join("report@2.db").exists() && !folder.join("report@3.db").exists());
}

#[test]
fn an_export_appears_whole_or_not_at_all() {
    let source = source(2);
    let folder = export(&source, "report@1..", "history");
    for (range, to, why) in [
        ("report@1..", "history", "exists"),
        ("report@7..", "none", "no version of report in that range"),
        ("other@1..", "none", "no store other"),
        ("report@1..", "no/such/folder", "cannot be made"),
    ] {
        let ran = source.asat(&["export", range, "--to", source.path(to).to_str().unwrap()]);
        assert!(!ran.status.success() && said(&ran).contains(why), "{range} {to}: {}", said(&ran));
    }
    let history = source.path("history");
    let forced = source.asat(&["export", "report@1..", "--force", "--to", history.to_str().unwrap()]);
    assert!(!forced.status.success() && said(&forced).contains("replaces a file"), "{}", said(&forced));
    assert!(!source.path("none").exists());
    let left = fs::read_dir(source.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_str().unwrap().starts_with(".asat-export")));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 4);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
