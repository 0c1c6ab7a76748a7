//! The versions that there are at the beginning.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
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
    // So the file of each version has a frame of some length.
    content.pages[PAGES - 1] = raw(dice);
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
    /// Those that are being given up, once for each thread that does.
    pub(crate) retiring: Vec<u64>,
    /// What was recorded of the version whose file is missing.
    pub(crate) meta: Option<Meta>,
    /// The keys under which something was recorded, and those of which that is not known.
    pub(crate) records: BTreeSet<String>,
    pub(crate) unsure_records: BTreeSet<String>,
}

/// The files at the beginning, and what is known of them.
type Base = (Vec<(String, Vec<u8>)>, Known);

/// The base of seven versions in which nearly every page is another, so that there is much to give back.
pub(crate) const CHANGING: u64 = 0;

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
                    if seed == CHANGING { changing(number) } else { next_content(&mut dice, &before) };
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

fn changing(number: u64) -> Content {
    let raw = |seed: u64| page(512, 21 * seed + 3);
    let mut content = Content { page_size: 512, pages: (0..8).map(|nth| raw(number * 100 + nth)).collect() };
    // What all have in common, so that none of them stands alone, and what is a difference upon the version before.
    content.pages[7] = raw(1);
    content.pages[6] = raw(2);
    (1..number).for_each(|number| content.edit(6, 40 * usize::try_from(number).unwrap(), 7));
    content
}

/// The file in which a version of the beginning is.
fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.segment"))
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
            std::fs::remove_file(file_of(folder, number)).unwrap();
        }
        Harm::Flipped(number) => {
            drop(archive);
            let path = file_of(folder, number);
            let mut bytes = std::fs::read(&path).unwrap();
            // Somewhere in the first frame.
            bytes[30] ^= 4;
            std::fs::write(&path, bytes).unwrap();
        }
        Harm::None => {}
    }
    let archive = common::open(folder);
    World { archive, harm: scenario.harm, known: Mutex::new(known) }
}
