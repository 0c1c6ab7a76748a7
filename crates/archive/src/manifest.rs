//! A manifest: of which segments an archive consists, and which versions of them were given up.
//!
//! Every file of an archive has one, and the newest says all: there is nothing to replay. What was given up and is in a segment still
//! is named here; a merge leaves it out, so the list stays short.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What an archive is, as of one of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The number of the file that it is in.
    pub(crate) number: u64,
    /// The segments, in the order of their first versions, and those that begin with the same one in the order of their numbers.
    pub(crate) segments: Vec<SegmentRef>,
    /// The versions that were given up and that a segment has still.
    pub(crate) retired: BTreeSet<u64>,
    /// Ranges of versions of which nothing is seen, the first number of each and the last: the newest ones, when they were given up. What was
    /// written after them lies upon what was before them.
    pub(crate) voided: Vec<(u64, u64)>,
    /// The highest number that a version ever had.
    pub(crate) highest: u64,
    /// Files that were newer than the newest one that could be read, and up to which version they may have something. One that can be read
    /// again is taken in again.
    pub(crate) unread: BTreeMap<u64, u64>,
}

/// A segment as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentRef {
    /// The number of its file.
    pub(crate) file: u64,
    /// The lowest and the highest version that it has something of.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// How long its file is up to the manifest.
    pub(crate) bytes: u64,
    /// The first bytes of what its directory hashes to: another file of that number is told from it.
    pub(crate) identity: u64,
}

impl Manifest {
    /// The manifest as it is written.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // A structure of numbers has no value that JSON does not have.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a manifest; says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let ordered = manifest.segments.is_sorted_by_key(|segment| (segment.first, segment.file));
        let fits = |segment: &SegmentRef| {
            segment.first > 0 && segment.first <= segment.last && segment.file <= manifest.number
        };
        let files: BTreeSet<u64> = manifest.segments.iter().map(|segment| segment.file).collect();
        let mut highest =
            manifest.segments.iter().map(|segment| segment.last).chain(manifest.retired.iter().copied());
        if ordered
            && files.len() == manifest.segments.len()
            && manifest.segments.iter().all(fits)
            && manifest.voided.iter().all(|(first, last)| first <= last)
            && highest.all(|number| number <= manifest.highest)
        {
            Ok(manifest)
        } else {
            Err("what it says contradicts itself".to_owned())
        }
    }

    /// Whether nothing is seen of what was written as a version.
    pub(crate) fn is_void(&self, version: u64) -> bool {
        self.voided.iter().any(|(first, last)| (*first..=*last).contains(&version))
    }

    /// Forgets what was given up and is in no segment any more.
    pub(crate) fn forget(&mut self) {
        let segments = &self.segments;
        let there = |first: u64, last: u64| {
            segments.iter().any(|segment| segment.first <= last && segment.last >= first)
        };
        self.retired.retain(|number| there(*number, *number));
        self.voided.retain(|(first, last)| there(*first, *last));
    }

    /// Puts a segment in its place among the others.
    pub(crate) fn insert(&mut self, segment: SegmentRef) {
        let place = |other: &SegmentRef| (other.first, other.file) < (segment.first, segment.file);
        self.highest = self.highest.max(segment.last);
        self.segments.insert(self.segments.partition_point(place), segment);
    }

    /// The files that it needs: those that it names, and its own.
    pub(crate) fn files(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().map(|segment| segment.file).chain([self.number])
    }
}
