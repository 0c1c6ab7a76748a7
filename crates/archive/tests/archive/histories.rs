//! Random histories against a plain model: after every step the archive holds exactly what the model holds.

use std::ops::ControlFlow;

use crate::common::camera::images_of;
use crate::common::{self, Content, Model, assert_holds, compact, cut, files, open, page, put_files, write};
use asat_archive::{Archive, Kept, Retired};
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
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(48), failure_persistence: None, ..ProptestConfig::default() })]
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
        prop_assert!(now <= fresh * 6 / 5 + 2000 * (layers + 2), "{now} bytes, {fresh} when fresh, {layers} live");

        let mut order = last;
        while let live @ [_, ..] = bench.archive.live().as_slice() {
            let number = live[usize::try_from(order % live.len() as u64).unwrap()];
            order = order.rotate_right(7);
            bench.retire(number);
        }
        assert_holds(&bench.archive, &Model::new());
    }
}
