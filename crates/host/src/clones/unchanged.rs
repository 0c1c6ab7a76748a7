//! What two clones of one file have in common, told from where their bytes are; and what a file has in common in two snapshots
//! of its device, where besides that is known where these have the same bytes.
//!
//! Clones share their blocks until one of them is written. Neither clone is ever written, so a block that both have, at the
//! same place of the file and of the device, has the content that it had when the older one was made: the file system
//! cannot have given it to anybody else meanwhile. The reverse is not so: a block that lies elsewhere may have the same
//! content, and is read.

use std::ops::Range;

use crate::fiemap::Extent;

/// The parts of a file that are unchanged, in order, with something else between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unchanged(Vec<Range<u64>>);

impl Unchanged {
    /// Compares the maps of two clones. Nothing is said where one of them cannot be one: then everything has to be read.
    pub(crate) fn between(one: &[Extent], other: &[Extent]) -> Option<Self> {
        let mut unchanged = Self::default();
        common(one, other, Extent::is_shared, |part, _| unchanged.add(part))?;
        Some(unchanged)
    }

    /// Compares the maps of a file in two snapshots of one device, of which it is known where both have the same bytes, in order.
    /// Nothing is said as with [`Self::between`].
    pub(crate) fn on_devices(one: &[Extent], other: &[Extent], same: &[Range<u64>]) -> Option<Self> {
        let mut unchanged = Self::default();
        common(one, other, Extent::is_plain, |part, physical| {
            let physical_end = physical.saturating_add(part.end - part.start);
            let first = same.partition_point(|same| same.end <= physical);
            let meeting = same.iter().skip(first).take_while(|same| same.start < physical_end);
            for same in meeting {
                let (start, end) = (same.start.max(physical), same.end.min(physical_end));
                unchanged.add(part.start + (start - physical)..part.start + (end - physical));
            }
        })?;
        Some(unchanged)
    }

    /// Adds a part behind all others.
    fn add(&mut self, part: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => self.0.push(part),
        }
    }

    /// Whether all of these bytes are unchanged.
    #[must_use]
    pub fn contains(&self, bytes: &Range<u64>) -> bool {
        let before = self.0.partition_point(|part| part.start <= bytes.start);
        let part = before.checked_sub(1).and_then(|at| self.0.get(at));
        part.is_some_and(|part| bytes.end <= part.end)
    }

    /// How many bytes are unchanged.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|part| part.end - part.start).sum()
    }
}

/// Whether these extents follow one another and end somewhere.
fn is_a_map(extents: &[Extent]) -> bool {
    let mut reached = 0;
    extents.iter().all(|extent| {
        let in_order = extent.logical >= reached;
        reached = end(extent);
        let ends = extent.logical.checked_add(extent.length).is_some()
            && extent.physical.checked_add(extent.length).is_some();
        in_order && ends && extent.length > 0
    })
}

fn end(extent: &Extent) -> u64 {
    extent.logical.saturating_add(extent.length)
}

/// Hands over what two maps have at the same place of the file and of the device, in order, with that place of the device, as far
/// as the extents are usable. `None` where one of them cannot be a map.
fn common(
    one: &[Extent],
    other: &[Extent],
    usable: impl Fn(&Extent) -> bool,
    mut hand_over: impl FnMut(Range<u64>, u64),
) -> Option<()> {
    if !is_a_map(one) || !is_a_map(other) {
        return None;
    }
    let mut others = other.iter().peekable();
    for mine in one {
        while let Some(theirs) = others.peek() {
            if usable(mine)
                && usable(theirs)
                && let Some((part, physical)) = in_common(mine, theirs)
            {
                hand_over(part, physical);
            }
            if end(theirs) > end(mine) {
                break;
            }
            others.next();
        }
    }
    Some(())
}

