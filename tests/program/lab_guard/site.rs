//! A store beside a large file on one volume: what is written over the file fills the snapshots of both.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::{Fs, Machine, wait_until};
use crate::lab_guard::ballast::{FLOOD_MIB, flood, make_ballast};
use crate::lab_guard::seen::{dm_info, dm_status};
pub use crate::lab_store::ground::lab;
use crate::lab_store::ground::{Ground, Kind, snapshot_of};

/// Expects little, and a writer of whom nothing was foreseen at the pace of these disks: in peace, nothing is extended.
pub const CALM: &str = "least_rate = \"1 MiB\"\nfull_rate = \"400 MiB\"";
/// The first space of a snapshot, far too little for that.
pub const FIRST: &str = "snapshot_size = \"64 MiB\"";

pub struct Site<'a> {
    pub ground: Ground<'a>,
    pub machine: &'a Machine,
    pub ballast: PathBuf,
}

impl<'a> Site<'a> {
    /// A daemon that keeps the snapshots of so many versions, each far too small at first.
    pub fn classic(machine: &'a Machine, keep: usize) -> Self {
        Self::classic_with(machine, keep, "")
    }

    /// The same with more to be said about the guard.
    pub fn classic_with(machine: &'a Machine, keep: usize, guard: &str) -> Self {
        let mut ground = Ground::make(machine, Kind::Classic, Fs::Ext4);
        ground.configure(&format!("keep_snapshots = {keep}\n{FIRST}"));
        Self::on(machine, ground, guard)
    }

    /// The same with thin snapshots, in the pool `vg/pool` that asat may extend.
    pub fn thin(machine: &'a Machine, keep: usize) -> Self {
        Self::thin_on(machine, Ground::make(machine, Kind::Thin, Fs::Ext4), keep, "pools = [\"vg/pool\"]")
    }

    /// The same on volumes that somebody has made.
    pub fn thin_on(machine: &'a Machine, mut ground: Ground<'a>, keep: usize, guard: &str) -> Self {
        ground.configure(&format!("keep_snapshots = {keep}"));
        Self::on(machine, ground, guard)
    }

    fn on(machine: &'a Machine, mut ground: Ground<'a>, guard: &str) -> Self {
        ground.world.config = format!("[guard]\nleast_free = \"1 KiB\"\n{guard}");
        let ballast = ground.world.store().with_file_name("ballast");
        // Whoever made the volume may have made one of another size.
        if !ballast.exists() {
            make_ballast(&ballast, FLOOD_MIB);
        }
        ground.world.sqlite().execute_batch("pragma journal_mode = wal; create table t(n integer)").unwrap();
        println!("{}", ground.world.start());
        Self { ground, machine, ballast }
    }

    /// Publishes the versions of these numbers, each with a row of its own; pinned hot, if they are to be.
    pub fn publish(&self, numbers: RangeInclusive<usize>, pinned: bool) {
        let world = &self.ground.world;
        for n in numbers {
            world.sqlite().execute("insert into t values (?1)", [n.to_string()]).unwrap();
            world.publish(&n.to_string());
            if pinned {
                self.pin(n);
            }
        }
    }

    /// From now on nothing comes into the archive.
    pub fn hold_up_archiving(&self) {
        self.mark_archive("+i");
    }

    pub fn let_archiving_go_on(&self) {
        self.mark_archive("-i");
        // What failed is tried again at the next minute, or where something else is decided.
        self.pin_for(1, "archiving goes on");
    }

    /// Makes the archive's folder one that nobody changes, or the contrary.
    fn mark_archive(&self, attribute: &str) {
        let folder = self.ground.world.path("state/archive/report");
        self.machine.run("chattr", &[attribute, folder.to_str().unwrap()]);
    }

    pub fn pin(&self, number: usize) {
        self.pin_for(number, "the flood");
    }

    fn pin_for(&self, number: usize, reason: &str) {
        let pin = json!({ "reason": reason, "hot": true });
        let pinned = self.ground.world.send("PUT", &format!("/versions/report@{number}/pin"), &pin);
        assert_eq!(pinned.status, 200, "{pinned}");
    }

    /// Leaves the group so many MiB.
    pub fn leave_free(&self, mib: u64) {
        leave_free(self.machine, mib);
    }

    pub fn capacity(&self) -> Value {
        self.ground.world.get("/capacity").json()
    }

