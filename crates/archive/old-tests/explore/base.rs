//! The versions that there are at the beginning.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use asat_archive::Meta;

use crate::choices::Dice;
use crate::common::{self, Content, cut, files, page, put_files};
use crate::scenario::{Harm, Scenario, World};

/// How many versions there are at the beginning.
pub(crate) const BASE: u64 = 7;
const PAGES: usize = 8;

/// The next version of a store: pages stay, change a little, are new, or are again what they were.
pub(crate) fn next_content(dice: &mut Dice, before: &[Arc<Content>]) -> Content {
    let raw = |dice: &mut Dice| page(512, 21 * (dice.next() % 1_000_000) + 3);
    let Some(newest) = before.last() else {
        return Content { page_size: 512, pages: (0..PAGES).map(|_| raw(dice)).collect() };
    };
    let mut content = Content::clone(newest);
    for nth in 0..PAGES {
        match dice.below(8) {
            0..=2 => {}
            3 => content.edit(nth, dice.below(400), 7),
            4 | 5 => content.pages[nth] = raw(dice),
            _ => content.pages[nth].clone_from(&before[dice.below(before.len())].pages[nth]),
        }
    }
    content
}

#[derive(Clone, Default)]
pub(crate) struct Known {
    /// What each version was, the newest last.
    pub(crate) contents: BTreeMap<u64, Arc<Content>>,
    /// The versions that were acknowledged, and not given up.
    pub(crate) live: BTreeSet<u64>,
    /// Those of which it is not known.
    pub(crate) unsure: BTreeSet<u64>,
    /// What the layer says of the version that is missing.
    pub(crate) meta: Option<Meta>,
}

/// The files at the beginning, and what is known of them.
type Base = (Vec<(String, Vec<u8>)>, Known);

/// The base of seven versions in which every page is another, but that the sixth has one of the second and one of the third again.
pub(crate) const REFERRING: u64 = 0;

/// Writes the versions at the beginning. That is done once for each base.
fn base_of(seed: u64) -> Base {
    static MADE: Mutex<BTreeMap<u64, Base>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry(seed)
        .or_insert_with(|| {
            let (folder, mut known, mut dice) = (common::folder(), Known::default(), Dice::new(seed));
            let archive = common::open(folder.path());
            for number in 1..=BASE {
                let before: Vec<_> = known.contents.values().cloned().collect();
                let content =
                    if seed == REFERRING { referring(number) } else { next_content(&mut dice, &before) };
                let mut cut = cut();
                cut.even_if_unchanged = true;
                let mut writer = archive.begin(number, content.page_size(), content.count()).unwrap();
                (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
                writer.finish(cut).unwrap();
                known.contents.insert(number, Arc::new(content));
                known.live.insert(number);
            }
            (files(folder.path()), known)
        })
        .clone()
}

fn referring(number: u64) -> Content {
    let raw = |seed: u64| page(512, 21 * seed + 3);
    let mut content = Content { page_size: 512, pages: (0..8).map(|nth| raw(number * 100 + nth)).collect() };
    if number == 6 {
        content.pages[3] = raw(203);
        content.pages[4] = raw(304);
    }
    // What all have in common, so that none of them stands alone.
    content.pages[7] = raw(1);
    content
}

/// What a version upon that base is made of that has a page of this version again which no newer one has.
pub(crate) fn again(number: u64) -> u64 {
    let before: Vec<_> = (1..=BASE).map(|number| Arc::new(referring(number))).collect();
    let (older, newer) = before.split_at(usize::try_from(number).unwrap());
    let has_again = |seed: &u64| {
        let content = next_content(&mut Dice::new(*seed), &before);
        let mut pages = content.pages.iter().zip(&older.last().unwrap().pages).enumerate();
        pages.any(|(nth, (page, old))| page == old && newer.iter().all(|newer| newer.pages[nth] != *old))
    };
    (0..).find(has_again).unwrap()
}

pub(crate) fn begin(scenario: &Scenario, folder: &Path) -> World {
    let (image, mut known) = base_of(scenario.base);
    put_files(folder, &image);
    let archive = common::open(folder);
    for number in &scenario.retired {
        archive.retire(*number).unwrap();
        known.live.remove(number);
    }
    if scenario.harm == Harm::None {
        return World { archive, harm: scenario.harm, known: Mutex::new(known) };
    }
    match scenario.harm {
        Harm::Missing(number) => {
            known.meta = Some(archive.describe(number).unwrap());
            drop(archive);
            std::fs::remove_file(folder.join(format!("{number}.pack"))).unwrap();
        }
        Harm::Flipped(number) => {
            drop(archive);
            let path = folder.join(format!("{number}.pack"));
            let mut bytes = std::fs::read(&path).unwrap();
            // Somewhere in the first frame.
            bytes[30] ^= 4;
            std::fs::write(&path, bytes).unwrap();
        }
        Harm::None => {}
    }
    let archive = common::open(folder);
    if let Harm::Missing(number) = scenario.harm {
        archive.expect([number]);
    }
    World { archive, harm: scenario.harm, known: Mutex::new(known) }
}
