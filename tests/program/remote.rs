//! History in object storage, as a user of the program sees it: a bucket that is a folder, publishers on several machines, and everything
//! that `docs/remote.md` says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{PATIENCE, World};
use crate::servers;
use serde_json::{Value, json};

const ASAT: &str = env!("CARGO_BIN_EXE_asat");

/// A machine with a store, whose bucket is a folder that others may share.
fn machine(bucket: &Path) -> World {
    let mut world = World::new();
    world.config = format!("[remote]\nurl = \"file://{}\"", bucket.display());
    world.sqlite().execute_batch("create table if not exists ledger (entry text)").unwrap();
    world
}

/// A bucket with a repository in it.
fn bucket() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("asat-bucket.").tempdir().unwrap();
    answer(&remote(&folder, &["init"]));
    folder
}

fn url(bucket: &tempfile::TempDir) -> String {
    format!("file://{}", bucket.path().display())
}

/// Does something with the bucket alone; no daemon has to run.
fn remote(bucket: &tempfile::TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(ASAT);
    command.args(["--json", "remote"]).args(arguments).args(["--url", &url(bucket)]);
    command.stdin(Stdio::null()).output().unwrap()
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(output: &Output) -> (i32, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), said)
}

/// Where a bucket is put while it is away.
fn away(bucket: &tempfile::TempDir) -> PathBuf {
    PathBuf::from(format!("{}.away", bucket.path().display()))
}

/// Changes the store, publishes it, and returns when it is in the bucket.
fn publish(world: &World, label: &str) -> Value {
    world.sqlite().execute("insert into ledger values (?1)", [label]).unwrap();
    let answer = world.send("POST", "/snapshots", &json!({ "label": label, "wait": "remote" }));
    assert_eq!(answer.status, 201, "{answer}");
    answer.json()["version"].clone()
}

/// How the store stands to the bucket.
fn standing(world: &World) -> Value {
    world.get("/stores").json()["stores"][0]["remote"].clone()
}

