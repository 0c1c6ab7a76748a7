//! A daemon that follows a bucket, as its users see it: it lists, opens, compares and queries what another one publishes, and changes nothing.

mod encrypted;
mod records;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Answer, PATIENCE, World};
use crate::servers;
use serde_json::{Value, json};

const ASAT: &str = env!("CARGO_BIN_EXE_asat");

/// A bucket with a repository in it, and a publisher of the store `report` that runs.
fn publisher() -> (tempfile::TempDir, World) {
    let bucket = tempfile::Builder::new().prefix("asat-bucket.").tempdir().unwrap();
    let made = Command::new(ASAT).args(["remote", "init", "--url", &url(bucket.path())]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut world = World::new();
    world.config = format!("[remote]\nurl = \"{}\"", url(bucket.path()));
    world.sqlite().execute_batch("create table ledger (id integer primary key, entry text)").unwrap();
    world.start();
    (bucket, world)
}

fn url(bucket: &Path) -> String {
    format!("file://{}", bucket.display())
}

/// Where a bucket is put while it is away.
fn away(bucket: &tempfile::TempDir) -> PathBuf {
    PathBuf::from(format!("{}.away", bucket.path().display()))
}

/// Changes the store, publishes it, and returns when it is in the bucket.
fn publish(world: &World, label: &str) {
    world.sqlite().execute("insert into ledger (entry) values (?1)", [label]).unwrap();
    let body = json!({ "label": label, "certified_by": "ann", "wait": "remote" });
    let answer = world.send("POST", "/snapshots", &body);
    assert_eq!(answer.status, 201, "{answer}");
}

/// A daemon on another machine, of which nothing runs yet.
struct Follower {
    world: World,
    config: String,
}

impl Follower {
    fn of(bucket: &Path) -> Self {
        let config = format!(
            "state = \"state\"\n[listen]\nunix = \"asat.sock\"\n[guard]\nleast_free = \"1 KiB\"\n[follow]\nurl = \"{}\"\npoll = \"1s\"\n",
            url(bucket)
        );
        Self { world: World::new(), config }
    }

    /// One that runs, and lists so many versions.
    fn started(bucket: &Path, versions: usize) -> Self {
        let mut follower = Self::of(bucket);
        follower.start();
        follower.until_listed(versions);
        follower
    }

    fn start(&mut self) {
        self.world.start_with(&self.config);
    }

    /// Waits until so many versions can be opened.
    fn until_listed(&self, versions: usize) {
        self.until(|store| store["versions"] == versions);
    }

    /// Waits until the store stands as is wanted.
    fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        until(|| {
            let store = self.world.get("/stores").json()["stores"][0].clone();
            if wanted(&store) { Ok(store) } else { Err(store.to_string()) }
        })
    }

    /// What a version has, by an as-at copy.
    fn entries(&self, version: &str) -> i64 {
        let copy = rusqlite::Connection::open(self.world.open(version)).unwrap();
        copy.query_row("select count(*) from ledger", [], |row| row.get(0)).unwrap()
    }
}

fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(seen) => assert!(Instant::now() < deadline, "{seen}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn expect(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)), "{answer}");
}

