//! Random histories of a store: what the crate finds is what SQL says.
//!
//! A failing seed is printed; `SEED=n cargo test -p asat-rows --test rows histories::` runs that one again.

use asat_rows::{Comparison, TableKind, Version};

use crate::common::history::History;
use crate::common::source::{Memory, changed};
use crate::common::truth::{found, truth};

/// Compares one history with what SQL says.
fn check(seed: u64) {
    let history = History::new(seed);
    let (old, new) = (Memory::open(&history.old), Memory::open(&history.new));
    let pages = changed(&old, &new);
    let (before, now) = (Version::open("old", &old).unwrap(), Version::open("new", &new).unwrap());
    let comparison = Comparison::new(&before, &now, pages)
        .unwrap_or_else(|error| panic!("seed {seed}, {:?}: {error}", history.told));
    // What rows have in common if their columns have not is what a script shows.
    for name in history.tables.keys().filter(|name| !history.made_anew.contains(*name)) {
        let (expected, found) = (truth(&history, name), found(&comparison, name));
        assert!(
            expected == found,
            "seed {seed}, {name}, {:?}: expected {} and found {}\n{:?}\n{:?}",
            history.told,
            expected.len(),
            found.len(),
            expected.iter().find(|change| !found.contains(change)),
            found.iter().find(|change| !expected.contains(change)),
        );
    }
    let ordinary =
        comparison.tables().iter().filter(|table| table.kind == TableKind::Ordinary && table.new.is_some());
    assert_eq!(ordinary.count(), history.tables.len(), "seed {seed}, {:?}", history.told);
}

fn check_all(seeds: impl Iterator<Item = u64>) {
    #[allow(clippy::disallowed_methods)]
    let asked = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    match asked {
        Some(seed) => check(seed),
        None => seeds.for_each(check),
    }
}

#[test]
fn histories_come_out_as_sql_says() {
    check_all(0..250);
}

#[test]
fn more_histories_come_out_as_sql_says() {
    check_all(250..500);
}

#[test]
#[ignore = "minutes; `make sim` runs it"]
fn five_thousand_histories_come_out_as_sql_says() {
    check_all(1000..6000);
}
