//! Crash images: the folder as it is at every boundary of an operation is opened as if the machine had
//! stopped there, and again with whatever is undone that was not yet durable.

use std::ops::ControlFlow;
use std::path::Path;

use crate::common::camera::{Image, images_of, steps_of};
use crate::common::{
    self, Content, Model, assert_holds, compact, files, open, page, put_files, verify, write,
};
use asat_archive::{Archive, Contents, Opened, PutRight, Retired, check};

/// A crash leaves everything as it was before the operation or as it is after it, and nothing else; and the
/// operation can be done again.
fn check_images(images: Vec<Image>, before: &Model, after: &Model, again: impl Fn(&Archive)) {
    assert!(images.len() >= 2, "no boundary was passed");
    // The last image is what the operation leaves when nothing happens to it.
    for image in images.into_iter().rev() {
        let folder = common::folder();
        put_files(folder.path(), &image);
        let (archive, opened) = Archive::open(folder.path()).unwrap();
        assert!(opened.foreign.is_empty() && archive.unread().is_empty(), "{opened:?}");
        let done = archive.live() == after.keys().copied().collect::<Vec<_>>();
        assert_holds(&archive, if done { after } else { before });
        assert!(files(folder.path()).iter().all(|(name, _)| name.ends_with(".segment")));
        // What was removed is not there again.
        drop(archive);
        let (archive, opened) = Archive::open(folder.path()).unwrap();
        assert_eq!(opened, Opened::default());
        again(&archive);
        assert_holds(&archive, after);
        compact(&archive);
        assert_holds(&archive, after);
        let (there, segments) = (files(folder.path()).len(), archive.stats().unwrap().segments);
        assert!(there <= segments + 2, "{there} files for {segments} segments: litter was left");
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

#[test]
fn nothing_is_removed_before_what_takes_its_place_is_durable() {
    let folder = common::folder();
    let (archive, _) = history(folder.path(), 16);
    let steps = steps_of(|| _ = compact(&archive));
    let removals = steps.iter().enumerate().filter(|(_, step)| **step == "archive: unlink");
    let removals: Vec<usize> = removals.map(|(place, _)| place).collect();
    assert_eq!(steps[removals[0] - 1], "archive: folder fsynced");
    assert!(removals.len() >= 8, "{steps:?}");
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

fn retire(archive: &Archive, model: &mut Model, numbers: &[u64]) {
    for number in numbers {
        archive.retire(*number).unwrap();
        model.remove(number);
    }
}

#[test]
fn a_write_is_there_wholly_or_not_at_all() {
    for retired in [&[][..], &[2], &[3]] {
        let folder = common::folder();
        let (archive, mut before) = history(folder.path(), 3);
        let mut content = before[&3].clone();
        retire(&archive, &mut before, retired);
        let mut after = before.clone();
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
}

#[test]
fn a_version_is_given_up_wholly_or_not_at_all() {
    for number in 1..=6 {
        for retired_before in [&[][..], &[2], &[5], &[4, 5], &[2, 3, 4]] {
            let folder = common::folder();
            let (archive, mut before) = history(folder.path(), 6);
            for gone in retired_before.iter().filter(|gone| **gone != number) {
                retire(&archive, &mut before, &[*gone]);
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
    let mut merged = 0;
    for numbers in [&[][..], &[2, 3, 4, 5, 6, 7], &[9, 10, 11, 12], &[1, 8], &[14, 13], &[16]] {
        retire(&archive, &mut model, numbers);
        let before = archive.stats().unwrap();
        let images = images_of(folder.path(), || _ = compact(&archive));
        assert_holds(&archive, &model);
        merged += usize::from(archive.stats().unwrap() != before);
        check_images(images, &model, &model, |archive| _ = compact(archive));
    }
    assert!(merged >= 3, "{merged} compactions have merged segments");
}

#[test]
fn a_version_is_written_anew_wholly_or_not_at_all() {
    for number in [1, 3, 6] {
        let folder = common::folder();
        let (archive, mut model) = history(folder.path(), 6);
        retire(&archive, &mut model, &[2, 4]);
        let anew = |archive: &Archive| {
            let pages = &model[&number].pages;
            let rebuilt = common::rebuild(archive, number, |rebuild| {
                pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
            });
            assert!(rebuilt.unwrap().is_some());
        };
        let images = images_of(folder.path(), || anew(&archive));
        check_images(images, &model, &model, anew);
    }
}

#[test]
fn a_version_whose_file_is_lost_is_put_back_wholly_or_not_at_all() {
    let folder = common::folder();
    let (archive, after) = history(folder.path(), 6);
    let meta = archive.describe(6).unwrap();
    drop(archive);
    std::fs::remove_file(folder.path().join("000000000006.segment")).unwrap();
    let archive = open(folder.path());
    let mut before = after.clone();
    before.remove(&6);
    assert_holds(&archive, &before);
    let put_back = |archive: &Archive| {
        let pages = &after[&6].pages;
        let read =
            |rebuild: &mut asat_archive::Rebuild| pages.iter().try_for_each(|page| Ok(rebuild.page(page)?));
        assert!(archive.put_back(meta.clone(), false, read).unwrap().is_some());
    };
    let images = images_of(folder.path(), || put_back(&archive));
    check_images(images, &before, &after, |archive| {
        if !archive.contains(6) {
            put_back(archive);
        }
    });
}

#[test]
fn what_is_repaired_is_damaged_as_before_or_sound() {
    let folder = common::folder();
    let (archive, model) = history(folder.path(), 6);
    drop(archive);
    let path = folder.path().join("000000000003.segment");
    let mut bytes = std::fs::read(&path).unwrap();
    // In the first frame.
    bytes[14] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let contents: Contents =
        model.values().flat_map(|content| content.pages.clone()).map(|page| (check(&page), page)).collect();
    let repair = |archive: &Archive| -> Vec<PutRight> {
        let damage = verify(archive, None).damage;
        archive.repair(&damage, &contents, &mut |_| ControlFlow::Continue(())).unwrap()
    };
    let archive = open(folder.path());
    let images = images_of(folder.path(), || while !repair(&archive).is_empty() {});
    assert_holds(&archive, &model);
    for image in images {
        let folder = common::folder();
        put_files(folder.path(), &image);
        let archive = open(folder.path());
        assert_eq!(archive.live(), [1, 2, 3, 4, 5, 6]);
        for number in archive.live() {
            // Nothing else is taken for what is damaged.
            match common::read(&archive, number) {
                Ok(bytes) => assert!(bytes == model[&number].bytes(), "version {number}"),
                Err(error) => assert!(error.is_loss(), "{error}"),
            }
        }
        while !repair(&archive).is_empty() {}
        assert_holds(&archive, &model);
    }
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

#[test]
fn an_opening_that_is_interrupted_is_done_again() {
    let folder = common::folder();
    let (archive, mut model) = history(folder.path(), 12);
    retire(&archive, &mut model, &[2, 3, 4, 5]);
    let before = files(folder.path());
    compact(&archive);
    drop(archive);
    // What compaction has removed is there again, and so are drafts.
    let missing = |(name, _): &&(String, Vec<u8>)| !folder.path().join(name).exists();
    let removed: Image = before.iter().filter(missing).cloned().collect();
    assert!(removed.len() > 8, "{}", removed.len());
    put_files(folder.path(), &removed);
    for nth in 1..4 {
        std::fs::write(folder.path().join(format!("{nth:020}.tmp")), vec![0; 100 * nth]).unwrap();
    }
    let images = images_of(folder.path(), || {
        let (archive, opened) = Archive::open(folder.path()).unwrap();
        assert!(opened.removed.len() >= removed.len() + 2, "{opened:?}");
        assert_holds(&archive, &model);
    });
    check_images(images, &model, &model, |_| {});
    // The first opening makes the folder.
    let empty = common::folder();
    let place = empty.path().join("archive").join("report");
    let steps = steps_of(|| assert_eq!(Archive::open(&place).unwrap().1, Opened::default()));
    assert_eq!(steps, ["archive: create folder", "archive: folder created"]);
}
