//! What is on the disk at the moment of a snapshot, where LVM does not have the file system write it to its place.

use crate::lab::{Fs, Machine, in_lab};
use crate::lab_store::ground::{self, Ground, Kind};
use crate::lab_store::ledger;

/// As LVM takes a thin snapshot of a volume that has a classic one, it suspends what is below that: the file system does
/// not hear of it, and what it has in its log only is not where it belongs. So asat has the log replayed.
fn publish_beside_a_classic_snapshot(machine: &Machine, fs: Fs) {
    let mut ground = Ground::make(machine, Kind::Thin, fs);
    let mut store = ledger::create(&ground.world.store(), "wal");
    machine.run("lvcreate", &["-q", "--snapshot", "--size", "64m", "--name", "theirs", "vg/data"]);
    println!("{}", ground.world.start());
    let mut seq = ledger::seq(&store);
    for journal in ["wal", "delete"] {
        ledger::set_journal(&store, journal);
        for _ in 0..5 {
            seq += 1;
            ledger::commit(&mut store, seq).unwrap();
            let published = ground.world.publish(&seq.to_string());
            let version = published["version"]["id"].as_str().unwrap();
            assert_eq!(ledger::audit(&ground.world.open(version)), seq, "{journal}: {version}");
        }
    }
    assert!(ground.world.stop().success());
}

#[test]
fn lab_a_thin_snapshot_beside_a_classic_one_has_what_was_committed_on_ext4() {
    in_lab(ground::lab(), |machine| publish_beside_a_classic_snapshot(machine, Fs::Ext4));
}

#[test]
fn lab_a_thin_snapshot_beside_a_classic_one_has_what_was_committed_on_xfs() {
    in_lab(ground::lab(), |machine| publish_beside_a_classic_snapshot(machine, Fs::Xfs));
}
