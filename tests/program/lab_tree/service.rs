//! The service as it is installed: not root, and what it mounts is seen by everybody.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::{Lab, in_lab};
use crate::lab_tree::{connect, rows};

const UNITS: &str = "/etc/systemd/system";
const CONFIG: &str = "/etc/asat/asat.toml";
const STORE: &str = "/srv/report/report.db";

#[test]
fn lab_the_service_shows_its_tree_to_everybody() {
    in_lab(Lab::new().systemd(true), |machine| {
        // Where it was built, the service may not look.
        fs::write("/usr/local/bin/asat", "").unwrap();
        machine.run("mount", &["--bind", env!("CARGO_BIN_EXE_asat"), "/usr/local/bin/asat"]);
        let drop_ins = Path::new(UNITS).join("asat.service.d");
        for folder in
            [&drop_ins, Path::new("/etc/sysusers.d"), Path::new("/etc/asat"), Path::new("/srv/report")]
        {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(Path::new(UNITS).join("asat.service"), include_str!("../../../systemd/asat.service"))
            .unwrap();
        fs::write(drop_ins.join("fuse.conf"), include_str!("../../../systemd/fuse.conf")).unwrap();
        fs::write("/etc/sysusers.d/asat.conf", include_str!("../../../systemd/asat.sysusers")).unwrap();
        let sections = "[fuse]\nroot = \"/run/asat/versions\"\n[guard]\nleast_free = \"1 KiB\"\n";
        fs::write(CONFIG, format!("{sections}[[store]]\nname = \"report\"\npath = \"{STORE}\"\n")).unwrap();
        machine.run("systemd-sysusers", &[]);
        machine.run("systemctl", &["daemon-reload"]);
        machine.run("sqlite3", &[STORE, "create table ledger (entry text); insert into ledger values ('a')"]);
        machine.run("chown", &["-R", "asat:asat", "/srv/report"]);

        // Killed and started again by systemd, too, which takes away what is left in its folder under /run.
        for starts in ["start", "restart"] {
            machine.run("systemctl", &[starts, "asat"]);
            if starts == "start" {
                machine.run("/usr/local/bin/asat", &["publish"]);
            }
            let user = machine.run("systemctl", &["show", "--value", "--property", "MainPID", "asat"]);
            let status = fs::read_to_string(format!("/proc/{}/status", user.trim())).unwrap();
            assert!(!status.contains("Uid:\t0"), "{status}");
            let latest = Path::new("/run/asat/versions/latest/report.db");
            assert_eq!(rows(&connect(latest)), 1, "{starts}");
            machine.run("umount", &["--lazy", "/run/asat/versions"]);
            let begun = Instant::now();
            while !latest.exists() {
                assert!(begun.elapsed() < Duration::from_secs(30), "it is not mounted again");
            }
            assert_eq!(rows(&connect(latest)), 1, "{starts}");
            machine.run("systemctl", &["kill", "--signal=KILL", "asat"]);
        }
    });
}
