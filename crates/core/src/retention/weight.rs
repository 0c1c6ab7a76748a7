//! What versions weigh in an archive, and what comes back as one after another goes.

/// What an archive takes, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// All of it, in bytes.
    pub bytes: u64,
    /// What is needed by whom. What lies around it, and what nobody needs any more, is not among it.
    pub parts: Vec<Part>,
}

/// Some of an archive that is needed by the versions that follow one another from `first` to `last`, and by no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the oldest version that needs it.
    pub first: u64,
    /// The number of the newest.
    pub last: u64,
    /// How much it is, in bytes.
    pub bytes: u64,
}

/// What comes back when versions go in a certain order.
pub(super) struct Returns {
    /// For each place in the order, what comes back with the version there, in bytes.
    pub(super) at: Vec<u64>,
    /// What only versions need that are on their way out already, in bytes.
    pub(super) before: u64,
}

impl Weight {
    /// What comes back when versions go. `numbers` are those of all readable versions, ascending, and `places` says of
    /// each where it stands in the order in which they go; those without a place stay. A part comes back with the last
    /// of the versions that need it.
    pub(super) fn returns(&self, numbers: &[u64], places: &[Option<usize>]) -> Returns {
        let count = places.iter().flatten().max().map_or(0, |last| last + 1);
        let mut returns = Returns { at: vec![0; count], before: 0 };
        let latest = Latest::new(places.iter().map(|place| place.unwrap_or(usize::MAX)).collect());
        for part in &self.parts {
            // Something newer than every readable version needs it: one that is being published.
            if numbers.last().is_none_or(|newest| part.last > *newest) {
                continue;
            }
            let from = numbers.partition_point(|number| *number < part.first);
            let until = numbers.partition_point(|number| *number <= part.last);
            match latest.within(from, until) {
                None => returns.before += part.bytes,
                Some(place) => {
                    // Where one of them stays, there is no such place, and nothing comes back.
                    if let Some(bytes) = returns.at.get_mut(place) {
                        *bytes += part.bytes;
                    }
                }
            }
        }
        returns
    }
}

/// The greatest of any neighbours, found at once: row `n` has the greatest of each `2^n` neighbours.
struct Latest(Vec<Vec<usize>>);

impl Latest {
    fn new(places: Vec<usize>) -> Self {
        let mut rows = vec![places];
        let mut width = 1;
        while let Some(row) = rows.last().filter(|row| row.len() > width) {
            let beyond = row.iter().skip(width);
            let next = row.iter().zip(beyond).map(|(one, other)| *one.max(other)).collect();
            rows.push(next);
            width *= 2;
        }
        Self(rows)
    }

    /// The greatest from `from` to below `until`; `None` where that is nothing.
    fn within(&self, from: usize, until: usize) -> Option<usize> {
        let level = until.checked_sub(from)?.checked_ilog2()?;
        let row = self.0.get(usize::try_from(level).ok()?)?;
        row.get(from).max(row.get(until - (1 << level))).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_greatest_of_any_neighbours_is_found(
            places in proptest::collection::vec(0usize..50, 0..40), from in 0usize..45, until in 0usize..45,
        ) {
            let until = until.min(places.len());
            let expected = places.get(from..until).and_then(|within| within.iter().max().copied());
            prop_assert_eq!(Latest::new(places).within(from, until), expected);
        }
    }

    #[test]
    fn a_part_comes_back_with_the_last_that_needs_it() {
        let part = |first, last, bytes| Part { first, last, bytes };
        let parts = vec![
            part(1, 1, 1),
            part(1, 2, 10),
            part(2, 5, 100),
            part(5, 9, 1_000),
            part(3, 4, 10_000),
            part(9, 10, 100_000),
        ];
        let weight = Weight { bytes: 111_111, parts };
        // 5 goes first, then 1, then 2; 9 stays. 3 and 4 are on their way out, and 10 is being published.
        let returns = weight.returns(&[1, 2, 5, 9], &[Some(1), Some(2), Some(0), None]);
        assert_eq!((returns.at, returns.before), (vec![0, 1, 110], 10_000));
    }
}
