//! Random histories against a plain model: after every step the archive holds exactly what the model holds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use asat_archive::{Archive, Kept, Retired};
use common::{Content, Model, assert_holds, open, page, write};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Change these pages, counted modulo the length.
    Change(Vec<usize>),
    Resize(usize),
    NewPageSize(u32, usize),
    Nothing,
    Retire(usize),
    Compact(Option<u64>),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec(0..64_usize, 1..8).prop_map(Step::Change),
        2 => (0..24_usize).prop_map(Step::Resize),
        1 => (prop::sample::select(vec![512_u32, 1024]), 0..12_usize).prop_map(|(size, n)| Step::NewPageSize(size, n)),
        1 => Just(Step::Nothing),
        6 => (0..64_usize).prop_map(Step::Retire),
        2 => prop::option::of(0..5000_u64).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// A store with its archive and the model of it.
struct Bench {
    archive: Archive,
    model: Model,
    store: Content,
    next_number: u64,
    next_seed: u64,
}

impl Bench {
    fn fresh_pages(&mut self, page_size: u32, count: usize) -> Vec<Vec<u8>> {
        let first = self.next_seed;
        self.next_seed += count as u64;
        (first..self.next_seed).map(|seed| page(page_size, seed)).collect()
    }

    fn publish(&mut self) {
        let number = self.next_number;
        self.next_number += 1;
        let newest = self.model.iter().next_back();
        let same_as = newest.filter(|(_, content)| **content == self.store).map(|(number, _)| *number);
        match (write(&self.archive, number, &self.store).unwrap(), same_as) {
            (Kept::Unchanged { same_as, .. }, Some(expected)) => assert_eq!(same_as, expected),
            (Kept::Stored { .. }, None) => _ = self.model.insert(number, self.store.clone()),
            (kept, expected) => panic!("{kept:?} where {expected:?} was expected"),
        }
    }

    fn retire(&mut self, number: u64) {
        assert!(matches!(self.archive.retire(number).unwrap(), Retired::Retired { .. }));
        assert_eq!(self.archive.retire(number).unwrap(), Retired::AlreadyGone);
        assert!(self.archive.read(number).is_err());
        self.model.remove(&number);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Change(pages) => {
                for nth in pages {
                    if let Some(nth) = nth.checked_rem(self.store.pages.len()) {
                        self.store.pages[nth] = self.fresh_pages(self.store.page_size, 1).remove(0);
                    }
                }
                self.publish();
            }
            Step::Resize(count) => {
                self.store.pages.truncate(*count);
                let missing = count - self.store.pages.len();
                let more = self.fresh_pages(self.store.page_size, missing);
                self.store.pages.extend(more);
                self.publish();
            }
            Step::NewPageSize(page_size, count) => {
                let pages = self.fresh_pages(*page_size, *count);
                self.store = Content { page_size: *page_size, pages };
                self.publish();
            }
            Step::Nothing => self.publish(),
            Step::Retire(nth) => {
                let live = self.archive.live();
                if let Some(nth) = nth.checked_rem(live.len()) {
                    self.retire(live[nth]);
                }
            }
            Step::Compact(budget) => _ = self.archive.compact(*budget).unwrap(),
            Step::Reopen => self.reopen(),
        }
    }

    fn reopen(&mut self) {
        let folder = self.archive.folder().to_owned();
        // The folder's lock goes with the last handle.
        self.archive = Archive::open(&folder.join("elsewhere")).unwrap().0;
        std::fs::remove_dir(folder.join("elsewhere")).unwrap();
        let (archive, opened) = Archive::open(&folder).unwrap();
        assert_eq!(opened, asat_archive::Opened::default());
        self.archive = archive;
    }

    /// What the live versions take that were written into an archive of their own.
    fn bytes_when_fresh(&self) -> u64 {
        let folder = common::folder();
        let archive = open(folder.path());
        self.model.iter().for_each(|(&number, content)| _ = write(&archive, number, content).unwrap());
        archive.bytes()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_archive_holds_what_the_model_holds(steps in steps(), last in any::<u64>()) {
        let folder = common::folder();
        let mut bench = Bench {
            archive: open(folder.path()),
            model: Model::new(),
            store: Content { page_size: 512, pages: Vec::new() },
            next_number: 1,
            next_seed: 1,
        };
        for step in &steps {
            bench.step(step);
            assert_holds(&bench.archive, &bench.model);
        }
        bench.archive.compact(None).unwrap();
        assert_holds(&bench.archive, &bench.model);
        let (layers, now, fresh) = (bench.model.len() as u64, bench.archive.bytes(), bench.bytes_when_fresh());
        prop_assert!(now <= 2 * fresh + 1500 * (layers + 1), "{now} bytes, {fresh} when fresh, {layers} live");

        let mut order = last;
        while let live @ [_, ..] = bench.archive.live().as_slice() {
            let number = live[usize::try_from(order % live.len() as u64).unwrap()];
            order = order.rotate_right(7);
            bench.retire(number);
        }
        assert_holds(&bench.archive, &Model::new());
    }
}

