//! A disk that is full while an archive is compacted: nothing is lost, what has room is done, and the rest when there is room.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use asat_archive::{Archive, Error};
use common::{Content, Model, assert_holds, files, folder, open, page, write};

/// So many versions of a hundred pages that cannot be compressed, in each of which twenty change, ten of them not for the first time.
fn history(archive: &Archive, versions: u64) -> Model {
    let mut content = Content::new(4096, (1..101).map(|seed| 21 * seed + 3));
    let mut model = Model::new();
    for number in 1..=versions {
        write(archive, number, &content).unwrap();
        model.insert(number, content.clone());
        for nth in 0..20 {
            let place = usize::try_from(number * 10 + nth).unwrap() % 100;
            content.pages[place] = page(4096, 21 * (number * 1000 + nth) + 3);
        }
    }
    model
}

/// The device that is always full stands in for a disk that becomes so while this layer is written.
fn make_full(folder: &Path, number: u64) {
    std::os::unix::fs::symlink("/dev/full", folder.join(format!("{number}.tmp"))).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(name, _)| name).collect()
}

fn compact(archive: &Archive) -> Result<u64, Error> {
    archive.compact(&mut |_| ControlFlow::Continue(())).map(|compacted| compacted.freed_bytes)
}

fn retire(archive: &Archive, model: &mut Model, numbers: &[u64]) {
    for number in numbers {
        archive.retire(*number).unwrap();
        model.remove(number);
    }
}

#[test]
fn a_run_that_finds_the_disk_full_is_left_as_it_was_and_the_others_are_folded() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 12);
    retire(&archive, &mut model, &[2, 3, 4, 5, 6, 8, 9, 10, 11]);
    // Neither can the run be folded, nor what is needed of it be kept in fewer bytes.
    [7, 6].iter().for_each(|number| make_full(folder.path(), *number));
    let error = compact(&archive).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    let left = ["1.pack", "2.layer", "3.layer", "4.layer", "5.layer", "6.layer", "7.pack", "8-12.pack"];
    assert_eq!(names(folder.path()), left);
    assert_holds(&archive, &model);
    drop(archive);
    let archive = open(folder.path());
    assert_holds(&archive, &model);
    assert!(compact(&archive).unwrap() > 0);
    assert_eq!(names(folder.path()), ["1.pack", "2-7.pack", "8-12.pack"]);
    assert_holds(&archive, &model);
}

#[test]
fn a_run_that_is_referred_to_stays_until_there_is_room_to_lead_that_elsewhere() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 6);
    let again = model[&3].clone();
    write(&archive, 7, &again).unwrap();
    model.insert(7, again);
    retire(&archive, &mut model, &[1, 2, 3]);
    let before = files(folder.path());
    make_full(folder.path(), 7);
    let error = compact(&archive).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert!(files(folder.path()) == before, "{:?}", names(folder.path()));
    assert_holds(&archive, &model);
    compact(&archive).unwrap();
    assert_eq!(names(folder.path())[0], "1-4.pack");
    assert_holds(&archive, &model);
}
