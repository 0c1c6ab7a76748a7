//! The service as it is installed, under a real systemd: it takes snapshots, is restarted when its guard stands still, and
//! leaves nobody waiting.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::lab::{Fs, Machine, in_lab, wait_until};
use crate::lab_store::ground::{Ground, Kind, is_archived, lab, snapshot_of};

const UNITS: &str = "/etc/systemd/system";
const CONFIG: &str = "/etc/asat/asat.toml";
const PROGRAM: &str = "/usr/local/bin/asat";
const STORE: &str = "/srv/report/report.db";

/// Installs this build's program by `make install`, with the drop-in that it lays down for snapshots, and one of the test's own.
fn install(machine: &Machine, own: &str) {
    let built = format!("BINARY={}", env!("CARGO_BIN_EXE_asat"));
    machine.run("make", &["--directory", env!("CARGO_MANIFEST_DIR"), "install", &built]);
    let drop_ins = Path::new(UNITS).join("asat.service.d");
    fs::create_dir_all(&drop_ins).unwrap();
    fs::copy("/usr/local/share/doc/asat/systemd/lvm.conf", drop_ins.join("lvm.conf")).unwrap();
    if !own.is_empty() {
        fs::write(drop_ins.join("test.conf"), format!("[Service]\n{own}")).unwrap();
    }
    machine.run("systemd-sysusers", &[]);
    machine.run("systemd-tmpfiles", &["--create", "/usr/lib/tmpfiles.d/asat.conf"]);
    machine.run("systemctl", &["daemon-reload"]);
}

/// What systemd says of the service.
fn property(machine: &Machine, name: &str) -> String {
    machine.run("systemctl", &["show", "--value", "--property", name, "asat"]).trim().to_owned()
}

#[test]
fn lab_the_service_takes_snapshots_and_is_restarted_when_its_guard_stands_still() {
    in_lab(lab().systemd(true), |machine| {
        let mut ground = Ground::make(machine, Kind::Classic, Fs::Ext4);
        ground.configure("keep_snapshots = 1");
        // A person has more patience than a test.
        let config = ground.world.write_config();
        let command = format!("ExecStart=\nExecStart={PROGRAM} serve --config {}\n", config.display());
        install(machine, &format!("{command}WatchdogSec=5s\nTimeoutAbortSec=2s\n"));
        ground.world.sqlite().execute_batch("pragma journal_mode = wal; create table t(n)").unwrap();
        // It is started when the daemon says that it is ready.
        machine.run("systemctl", &["start", "asat"]);
        let published = ground.world.publish("first");
        assert_eq!(published["version"]["holdings"][0]["backend"], "lvm-classic", "{published:#}");
        ground.settled(1);

        // It stands still, with its guard.
        let pid = property(machine, "MainPID");
        machine.run("kill", &["-STOP", &pid]);
        wait_until("it is restarted", || property(machine, "NRestarts") == "1");
        wait_until("it is ready", || property(machine, "ActiveState") == "active");
        let versions = ground.settled(1);
        assert!(versions.len() == 1 && versions[0]["state"] == "ready", "{versions:#?}");
        assert!(snapshot_of(&versions[0]).is_some(), "{versions:#?}");
        ground.world.sqlite().execute("insert into t values (1)", ()).unwrap();
        assert_eq!(ground.world.publish("second")["reused"], false);
        ground.at_rest(1);

        machine.run("systemctl", &["stop", "asat"]);
        assert_eq!(property(machine, "Result"), "success");
        check_that_nothing_failed(machine);
    });
}

/// The service says nothing of errors: what it needs is permitted, the brake's process among it.
fn check_that_nothing_failed(machine: &Machine) {
    machine.run("journalctl", &["--sync"]);
    let log = machine.run("journalctl", &["--no-pager", "--output=cat", "--unit=asat"]);
    println!("{log}");
    // By the service's own processes: what systemd says of one that stood still is an error, and meant.
    let failed = ["--no-pager", "--quiet", "--output=cat", "--priority=err", "_SYSTEMD_UNIT=asat.service"];
    let failed = machine.run("journalctl", &failed);
    assert!(log.contains("published") && failed.is_empty(), "{log}\n{failed}");
}