    /// The alarms that are on, by their keys.
    pub fn alarms(&self) -> Vec<String> {
        let capacity = self.capacity();
        let alarms = capacity["alarms"].as_array().unwrap().iter();
        alarms.map(|alarm| alarm["key"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the guard means to do nothing: everything has what it needs.
    pub fn at_peace(&self) {
        wait_until("the guard has no plans", || self.capacity()["plan"] == json!([]));
    }

    /// A version as the daemon has it.
    pub fn version(&self, number: usize) -> Value {
        self.ground.world.get(&format!("/versions/report@{number}")).json()
    }

    /// The state of a version, with what holds it: `ready snapshot+archive`.
    pub fn state(&self, number: usize) -> String {
        let version = self.version(number);
        let kinds = version["holdings"].as_array().unwrap().iter();
        let kinds: Vec<&str> = kinds.map(|holding| holding["kind"].as_str().unwrap()).collect();
        format!("{} {}", version["state"].as_str().unwrap(), kinds.join("+"))
    }

    /// Waits until these versions, and no others, are in the archive.
    pub fn archived(&self, numbers: RangeInclusive<usize>) {
        let is_archived = |number| self.state(number).contains("archive");
        wait_until("they are archived", || numbers.clone().all(is_archived));
    }

    /// Whether the daemon holds those who write to the store's volume at this moment.
    pub fn is_held(&self) -> bool {
        dm_info(self.machine, "vg/data").contains("SUSPENDED")
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.ground.world.daemon.as_ref().unwrap().child.id().to_string();
        self.machine.run("kill", &[signal, &pid]);
    }

    /// Writes over the ballast; answers how long that took.
    pub fn flood(&self) -> Duration {
        let flood = flood(&self.ballast);
        assert_eq!(flood.failed, 0, "{flood:?}");
        flood.took
    }

    /// The versions, newest first, and what the kernel says of each one's snapshot. It may go while it is asked for.
    pub fn states(&self) -> Vec<(Value, Option<String>)> {
        let status = |name: String| dm_status(self.machine, &name);
        let versions = self.ground.versions().into_iter();
        versions.map(|version| (version.clone(), snapshot_of(&version).and_then(status))).collect()
    }

    /// Every version still has what it had when it was published.
    pub fn check_contents(&self) {
        let world = &self.ground.world;
        for version in self.ground.versions().into_iter().filter(|version| version["state"] == "ready") {
            let (id, number) = (version["id"].as_str().unwrap(), version["number"].as_i64().unwrap());
            let lease = world.send("POST", &format!("/versions/{id}/mounts"), &json!({ "holder": "check" }));
            assert_eq!(lease.status, 201, "{id}: {lease}");
            let lease = lease.json();
            let copy = rusqlite::Connection::open_with_flags(
                Path::new(lease["path"].as_str().unwrap()),
                rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
            );
            let rows: i64 = copy.unwrap().query_row("select count(*) from t", (), |row| row.get(0)).unwrap();
            assert_eq!(rows, number, "{id}");
            let closed = format!("/versions/{id}/mounts/{}", lease["lease"].as_str().unwrap());
            assert_eq!(world.request("DELETE", &closed, &[], b"").status, 204);
        }
    }

    /// Ends the daemon, and answers what it said since it was ready.
    pub fn end(&mut self) -> String {
        let mut daemon = self.ground.world.daemon.take().unwrap();
        daemon.terminate();
        let log = daemon.rest_of_log();
        println!("{log}");
        assert!(daemon.exit().success(), "{log}");
        log
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        // Whoever reads of a failure wants to know what the daemon did.
        if let Some(mut daemon) = self.ground.world.daemon.take().filter(|_| std::thread::panicking()) {
            for what in ["info", "status", "table"] {
                println!("{:?}", self.machine.try_run("timeout", &["20", "dmsetup", what]));
            }
            let _ = daemon.child.kill();
            println!("{}", daemon.rest_of_log());
        }
    }
}

/// Leaves the group `vg` so many MiB.
pub fn leave_free(machine: &Machine, mib: u64) {
    let shown = ["--noheadings", "--nosuffix", "--units=m", "-o", "vg_free", "vg"];
    let free = machine.run("vgs", &shown);
    let whole = free.trim().split('.').next().unwrap().parse::<u64>().unwrap();
    let taken = format!("{}m", whole - mib);
    machine.run("lvcreate", &["-q", "-L", &taken, "-n", "taken", "vg"]);
}
