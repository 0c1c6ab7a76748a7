//! Random histories against a plain model: after every step the archive holds exactly what the model holds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::ops::ControlFlow;

use asat_archive::{Archive, Kept, Retired};
use common::camera::images_of;
use common::{Content, Model, assert_holds, compact, cut, files, open, page, put_files, write};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Change these pages, counted modulo the length.
    Change(Vec<usize>),
    /// Change a few bytes of these pages, counted modulo the length, at these places.
    Edit(Vec<(usize, usize, u8)>),
    /// Make the store what one of the live versions is.
    GoBack(usize),
    /// Make pages what they are in live versions, both counted modulo how many there are.
    ChangeBack(Vec<(usize, usize)>),
    /// The same; one of the versions below the newest is given up, and all is compacted, before it is done.
    GiveUpMeanwhile(Vec<(usize, usize)>, usize),
    Resize(usize),
    NewPageSize(u32, usize),
    Nothing,
    Retire(usize),
    /// Compact, and stop when asked so often.
    Compact(usize),
    Reopen,
    /// Do the step, and begin again with what is there where the machine stops in the midst of it.
    Crash(Box<Step>, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = step().boxed();
    let crash = (step.clone(), any::<prop::sample::Index>())
        .prop_map(|(step, at)| Step::Crash(Box::new(step), at.index(1 << 20)));
    prop::collection::vec(prop_oneof![27 => step, 3 => crash, 1 => Just(Step::Reopen)], 1..80)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0..64_usize, 1..8).prop_map(Step::Change),
        12 => prop::collection::vec((0..64_usize, 0..500_usize, any::<u8>()), 1..8).prop_map(Step::Edit),
        2 => (0..64_usize).prop_map(Step::GoBack),
        3 => prop::collection::vec((0..64_usize, 0..64_usize), 1..8).prop_map(Step::ChangeBack),
        2 => (prop::collection::vec((0..64_usize, 0..64_usize), 1..8), 0..64_usize)
            .prop_map(|(pages, nth)| Step::GiveUpMeanwhile(pages, nth)),
        2 => (0..24_usize).prop_map(Step::Resize),
        1 => (prop::sample::select(vec![512_u32, 1024]), 0..12_usize).prop_map(|(size, n)| Step::NewPageSize(size, n)),
        1 => Just(Step::Nothing),
        6 => (0..64_usize).prop_map(Step::Retire),
        2 => (0..4_usize).prop_map(Step::Compact),
    ]
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

    /// Has some pages be what they are in live versions.
    fn change_back(&mut self, pages: &[(usize, usize)]) {
        let contents: Vec<&Content> = self.model.values().collect();
        for (version, nth) in pages {
            let content = version.checked_rem(contents.len()).map(|version| contents[version]);
            let Some(content) = content.filter(|content| content.page_size == self.store.page_size) else {
                continue;
            };
            let Some(nth) = nth.checked_rem(content.pages.len().min(self.store.pages.len())) else {
                continue;
            };
            self.store.pages[nth].clone_from(&content.pages[nth]);
        }
    }

    fn publish(&mut self) {
        self.publish_while(|_| ());
    }

    /// Publishes, and does something else when all pages are there and the version is not.
    fn publish_while(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        let number = self.next_number;
        self.next_number += 1;
        let newest = self.model.iter().next_back();
        let same_as = newest.filter(|(_, content)| **content == self.store).map(|(number, _)| *number);
        let mut writer = self.archive.begin(number, self.store.page_size(), self.store.count()).unwrap();
        (1..).zip(&self.store.pages).for_each(|(nth, page)| writer.page(nth, page).unwrap());
        meanwhile(self);
        match (writer.finish(cut()).unwrap(), same_as) {
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
            Step::Edit(places) => {
                for (nth, offset, value) in places {
                    if let Some(nth) = nth.checked_rem(self.store.pages.len()) {
                        self.store.edit(nth, *offset, *value);
                    }
                }
                self.publish();
            }
            Step::GoBack(nth) => {
                let contents: Vec<&Content> = self.model.values().collect();
                if let Some(nth) = nth.checked_rem(contents.len()) {
                    self.store = contents[nth].clone();
                    self.publish();
                }
            }
            Step::ChangeBack(pages) => {
                self.change_back(pages);
                self.publish();
            }
            Step::GiveUpMeanwhile(pages, nth) => {
                self.change_back(pages);
                self.publish_while(|bench| {
                    let live = bench.archive.live();
                    // The newest one cannot be given up now.
                    if let Some(nth) = nth.checked_rem(live.len().saturating_sub(1)) {
                        bench.retire(live[nth]);
                    }
                    compact(&bench.archive);
                });
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
            Step::Compact(often) => {
                let mut left = *often;
                let mut pace = |_| {
                    left = left.saturating_sub(1);
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                self.archive.compact(&mut pace).unwrap();
            }
            Step::Reopen => self.reopen(),
            Step::Crash(step, at) => self.crash(step, *at),
        }
    }

    /// Stops at one of the boundaries of a step. What is there then is what was there before or what would be after.
    fn crash(&mut self, step: &Step, at: usize) {
        if matches!(step, Step::GiveUpMeanwhile(..)) {
            // Of two things that are done one may be there, and the other one not.
            return self.step(step);
        }
        let (before, store, number) = (self.model.clone(), self.store.clone(), self.next_number);
        let folder = self.archive.folder().to_owned();
        let images = images_of(&folder, || self.step(step));
        let Some(at) = at.checked_rem(images.len()) else { return };
        self.archive = Archive::open(&folder.join("elsewhere")).unwrap().0;
        std::fs::remove_dir(folder.join("elsewhere")).unwrap();
        files(&folder).iter().for_each(|(name, _)| std::fs::remove_file(folder.join(name)).unwrap());
        put_files(&folder, &images[at]);
        let (archive, opened) = Archive::open(&folder).unwrap();
        assert_eq!(opened.foreign, [""; 0]);
        self.archive = archive;
        // What a crash leaves above the newest version goes with the next compaction.
        if self.archive.live().is_empty() {
            compact(&self.archive);
        }
        if self.archive.live() != self.model.keys().copied().collect::<Vec<_>>() {
            (self.model, self.store, self.next_number) = (before, store, number);
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
        compact(&bench.archive);
        assert_holds(&bench.archive, &bench.model);
        let (layers, now, fresh) = (bench.model.len() as u64, bench.archive.bytes(), bench.bytes_when_fresh());
        prop_assert!(now <= fresh * 6 / 5 + 700 * (layers + 1), "{now} bytes, {fresh} when fresh, {layers} live");

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
fn pages_that_change_back_are_stored_once_when_what_was_between_is_given_up() {
    let folder = common::folder();
    let archive = open(folder.path());
    let contents = [Content::new(512, 1..9), Content::new(512, 11..19), Content::new(512, 1..9)];
    let model: Model = (1..).zip(contents).collect();
    model.iter().for_each(|(&number, content)| _ = write(&archive, number, content).unwrap());
    archive.retire(2).unwrap();
    assert_eq!(archive.live(), [1, 3]);
    assert_holds(&archive, &[(1, model[&1].clone()), (3, model[&3].clone())].into());
    let before = archive.bytes();
    compact(&archive);
    assert_holds(&archive, &[(1, model[&1].clone()), (3, model[&3].clone())].into());
    assert_eq!(files(folder.path()).len(), 2, "the layer of which nothing is seen is gone");
    assert!(archive.stored_bytes(3).unwrap() < 700, "what both versions have is stored once");
    assert!(archive.bytes() < before);
}

#[test]
fn a_store_that_is_brought_back_from_nothing_is_stored_once() {
    let folder = common::folder();
    let archive = open(folder.path());
    let [full, other] = [Content::new(4096, 1..20), Content::new(4096, 31..50)];
    let empty = Content { page_size: 4096, pages: Vec::new() };
    let mut model: Model = (1..).zip([&full, &empty, &full, &other, &full].map(Clone::clone)).collect();
    model.iter().for_each(|(&number, content)| _ = write(&archive, number, content).unwrap());
    assert_holds(&archive, &model);
    assert!(archive.stored_bytes(3).unwrap() < 1500 && archive.stored_bytes(5).unwrap() < 1500);
    model.keys().for_each(|&number| assert_eq!(common::verify(&archive, Some(number)).findings, []));
    for number in [2, 1, 4] {
        archive.retire(number).unwrap();
        model.remove(&number);
        compact(&archive);
        assert_holds(&archive, &model);
        model.keys().for_each(|&number| assert_eq!(common::verify(&archive, Some(number)).findings, []));
    }
    assert!(archive.stored_bytes(5).unwrap() < 1500);
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
            compact(&archive);
        }
    }
    assert!(worth_compacting);
    assert!(files(folder.path()).len() < 70);
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
    let compacted = compact(&archive);
    assert_eq!((compacted.freed_bytes, compacted.more), (before - archive.bytes(), false));
    assert_holds(&archive, &model);
    model.iter().for_each(|(&number, content)| _ = write(&fresh, number, content).unwrap());
    // The live layers are all that is left.
    assert_eq!((compacted.layers_before, compacted.layers_after), (20, 3));
    assert!(archive.bytes() < fresh.bytes() + 100, "{} and {} fresh", archive.bytes(), fresh.bytes());
    assert_eq!(archive.describe(1).unwrap().parent, None);
    assert_eq!(archive.describe(20).unwrap().parent, Some(10));
}

/// Four versions of which the two between are given up. The first of those is needed no more, and the page that the
/// second one differs in from it neither; but of the second one other pages are.
fn with_a_difference_upon_nothing() -> (tempfile::TempDir, Archive, Model) {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, 1..100);
    let mut model = Model::new();
    for number in 1..=4_u64 {
        match number {
            2 => content.edit(0, 100, 7),
            3 => {
                content.edit(0, 200, 7);
                (1..99).for_each(|nth| content.pages[nth] = page(512, 1000 + 3 * nth as u64));
            }
            4 => content.pages[0] = page(512, 5),
            _ => {}
        }
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    for number in [2, 3] {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    (folder, archive, model)
}

#[test]
fn a_difference_upon_what_is_gone_is_no_damage() {
    let (folder, archive, model) = with_a_difference_upon_nothing();
    compact(&archive);
    let names: Vec<String> = files(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["1.pack", "3.layer", "4.pack"]);
    assert_holds(&archive, &model);
    for number in [1, 4] {
        assert_eq!(common::verify(&archive, Some(number)).findings, []);
    }
}

#[test]
fn a_thinned_history_takes_what_its_versions_take_alone() {
    let (folder, fresh) = (common::folder(), common::folder());
    let (archive, fresh) = (open(folder.path()), open(fresh.path()));
    // Pages that cannot be compressed, and change a little in every version: so often that they are stored whole again.
    let mut content = Content::new(4096, (1..12).map(|nth| 21 * nth + 3));
    let mut model = Model::new();
    for number in 1..=300_u64 {
        (0..11).for_each(|nth| content.edit(nth, usize::try_from(number * 37 % 4000).unwrap(), 7));
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    for number in (1..300).filter(|number| number % 10 != 1) {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    compact(&archive);
    assert_holds(&archive, &model);
    model.iter().for_each(|(&number, content)| _ = write(&fresh, number, content).unwrap());
    let (thinned, alone) = (archive.bytes(), fresh.bytes());
    assert!(thinned <= alone * 11 / 10, "{thinned} bytes, and {alone} alone");
}

#[test]
fn a_store_that_began_again_with_other_pages_can_be_read_when_its_first_version_is_gone() {
    let folder = common::folder();
    let archive = open(folder.path());
    let grown = Content::new(1024, 1..20);
    let mut changed = grown.clone();
    changed.pages[0] = page(1024, 100);
    let contents = [Content::new(512, 1..9), Content::new(1024, 1..2), grown, changed];
    let mut model: Model = (1..).zip(contents).collect();
    model.iter().for_each(|(&number, content)| _ = write(&archive, number, content).unwrap());
    for number in [2, 3] {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    compact(&archive);
    // Nothing was needed of the second version, and folding the third would have given back too little.
    let names: Vec<String> = files(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["1.pack", "3.layer", "4.pack"]);
    assert_holds(&archive, &model);
    model.keys().for_each(|&number| assert_eq!(common::verify(&archive, Some(number)).findings, []));
}