/// Waits until the store stands to the bucket as is wanted.
fn until(world: &World, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let standing = standing(world);
        if wanted(&standing) {
            return standing;
        }
        assert!(std::time::Instant::now() < deadline, "{standing}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn what_is_published_is_in_the_bucket_and_any_machine_restores_it() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start_under_contract();
    let versions: Vec<Value> = ["a", "b", "c"].iter().map(|label| publish(&world, label)).collect();
    assert!(versions.iter().all(|version| version["remote"] == "stored"), "{versions:?}");
    let listed = world.get("/versions").json();
    assert_eq!(listed["versions"][2]["remote"], "stored");
    let standing = standing(&world);
    assert_eq!(
        (&standing["state"], &standing["stored"], &standing["pending"]),
        (&json!("stored"), &json!(3), &json!(0))
    );
    let metrics = world.get("/metrics").to_string();
    assert!(metrics.contains("asat_remote_pending_versions{store=\"report\"} 0"), "{metrics}");
    let cost = answer(&remote(&bucket, &["cost", "--publications", "95"]));
    assert_eq!((&cost["stores"], &cost["publications"]), (&json!(1), &json!(2850)));
    assert!((cost["requests"].as_f64().unwrap() - 0.02964).abs() < 1e-9, "{cost}");
    let status = world.asat(&["remote", "status"]);
    assert!(
        String::from_utf8_lossy(&status.stdout).contains("report: all of 3 versions are in"),
        "{status:?}"
    );
    // What is given up follows too.
    assert_eq!(world.request("DELETE", "/versions/report@2", &[], b"").status, 200);
    publish(&world, "d");
    world.kill();
    // The machine is gone. Another one has the URL alone.
    let other = machine(bucket.path());
    let archive = other.path("state/archive/report");
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    let restored = answer(&remote(&bucket, &["restore", "report", "--to", archive.to_str().unwrap()]));
    assert_eq!((&restored["versions"], &restored["newest"]), (&json!(3), &json!("report@4")));
    let mut other = other;
    let config = other.write_config();
    let mut rebuild = Command::new(ASAT);
    rebuild.args(["--json", "rebuild-catalogue", "--config"]).arg(&config);
    answer(&rebuild.output().unwrap());
    other.start();
    for (version, rows) in [("report@1", 1), ("report@3", 3), ("report@4", 4)] {
        let copy = rusqlite::Connection::open(other.open(version)).unwrap();
        assert_eq!(
            copy.query_row("select count(*) from ledger", [], |row| row.get(0)),
            Ok(rows),
            "{version}"
        );
    }
    assert_eq!(other.get("/versions/report@4").json()["publications"][0]["label"], "d");
}

#[test]
fn of_two_machines_only_one_publishes_until_the_other_is_told_to_take_over() {
    let bucket = bucket();
    let mut first = machine(bucket.path());
    first.start();
    publish(&first, "a");
    // The other machine has the same archive, as after a restore.
    let mut second = machine(bucket.path());
    let archive = second.path("state/archive/report");
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    answer(&remote(&bucket, &["restore", "report", "--to", archive.to_str().unwrap()]));
    let config = second.write_config();
    answer(
        &Command::new(ASAT).args(["--json", "rebuild-catalogue", "--config"]).arg(&config).output().unwrap(),
    );
    second.start();
    let fenced = until(&second, |standing| standing["state"] == "fenced");
    assert_eq!(fenced["trouble"]["code"], "fenced");
    assert!(fenced["trouble"]["hint"].as_str().unwrap().contains("asat remote take-over"), "{fenced}");
    second.sqlite().execute("insert into ledger values ('b')", []).unwrap();
    let refused = second.send("POST", "/snapshots", &json!({ "label": "b", "wait": "remote" }));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("fenced")), "{refused}");
    assert_eq!(
        second.get("/versions/report@2").json()["remote"],
        "fenced",
        "it is published here all the same"
    );
    let status = second.asat(&["remote", "status"]);
    assert_eq!(status.status.code(), Some(13), "{status:?}");
    // The first machine is taken for gone.
    let taken = second.asat(&["remote", "take-over", "report"]);
    assert!(taken.status.success(), "{taken:?}");
    until(&second, |standing| standing["state"] == "stored");
    assert_eq!(second.get("/versions/report@2").json()["remote"], "stored");
    // It is not, and finds out, and says so again after a start.
    first.sqlite().execute("insert into ledger values ('c')", []).unwrap();
    let refused = first.send("POST", "/snapshots", &json!({ "label": "c", "wait": "remote" }));
    assert_eq!(refused.json()["code"], "fenced", "{refused}");
    let before = files(&bucket.path().join("s/report/f"));
    first.kill();
    first.start();
    until(&first, |standing| standing["state"] == "fenced");
    assert_eq!(files(&bucket.path().join("s/report/f")), before);
    // What the second has stored is not lost by a take-over of the first, which lacks it.
    let refused = first.asat(&["remote", "take-over", "report"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let list = answer(&remote(&bucket, &["list"]));
    assert_eq!(
        (&list[0]["versions"], &list[0]["newest"], &list[0]["epoch"]),
        (&json!(2), &json!(2), &json!(2))
    );
}

#[test]
fn without_the_bucket_everything_goes_on_here_and_nothing_is_given_up_that_is_not_there() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start();
    publish(&world, "a");
    // The disk with the bucket is away.
    let away = away(&bucket);
    fs::rename(bucket.path().join("s/report"), &away).unwrap();
    fs::write(bucket.path().join("s/report"), "in the way").unwrap();
    world.sqlite().execute("insert into ledger values ('b')", []).unwrap();
    assert_eq!(world.publish("b")["version"]["remote"], "pending");
    let trouble = until(&world, |standing| !standing["trouble"].is_null());
    assert_eq!((&trouble["state"], &trouble["pending"]), (&json!("pending"), &json!(1)));
    assert_eq!(trouble["trouble"]["code"], "remote_unavailable");
    let refused = world.request("DELETE", "/versions/report@2", &[], b"");
    assert_eq!(refused.json()["code"], "in_use", "{refused}");
    assert_eq!(world.request("DELETE", "/versions/report@1", &[], b"").status, 200, "that one is stored");
    // It is back.
    fs::remove_file(bucket.path().join("s/report")).unwrap();
    fs::rename(&away, bucket.path().join("s/report")).unwrap();
    until(&world, |standing| standing["state"] == "stored" && standing["trouble"].is_null());
    assert_eq!(world.get("/versions/report@2").json()["remote"], "stored");
}

#[test]
fn a_daemon_starts_without_its_bucket_and_goes_on_where_it_ended() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start();
    publish(&world, "a");
    world.kill();
    world.start();
    until(&world, |standing| standing["state"] == "stored");
    let manifests = files(&bucket.path().join("s/report/m"));
    assert_eq!(manifests.len(), 1, "a start alone changes nothing: {manifests:?}");
    world.kill();
    let marker = bucket.path().join("asat.json");
    let text = fs::read(&marker).unwrap();
    fs::remove_file(&marker).unwrap();
    world.start();
    let trouble = until(&world, |standing| !standing["trouble"].is_null());
    assert!(trouble["trouble"]["hint"].as_str().unwrap().contains("asat remote init"), "{trouble}");
    world.sqlite().execute("insert into ledger values ('b')", []).unwrap();
    world.publish("b");
    fs::write(&marker, text).unwrap();
    until(&world, |standing| standing["state"] == "stored");
    assert_eq!(files(&bucket.path().join("s/report/m")).len(), 2);
    // Its disk is not mounted.
    world.kill();
    let away = away(&bucket);
    fs::rename(bucket.path(), &away).unwrap();
    world.start();
    let trouble = until(&world, |standing| !standing["trouble"].is_null());
    assert_eq!(trouble["pending"], 2, "{trouble}");
    assert!(!bucket.path().exists());
    fs::rename(&away, bucket.path()).unwrap();
    until(&world, |standing| standing["state"] == "stored");
}

