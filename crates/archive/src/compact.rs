//! Gives back what nobody needs: versions are given up, and segments merged. This says which ones, and when.
//!
//! Later versions may need pages of one that is given up: what nobody needs any more is given back by a merge. What each version takes,
//! and what of the archive which versions need, says beforehand what giving up would give back.
//!
//! There are two reasons to merge. If there are more than ten segments, the newest become one, from the oldest on that is not longer than all
//! newer ones together: so there are few, however many versions were written. And what nobody needs any more is given back if it is a tenth
//! of a segment.
//! A merged segment stands beside those whose place it takes for a moment, so a merge that would need more than half of what is free waits:
//! others write to the disk, too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use asat_core::retention::{Part, Weight};
use asat_core::{PageSize, boundary};

use crate::archive::{Archive, Inner};
use crate::error::{Error, unless_refused};
use crate::history::History;
use crate::lock::lock;
use crate::manifest::SegmentRef;
use crate::merge::{Pace, Spare, spare};
use crate::state::State;

/// If there are more segments than this, the newest become one. A follower of a bucket reads the end of each of them when it starts.
const MANY: usize = 10;
/// Segments from this length on are merged only if that gives something back: they are few enough.
const LONG_BYTES: u64 = 256 << 20;
/// What nobody needs is given back if it is one part in so many of a segment.
const WORTH: u64 = 10;

/// What an entry takes besides its frame, usually.
const ENTRY_USUAL_BYTES: u64 = 13;

/// What giving up a version did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// It was live, and is no more.
    Retired {
        /// What this gave back on disk.
        freed_bytes: u64,
        /// Whether [`Archive::compact`] may give back more.
        worth_compacting: bool,
    },
    /// No such version is live.
    AlreadyGone,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// What it gave back on disk.
    pub freed_bytes: u64,
    /// Whether there is more to do: the pace ended it.
    pub more: bool,
}

/// What an archive takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All of it, in bytes.
    pub bytes: u64,
    /// How many segments it consists of.
    pub segments: usize,
    /// The live versions, oldest first.
    pub versions: Vec<VersionStats>,
}

/// What a version takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionStats {
    /// Its number.
    pub number: u64,
    /// What it took when it was written.
    pub bytes: u64,
    /// What of the archive no other version needs: at least this much is given back where it alone is given up.
    pub only_bytes: u64,
}

/// A compaction under way.
struct Compaction<'a> {
    archive: &'a Inner,
    pace: Pace<'a>,
    has_garbage: bool,
    /// Whether there was no room for what was tried.
    is_full: bool,
    /// Files that are passed over because they are damaged.
    damaged: BTreeSet<u64>,
    /// Files that are passed over because what is needed of them finds no room.
    too_long: BTreeSet<u64>,
    /// Files that it has made: what it could not leave out of one it could not leave out of it again.
    made: BTreeSet<u64>,
}

/// Segments that become one.
struct Row {
    /// Their files.
    files: BTreeSet<u64>,
    /// The most that the merged one takes, in bytes.
    takes: u64,
}

impl Archive {
    /// Gives up a version. Those who read it at the moment read on.
    pub fn retire(&self, number: u64) -> Result<Retired, Error> {
        let archive = &*self.inner;
        boundary::step("archive: give up a version");
        if !archive.state().may_have(number) {
            return Ok(Retired::AlreadyGone);
        }
        let before = self.bytes();
        let (mut is_newest, mut is_written_upon) = (false, false);
        let committed = archive.commit_manifest(|state, manifest| {
            // What cannot be read may lie upon it.
            let below =
                manifest.unread.values().copied().chain(state.newest_beside(number)).max().unwrap_or(0);
            is_newest = below < number;
            is_written_upon = is_newest && *lock(&archive.writing);
            manifest.retire(number);
            if is_newest {
                // What is between and was not given up may be in a file that cannot be read.
                manifest.void_above(below);
                manifest.segments.retain(|segment| segment.first <= below);
            }
            manifest.forget();
            state.may_have(number) && !is_written_upon
        })?;
        if is_written_upon {
            return Err(Error::busy(self.folder(), "a version is being written on top of this one"));
        }
        let Some(after) = committed else { return Ok(Retired::AlreadyGone) };
        archive.has_garbage.store(true, Ordering::Relaxed);
        lock(&archive.head).take_if(|head| head.view.number == number);
        if is_newest {
            archive.let_go()?;
        }
        let freed_bytes = before.saturating_sub(self.bytes());
        // A manifest that became shorter says nothing of its pages.
        let worth_compacting = after.slots.iter().any(|slot| slot.covers(number));
        Ok(Retired::Retired { freed_bytes, worth_compacting })
    }

