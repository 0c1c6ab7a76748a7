//! asat under floods that LVM's own monitor, as its manuals configure it, does not keep up with. What asat must do is tested; both side
//! by side in one guest are measured for docs/benchmarks.md.

use std::time::{Duration, Instant};

use crate::lab::{Lab, Machine};
use crate::lab_guard::site::lab;

mod pool;
mod snapshots;

/// LVM's own monitor, for volumes that are made while the value is there.
struct Dmeventd<'a> {
    machine: &'a Machine,
}

/// The values that lvmthin(7) and lvm.conf(5) propose. Without them, as beside asat, it watches and extends nothing.
const SETTINGS: &str = "activation {
    monitoring=1
    snapshot_autoextend_threshold=70
    snapshot_autoextend_percent=20
    thin_pool_autoextend_threshold=70
    thin_pool_autoextend_percent=20
}
";
/// The guest's alone.
const FILE: &str = "/etc/lvm/lvmlocal.conf";

impl<'a> Dmeventd<'a> {
    fn configured(machine: &'a Machine) -> Self {
        std::fs::write(FILE, SETTINGS).unwrap();
        Self { machine }
    }

    fn check_that_it_watches(&self, volume: &str) {
        let monitored = self.machine.run("lvs", &["--noheadings", "-o", "seg_monitor", volume]);
        assert_eq!(monitored.trim(), "monitored");
    }

    /// Gives it the time to look, which it does every ten seconds, unless it is too late for that.
    fn may_look(&self, is_too_late: impl Fn() -> bool) {
        let patience = Instant::now() + Duration::from_secs(12);
        while Instant::now() < patience && !is_too_late() {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

impl Drop for Dmeventd<'_> {
    fn drop(&mut self) {
        std::fs::remove_file(FILE).unwrap();
    }
}

/// A group that can cover everything, so that nothing has to go, and the disk of the state.
fn roomy() -> Lab {
    lab().disk_sizes(&["8G", "256M"])
}

/// The same with LVM's own monitor.
fn with_dmeventd() -> Lab {
    roomy().systemd(true).deadline(Duration::from_secs(900))
}
