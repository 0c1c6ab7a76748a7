//! The service as it is installed, under a real systemd: it takes snapshots, is restarted when its guard stands still, and
//! leaves nobody waiting.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::ground::{Ground, Kind, lab, snapshot_of};
use crate::lab::{Fs, Machine, in_lab};
use crate::seen::wait_until;

const UNITS: &str = "/etc/systemd/system";

/// Installs the unit and what it needs for snapshots, with this build's program.
fn install(machine: &Machine, config: &Path) {
    let text = |text: &str| {
        let text = text.replace("/usr/local/bin/asat", env!("CARGO_BIN_EXE_asat"));
        text.replace("/etc/asat/asat.toml", config.to_str().unwrap())
    };
    let drop_ins = Path::new(UNITS).join("asat.service.d");
    fs::create_dir_all(&drop_ins).unwrap();
    fs::write(Path::new(UNITS).join("asat.service"), text(include_str!("../../systemd/asat.service")))
        .unwrap();
    fs::write(drop_ins.join("lvm.conf"), text(include_str!("../../systemd/lvm.conf"))).unwrap();
    // A person has more patience than a test.
    fs::write(drop_ins.join("test.conf"), "[Service]\nWatchdogSec=5s\nTimeoutAbortSec=2s\n").unwrap();
    fs::create_dir_all("/etc/sysusers.d").unwrap();
    fs::write("/etc/sysusers.d/asat.conf", include_str!("../../systemd/asat.sysusers")).unwrap();
    machine.run("systemd-sysusers", &[]);
    machine.run("systemctl", &["daemon-reload"]);
}

/// What systemd says of the service.
fn property(machine: &Machine, name: &str) -> String {
    machine.run("systemctl", &["show", "--value", "--property", name, "asat"]).trim().to_owned()
}

#[test]
fn lab_the_service_takes_snapshots_and_is_restarted_when_its_guard_stands_still() {
    in_lab(lab().systemd(true).deadline(Duration::from_secs(240)), |machine| {
        let mut ground = Ground::make(machine, Kind::Classic, Fs::Ext4);
        ground.configure("keep_snapshots = 1");
        install(machine, &ground.world.write_config());
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
        // The service says nothing of errors: what it needs is permitted, the brake's process among it.
        let log = machine.run("journalctl", &["--no-pager", "--output=cat", "--unit=asat"]);
        println!("{log}");
        // By the service's own processes: what systemd says of the one that stood still is an error, and meant.
        let failed =
            ["--no-pager", "--quiet", "--output=cat", "--priority=err", "_SYSTEMD_UNIT=asat.service"];
        let failed = machine.run("journalctl", &failed);
        assert!(log.contains("published") && failed.is_empty(), "{log}\n{failed}");
    });
}
