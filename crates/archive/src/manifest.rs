//! What files say in JSON: of the archive, and of its versions.
//!
//! Every file of an archive has a manifest, and the newest says all: of which segments the archive consists, and which versions of
//! them were given up. There is nothing to replay. What was given up and is in a segment still is named here, in ranges, of which there are few.
//!
//! A version is described where it is. The note is the publication's own attributes, opaque here: with it a lost catalogue can be
//! rebuilt from the archive alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use asat_core::{Fingerprint, PageSize, StoreName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::index::DESCRIBED_TOGETHER;
use crate::layout::len_of;
use crate::records::RecordsRef;

/// No description is longer: it is read whole, and a hostile length must not fill the memory.
const MOST_DESCRIBED_BYTES: u64 = 1 << 20;
/// Descriptions are read seldom, and are alike.
const DESCRIPTION_LEVEL: i32 = 9;

/// What an archive is, as of one of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The number of the file that it is in.
    pub(crate) number: u64,
    /// The segments, in the order of their first versions, and those that begin with the same one in the order of their numbers.
    pub(crate) segments: Vec<SegmentRef>,
    /// The versions that were given up and that a segment may have still: ranges in order and apart from one another, the first number of
    /// each and the last. There are as many as there are live versions at most, however many were given up.
    #[serde(with = "distances")]
    pub(crate) retired: Vec<(u64, u64)>,
    /// Ranges of versions of which nothing is seen, the first number of each and the last: the newest ones, when they were given up. What was
    /// written after them lies upon what was before them.
    pub(crate) voided: Vec<(u64, u64)>,
    /// The highest number that a version ever had.
    pub(crate) highest: u64,
    /// Files that were newer than the newest one that could be read, and up to which version they may have something. One that can be read
    /// again is taken in again.
    pub(crate) unread: BTreeMap<u64, u64>,
    /// The files with records, oldest first: what a later one says of a key counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) records: Vec<RecordsRef>,
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
        let Self { number, segments, retired, voided, highest, records, .. } = &manifest;
        let is_range = |(first, last): &(u64, u64)| first <= last;
        let fits =
            |segment: &SegmentRef| (1..=segment.last).contains(&segment.first) && segment.file <= *number;
        let named =
            segments.iter().map(|segment| segment.file).chain(records.iter().map(|records| records.file));
        let files: BTreeSet<u64> = named.collect();
        let ends = segments.iter().map(|segment| segment.last);
        let mut ends = ends.chain(retired.iter().map(|range| range.1));
        let holds = segments.is_sorted_by_key(|segment| (segment.first, segment.file))
            && retired.is_sorted_by(|one, next| one.1 < next.0)
            && retired.iter().chain(voided).all(is_range)
            && files.len() == segments.len() + records.len()
            && records.is_sorted_by_key(|records| records.file)
            && records.last().is_none_or(|newest| newest.file <= *number)
            && segments.iter().all(fits)
            && ends.all(|number| number <= *highest);
        if holds { Ok(manifest) } else { Err("what it says contradicts itself".to_owned()) }
    }

    /// Whether a version was given up, and a segment may have it still.
    pub(crate) fn is_retired(&self, version: u64) -> bool {
        let after = self.retired.partition_point(|range| range.0 <= version);
        after.checked_sub(1).and_then(|nth| self.retired.get(nth)).is_some_and(|range| version <= range.1)
    }

    /// Gives up a version.
    pub(crate) fn retire(&mut self, version: u64) {
        if self.is_retired(version) {
            return;
        }
        let place = self.retired.partition_point(|range| range.0 <= version);
        self.retired.insert(place, (version, version));
        self.retired.dedup_by(|next, range| {
            let joins = range.1.checked_add(1) == Some(next.0);
            if joins {
                range.1 = next.1;
            }
            joins
        });
    }

    /// Whether nothing is seen of what was written as a version.
    pub(crate) fn is_void(&self, version: u64) -> bool {
        self.voided.iter().any(|(first, last)| (*first..=*last).contains(&version))
    }

    /// Has nothing be seen any more of what was given up above a version: what is written next lies upon that one.
    pub(crate) fn void_above(&mut self, below: u64) {
        let above = self.retired.iter().filter(|range| range.1 > below);
        let above = above.map(|(first, last)| ((*first).max(below + 1), *last));
        self.voided.retain(|range| range.0 <= below);
        self.voided.extend(above);
    }

    /// Forgets what was given up and is in no segment any more.
    pub(crate) fn forget(&mut self) {
        let segments = &self.segments;
        let is_there = |(first, last): &(u64, u64)| {
            segments.iter().any(|segment| segment.first <= *last && segment.last >= *first)
        };
        self.retired.retain(is_there);
        self.voided.retain(is_there);
    }

    /// Puts a segment in its place among the others.
    pub(crate) fn insert(&mut self, segment: SegmentRef) {
        let place = |other: &SegmentRef| (other.first, other.file) < (segment.first, segment.file);
        self.highest = self.highest.max(segment.last);
        self.segments.insert(self.segments.partition_point(place), segment);
    }

    /// The files that it needs: those that it names, and its own.
    pub(crate) fn files(&self) -> impl Iterator<Item = u64> {
        let records = self.records.iter().map(|records| records.file);
        self.segments.iter().map(|segment| segment.file).chain(records).chain([self.number])
    }
}