#[test]
fn what_is_published_elsewhere_is_listed_opened_compared_and_queried_here() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "november");
    publish(&publisher, "december");
    let follower = Follower::started(bucket.path(), 2);
    // It is seen to have nothing newer a moment after all of it is recorded.
    let store = follower.until(|store| store["followed"]["seen_at"].is_string());
    assert_eq!((&store["backend"], &store["configured"]), (&json!("bucket"), &json!(true)));
    let followed = &store["followed"];
    assert_eq!((&followed["url"], &followed["manifest"]), (&json!(url(bucket.path())), &json!(2)));
    assert!(followed["seen_at"].is_string() && followed["trouble"].is_null(), "{followed}");
    // Each version is as it is there.
    for version in ["report@1", "report@2"] {
        let (there, here) = (
            publisher.get(&format!("/versions/{version}")),
            follower.world.get(&format!("/versions/{version}")),
        );
        for part in ["id", "state", "cut_at", "fingerprint", "page_count"] {
            assert_eq!(there.json()[part], here.json()[part], "{version}: {part}");
        }
        assert_eq!(here.json()["publications"][0]["certified_by"], "ann");
        let download = format!("/versions/{version}/database");
        assert!(publisher.get(&download).body == follower.world.get(&download).body, "{version}");
    }
    assert_eq!((follower.entries("report@1"), follower.entries("report@2")), (1, 2));
    let found = follower.world.get("/versions?label=november").json();
    assert_eq!(found["versions"][0]["id"], "report@1", "{found}");
    let diff = follower.world.get("/versions/report@2/diff/report@1").json();
    assert_eq!(diff["tables"][0]["deleted"], 1, "{diff}");
    let asked = follower.world.asat(&["sql", "select entry from report@2.ledger order by id"]);
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.contains("november") && said.contains("december"), "{asked:?}");
    // What comes later follows, and what is given up there is given up here.
    publish(&publisher, "january");
    follower.until_listed(3);
    assert_eq!(follower.entries("report@3"), 3);
    assert_eq!(publisher.request("DELETE", "/versions/report@1", &[], b"").status, 200);
    publish(&publisher, "february");
    follower.until(|store| store["newest"] == "report@4");
    let leases = follower.world.get("/leases").json();
    for lease in leases["leases"].as_array().unwrap() {
        let path = format!(
            "/versions/{}/mounts/{}",
            lease["version"].as_str().unwrap(),
            lease["lease"].as_str().unwrap()
        );
        assert_eq!(follower.world.request("DELETE", &path, &[], b"").status, 204);
    }
    publish(&publisher, "march");
    until(|| {
        let version = follower.world.get("/versions/report@1").json();
        if version["state"] == "retired" { Ok(()) } else { Err(version.to_string()) }
    });
    expect(&follower.world.get("/versions/report@1/database"), 410, "retired");
    let status = follower.world.asat(&["remote", "status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.starts_with(&format!("report: followed from {}", url(bucket.path()))), "{said}");
    let status = follower.world.asat(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success() && said.contains("followed, seen just now"), "{status:?}");
}

#[test]
fn it_changes_nothing_and_says_where_that_is_done() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "a");
    let follower = Follower::started(bucket.path(), 1);
    let before = crate::common::tree(bucket.path());
    let changes = [
        ("POST", "/snapshots", json!({ "label": "b" })),
        ("DELETE", "/versions/report@1", json!({})),
        ("PUT", "/versions/report@1/pin", json!({ "reason": "audit" })),
        ("PUT", "/stores/report/tags/q4", json!({ "version": "report@1" })),
        ("POST", "/stores/report/restore", json!({ "version": "report@1" })),
        ("POST", "/stores/report/verify", json!({})),
        ("POST", "/stores/report/remote/take-over", json!({})),
    ];
    for (method, path, body) in changes {
        let refused = follower.world.send(method, path, &body);
        expect(&refused, 409, "read_only");
        assert!(refused.json()["detail"].as_str().unwrap().contains(&url(bucket.path())), "{refused}");
    }
    let refused = follower.world.asat(&["publish", "report"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    follower.entries("report@1");
    assert_eq!(crate::common::tree(bucket.path()), before);
    let metrics = follower.world.get("/metrics").to_string();
    assert!(metrics.contains("asat_follow_failing{store=\"report\"} 0"), "{metrics}");
}

#[test]
fn while_the_bucket_is_away_it_lists_what_it_knows_and_says_why_nothing_can_be_read() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "a");
    let mut follower = Follower::started(bucket.path(), 1);
    // A moment after the version is listed, it is noted that all is recorded.
    follower.until(|store| store["followed"]["seen_at"].is_string());
    follower.world.kill();
    let away = away(&bucket);
    fs::rename(bucket.path(), &away).unwrap();
    follower.start();
    assert_eq!(follower.world.get("/versions").json()["versions"][0]["id"], "report@1");
    assert_eq!(follower.world.get("/readyz").status, 200);
    let trouble = follower.until(|store| !store["followed"]["trouble"].is_null());
    assert_eq!(trouble["followed"]["seen_at"], Value::Null, "{trouble}");
    expect(&follower.world.get("/versions/report@1/database"), 503, "remote_unavailable");
    let refused = follower.world.send("POST", "/versions/report@1/mounts", &json!({ "holder": "ann" }));
    expect(&refused, 503, "remote_unavailable");
    let version = follower.world.get("/versions/report@1").json();
    assert_eq!(version["state"], "ready", "what is away is not lost: {version}");
    fs::rename(&away, bucket.path()).unwrap();
    follower
        .until(|store| store["followed"]["trouble"].is_null() && store["followed"]["seen_at"].is_string());
    assert_eq!(follower.entries("report@1"), 1);
    // The same, while it runs.
    fs::rename(bucket.path(), &away).unwrap();
    follower.until(|store| !store["followed"]["trouble"].is_null());
    assert_eq!(follower.world.get("/versions/report@1").json()["state"], "ready");
    fs::rename(&away, bucket.path()).unwrap();
    publish(&publisher, "b");
    follower.until_listed(2);
    assert_eq!(follower.entries("report@2"), 2);
}

