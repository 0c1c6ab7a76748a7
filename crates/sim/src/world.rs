//! The machine as it physically is: volumes, snapshots, a pool, a group, and what the archive holds.
//!
//! It knows nothing of records and plans. Time passes in [`World::pass`], which lets writers write and snapshots
//! fill as the kernel would: a classic snapshot copies each chunk of its origin before it is first overwritten, with
//! a record for each; a thin volume takes a block of the pool for each that it shares with a snapshot or never had.

use std::collections::{BTreeMap, BTreeSet};

use asat_core::event::Described;
use asat_core::sizing;
use asat_core::snapshot::Snapshot;
use asat_core::version::Content;
use asat_core::{StoreName, VersionId};

use crate::pool::{BLOCK, Pool};
use crate::ranges::Ranges;

/// The size of an extent.
pub(crate) const EXTENT: u64 = 4 << 20;

/// A volume that a store lies on.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) store: StoreName,
    pub(crate) id: String,
    pub(crate) size: u64,
    pub(crate) thin: bool,
    /// Bytes written ever.
    pub(crate) written: u64,
    /// What is written at the moment.
    pub(crate) burst: Option<Burst>,
    /// Whether somebody holds its writes.
    pub(crate) held: bool,
    /// What the store's file holds: a number for each content.
    pub(crate) live: u128,
    /// The size of the store's file.
    pub(crate) store_bytes: u64,
    /// The counter and the time at the last publication, by which the daemon judges the pace.
    pub(crate) paced: (u64, u64),
}

/// Somebody writes much: from the beginning of a region to its end, and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    /// Bytes a millisecond, where the devices can.
    pub(crate) rate: u64,
    /// The region, in bytes.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) at: u64,
    /// Whether each 4 KiB go into another block of a pool.
    pub(crate) scattered: bool,
}

/// A snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) snapshot: Snapshot,
    pub(crate) origin: usize,
    pub(crate) content: Content,
    /// The space of a classic one; nothing for a thin one.
    pub(crate) size: u64,
    pub(crate) copied: Ranges,
    pub(crate) lost: bool,
    /// Whether somebody reads the file in it.
    pub(crate) shown: bool,
}

impl Volume {
    pub(crate) fn is_thin(&self) -> bool {
        self.size == 0
    }

    /// What is taken of its space, with the header and the records.
    pub(crate) fn used(&self) -> u64 {
        sizing::most_needed(self.copied.count() * sizing::CHUNK, sizing::CHUNK)
    }
}

/// Everything.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) free: u64,
    pub(crate) origins: Vec<Origin>,
    pub(crate) pool: Option<Pool>,
    pub(crate) snapshots: BTreeMap<VersionId, Volume>,
    pub(crate) archive: BTreeMap<VersionId, Described>,
    pub(crate) copies: BTreeSet<VersionId>,
    /// How fast versions come into the archive, in bytes a millisecond.
    pub(crate) archive_pace: u64,
    /// Whether the machine runs at all.
    pub(crate) powered: bool,
}

impl World {
    pub(crate) fn most(&self, volume: &Volume) -> u64 {
        sizing::most_needed(self.origins[volume.origin].size, sizing::CHUNK).next_multiple_of(EXTENT)
    }

    /// How fast an origin can be written, in bytes a millisecond: measured with N classic snapshots of it.
    fn limit(&self, origin: usize) -> u64 {
        let live = |volume: &&Volume| volume.origin == origin && !volume.is_thin() && !volume.lost;
        let snapshots = self.snapshots.values().filter(live).count() as u64;
        let mib = match snapshots {
            0 if self.origins[origin].thin => 1000,
            0 => 1326,
            n => (940 / n).clamp(10, 508),
        };
        (mib << 20) / 1000
    }

    /// How fast somebody would write an origin whom nobody holds, in bytes a millisecond.
    pub(crate) fn pace(&self, origin: usize) -> u64 {
        self.origins[origin].burst.map_or(0, |burst| burst.rate.min(self.limit(origin)))
    }

    /// How fast an origin is written now, in bytes a millisecond.
    pub(crate) fn rate(&self, origin: usize) -> u64 {
        let found = &self.origins[origin];
        let stopped =
            found.held || !self.powered || (found.thin && self.pool.as_ref().is_some_and(Pool::is_stopped));
        if stopped { 0 } else { self.pace(origin) }
    }

    /// Time passes. Answers which snapshots have overflowed.
    pub(crate) fn pass(&mut self, ms: u64) -> Vec<VersionId> {
        let mut overflowed = Vec::new();
        for origin in 0..self.origins.len() {
            let bytes = self.rate(origin) * ms;
            if bytes > 0 {
                self.write(origin, bytes);
            }
        }
        for (id, volume) in &mut self.snapshots {
            if !volume.is_thin() && !volume.lost && volume.used() > volume.size {
                volume.lost = true;
                overflowed.push(id.clone());
            }
        }
        self.now += ms;
        if let Some(pool) = &mut self.pool {
            pool.pass(self.now);
        }
        overflowed
    }

    fn write(&mut self, origin: usize, bytes: u64) {
        let Some(burst) = &mut self.origins[origin].burst else { return };
        let scale = if burst.scattered { BLOCK / sizing::CHUNK } else { 1 };
        let length = (burst.to - burst.from).max(1);
        // In a region that is written again and again, what counts is where writing begins and ends.
        let swept = (bytes * scale).min(length);
        let begin = burst.at;
        burst.at = burst.from + (begin - burst.from + bytes * scale) % length;
        let parts = match begin + swept {
            end if end <= burst.to => [(begin, end), (0, 0)],
            end => [(begin, burst.to), (burst.from, burst.from + (end - burst.to))],
        };
        self.origins[origin].written += bytes;
        if self.origins[origin].thin {
            if let Some(pool) = &mut self.pool {
                parts.into_iter().for_each(|(from, to)| pool.write(origin, from, to, scale > 1, self.now));
            }
            return;
        }
        for volume in self.snapshots.values_mut().filter(|volume| volume.origin == origin && !volume.lost) {
            for (from, to) in parts {
                volume.copied.add(from / sizing::CHUNK, to.div_ceil(sizing::CHUNK));
            }
        }
    }

    /// Takes a snapshot of an origin; false where the group or the pool has no room.
    pub(crate) fn take(&mut self, id: &VersionId, volume: Volume) -> bool {
        if volume.is_thin() {
            let Some(pool) = self.pool.as_mut().filter(|pool| pool.takes_snapshots()) else { return false };
            pool.take(volume.origin, id);
        } else if volume.size > self.free {
            return false;
        }
        self.free -= volume.size;
        self.snapshots.insert(id.clone(), volume);
        true
    }

    /// Removes a snapshot.
    pub(crate) fn remove(&mut self, id: &VersionId) {
        let Some(volume) = self.snapshots.remove(id) else { return };
        self.free += volume.size;
        if let Some(pool) = self.pool.as_mut().filter(|_| volume.is_thin()) {
            pool.remove(volume.origin, id);
        }
    }
}
