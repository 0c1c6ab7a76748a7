//! Crash images: the folder as it is at every boundary of an operation is opened as if the machine had
//! stopped there, and again with every removal undone that was not yet durable.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::path::Path;

use asat_archive::{Archive, Retired};
use common::camera::{Image, images_of, steps_of};
use common::{Content, Model, assert_holds, compact, files, open, page, put_files, verify, write};

/// A crash leaves everything as it was before the operation or as it is after it, and nothing else; and the
/// operation can be done again.
fn check_images(images: Vec<Image>, before: &Model, after: &Model, again: impl Fn(&Archive)) {
    assert!(images.len() >= 2, "no boundary was passed");
    let mut names_at_the_end: Option<Vec<String>> = None;
    // The last image is what the operation leaves when nothing happens to it.
    for image in images.into_iter().rev() {
        let folder = common::folder();
        put_files(folder.path(), &image);
        let (archive, opened) = Archive::open(folder.path()).unwrap();
        assert!(opened.foreign.is_empty());
        let done = archive.live() == after.keys().copied().collect::<Vec<_>>();
        assert_holds(&archive, if done { after } else { before });
        assert!(files(folder.path()).iter().all(|(name, _)| !name.ends_with(".tmp")));
        again(&archive);
        compact(&archive);
        assert_holds(&archive, after);
        let names: Vec<String> = files(folder.path()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(&names, names_at_the_end.get_or_insert(names.clone()), "litter was left");
    }
}

#[test]
fn nothing_is_put_in_place_before_it_is_durable() {
    let folder = common::folder();
    let (archive, model) = history(folder.path(), 2);
    let steps = steps_of(|| _ = write(&archive, 3, &model[&1]).unwrap());
    let steps = steps.join(", ").replace("archive: ", "");
    assert_eq!(steps, "create, created, fsync, fsynced, rename, renamed, fsync folder, folder fsynced");
}

/// Versions 1 to `count` of a store in which every version changes a few pages, some wholly and some a little.
fn history(folder: &Path, count: u64) -> (Archive, Model) {
    let archive = open(folder);
    let (mut model, mut content) = (Model::new(), Content::new(512, 1..20));
    for number in 1..=count {
        for nth in 0..5 {
            let nth = usize::try_from(number * 3 + nth).unwrap() % content.pages.len();
            content.pages[nth] = page(512, number * 100 + nth as u64);
        }
        content.edit(7, 100, number.to_le_bytes()[0]);
        content.edit(usize::try_from(number).unwrap() % 4 + 8, 50, number.to_le_bytes()[0]);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    (archive, model)
}

#[test]
fn a_write_is_there_wholly_or_not_at_all() {
    let folder = common::folder();
    let (archive, before) = history(folder.path(), 3);
    let mut after = before.clone();
    let mut content = before[&3].clone();
    content.pages[4] = page(512, 9001);
    content.pages.truncate(15);
    after.insert(4, content.clone());
    let images = images_of(folder.path(), || _ = write(&archive, 4, &content).unwrap());
    check_images(images, &before, &after, |archive| {
        if !archive.contains(4) {
            write(archive, 4, &content).unwrap();
        }
    });
}

#[test]
fn a_version_is_given_up_wholly_or_not_at_all() {
    for number in 1..=6 {
        for retired_before in [&[][..], &[2], &[5], &[4, 5], &[2, 3, 4]] {
            let folder = common::folder();
            let (archive, mut before) = history(folder.path(), 6);
            for gone in retired_before.iter().filter(|gone| **gone != number) {
                archive.retire(*gone).unwrap();
                before.remove(gone);
            }
            let mut after = before.clone();
            after.remove(&number);
            let images = images_of(folder.path(), || {
                assert!(matches!(archive.retire(number).unwrap(), Retired::Retired { .. }));
            });
            check_images(images, &before, &after, |archive| _ = archive.retire(number).unwrap());
        }
    }
}

#[test]
fn a_compaction_changes_nothing_that_can_be_read() {
    let folder = common::folder();
    let (archive, mut model) = history(folder.path(), 16);
    let retire = |archive: &Archive, model: &mut Model, numbers: &[u64]| {
        for number in numbers {
            archive.retire(*number).unwrap();
            model.remove(number);
        }
    };
    let mut merged = false;
    for numbers in [&[2, 3, 4, 5, 6, 7][..], &[9, 10, 11, 12], &[1, 8], &[14, 13]] {
        retire(&archive, &mut model, numbers);
        let images = images_of(folder.path(), || _ = compact(&archive));
        assert_holds(&archive, &model);
        if !images.is_empty() {
            merged |= files(folder.path()).iter().any(|(name, _)| name.contains('-'));
            check_images(images, &model, &model, |archive| _ = compact(archive));
        }
    }
    assert!(merged, "no layers were merged");
}

#[test]
fn a_write_given_up_leaves_nothing() {
    let folder = common::folder();
    let (archive, model) = history(folder.path(), 3);
    let images = images_of(folder.path(), || {
        let mut writer = archive.begin(4, model[&3].page_size(), 19).unwrap();
        // So many that some of them are kept already.
        (1..=18).for_each(|number| writer.page(number, &page(512, u64::from(number) + 5000)).unwrap());
    });
    check_images(images, &model, &model, |_| {});
    assert_holds(&archive, &model);
    assert!(verify(&archive, Some(2)).findings.is_empty());
}