#[test]
fn it_is_not_ready_until_the_bucket_has_answered_once() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "a");
    let away = away(&bucket);
    fs::rename(bucket.path(), &away).unwrap();
    let mut follower = Follower::of(bucket.path());
    follower.start();
    expect(&follower.world.get("/readyz"), 503, "remote_unavailable");
    assert_eq!(follower.world.get("/healthz").status, 200);
    fs::rename(&away, bucket.path()).unwrap();
    until(|| match follower.world.get("/readyz").status {
        200 => Ok(()),
        status => Err(format!("{status}")),
    });
    follower.until_listed(1);
}

#[test]
fn it_goes_on_after_a_kill_with_its_leases_and_reads_what_another_machine_has_taken_over() {
    let (bucket, mut first) = publisher();
    publish(&first, "a");
    let mut follower = Follower::started(bucket.path(), 1);
    let copy = follower.world.open("report@1");
    for _ in 0..3 {
        follower.world.kill();
        follower.start();
        follower.until_listed(1);
    }
    assert!(copy.exists(), "it is leased");
    // Certified once more, and named: the archive has this as records.
    let tagged = first.send("PUT", "/stores/report/tags/close", &json!({ "version": "report@1" }));
    assert_eq!(tagged.status, 201, "{tagged}");
    let again = first.send("POST", "/snapshots", &json!({ "label": "a again", "wait": "remote" }));
    assert_eq!(again.status, 200, "{again}");
    first.kill();
    // The machine is gone. Another one takes over what is in the bucket.
    let mut second = World::new();
    second.config = format!("[remote]\nurl = \"{}\"", url(bucket.path()));
    fs::copy(first.store(), {
        second.sqlite();
        second.store()
    })
    .unwrap();
    let archive = second.path("state/archive/report");
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    let run = |arguments: &[&str]| {
        let done = Command::new(ASAT).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let (bucket_url, to) = (url(bucket.path()), archive.to_str().unwrap().to_owned());
    run(&["remote", "restore", "report", "--url", &bucket_url, "--to", &to]);
    run(&["rebuild-catalogue", "--config", second.write_config().to_str().unwrap()]);
    let restored = crate::common::tree(&archive);
    second.start();
    // The archive goes on before somebody decides: what is recorded here takes the place of what was restored.
    let tagged = second.send("PUT", "/stores/report/tags/checked", &json!({ "version": "report@1" }));
    assert_eq!(tagged.status, 201, "{tagged}");
    until(|| {
        if crate::common::tree(&archive) == restored { Err("it is not recorded".to_owned()) } else { Ok(()) }
    });
    let taken = second.asat(&["remote", "take-over", "report"]);
    assert!(taken.status.success(), "{taken:?}");
    publish(&second, "b");
    follower.until_listed(2);
    assert_eq!((follower.entries("report@1"), follower.entries("report@2")), (1, 2));
    until(|| {
        let tags = follower.world.get("/stores/report/tags").json();
        if tags["tags"].as_array().unwrap().len() == 2 { Ok(()) } else { Err(tags.to_string()) }
    });
}

#[test]
fn a_store_whose_newest_manifest_is_damaged_is_listed_and_said_not_to_be_followed() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "a");
    let manifests = bucket.path().join("s/report/m");
    let newest = fs::read_dir(manifests).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    let whole = fs::read(&newest).unwrap();
    fs::write(&newest, "").unwrap();
    fs::create_dir_all(bucket.path().join("s/folder")).unwrap();
    let mut follower = Follower::of(bucket.path());
    follower.start();
    let store = follower.until(|store| store["followed"]["trouble"].is_object());
    assert_eq!(
        (&store["name"], &store["followed"]["trouble"]["code"]),
        (&json!("report"), &json!("damaged"))
    );
    assert_eq!(
        follower.world.get("/stores").json()["stores"].as_array().unwrap().len(),
        1,
        "a folder is no store"
    );
    let metrics = String::from_utf8(follower.world.get("/metrics").body).unwrap();
    assert!(metrics.contains("asat_follow_failing{store=\"report\"} 1"), "{metrics}");
    let list = Command::new(ASAT).args(["remote", "list", "--url", &url(bucket.path())]).output().unwrap();
    assert_eq!(list.status.code(), Some(9), "{list:?}");
    fs::write(&newest, whole).unwrap();
    follower.until_listed(1);
    assert_eq!(follower.entries("report@1"), 1);
}

