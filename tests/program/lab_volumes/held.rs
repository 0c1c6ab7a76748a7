//! A store is held still while a real snapshot of its volume is taken, and is read from the mounted snapshot.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_core::{PageSize, Problem};
use asat_host::store::{CommitWait, Limits, PageSink, read_frozen, read_pages, still};
use rusqlite::Connection;

use crate::lab::{Fs, Lab, Volume, VolumeGroup, in_lab};

const PATIENT: Limits = Limits { busy: Duration::from_secs(20), hold: Duration::from_secs(20) };

/// What happens to the store between the moment at which it is held, or looked at, and the snapshot.
const COMMIT: &str = "INSERT INTO t SELECT zeroblob(3000);";

#[derive(Default, PartialEq)]
struct Pages(Vec<u8>);

impl PageSink for Pages {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        self.0.extend_from_slice(page);
        Ok(())
    }
}

fn live(store: &Path) -> Pages {
    let mut pages = Pages::default();
    read_pages(store, &PATIENT, &AtomicBool::new(false), &mut pages).unwrap();
    pages
}

fn frozen(file: &Path, with_wal: bool) -> Pages {
    let mut pages = Pages::default();
    read_frozen(file, with_wal, &AtomicBool::new(false), &mut pages).unwrap();
    pages
}

/// How a store is cut: its journal mode, whether a reader is in the way, whether it must be held, whether somebody
/// commits before the snapshot; what a commit waits for, and whether the snapshot contains the state.
const CUTS: [(&str, bool, bool, bool, CommitWait, bool); 6] = [
    ("delete", false, false, false, CommitWait::Nobody, true),
    ("delete", false, false, true, CommitWait::Nobody, false),
    ("persist", false, true, false, CommitWait::Snapshot, true),
    ("wal", false, false, false, CommitWait::Nobody, true),
    ("wal", false, false, true, CommitWait::Nobody, true),
    ("wal", true, false, false, CommitWait::Snapshot, true),
];

fn cut(group: &VolumeGroup<'_>, origin: &Volume, snapshot: impl Fn(&str) -> Volume) {
    for (number, (journal, pinned, must_hold, commits, hold, same)) in CUTS.into_iter().enumerate() {
        let name = format!("cut{number}");
        let store = origin.path(&format!("{name}.db"));
        let writer = Connection::open(&store).unwrap();
        writer.execute_batch(&format!("PRAGMA journal_mode = {journal}; CREATE TABLE t (x)")).unwrap();
        writer.execute_batch(COMMIT).unwrap();
        let reader = Connection::open(&store).unwrap();
        if pinned {
            reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
            writer.execute_batch(COMMIT).unwrap();
        }
        let expected = live(&store);
        let held = still(&store, &PATIENT, &AtomicBool::new(false), must_hold).unwrap();
        let state = held.state().clone();
        assert_eq!((state.hold, state.with_wal), (hold, pinned), "{journal}");
        if commits {
            writer.execute_batch(COMMIT).unwrap();
        }
        let mut snapshot = snapshot(&name);
        let blocked = held.release().unwrap();
        println!("{} {journal}, {hold:?}: {blocked:?}", origin.fs.name());
        writer.execute_batch(COMMIT).unwrap();
        group.mount_snapshot(&mut snapshot);
        let file = snapshot.path(&format!("{name}.db"));
        assert_eq!(state.witness.difference(&file).unwrap().is_none(), same, "{journal}");
        assert_eq!(frozen(&file, state.with_wal) == expected, same, "{journal}");
        group.unmount(&mut snapshot);
    }
}

/// A transaction that follows a look at once and spills its pages into the file, which changes neither the file's length
/// nor its header. Within a tick of the kernel's clock it would not move the file's times either.
fn spill_right_after_the_look(folder: &Volume) {
    let store = folder.path("ticks.db");
    let writer = Connection::open(&store).unwrap();
    writer.execute_batch("PRAGMA synchronous = off; PRAGMA cache_size = 2; CREATE TABLE t (x)").unwrap();
    writer.execute_batch(&COMMIT.repeat(10)).unwrap();
    for round in 1..=40 {
        writer.execute_batch("UPDATE t SET x = randomblob(3000) WHERE rowid = 1").unwrap();
        let held = still(&store, &PATIENT, &AtomicBool::new(false), false).unwrap();
        let state = held.state().clone();
        held.release().unwrap();
        assert_eq!(state.hold, CommitWait::Nobody);
        writer.execute_batch("BEGIN; UPDATE t SET x = randomblob(3000)").unwrap();
        assert!(state.witness.difference(&store).unwrap().is_some(), "round {round}");
        writer.execute_batch("ROLLBACK").unwrap();
    }
}

#[test]
fn lab_a_snapshot_contains_the_state_that_was_held_or_this_is_found_out() {
    in_lab(Lab::new().disks(2, "2G"), |machine| {
        let group = machine.volume_group("held", &[0, 1]);
        group.thin_pool("pool", "600M");
        for fs in [Fs::Ext4, Fs::Xfs] {
            let classic = group.origin(&format!("classic-{}", fs.name()), "320M", fs);
            cut(&group, &classic, |name| {
                group.classic_snapshot(&classic, &format!("{name}-classic-{}", fs.name()), "24M")
            });
            spill_right_after_the_look(&classic);
            let thin = group.thin_origin("pool", &format!("thin-{}", fs.name()), "320M", fs);
            cut(&group, &thin, |name| group.thin_snapshot(&thin, &format!("{name}-thin-{}", fs.name())));
        }
    });
}
