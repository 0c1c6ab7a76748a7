//! Sets of numbers as ranges: the chunks that a snapshot has copied, the blocks that a thin volume has mapped.

use std::collections::BTreeMap;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Disjoint ranges that do not touch, each from its first number to the one after its last.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

impl Ranges {
    /// How many numbers there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds the numbers from `start` to before `end`. Answers how many are new.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let (mut from, mut to, mut had) = (start, end, 0);
        // Every range that begins at or before the new end may touch; those that end before it begins do not.
        while let Some((&first, &last)) = self.ranges.range(..=to).next_back() {
            if last < from {
                break;
            }
            had += last - first;
            (from, to) = (from.min(first), to.max(last));
            self.ranges.remove(&first);
        }
        self.ranges.insert(from, to);
        let new = to - from - had;
        self.count += new;
        new
    }

    /// How many of the numbers from `start` to before `end` are in it.
    pub(crate) fn within(&self, start: u64, end: u64) -> u64 {
        let before = self.ranges.range(..end).rev();
        let touching = before.take_while(|(_, last)| **last > start);
        touching.map(|(first, last)| (*last).min(end).saturating_sub((*first).max(start))).sum()
    }

    /// Adds another set. Answers how many of its numbers were here already.
    pub(crate) fn merge(&mut self, other: &Self) -> u64 {
        let new: u64 = other.ranges.iter().map(|(start, end)| self.add(*start, *end)).sum();
        other.count - new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_that_it_stands_for(steps in proptest::collection::vec((0..60_u64, 0..20_u64, 0..2_usize), 0..40)) {
            let (mut found, mut model) = ([Ranges::default(), Ranges::default()], [BTreeSet::new(), BTreeSet::new()]);
            for (start, length, which) in steps {
                let numbers: BTreeSet<u64> = (start..start + length).collect();
                let inside = numbers.iter().filter(|n| model[which].contains(*n)).count() as u64;
                prop_assert_eq!(found[which].within(start, start + length), inside);
                prop_assert_eq!(found[which].add(start, start + length), length - inside);
                model[which].extend(numbers);
                prop_assert_eq!(found[which].count(), model[which].len() as u64);
            }
            let both = model[0].intersection(&model[1]).count() as u64;
            let [mut first, second] = found;
            prop_assert_eq!(first.merge(&second), both);
            prop_assert_eq!(first.count(), model[0].union(&model[1]).count() as u64);
        }
    }
}