/// Ranges as they are written: how far each begins above the end of the one before, and how many numbers it has; one number after another. A
/// history that is thinned regularly has as many as live versions, and each takes four characters so.
mod distances {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de};

    pub(super) fn serialize<S: Serializer>(ranges: &[(u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
        let mut end = 0;
        let distance = |(first, last): &(u64, u64)| {
            let pair = [first - end, last - first + 1];
            end = *last;
            pair
        };
        ranges.iter().flat_map(distance).collect::<Vec<u64>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(u64, u64)>, D::Error> {
        let numbers = Vec::<u64>::deserialize(deserializer)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        let mut end = 0_u64;
        let range = |[distance, count]: &[u64; 2]| {
            let first = end.checked_add(*distance)?;
            end = first.checked_add(count.checked_sub(1)?)?;
            Some((first, end))
        };
        let ranges: Option<Vec<(u64, u64)>> = pairs.iter().map(range).collect();
        ranges.filter(|_| rest.is_empty()).ok_or_else(|| de::Error::custom("ranges that there are not"))
    }
}

/// What is known of a version when its last page was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The store.
    pub store: StoreName,
    /// The instant at which the content was fixed.
    pub cut_at: Timestamp,
    /// Whether the store was in WAL mode.
    pub wal: bool,
    /// The caller's own attributes.
    pub note: serde_json::Value,
    /// Whether a version of its own is stored even where no page differs from the newest one, because somebody was
    /// told of it already.
    pub even_if_unchanged: bool,
}

/// The description of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The store.
    pub store: StoreName,
    /// The version's number.
    pub number: u64,
    /// The size of every page.
    pub page_size: PageSize,
    /// How many pages the version has.
    pub page_count: u32,
    /// The fingerprint of the version's content.
    pub fingerprint: Fingerprint,
    /// Whether the store was in WAL mode.
    pub wal: bool,
    /// The instant at which the content was fixed.
    pub cut_at: Timestamp,
    /// The caller's own attributes.
    pub note: serde_json::Value,
}

impl Meta {
    /// The version's length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.page_size.bytes())
    }
}

/// What describes a version, as it is written. Of all the versions that are merged it is in memory at once, and takes far less there
/// than what is read from it.
pub(crate) struct Description(Box<[u8]>);

impl Description {
    pub(crate) fn of(meta: &Meta) -> Result<Self, Error> {
        let unfit =
            |error: serde_json::Error| Error::Misuse(format!("metadata that cannot be read back: {error}"));
        let json = serde_json::to_vec(meta).map_err(unfit)?;
        // A note can be nested more deeply than a reader follows.
        serde_json::from_slice::<Meta>(&json).map_err(unfit)?;
        if len_of(&json) >= MOST_DESCRIBED_BYTES {
            let what = format!("metadata of {} bytes, above {MOST_DESCRIBED_BYTES}", json.len());
            return Err(Error::Misuse(what));
        }
        Ok(Self(json.into()))
    }

    /// What describes versions together, as it is written.
    pub(crate) fn join<'a>(descriptions: impl Iterator<Item = &'a Self>) -> Result<Vec<u8>, Error> {
        let descriptions: Vec<&[u8]> = descriptions.map(|one| &*one.0).collect();
        let json = [&b"["[..], &descriptions.join(&b','), b"]"].concat();
        zstd::bulk::compress(&json, DESCRIPTION_LEVEL)
            .map_err(|error| Error::Misuse(format!("metadata that cannot be compressed: {error}")))
    }
}

/// Reads what describes versions together; says what is wrong with it.
pub(crate) fn read_together(written: &[u8]) -> Result<Vec<Meta>, String> {
    let decoder = zstd::stream::read::Decoder::new(written).map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    let most = MOST_DESCRIBED_BYTES * u64::try_from(DESCRIBED_TOGETHER + 1).unwrap_or(u64::MAX);
    decoder.take(most).read_to_end(&mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_in_as_few_ranges_as_can_be() {
        let (mut manifest, mut numbers) = (Manifest { highest: 99, ..Manifest::default() }, BTreeSet::new());
        for step in [7, 20, 33, 59] {
            (1..=20).map(|nth| nth * step % 100).for_each(|number| {
                manifest.retire(number);
                numbers.insert(number);
                assert!((0..=100).all(|number| manifest.is_retired(number) == numbers.contains(&number)));
                let runs = numbers.iter().filter(|number| !numbers.contains(&(*number + 1))).count();
                assert_eq!(manifest.retired.len(), runs);
                assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest.clone()));
            });
        }
        for wrong in ["[5,0]", "[5]", "[1,3,0,1]", "[98,3]", "[18446744073709551615,2]", "[-1,1]"] {
            let text = format!(
                r#"{{"number":1,"segments":[],"retired":{wrong},"voided":[],"highest":99,"unread":{{}}}}"#
            );
            assert!(Manifest::decode(text.as_bytes()).is_err(), "{wrong}");
        }
    }
}
