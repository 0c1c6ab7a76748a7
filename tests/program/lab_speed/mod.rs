//! A store on a volume is written at full speed, and published all the while: every version is exactly one state that
//! the store had at its publication, in its snapshot and in the archive.
//!
//! The writer is another process. What a version must be is not asked of the daemon, nor of the store: it follows from
//! the number of transactions in it, by the rows and by every page (see `ledger` and `replay`).

mod replay;
mod trial;
mod writer;

use std::time::Duration;

use crate::lab::{Fs, in_lab};
use crate::lab_store::ground::{self, Ground, Kind};
use trial::Trial;

/// A pause in which a file's times settle, so that nobody is held for the snapshot at first; and shorter than it takes
/// to make the snapshot, so that somebody writes meanwhile.
const PAUSE: Duration = Duration::from_millis(60);

/// Several times what it takes where nobody else works.
const DEADLINE: Duration = Duration::from_secs(480);

fn publish_beside_a_writer(mut ground: Ground<'_>) {
    // The snapshot of the newest version is kept, so that it can be read however fast the archive is.
    ground.configure("keep_snapshots = 1");
    let mut trial = Trial::begin(&mut ground, "wal");
    trial.publish(10);
    trial.change_journal("delete");
    trial.publish(10);
    trial.slow_down(PAUSE);
    trial.publish(8);
    trial.end();
    ground.at_rest(1);
    let mut daemon = ground.world.daemon.take().unwrap();
    daemon.terminate();
    let log = daemon.rest_of_log();
    assert!(daemon.exit().success(), "{log}");
    let raced = log.matches("somebody wrote while the snapshot was taken").count();
    println!("{raced} snapshots were taken again, because somebody wrote meanwhile");
    assert!(raced > 0, "nobody wrote while a snapshot was taken\n{log}");
}

#[test]
fn lab_versions_cut_by_classic_snapshots_beside_a_writer_are_exact() {
    in_lab(ground::lab().deadline(DEADLINE), |machine| {
        publish_beside_a_writer(Ground::make(machine, Kind::Classic, Fs::Ext4));
    });
}

#[test]
fn lab_versions_cut_by_thin_snapshots_beside_a_writer_are_exact() {
    in_lab(ground::lab().deadline(DEADLINE), |machine| {
        let ground = Ground::make(machine, Kind::Thin, Fs::Xfs);
        // A pool that may be full within a second at the writer's speed would have snapshots dropped.
        machine.run("lvextend", &["-q", "-L", "2G", "vg/pool"]);
        publish_beside_a_writer(ground);
    });
}
