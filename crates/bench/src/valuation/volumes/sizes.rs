//! How large volumes, snapshots and disks must be, so that nothing fills up: a classic snapshot that overflows is
//! lost, and from then on costs its writer nothing.

use super::Three;
use crate::args::{Backend, ValuationArgs};
use crate::ground::Kind;

/// What one valuation takes in the store, index included: 48.7 MB for 95 times 10,000.
const ROW_BYTES: u64 = 52;
/// Volumes have whole extents of this size.
const EXTENT: u64 = 4 << 20;
const MIB: u64 = 1 << 20;

/// Sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Of each store's volume.
    pub(super) volume_bytes: u64,
    /// Of each plain snapshot.
    pub(super) snapshot_bytes: u64,
    /// What the pool of asat's store leaves to classic snapshots.
    pub(super) spare_bytes: u64,
    /// What each disk must have.
    pub(super) disk_bytes: Three<u64>,
}

impl Sizes {
    /// The sizes for a workload.
    pub(super) fn of(args: &ValuationArgs, kind: Kind) -> Self {
        let (runs, rows, keep) = (args.iterations, args.rows, args.volumes.keep_snapshots);
        let store = u64::from(runs) * u64::from(rows) * ROW_BYTES;
        // The store, its WAL, which is never larger, and the file system.
        let volume_bytes = (2 * store + 128 * MIB).max(256 * MIB).next_multiple_of(EXTENT);
        // What changes at most: the store, the part of it that a run puts into the WAL, and ext4's journal.
        let snapshot_bytes = (store + store / 2 + 32 * MIB).next_multiple_of(EXTENT);
        let volume = volume_bytes + kind.overhead_bytes();
        // A classic snapshot that cannot overflow is a little larger than its origin.
        let classic = volume_bytes + volume_bytes / 64 + EXTENT;
        // Two may be there besides those that stay: the newest, and the one before it, which is being dropped.
        let there = u64::from(keep + 2);
        let spare_bytes = if args.backend == Backend::Auto { there * classic } else { 0 };
        let hot = match kind {
            Kind::Classic => there * classic,
            Kind::Thin => there * snapshot_bytes + spare_bytes,
        };
        let cuts = u64::from(runs) * snapshot_bytes;
        let disk_bytes = Three { asat: volume + hot, plain: volume + cuts, none: volume };
        Self { volume_bytes, snapshot_bytes, spare_bytes, disk_bytes }
    }
}