    /// Merges what is worth it. Where `pace` says to stop, what is not done yet is left for another time.
    pub fn compact(&self, pace: Pace<'_>) -> Result<Compacted, Error> {
        let archive = &*self.inner;
        let _alone = lock(&archive.merging);
        let has_garbage = archive.has_garbage.swap(false, Ordering::Relaxed);
        let bytes_before = self.bytes();
        let (mut more, mut first_error, mut no_room) = (false, None, None);
        let (damaged, too_long, made) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut compaction =
            Compaction { archive, pace, has_garbage, is_full: false, damaged, too_long, made };
        let mut has_made_room = false;
        loop {
            let passed_over = compaction.passed_over();
            match compaction.step() {
                Ok(true) => has_made_room |= compaction.is_full,
                // What was given back may be the room that was lacking.
                Ok(false) if has_made_room && archive.let_go().is_ok() => {
                    (has_made_room, compaction.is_full, no_room) = (false, false, None);
                    compaction.too_long.clear();
                }
                Ok(false) => break,
                Err(Error::Stopped) => {
                    more = true;
                    break;
                }
                Err(error) => {
                    // The others are merged all the same. If the disk is full, what is needed of one segment may fit, and what that gives
                    // back makes room for the others.
                    let is_full = matches!(error, Error::Full { .. });
                    let goes_on = compaction.passed_over() > passed_over || is_full && !compaction.is_full;
                    compaction.is_full |= is_full;
                    if is_full { &mut no_room } else { &mut first_error }.get_or_insert(error);
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        let first_error = first_error.or(no_room);
        if has_garbage && (more || first_error.is_some()) {
            archive.has_garbage.store(true, Ordering::Relaxed);
        }
        archive.let_go()?;
        let freed_bytes = bytes_before.saturating_sub(self.bytes());
        first_error.map_or(Ok(Compacted { freed_bytes, more }), Err)
    }

    /// Whether [`Self::compact`] may have something to do. To know more takes reading indexes.
    #[must_use]
    pub fn is_worth_compacting(&self) -> bool {
        let state = self.inner.state();
        let lengths: Vec<u64> = state.manifest.segments.iter().map(|segment| segment.bytes).collect();
        let has_garbage = self.inner.has_garbage.load(Ordering::Relaxed);
        has_garbage && !state.manifest.retired.is_empty() || tier(&lengths, u64::MAX).is_some()
    }

    /// Reads the indexes of all segments, and says what each version takes.
    pub fn stats(&self) -> Result<Stats, Error> {
        let state = self.inner.opened();
        let weight = self.weigh()?;
        // A part that one version alone needs has its number at both ends.
        let mut alone: BTreeMap<u64, u64> = BTreeMap::new();
        for part in weight.parts.iter().filter(|part| part.first == part.last) {
            *alone.entry(part.first).or_default() += part.bytes;
        }
        let live = state.live_from(0);
        let versions = live.iter().map(|version| VersionStats {
            number: version.number,
            bytes: version.bytes,
            only_bytes: alone.get(&version.number).copied().unwrap_or(0),
        });
        Ok(Stats { bytes: weight.bytes, segments: state.slots.len(), versions: versions.collect() })
    }

    /// Reads the indexes of all segments, and says what of the archive which versions need.
    pub fn weigh(&self) -> Result<Weight, Error> {
        let state = self.inner.opened();
        let mut parts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for history in History::all(&state)? {
            for block in history.blocks() {
                for item in history.items(block)? {
                    let needing = history.live.get(item.needed.0..item.needed.1).unwrap_or_default();
                    if let [first, ..] = needing
                        && let [.., last] = needing
                    {
                        let bytes = u64::from(item.entry.len) + ENTRY_USUAL_BYTES;
                        *parts.entry((first.number, last.number)).or_default() += bytes;
                    }
                }
            }
        }
        let parts = parts.into_iter().map(|((first, last), bytes)| Part { first, last, bytes }).collect();
        Ok(Weight { bytes: self.bytes(), parts })
    }
}

impl Compaction<'_> {
    /// How many files are passed over.
    fn passed_over(&self) -> usize {
        self.damaged.len() + self.too_long.len()
    }

    fn is_passed_over(&self, file: u64) -> bool {
        self.damaged.contains(&file) || self.too_long.contains(&file)
    }

    /// Does one merge that is worth it, without damaged files, or on a full disk writes one segment once more without what nobody needs;
    /// answers whether there was one. What changed meanwhile is looked at anew by the next step.
    fn step(&mut self) -> Result<bool, Error> {
        if (self.pace)(0).is_break() {
            return Err(Error::Stopped);
        }
        let state = self.archive.opened();
        if !self.is_full
            && let Some((first, row)) = self.tier(&state)?
        {
            // A merge of what was written last costs nothing for what was written before.
            for history in History::from(&state, first)? {
                if history.segments.iter().any(|segment| row.files.contains(&segment.number)) {
                    return self.merge(&history, &row).map(|_| true);
                }
            }
        }
        for history in if self.has_garbage { History::all(&state)? } else { Vec::new() } {
            if let Some(row) = self.garbage(&history)? {
                let made = self.merge(&history, &row)?;
                self.made.extend(made);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Merges segments, unless that would take more than half of the free space. If one is to blame that this does not come about, it is
    /// passed over from then on.
    fn merge(&mut self, history: &History, row: &Row) -> Result<Option<u64>, Error> {
        let merged = match self.archive.objects.room() {
            Some(free) if row.takes > free / 2 => {
                let takes = row.takes;
                let why = format!("it may take {takes} bytes, which is more than half of the free {free}");
                let full = io::Error::new(io::ErrorKind::StorageFull, why);
                Err(Error::io("merge files of", self.archive.objects.place(), full))
            }
            _ => self.archive.merge(history, &row.files, false, self.pace),
        };
        merged.inspect_err(|error| {
            if self.is_full && matches!(error, Error::Full { .. }) {
                self.too_long.extend(row.files.first());
            } else {
                let blamed = history.blamed(error).map(|segment| segment.number);
                self.damaged.extend(blamed.filter(|file| row.files.contains(file)));
            }
        })
    }

    /// The segments in a row that become one because of their lengths, and the first version of these.
    fn tier(&self, state: &State) -> Result<Option<(u64, Row)>, Error> {
        let mut of_size: BTreeMap<PageSize, Vec<&SegmentRef>> = BTreeMap::new();
        for slot in &state.slots {
            if let Ok(segment) = unless_refused(slot.segment())? {
                of_size.entry(segment.directory.page_size).or_default().push(&slot.reference);
            }
        }
        let most = self.archive.objects.room().map_or(u64::MAX, |free| free / 2);
        let length =
            |segment: &&SegmentRef| if self.is_passed_over(segment.file) { u64::MAX } else { segment.bytes };
        Ok(of_size.into_values().find_map(|segments| {
            let row = tier(&segments.iter().map(length).collect::<Vec<_>>(), most)?;
            let row = segments.get(row)?;
            let first = row.iter().map(|segment| segment.first).min()?;
            let files = row.iter().map(|segment| segment.file).collect();
            Some((first, Row { files, takes: row.iter().map(|segment| segment.bytes).sum() }))
        }))
    }

    /// Segments of which a part is needed by nobody.
    fn garbage(&self, history: &History) -> Result<Option<Row>, Error> {
        let mut versions = history.segments.iter().flat_map(|segment| &segment.directory.versions);
        if !versions.any(|version| history.state.manifest.is_retired(version.number)) {
            return Ok(None);
        }
        let spare = spare(history, self.is_full)?;
        let is_wanted = |one: &Spare<'_>| {
            let (file, is_worth) =
                (one.segment.number, one.bytes.saturating_mul(WORTH) >= one.segment.bytes());
            let is_passed_over = self.is_passed_over(file) || self.made.contains(&file);
            one.bytes > 0
                && is_worth
                && !is_passed_over
                && !one.below.iter().any(|file| self.is_passed_over(*file))
        };
        let Some(first) = spare.iter().position(is_wanted) else { return Ok(None) };
        let mut bytes = 0;
        let is_taken = |one: &&Spare<'_>| {
            bytes += one.segment.bytes();
            is_wanted(one) && bytes <= LONG_BYTES && !self.is_full
        };
        let row = spare.iter().skip(first).take_while(is_taken).count().max(1);
        // What lies upon what was given up is stored again.
        let with_below =
            |one: &Spare<'_>| one.below.iter().copied().chain([one.segment.number]).collect::<Vec<_>>();
        let files: BTreeSet<u64> = spare.iter().skip(first).take(row).flat_map(with_below).collect();
        let merged = spare.iter().filter(|one| files.contains(&one.segment.number));
        let takes =
            merged.map(|one| one.segment.bytes().saturating_sub(one.bytes)).fold(0, u64::saturating_add);
        Ok(Some(Row { files, takes }))
    }
}

/// The segments in a row that become one: the newest of many between two long ones, or behind the last of these.
fn tier(lengths: &[u64], most: u64) -> Option<Range<usize>> {
    let mut end = lengths.len();
    while end > 0 {
        let shorter = lengths.get(..end).unwrap_or_default();
        let start = shorter.iter().rposition(|length| *length >= LONG_BYTES).map_or(0, |long| long + 1);
        let row = shorter.get(start..).unwrap_or_default();
        if row.len() > MANY
            && let Some(first) = first_of(row, most)
        {
            return Some(start + first..end);
        }
        end = start.saturating_sub(1);
    }
    None
}

/// With which segment those begin that become one: with the oldest one that is not longer than all newer ones together, if what comes of them
/// takes at most so much; or else with the newest such one. What comes of them is at least twice as long as that one.
fn first_of(lengths: &[u64], most: u64) -> Option<usize> {
    let (mut newer, mut first) = (0, None);
    for (nth, length) in lengths.iter().enumerate().rev() {
        if *length <= newer && (newer + length <= most || first.is_none()) {
            first = Some(nth);
        }
        newer += length;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_segments_become_one_from_the_first_on_that_is_not_longer_than_what_is_newer() {
        let (k, long) = (1 << 10, 300 << 20);
        let of = |lengths: &[u64]| tier(lengths, u64::MAX);
        let and = |older: &[u64], newer: &[u64]| of(&[older, newer].concat());
        assert_eq!(of(&[k; 10]), None);
        assert_eq!(of(&[k; 11]), Some(0..11));
        assert_eq!(and(&[11 * k], &[k; 10]), Some(1..11));
        assert_eq!(and(&[10 * k], &[k; 10]), Some(0..11));
        assert_eq!(
            and(&[k, 900 * k], &[k; 10]),
            Some(0..12),
            "what is short and old comes with what is newer"
        );
        assert_eq!(and(&[k, long], &[k; 10]), None, "there are ten beside it");
        assert_eq!(and(&[k, k, long, long], &[k; 11]), Some(4..15));
        assert_eq!(
            and(&[k; 11], &[long, k]),
            Some(0..11),
            "what is older than a long one is merged by itself"
        );
        assert_eq!(of(&[long; 20]), None);
        let halves: Vec<u64> = (0..12).map(|n| long >> (n + 1)).collect();
        assert_eq!(of(&halves), None, "each is longer than all that are newer");
    }

    #[test]
    fn if_there_is_no_room_for_all_fewer_become_one() {
        let k = 1 << 10;
        let lengths = [&[8 * k, 6 * k][..], &[k; 10]].concat();
        assert_eq!(tier(&lengths, 24 * k), Some(0..12));
        assert_eq!(tier(&lengths, 23 * k), Some(1..12));
        assert_eq!(tier(&lengths, 15 * k), Some(2..12));
        assert_eq!(tier(&lengths, 3 * k), Some(9..12));
        assert_eq!(tier(&lengths, k), Some(10..12), "it is tried, so that it is said that there is no room");
    }

    #[test]
    fn what_was_written_before_is_seldom_copied() {
        let (mut lengths, mut copied, mut most) = (vec![2_000_000], 0, 0);
        for _ in 0..10_000 {
            lengths.push(1200);
            while let Some(row) = tier(&lengths, u64::MAX) {
                let length = lengths[row.clone()].iter().sum::<u64>();
                lengths.splice(row, [length]);
                copied += length;
            }
            most = most.max(lengths.len());
        }
        assert!(copied < 9 * 10_000 * 1200, "{copied} bytes were copied");
        assert!(most <= MANY, "there were {most} segments");
    }
}
