//! The file itself, where it is read from, and what an empty one means.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use asat::config::Config;

use crate::common::{Running, World};
use crate::config::{HASH, STATE, ended, folder, refused, store};

#[test]
fn a_file_that_cannot_be_read_is_refused_by_its_name() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder.toml")).unwrap();
    symlink("nowhere", path("dangling.toml")).unwrap();
    fs::write(path("latin.toml"), b"state = \"\xe4\"").unwrap();
    for name in ["missing.toml", "folder.toml", "dangling.toml", "latin.toml", "no/such/folder.toml"] {
        let log = refused(&path(name));
        assert!(log.contains(name) && log.contains("--config FILE"), "{log}");
    }
    fs::write(path("secret.toml"), "").unwrap();
    fs::set_permissions(path("secret.toml"), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(refused(&path("secret.toml")).contains("secret.toml"));
}

#[test]
fn a_place_that_cannot_be_listened_at_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("asat.sock"), "precious").unwrap();
    let file = folder.path().join("asat.toml");
    fs::write(&file, STATE).unwrap();
    assert!(refused(&file).contains("is no socket"));
    assert_eq!(fs::read_to_string(folder.path().join("asat.sock")).unwrap(), "precious");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let token = format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"");
    fs::write(&file, format!("state = \"state\"\nlisten.tcp = \"{address}\"\n{token}")).unwrap();
    // It may be free at the next try.
    let said = ended(&file, 5);
    assert!(said.contains(&address.to_string()) && said.contains("see who listens there"), "{said}");
}

#[test]
fn an_empty_file_means_the_defaults() {
    let config = Config::parse("", Path::new("/etc/asat")).unwrap();
    assert_eq!(config.state, PathBuf::from("/var/lib/asat"));
    assert_eq!(config.listen.unix, Some(PathBuf::from("/run/asat/asat.sock")));
    assert_eq!((config.listen.unix_mode, config.listen.tcp), (0o660, None));
    assert!(config.stores.is_empty() && config.tokens.is_empty());
    let tcp_only = format!(
        "listen.tcp = \"[::1]:7878\"\n[[token]]\nname = \"a\"\nrole = \"admin\"\nsha256 = \"{HASH}\""
    );
    let config = Config::parse(&tcp_only, Path::new("/etc/asat")).unwrap();
    assert_eq!(config.listen.unix, None);
}

#[test]
fn a_daemon_without_stores_starts_and_serves_what_was_kept() {
    let mut world = World::new();
    world.start_with(STATE);
    assert_eq!(world.get("/versions").json()["versions"], serde_json::json!([]));
    assert_eq!(world.get("/stores").json()["stores"], serde_json::json!([]));
    world.request("POST", "/snapshots", &[], b"").expect_problem(422, "invalid");
    assert!(world.stop().success());

    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    world.start();
    world.publish("kept");
    assert!(world.stop().success());
    world.start_with(STATE);
    assert_eq!(world.get("/versions/report@1/database").status, 200);
    assert!(world.open("report@1").exists());
    world.request("POST", "/snapshots", &[], b"").expect_problem(404, "unknown_store");
}

#[test]
fn relative_paths_start_from_the_files_folder() {
    let config = Config::parse(&(STATE.to_owned() + &store("a", "")), Path::new("/etc/asat")).unwrap();
    assert_eq!(config.state, PathBuf::from("/etc/asat/state"));
    assert_eq!(config.listen.unix, Some(PathBuf::from("/etc/asat/asat.sock")));
    assert_eq!(config.stores.values().next().unwrap().path, PathBuf::from("/etc/asat/stores/a.db"));

    // Wherever the daemon itself is started, and however the file is named there.
    let mut world = World::new();
    world.write_config();
    fs::create_dir(world.path("elsewhere")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.args(["serve", "--config", "../asat.toml"]).current_dir(world.path("elsewhere"));
    let mut running = Running::spawn(command);
    running.wait_for("ready").unwrap();
    world.daemon = Some(running);
    assert_eq!(world.get("/healthz").status, 200);
    assert!(world.path("state").is_dir());
    assert_eq!(fs::read_dir(world.path("elsewhere")).unwrap().count(), 0);
    let path = world.get("/stores").json()["stores"][0]["path"].as_str().map(PathBuf::from);
    assert_eq!(path.unwrap().canonicalize().ok(), world.store().canonicalize().ok());
}