#[test]
fn a_push_has_what_could_wait_be_there_now_and_says_what_keeps_it_from_there() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start_under_contract();
    publish(&world, "a");
    publish(&world, "b");
    assert_eq!(world.request("DELETE", "/versions/report@1", &[], b"").status, 200);
    let pushed = world.asat(&["remote", "push", "report"]);
    assert!(pushed.status.success(), "{pushed:?}");
    let list = answer(&remote(&bucket, &["list"]));
    assert_eq!((&list[0]["versions"], &list[0]["newest"]), (&json!(1), &json!(2)), "{list}");
    // Nothing is new.
    let manifest = standing(&world)["manifest"].clone();
    let again = world.send("POST", "/stores/report/remote/push", &json!({}));
    assert_eq!((again.status, &again.json()["manifest"]), (200, &manifest), "{again}");
    fs::rename(bucket.path(), away(&bucket)).unwrap();
    let refused = world.asat(&["remote", "push", "report"]);
    assert_eq!(refused.status.code(), Some(10), "{refused:?}");
    fs::rename(away(&bucket), bucket.path()).unwrap();
    let pushed = world.asat(&["remote", "push", "report"]);
    assert!(pushed.status.success(), "what is tried again later is tried at once: {pushed:?}");
    let refused = world.asat(&["remote", "push", "other"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}

#[test]
fn a_version_that_is_lost_can_be_given_up_though_it_is_in_no_bucket() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start();
    publish(&world, "a");
    publish(&world, "b");
    world.kill();
    // It is lost on both sides.
    fs::remove_file(world.segment(1)).unwrap();
    let objects = files(&bucket.path().join("s/report/f"));
    fs::remove_file(&objects[0]).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@1").json()["state"], "lost");
    let answer = world.request("DELETE", "/versions/report@1", &[], b"");
    assert_eq!(answer.status, 200, "{answer}");
}