/// What the client answers, as any user of the machine's types it.
fn asat(machine: &Machine, arguments: &[&str]) -> Value {
    let answer = machine.run(PROGRAM, &[&["--json"], arguments].concat());
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {answer}"))
}

/// Adds a row and publishes; answers the version.
fn publish(machine: &Machine, row: u32) -> Value {
    machine.run("sqlite3", &[STORE, &format!("insert into sale values ({row})")]);
    let published = asat(machine, &["publish", "report", "--label", &format!("close {row}")]);
    assert_eq!(published["version"]["id"], format!("report@{row}"), "{published:#}");
    assert_eq!(published["version"]["holdings"][0]["backend"], "lvm-classic", "{published:#}");
    published["version"].clone()
}

/// Waits until a version is in the archive, and in its snapshot too or not.
fn wait_until_archived(machine: &Machine, id: &str, hot: bool) {
    wait_until(&format!("{id} is archived, in a snapshot: {hot}"), || {
        let version = asat(machine, &["show", id]);
        is_archived(&version) && snapshot_of(&version).is_some() == hot
    });
}

/// What is read of a version, at the path at which it is opened.
fn rows(machine: &Machine, id: &str) -> String {
    let mount = asat(machine, &["open", id, "--holder", "test"]);
    let uri = mount["uri"].as_str().unwrap();
    let rows = machine.run("sqlite3", &[uri, "select count(*) from sale"]);
    machine.run(PROGRAM, &["close", id, mount["lease"].as_str().unwrap()]);
    rows.trim().to_owned()
}

#[test]
fn lab_the_service_as_it_is_installed_cuts_by_lvm_reloads_and_keeps_its_versions() {
    in_lab(lab().systemd(true), |machine| {
        let group = machine.volume_group("vg", &[0]);
        let volume = group.origin("data", "192M", Fs::Ext4);
        fs::create_dir_all("/srv/report").unwrap();
        machine.run("mount", &["--move", volume.folder.unwrap().to_str().unwrap(), "/srv/report"]);
        machine.run("sqlite3", &[STORE, "pragma journal_mode = wal; create table sale (amount integer)"]);
        install(machine, "");
        let store = format!("[[store]]\nname = \"report\"\npath = \"{STORE}\"\nbackend = \"lvm-classic\"\n");
        let sample = fs::read_to_string(CONFIG).unwrap();
        let configure = |more: &str| fs::write(CONFIG, format!("{sample}\n{store}{more}")).unwrap();
        configure("");
        machine.run("systemctl", &["start", "asat"]);
        publish(machine, 1);
        assert_eq!(rows(machine, "report@1"), "1");
        wait_until_archived(machine, "report@1", false);

        configure("keep_snapshots = 1\n");
        let pid = property(machine, "MainPID");
        machine.run("systemctl", &["reload", "asat"]);
        wait_until("it goes by the new configuration", || {
            property(machine, "StatusText") == "Uses the new configuration"
        });
        publish(machine, 2);
        wait_until_archived(machine, "report@2", true);
        assert_eq!(property(machine, "MainPID"), pid);

        machine.run("systemctl", &["stop", "asat"]);
        assert_eq!(property(machine, "Result"), "success");
        machine.run("systemctl", &["start", "asat"]);
        for (id, hot, expected) in [("report@1", false, "1"), ("report@2", true, "2")] {
            wait_until_archived(machine, id, hot);
            assert_eq!(rows(machine, id), expected, "{id}");
        }
        publish(machine, 3);
        wait_until_archived(machine, "report@2", false);
        machine.run("systemctl", &["stop", "asat"]);
        assert_eq!(property(machine, "Result"), "success");
        check_that_nothing_failed(machine);
    });
}