#[test]
fn a_page_that_changes_back_is_stored_again_and_costs_no_more() {
    let folder = common::folder();
    let archive = open(folder.path());
    let contents = [Content::new(512, 1..9), Content::new(512, 11..19), Content::new(512, 1..9)];
    let model: Model = (1..).zip(contents).collect();
    model.iter().for_each(|(&number, content)| _ = write(&archive, number, content).unwrap());
    archive.retire(2).unwrap();
    assert_eq!(archive.live(), [1, 3]);
    assert_holds(&archive, &[(1, model[&1].clone()), (3, model[&3].clone())].into());
    assert_eq!(common::files(folder.path()).len(), 2, "the layer of which nothing is seen is gone at once");
}

#[test]
fn a_long_run_of_small_layers_becomes_one() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, 1..200);
    let mut model = Model::new();
    for number in 1..=150_u64 {
        content.pages[usize::try_from(number).unwrap()] = page(512, 1000 + number);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    let mut worth_compacting = false;
    for number in 2..150 {
        model.remove(&number);
        if let Retired::Retired { worth_compacting: true, .. } = archive.retire(number).unwrap() {
            worth_compacting = true;
            archive.compact(None).unwrap();
        }
    }
    assert!(worth_compacting);
    assert!(common::files(folder.path()).len() < 70);
    assert_holds(&archive, &model);
}

#[test]
fn what_no_version_needs_is_given_back() {
    let (folder, fresh) = (common::folder(), common::folder());
    let (archive, fresh) = (open(folder.path()), open(fresh.path()));
    let mut content = Content::new(4096, 1..201);
    let mut model = Model::new();
    for number in 1..=20_u64 {
        (0..60).for_each(|nth| content.pages[nth * 3] = page(4096, number * 1000 + nth as u64));
        content.pages[usize::try_from(number * 3 + 1).unwrap()] = page(4096, number * 1000 + 500);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    for number in (2..20).filter(|number| *number != 10) {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    let before = archive.bytes();
    let compacted = archive.compact(None).unwrap();
    assert_eq!((compacted.freed_bytes, compacted.more), (before - archive.bytes(), false));
    assert_holds(&archive, &model);
    model.iter().for_each(|(&number, content)| _ = write(&fresh, number, content).unwrap());
    // Three live layers, and one for each of the two runs, whose file costs less than a kilobyte.
    assert_eq!((compacted.layers_before, compacted.layers_after), (20, 5));
    assert!(archive.bytes() < fresh.bytes() + 2048, "{} and {} fresh", archive.bytes(), fresh.bytes());
    assert_eq!(archive.describe(1).unwrap().parent, None);
    assert_eq!(archive.describe(20).unwrap().parent, Some(19));
}