#[test]
fn an_object_that_is_damaged_or_missing_is_an_error_and_the_other_versions_are_read() {
    let (bucket, publisher) = publisher();
    for label in ["a", "b", "c"] {
        publish(&publisher, label);
    }
    let objects = bucket.path().join("s/report/f");
    let mut files: Vec<_> = fs::read_dir(&objects).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let whole = fs::read(&files[1]).unwrap();
    let mut damaged = whole.clone();
    damaged[14] ^= 1;
    fs::write(&files[1], damaged).unwrap();
    let follower = Follower::started(bucket.path(), 3);
    let refused = follower.world.send("POST", "/versions/report@2/mounts", &json!({ "holder": "ann" }));
    expect(&refused, 500, "damaged");
    assert_eq!(follower.entries("report@1"), 1);
    fs::write(&files[1], whole).unwrap();
    assert_eq!(follower.entries("report@2"), 2, "it is read again without a restart");
}

#[test]
fn a_history_that_is_not_the_one_that_was_followed_is_not_mixed_with_it() {
    let (bucket, mut publisher) = publisher();
    publish(&publisher, "a");
    let backup = away(&bucket);
    copy_all(bucket.path(), &backup);
    publish(&publisher, "b");
    let mut follower = Follower::started(bucket.path(), 2);
    publisher.kill();
    follower.world.kill();
    // The bucket is put back from a backup, and goes on with another second version.
    fs::remove_dir_all(bucket.path()).unwrap();
    fs::rename(&backup, bucket.path()).unwrap();
    let not_there = |store: &Value| store["followed"]["trouble"]["code"] == "fenced";
    follower.start();
    let store = follower.until(not_there);
    assert!(store["followed"]["trouble"]["hint"].as_str().unwrap().contains("empty state folder"), "{store}");
    assert_eq!(follower.world.get("/versions/report@2").json()["state"], "ready", "it was not given up");
    expect(&follower.world.get("/versions/report@2/database"), 503, "remote_unavailable");
    // It is made anew.
    follower.world.kill();
    fs::remove_dir_all(bucket.path()).unwrap();
    fs::create_dir(bucket.path()).unwrap();
    let made = Command::new(ASAT).args(["remote", "init", "--url", &url(bucket.path())]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut other = World::new();
    other.config = format!("[remote]\nurl = \"{}\"", url(bucket.path()));
    other.sqlite().execute_batch("create table ledger (id integer primary key, entry text)").unwrap();
    other.start();
    publish(&other, "x");
    follower.start();
    follower.until(not_there);
    assert_eq!(follower.world.get("/versions/report@2").json()["publications"][0]["label"], "b");
    // With an empty state folder it follows what is there.
    follower.world.kill();
    fs::remove_dir_all(follower.world.path("state")).unwrap();
    follower.start();
    follower.until_listed(1);
    assert_eq!(follower.world.get("/versions/report@1").json()["publications"][0]["label"], "x");
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_version_that_is_leased_is_read_on_though_the_publisher_has_given_it_up() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "a");
    publish(&publisher, "b");
    let follower = Follower::started(bucket.path(), 2);
    let copy = follower.world.open("report@1");
    let lease = follower.world.get("/leases").json()["leases"][0]["lease"].as_str().unwrap().to_owned();
    assert_eq!(publisher.request("DELETE", "/versions/report@1", &[], b"").status, 200);
    publish(&publisher, "c");
    follower.until(|store| store["newest"] == "report@3");
    assert!(copy.exists());
    let version = follower.world.get("/versions/report@1").json();
    assert_eq!(version["state"], "ready", "{version}");
    let download = follower.world.get("/versions/report@1/database");
    assert!(download.status == 200 && download.body.starts_with(b"SQLite format 3\0"), "{}", download.status);
    let path = format!("/versions/report@1/mounts/{lease}");
    assert_eq!(follower.world.request("DELETE", &path, &[], b"").status, 204);
    publish(&publisher, "d");
    until(|| {
        let version = follower.world.get("/versions/report@1").json();
        if version["state"] == "retired" { Ok(()) } else { Err(version.to_string()) }
    });
}

