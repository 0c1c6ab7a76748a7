//! Archives of earlier format versions. In version 1 every page is stored whole, in version 2 it may be a difference: the
//! files in `format-1` and `format-2` were written by an asat that knew no other.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::path::Path;

use common::{Content, Model, assert_holds, compact, files, open, page, put_files, write};

/// What the versions had when they were written. Those from 2 to 4 were given up then, and their layers merged.
fn model() -> Model {
    let (mut content, mut model) = (Content::new(512, 1..9), Model::new());
    for number in 1..=6_u64 {
        if ![2, 3, 4].contains(&number) {
            model.insert(number, content.clone());
        }
        for nth in [0, 2, 4, usize::try_from(number).unwrap()] {
            content.pages[nth] = page(512, number * 10 + nth as u64);
        }
    }
    model
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn an_archive_of_format_1_is_read_goes_on_and_is_converted_as_it_is_touched() {
    let folder = common::folder();
    put_files(folder.path(), &files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1")));
    let before = files(folder.path());
    let (archive, mut model) = (open(folder.path()), model());
    assert_holds(&archive, &model);
    assert_eq!(archive.stats().unwrap().versions.len(), 3);

    // New versions lie upon it as differences, and what is there stays as it is.
    let mut content = model[&6].clone();
    (0..8).for_each(|nth| content.edit(nth, 40 * nth, 3));
    write(&archive, 7, &content).unwrap();
    model.insert(7, content);
    assert_holds(&archive, &model);
    assert_eq!(
        archive.describe(7).unwrap().parent,
        Some(6),
        "a version whose pages all changed was stored whole"
    );
    assert_eq!(files(folder.path())[..4], before);

    // What is folded is written anew.
    archive.retire(5).unwrap();
    model.remove(&5);
    compact(&archive);
    assert_holds(&archive, &model);
    assert_eq!(names(folder.path()), ["1.pack", "2-6.pack", "7.pack"]);
    archive.retire(6).unwrap();
    archive.retire(1).unwrap();
    model.retain(|number, _| ![1, 6].contains(number));
    compact(&archive);
    assert_holds(&archive, &model);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

/// What the versions of the archive of format 2 had. Those from 2 to 6 but for 4 were given up, and not folded.
fn model_of_2() -> Model {
    let (mut content, mut model) = (Content::new(512, 1..9), Model::new());
    for number in 1..=8_u64 {
        if ![2, 3, 5, 6].contains(&number) {
            model.insert(number, content.clone());
        }
        let nth = usize::try_from(number).unwrap();
        content.edit(0, 60 * nth, 9);
        content.edit(nth % 8, 100, 7);
        content.pages[nth % 5] = page(512, number * 10);
    }
    model
}

#[test]
fn an_archive_of_format_2_is_read_goes_on_and_is_converted_as_it_is_touched() {
    let folder = common::folder();
    put_files(folder.path(), &files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-2")));
    let (archive, mut model) = (open(folder.path()), model_of_2());
    assert_holds(&archive, &model);
    // What the first version had is referred to where it is.
    let content = model[&1].clone();
    write(&archive, 9, &content).unwrap();
    model.insert(9, content);
    assert_holds(&archive, &model);
    assert_eq!(archive.describe(9).unwrap().refers_to, Some(1));
    compact(&archive);
    assert_holds(&archive, &model);
    archive.retire(1).unwrap();
    model.remove(&1);
    compact(&archive);
    assert_holds(&archive, &model);
    assert_eq!(names(folder.path()), ["1-4.pack", "5-7.pack", "8.pack", "9.pack"]);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}