#[test]
fn a_bucket_that_has_lost_something_says_so_and_gets_it_again() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start();
    publish(&world, "a");
    publish(&world, "b");
    let objects = files(&bucket.path().join("s/report/f"));
    fs::remove_file(&objects[0]).unwrap();
    let mut bytes = fs::read(&objects[1]).unwrap();
    bytes[20] ^= 1;
    fs::write(&objects[1], &bytes).unwrap();
    let found = remote(&bucket, &["verify", "--read"]);
    assert_eq!(found.status.code(), Some(9), "{found:?}");
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let whats: Vec<&str> =
        found["findings"].as_array().unwrap().iter().map(|found| found["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["it is missing", "its bytes do not have the hash that its footer says"], "{found}");
    let to = world.path("back");
    let (code, said) = refusal(&remote(&bucket, &["restore", "report", "--to", to.to_str().unwrap()]));
    assert!(code == 9 && said.contains("s/report/f/000001-000000000001-"), "{said}");
    assert!(!to.exists());
    // What is missing is put back at the next start.
    world.kill();
    world.start();
    until(&world, |standing| standing["state"] == "stored");
    let found = answer(&remote(&bucket, &["verify"]));
    assert_eq!(found["findings"], json!([]), "{found}");
}

#[test]
fn what_the_archive_has_lost_is_put_back_from_the_bucket() {
    let bucket = bucket();
    let mut world = machine(bucket.path());
    world.start();
    publish(&world, "a");
    publish(&world, "b");
    publish(&world, "c");
    world.kill();
    let (lost, damaged) = (world.segment(1), world.segment(3));
    fs::remove_file(&lost).unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    let place = bytes.len() - 60;
    bytes[place] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    // It may say so before it is ready, or after.
    let mut log = world.start();
    for number in [1, 3] {
        let said = format!("file {number} of its archive was lost, and is put back from the bucket");
        if !log.contains(&said) {
            log += &world.wait_for_log(&said);
        }
    }
    assert!(world.stop().success());
    world.start();
    for (version, rows) in [("report@1", 1), ("report@2", 2), ("report@3", 3)] {
        let copy = rusqlite::Connection::open(world.open(version)).unwrap();
        assert_eq!(
            copy.query_row("select count(*) from ledger", [], |row| row.get(0)),
            Ok(rows),
            "{version}"
        );
    }
    until(&world, |standing| standing["state"] == "stored");
    let verified = world.asat(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn the_doctor_tries_the_bucket() {
    let bucket = bucket();
    let world = machine(bucket.path());
    let config = world.write_config();
    let doctor = || {
        let output = Command::new(ASAT).args(["--json", "doctor", "--config"]).arg(&config).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = report["findings"].as_array().unwrap().iter();
        found.filter(|finding| finding["group"] == "remote").cloned().collect::<Vec<Value>>()
    };
    let [found, may_destroy] = &doctor()[..] else { panic!() };
    assert_eq!((&found["level"], &may_destroy["check"]), (&json!("ok"), &json!("may-destroy")));
    assert!(
        may_destroy["what"].as_str().unwrap().contains("is a folder, which protects nothing"),
        "{may_destroy}"
    );
    assert_eq!(
        files(bucket.path()).len(),
        1 + usize::from(bucket.path().join("probe").exists()),
        "nothing is left"
    );
    fs::remove_file(bucket.path().join("asat.json")).unwrap();
    let [found] = &doctor()[..] else { panic!() };
    assert_eq!(found["level"], "problem");
    assert!(found["advice"].as_str().unwrap().contains("asat remote init"), "{found}");
}

#[test]
fn a_server_that_speaks_s3_does_as_well_and_may_go_away() {
    let mut server = servers::versitygw();
    server.bucket("history");
    let mut world = World::new();
    world.config = format!(
        "[remote]\nurl = \"s3://history/reports\"\noptions = {{ endpoint = \"{}\", region = \"us-east-1\", allow_http = \"true\" }}",
        server.endpoint
    );
    world.env = vec![
        ("AWS_ACCESS_KEY_ID".into(), servers::ACCESS_KEY.into()),
        ("AWS_SECRET_ACCESS_KEY".into(), servers::SECRET_KEY.into()),
    ];
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.write_config();
    let asat = |world: &World, arguments: &[&str]| {
        let mut command = Command::new(ASAT);
        command.args(["--json", "remote"]).args(arguments).arg("--config").arg(world.path("asat.toml"));
        command.envs(world.env.iter().cloned()).stdin(Stdio::null()).output().unwrap()
    };
    answer(&asat(&world, &["init"]));
    let mut doctor = Command::new(ASAT);
    doctor.args(["doctor", "--config"]).arg(world.path("asat.toml")).envs(world.env.iter().cloned());
    let said = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("keeps no old versions, and these credentials may replace and delete"), "{said}");
    let log = world.start();
    publish(&world, "a");
    server.stop();
    world.sqlite().execute("insert into ledger values ('b')", []).unwrap();
    assert_eq!(world.publish("b")["version"]["remote"], "pending");
    let trouble = until(&world, |standing| !standing["trouble"].is_null());
    assert_eq!(trouble["trouble"]["code"], "remote_unavailable", "{trouble}");
    server.start_again();
    until(&world, |standing| standing["state"] == "stored" && standing["trouble"].is_null());
    let said = format!("{log}{}{trouble}", world.get("/stores"));
    assert!(!said.contains(servers::SECRET_KEY), "{said}");
    let to = world.path("back");
    let restored = answer(&asat(&world, &["restore", "report", "--to", to.to_str().unwrap()]));
    assert_eq!(restored["versions"], 2);
}

#[test]
fn commands_name_the_mistake_and_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    let bucket = bucket();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(ASAT);
        refusal(&command.arg("remote").args(arguments).stdin(Stdio::null()).output().unwrap())
    };
    let none = url(&empty);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["list", "--url", &none], 78, "asat remote init"),
        (&["list", "--url", "ftp://x/y"], 78, "none of s3://"),
        (&["list", "--url", "nowhere"], 78, "it has no scheme"),
        (&["list", "--url", "s3://"], 78, "it names no bucket"),
        (&["list", "--url", "s3://user:hunter2@bucket/x"], 78, "credentials come from the environment"),
        (&["list", "--url", "file:///nowhere/at/all"], 78, "/nowhere/at/all"),
        (&["list"], 78, "--url"),
        (&["verify", "--url", &url(&bucket), "other"], 4, "has nothing of other"),
        (&["restore", "--url", &url(&bucket), "other", "--to", "/tmp/x-nothing"], 4, "has nothing of other"),
    ];
    for (arguments, code, said) in cases {
        let (found, text) = run(arguments);
        assert_eq!(found, code, "{arguments:?}: {text}");
        assert!(text.contains(said) && !text.contains("hunter2"), "{arguments:?}: {text}");
    }
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.start();
    let refused = world.send("POST", "/snapshots", &json!({ "label": "a", "wait": "remote" }));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (422, Some("invalid")), "{refused}");
    assert_eq!(world.get("/versions").json()["versions"], json!([]), "nothing is published then");
    let refused = world.send("POST", "/stores/report/remote/take-over", &json!({}));
    assert_eq!(refused.status, 422, "{refused}");
}