#[test]
fn a_version_whose_object_is_missing_is_lost_and_no_older_one_stands_in_its_place() {
    let (bucket, publisher) = publisher();
    for label in ["a", "b", "c"] {
        publish(&publisher, label);
    }
    let at = publisher.get("/versions/report@2").json()["cut_at"].as_str().unwrap().to_owned();
    let objects = bucket.path().join("s/report/f");
    let mut files: Vec<_> = fs::read_dir(&objects).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let whole = fs::read(&files[1]).unwrap();
    fs::remove_file(&files[1]).unwrap();
    let follower = Follower::of(bucket.path());
    let mut follower = follower;
    follower.start();
    follower.until(|store| store["newest"].is_string());
    assert_eq!(follower.world.get("/versions/report@2").json()["state"], "lost");
    let found = follower.world.get(&format!("/as-of/{at}?store=report"));
    assert_ne!(found.status, 200, "{found}");
    fs::write(&files[1], whole).unwrap();
    follower.world.kill();
    follower.start();
    follower.until_listed(3);
    assert_eq!(follower.world.get(&format!("/as-of/{at}?store=report")).json()["id"], "report@2");
}

#[test]
fn a_state_folder_with_archives_of_its_own_is_left_alone() {
    let (bucket, mut publisher) = publisher();
    publish(&publisher, "a");
    publisher.kill();
    let config = format!(
        "state = \"state\"\n[listen]\nunix = \"asat.sock\"\n[follow]\nurl = \"{}\"\n",
        url(bucket.path())
    );
    let path = publisher.path("other.toml");
    fs::write(&path, config).unwrap();
    let refused = Command::new(ASAT).args(["serve", "--config"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("has an archive of report of its own"), "{said}");
    // The same, if its archives are away.
    fs::rename(publisher.path("state/archive"), publisher.path("away")).unwrap();
    let refused = Command::new(ASAT).args(["serve", "--config"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("is the state folder of a daemon that publishes report"), "{said}");
    fs::rename(publisher.path("away"), publisher.path("state/archive")).unwrap();
    publisher.start();
    assert_eq!(publisher.get("/versions/report@1").json()["state"], "ready");
    // And the other way round.
    let mut follower = Follower::started(bucket.path(), 1);
    follower.world.kill();
    follower.world.sqlite();
    let refused =
        Command::new(ASAT).args(["serve", "--config"]).arg(follower.world.write_config()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("is the state folder of a daemon that follows report in a bucket"), "{said}");
}

#[test]
fn the_demo_of_a_fleet_ends_well() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/fleet");
    let mut demo = Command::new(demo);
    demo.env("ASAT", ASAT).env("MOTO", servers::moto_folder()).stdin(Stdio::null());
    let done = demo.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn the_doctor_reads_the_bucket_that_is_followed() {
    let (bucket, publisher) = publisher();
    let follower = Follower::of(bucket.path());
    let config = follower.world.path("asat.toml");
    fs::write(&config, &follower.config).unwrap();
    let doctor = || {
        let output = Command::new(ASAT).args(["--json", "doctor", "--config"]).arg(&config).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = report["findings"].as_array().unwrap().iter();
        let found = found.filter(|finding| finding["check"] == "follow").cloned().collect::<Vec<_>>();
        found.into_iter().next().unwrap_or_else(|| panic!("{report}"))
    };
    assert_eq!(doctor()["level"], "warning", "there is no store yet");
    publish(&publisher, "a");
    fs::create_dir(bucket.path().join("s/folder")).unwrap();
    let before = crate::common::tree(bucket.path());
    let found = doctor();
    assert_eq!(found["level"], "ok", "{found}");
    assert!(found["what"].as_str().unwrap().ends_with("can be read, and has 1 store"), "{found}");
    assert_eq!(crate::common::tree(bucket.path()), before, "nothing is written");
    fs::rename(bucket.path(), away(&bucket)).unwrap();
    assert_eq!(doctor()["level"], "problem");
    fs::rename(away(&bucket), bucket.path()).unwrap();
}