/// The bytes that two extents have at the same place of the file and of the device, and that place of the device.
fn in_common(one: &Extent, other: &Extent) -> Option<(Range<u64>, u64)> {
    let start = one.logical.max(other.logical);
    let end = end(one).min(end(other));
    if start >= end {
        return None;
    }
    let place = |extent: &Extent| extent.physical + (start - extent.logical);
    (place(one) == place(other)).then_some((start..end, place(one)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARED: u32 = 0x2000;
    const BLOCK: u64 = 4096;

    /// An extent, in blocks.
    fn extent((logical, physical, length): (u64, u64, u64), flags: u32) -> Extent {
        let bytes = |blocks: u64| blocks * BLOCK;
        let (logical, physical, length) = (bytes(logical), bytes(physical), bytes(length));
        Extent { logical, physical, length, flags, ..Extent::default() }
    }

    fn shared(extents: &[(u64, u64, u64)]) -> Vec<Extent> {
        extents.iter().map(|place| extent(*place, SHARED)).collect()
    }

    /// What is unchanged, in blocks from the first to the one after the last.
    fn blocks(parts: &[(u64, u64)]) -> Unchanged {
        Unchanged(parts.iter().map(|(start, end)| start * BLOCK..end * BLOCK).collect())
    }

    /// Two maps, as places in blocks, and what is unchanged between them.
    type Case<'a> = (&'a str, &'a [(u64, u64, u64)], &'a [(u64, u64, u64)], &'a [(u64, u64)]);

    #[test]
    fn only_what_both_have_at_one_place_is_unchanged() {
        let cases: [Case<'_>; 8] = [
            ("the same", &[(0, 100, 8)], &[(0, 100, 8)], &[(0, 8)]),
            ("in other pieces", &[(0, 100, 4), (4, 104, 4)], &[(0, 100, 8)], &[(0, 8)]),
            ("rewritten inside", &[(0, 100, 2), (2, 300, 1), (3, 103, 5)], &[(0, 100, 8)], &[(0, 2), (3, 8)]),
            ("grown", &[(0, 100, 8), (8, 300, 4)], &[(0, 100, 8)], &[(0, 8)]),
            ("shrunk", &[(0, 100, 4)], &[(0, 100, 8)], &[(0, 4)]),
            ("elsewhere", &[(0, 200, 8)], &[(0, 100, 8)], &[]),
            ("moved within the file", &[(1, 100, 8)], &[(0, 100, 8)], &[]),
            ("holes", &[(0, 100, 1), (4, 104, 1)], &[(0, 100, 2), (4, 104, 1)], &[(0, 1), (4, 5)]),
        ];
        for (what, one, other, expected) in cases {
            let (one, other) = (shared(one), shared(other));
            assert_eq!(Unchanged::between(&one, &other), Some(blocks(expected)), "{what}");
            assert_eq!(Unchanged::between(&other, &one), Some(blocks(expected)), "{what}, the other way");
        }
    }

    #[test]
    fn an_extent_that_is_not_plainly_shared_says_nothing() {
        let sound = shared(&[(0, 100, 8)]);
        for flags in [SHARED, SHARED | 0x1, SHARED | 0x1000] {
            let other = [extent((0, 100, 8), flags)];
            assert_eq!(Unchanged::between(&other, &sound), Some(blocks(&[(0, 8)])), "{flags:#x}");
        }
        // Not shared, place unknown, delayed, encoded, encrypted, not aligned, inline, packed, unwritten, and a new one.
        for flags in [0, 0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400, 0x800, 0x8000] {
            let shared = if flags == 0 { 0 } else { SHARED };
            let other = [extent((0, 100, 8), flags | shared)];
            assert_eq!(Unchanged::between(&other, &sound), Some(Unchanged::default()), "{flags:#x}");
        }
        let nowhere = shared(&[(0, 0, 8)]);
        assert_eq!(Unchanged::between(&nowhere, &nowhere), Some(Unchanged::default()));
    }

    #[test]
    fn what_cannot_be_a_map_is_not_believed() {
        let sound = shared(&[(0, 100, 8)]);
        let far = |logical, physical, length| Extent {
            logical,
            physical,
            length,
            flags: SHARED,
            ..Extent::default()
        };
        let cases = [
            ("out of order", shared(&[(4, 104, 4), (0, 100, 4)])),
            ("upon one another", shared(&[(0, 100, 4), (3, 103, 4)])),
            ("twice", shared(&[(0, 100, 4), (0, 100, 4)])),
            ("empty", shared(&[(0, 100, 0)])),
            ("beyond the end of all files", vec![far(u64::MAX - 10, 1, 11 + BLOCK)]),
            ("beyond the end of all devices", vec![far(0, u64::MAX - 10, BLOCK)]),
        ];
        for (what, hostile) in cases {
            assert_eq!(Unchanged::between(&hostile, &sound), None, "{what}");
            assert_eq!(Unchanged::between(&sound, &hostile), None, "{what}, the other way");
        }
    }

    /// What of a file in two snapshots is unchanged, in blocks: two maps, what their devices have in common, and the answer.
    type OnDevices<'a> = (Case<'a>, &'a [(u64, u64)]);

    #[test]
    fn in_two_snapshots_only_what_lies_at_one_place_of_what_is_the_same_is_unchanged() {
        let cases: [OnDevices<'_>; 9] = [
            (("all", &[(0, 100, 8)], &[(0, 100, 8)], &[(0, 8)]), &[(0, 500)]),
            (("nothing", &[(0, 100, 8)], &[(0, 100, 8)], &[]), &[]),
            (("before and behind it", &[(0, 100, 8)], &[(0, 100, 8)], &[]), &[(90, 100), (108, 120)]),
            (("a part", &[(0, 100, 8)], &[(0, 100, 8)], &[(2, 4)]), &[(102, 104)]),
            (("both ends", &[(0, 100, 8)], &[(0, 100, 8)], &[(0, 1), (7, 8)]), &[(0, 101), (107, 200)]),
            (("parts side by side", &[(0, 100, 8)], &[(0, 100, 8)], &[(0, 8)]), &[(96, 104), (104, 112)]),
            (("elsewhere", &[(0, 200, 8)], &[(0, 100, 8)], &[]), &[(0, 500)]),
            // What comes later in the file may come earlier on the device.
            (
                ("out of order", &[(0, 200, 4), (4, 100, 4)], &[(0, 200, 4), (4, 100, 4)], &[(1, 2), (4, 6)]),
                &[(90, 102), (201, 202)],
            ),
            (("moved within the file", &[(1, 100, 8)], &[(0, 100, 8)], &[]), &[(0, 500)]),
        ];
        for ((what, one, other, expected), same) in cases {
            let same: Vec<Range<u64>> = same.iter().map(|(start, end)| start * BLOCK..end * BLOCK).collect();
            // Whether other files have them too says nothing here.
            let unshared: Vec<Extent> = one.iter().map(|place| extent(*place, 0)).collect();
            let (one, other) = (shared(one), shared(other));
            assert_eq!(Unchanged::on_devices(&one, &other, &same), Some(blocks(expected)), "{what}");
            assert_eq!(Unchanged::on_devices(&other, &unshared, &same), Some(blocks(expected)), "{what}");
        }
        let (sound, everything) = (shared(&[(0, 100, 8)]), 0..u64::MAX);
        let everywhere = std::slice::from_ref(&everything);
        for flags in [0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400, 0x800, 0x8000] {
            let other = [extent((0, 100, 8), flags)];
            let unchanged = Unchanged::on_devices(&other, &sound, everywhere);
            assert_eq!(unchanged, Some(Unchanged::default()), "{flags:#x}");
        }
        let hostile = shared(&[(4, 104, 4), (0, 100, 4)]);
        assert_eq!(Unchanged::on_devices(&hostile, &sound, everywhere), None);
        assert_eq!(Unchanged::on_devices(&sound, &hostile, everywhere), None);
    }

    /// A file as the places of its blocks, zero for a hole.
    fn places() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(0..6_u64, 0..24)
    }

    /// The map of a file, in pieces that are cut where the strategy says so.
    fn map(places: &[u64], cuts: &[bool]) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let logical = u64::try_from(at).unwrap();
            // A block's place is far from another's, so that neighbours are neighbours on the device as well.
            let physical = place * 1000 + logical;
            let joins = |last: &Extent| {
                end(last) == logical * BLOCK && last.physical + last.length == physical * BLOCK
            };
            match extents.last_mut() {
                _ if *place == 0 => {}
                Some(last) if joins(last) && !cuts.get(at).copied().unwrap_or(false) => last.length += BLOCK,
                _ => extents.push(extent((logical, physical, 1), SHARED)),
            }
        }
        extents
    }

    proptest! {
        #[test]
        fn a_block_is_unchanged_if_and_only_if_both_have_it(
            (one, other) in (places(), places()),
            cuts in prop::collection::vec(any::<bool>(), 48),
        ) {
            let (first, second) = cuts.split_at(24);
            let unchanged = Unchanged::between(&map(&one, first), &map(&other, second)).unwrap();
            let same = |from: usize, to: usize| {
                (from..to).all(|at| one.get(at).is_some_and(|place| *place != 0 && other.get(at) == Some(place)))
            };
            for from in 0..26 {
                for to in from + 1..27 {
                    let bytes = u64::try_from(from).unwrap() * BLOCK..u64::try_from(to).unwrap() * BLOCK;
                    prop_assert_eq!(unchanged.contains(&bytes), same(from, to), "{}..{}", from, to);
                }
            }
            let blocks = (0..24).filter(|at| same(*at, at + 1)).count();
            prop_assert_eq!(unchanged.bytes(), u64::try_from(blocks).unwrap() * BLOCK);
        }

        #[test]
        fn no_answer_of_a_kernel_brings_it_down(
            maps in prop::collection::vec(prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()), 0..6), 2),
        ) {
            let extents = |map: &Vec<(u64, u64, u64, u32)>| -> Vec<Extent> {
                let extent = |(logical, physical, length, flags): &(u64, u64, u64, u32)| Extent {
                    logical: *logical, physical: *physical, length: *length, flags: *flags, ..Extent::default()
                };
                map.iter().map(extent).collect()
            };
            if let Some(unchanged) = Unchanged::between(&extents(&maps[0]), &extents(&maps[1])) {
                prop_assert!(!unchanged.contains(&(0..u64::MAX)) || unchanged.bytes() == u64::MAX);
            }
        }
    }
}
