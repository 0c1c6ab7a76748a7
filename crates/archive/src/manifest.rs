//! A manifest: of which segments an archive consists, and which versions of them were given up.
//!
//! Every file of an archive has one, and the newest says all: there is nothing to replay. What was given up and is in a segment still
//! is named here, in ranges, of which there are few.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

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
        let Self { number, segments, retired, voided, highest, .. } = &manifest;
        let is_range = |(first, last): &(u64, u64)| first <= last;
        let fits =
            |segment: &SegmentRef| (1..=segment.last).contains(&segment.first) && segment.file <= *number;
        let files: BTreeSet<u64> = segments.iter().map(|segment| segment.file).collect();
        let ends = segments.iter().map(|segment| segment.last);
        let mut ends = ends.chain(retired.iter().map(|range| range.1));
        let holds = segments.is_sorted_by_key(|segment| (segment.first, segment.file))
            && retired.is_sorted_by(|one, next| one.1 < next.0)
            && retired.iter().chain(voided).all(is_range)
            && files.len() == segments.len()
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
        self.segments.iter().map(|segment| segment.file).chain([self.number])
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
