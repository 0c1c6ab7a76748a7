//! A bucket whose files are encrypted: the publisher has a recipient, and the machines that read have the identity.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{ASAT, Follower, publish, until, url};
use crate::common::{World, tree};
use serde_json::{Value, json};

/// A bucket that is encrypted, a publisher, and a folder with the file `identity.txt` that reads it.
struct Site {
    bucket: tempfile::TempDir,
    publisher: World,
    keys: tempfile::TempDir,
    recipient: String,
}

/// Makes an identity as its owner would; answers its recipient.
fn keygen(path: &Path) -> String {
    let made = Command::new("age-keygen").arg("-o").arg(path).output();
    assert!(made.expect("this test needs the package age").status.success());
    let shown = Command::new("age-keygen").arg("-y").arg(path).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().trim().to_owned()
}

fn remote(arguments: &[&str]) -> Output {
    Command::new(ASAT).args(["--json", "remote"]).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Starts a follower that cannot read the bucket, and says why.
fn start_in_trouble(follower: &mut Follower, why: &str) {
    follower.start();
    let ready = until(|| {
        let ready = follower.world.get("/readyz");
        if ready.to_string().contains(why) { Ok(ready) } else { Err(ready.to_string()) }
    });
    assert_eq!(ready.status, 503, "{ready}");
}

impl Site {
    fn new() -> Self {
        let bucket = tempfile::Builder::new().prefix("asat-bucket.").tempdir().unwrap();
        let keys = tempfile::tempdir().unwrap();
        let recipient = keygen(&keys.path().join("identity.txt"));
        let made = remote(&["init", "--url", &url(bucket.path()), "--recipient", &recipient]);
        let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{made:?}"));
        assert_eq!(made["recipients"], json!([recipient]));
        let mut publisher = World::new();
        publisher.config =
            format!("[remote]\nurl = \"{}\"\nrecipients = [\"{recipient}\"]", url(bucket.path()));
        let ledger = "create table ledger (id integer primary key, entry text)";
        publisher.sqlite().execute_batch(ledger).unwrap();
        publisher.start();
        Self { bucket, publisher, keys, recipient }
    }

    fn identity(&self) -> PathBuf {
        self.keys.path().join("identity.txt")
    }

    fn url(&self) -> String {
        url(self.bucket.path())
    }
}

#[test]
fn what_one_publishes_encrypted_the_others_read_with_the_identity() {
    let site = Site::new();
    for entry in ["in-the-clear-1", "in-the-clear-2"] {
        publish(&site.publisher, entry);
    }
    for (path, _) in tree(site.bucket.path()) {
        let bytes = fs::read(&path).unwrap();
        let has_clear =
            bytes.windows(12).any(|window| window == b"in-the-clear" || window == b"SQLite forma");
        assert!(!has_clear, "{}", path.display());
        assert_eq!(
            path.extension().is_some_and(|kind| kind == "age"),
            bytes.starts_with(b"age-encryption.org")
        );
    }
    // A follower without an identity says what it lacks.
    let mut follower = Follower::of(site.bucket.path());
    start_in_trouble(&mut follower, "there is no identity here");
    drop(follower);
    let mut follower = Follower::of(site.bucket.path());
    follower.config = format!("{}identity = \"{}\"\n", follower.config, text(&site.identity()));
    follower.start();
    follower.until_listed(2);
    assert_eq!((follower.entries("report@1"), follower.entries("report@2")), (1, 2));
}

#[test]
fn it_is_restored_with_the_identity_or_by_hand_with_age_and_refused_without() {
    let site = Site::new();
    publish(&site.publisher, "a");
    publish(&site.publisher, "b");
    let to = site.keys.path().join("restored");
    let restore = ["restore", "--url", &site.url(), "report", "--to", text(&to)];
    let refused = remote(&restore);
    assert!(!refused.status.success() && !to.exists());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("identity"), "{refused:?}");
    let identity = site.identity();
    let done = remote(&[&restore[..], &["--identity", text(&identity)]].concat());
    assert!(done.status.success(), "{done:?}");
    let verify = ["verify", "--url", &site.url(), "--read"];
    assert!(!remote(&verify).status.success());
    let verified = remote(&[&verify[..], &["--identity", text(&identity)]].concat());
    assert!(verified.status.success(), "{verified:?}");
    // By hand: every object is a file of the archive, as age says.
    let objects = tree(site.bucket.path());
    let objects = objects
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.extension().is_some_and(|kind| kind == "age"));
    let mut by_hand: Vec<Vec<u8>> = objects
        .map(|path| Command::new("age").arg("-d").arg("-i").arg(&identity).arg(path).output().unwrap().stdout)
        .collect();
    let restored = tree(&to).into_iter().map(|(path, _)| path);
    let mut restored: Vec<Vec<u8>> = restored
        .filter(|path| path.extension().is_some_and(|kind| kind == "segment"))
        .map(|path| fs::read(path).unwrap())
        .collect();
    by_hand.sort();
    restored.sort();
    assert!(restored.len() > 1 && by_hand == restored, "{} and {}", by_hand.len(), restored.len());
}

#[test]
fn a_publisher_refuses_another_recipient_than_its_configuration_names() {
    let mut site = Site::new();
    publish(&site.publisher, "a");
    assert!(site.publisher.stop().success());
    // Somebody who can write to the bucket adds himself.
    let marker = site.bucket.path().join("asat.json");
    let mallory = keygen(&site.keys.path().join("mallory.txt"));
    let before = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, before.replace(&site.recipient, &format!("{}\",\"{mallory}", site.recipient)))
        .unwrap();
    site.publisher.start();
    site.publisher.sqlite().execute("insert into ledger (entry) values ('b')", ()).unwrap();
    let answer = site.publisher.send("POST", "/snapshots", &json!({}));
    assert_eq!(answer.status, 201, "{answer}");
    let trouble = until(|| {
        let store = site.publisher.get("/stores").json()["stores"][0]["remote"].clone();
        if store["trouble"].is_object() { Ok(store["trouble"].clone()) } else { Err(store.to_string()) }
    });
    assert!(trouble["detail"].as_str().unwrap().contains(&mallory), "{trouble}");
    let files = |world: &tempfile::TempDir| {
        tree(world.path())
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|kind| kind == "age"))
            .count()
    };
    assert_eq!(files(&site.bucket), 1, "nothing is stored");
    fs::write(&marker, before).unwrap();
    until(|| if files(&site.bucket) == 2 { Ok(()) } else { Err("it does not go on".to_owned()) });
}

#[test]
fn an_identity_that_everybody_may_read_is_refused() {
    let site = Site::new();
    publish(&site.publisher, "a");
    fs::set_permissions(site.identity(), fs::Permissions::from_mode(0o644)).unwrap();
    let verified = remote(&["verify", "--url", &site.url(), "--read", "--identity", text(&site.identity())]);
    assert_eq!(verified.status.code(), Some(78), "{verified:?}");
    assert!(String::from_utf8_lossy(&verified.stderr).contains("chmod o="), "{verified:?}");
    let mut follower = Follower::of(site.bucket.path());
    follower.config = format!("{}identity = \"{}\"\n", follower.config, text(&site.identity()));
    start_in_trouble(&mut follower, "everybody on this machine may use it");
}
