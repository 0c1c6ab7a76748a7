//! Pages that are again what they once were.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;

use crate::common::{
    self, Content, Model, assert_holds, compact, cut, files, folder, open, page, verify, write,
};
use asat_archive::{Archive, Kept};

/// Pages that cannot be compressed, and are not alike.
fn raw(seeds: std::ops::Range<u64>) -> Content {
    Content::new(512, seeds.map(|seed| 21 * seed + 3))
}

/// As many versions, in each of which another twentieth of the pages changes.
fn history(archive: &Archive, versions: u64) -> Model {
    let (mut content, mut model) = (raw(1..101), Model::new());
    for number in 1..=versions {
        write(archive, number, &content).unwrap();
        model.insert(number, content.clone());
        for nth in 0..5 {
            let place = usize::try_from(number * 5 + nth).unwrap() % 100;
            content.pages[place] = page(512, 21 * (number * 1000 + nth) + 3);
        }
    }
    model
}

#[test]
fn a_store_that_is_brought_back_is_a_version_of_its_own() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 20);
    for (number, back) in [(21, 1), (22, 20), (23, 11)] {
        let content = model[&back].clone();
        let kept = write(&archive, number, &content).unwrap();
        // As much of it is stored as differs from the version before.
        let before = &model[&(number - 1)].pages;
        let differ = content.pages.iter().zip(before).filter(|(page, before)| page != before).count();
        let expected = u32::try_from(differ).unwrap();
        assert!(matches!(kept, Kept::Stored { pages_changed, .. } if pages_changed == expected), "{kept:?}");
        model.insert(number, content);
    }
    assert_holds(&archive, &model);
    assert_eq!(archive.describe(1).unwrap().fingerprint, archive.describe(21).unwrap().fingerprint);
    drop(archive);
    let archive = open(folder.path());
    assert_holds(&archive, &model);
    for number in [1, 20, 11, 22, 3] {
        archive.retire(number).unwrap();
        model.remove(&number);
        compact(&archive);
        assert_holds(&archive, &model);
    }
}

#[test]
fn what_a_later_version_has_again_from_a_given_up_one_stays() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 6);
    let content = model[&3].clone();
    write(&archive, 7, &content).unwrap();
    model.insert(7, content);
    for number in [3, 2, 1] {
        archive.retire(number).unwrap();
        model.remove(&number);
        assert_holds(&archive, &model);
        compact(&archive);
        assert_holds(&archive, &model);
    }
    // It takes what it would if the others had never been.
    let fresh = common::folder();
    let fresh = open(fresh.path());
    model.iter().for_each(|(&number, content)| _ = write(&fresh, number, content).unwrap());
    assert!(archive.bytes() < fresh.bytes() * 6 / 5, "{} bytes, {} fresh", archive.bytes(), fresh.bytes());
}

#[test]
fn the_pace_hears_of_what_a_merge_writes() {
    let folder = folder();
    let archive = open(folder.path());
    // Every other page of 600 is another one in each version.
    let seed =
        |number: u64, nth: u64| 21 * (if nth.is_multiple_of(2) { nth } else { number * 600 + nth }) + 3;
    let content = |number: u64| Content::new(4096, (0..600).map(|nth| seed(number, nth)));
    (1..=4).for_each(|number| _ = write(&archive, number, &content(number)).unwrap());
    (1..=2).for_each(|number| _ = archive.retire(number).unwrap());
    let (before, mut told, mut most) = (files(folder.path()), 0, 0);
    let compacted = archive.compact(&mut |bytes| {
        (told, most) = (told + bytes, most.max(bytes));
        ControlFlow::Continue(())
    });
    assert!(compacted.unwrap().freed_bytes > 1 << 20);
    let after = files(folder.path());
    let new = after.iter().filter(|file| !before.contains(file)).map(|(_, bytes)| bytes.len() as u64);
    let written: u64 = new.sum();
    assert!(written > 1 << 20 && most < 1 << 20, "{written} bytes, at most {most} at once");
    assert!(told <= written && written - told < 512 << 10, "{told} of {written}");
}

#[test]
fn a_page_that_is_damaged_is_stored_again() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 4);
    let path = folder.path().join("000000000001.segment");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    // The frame of page 6, which changes in version 2, is the sixth of as many raw pages.
    file.write_all_at(b"damaged", 12 + 5 * 512).unwrap();
    let content = model[&1].clone();
    let mut writer = archive.begin(5, content.page_size(), content.count()).unwrap();
    (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
    writer.finish(cut()).unwrap();
    let affected: Vec<u64> =
        verify(&archive, None).findings.into_iter().flat_map(|finding| finding.affects).collect();
    assert_eq!(affected, [1], "the version that is written now has the page from the store");
    archive.retire(1).unwrap();
    model.remove(&1);
    model.insert(5, content);
    assert_eq!(common::read(&archive, 5).unwrap(), model[&5].bytes());
}

#[test]
fn what_two_versions_need_is_said_to_go_with_neither_alone() {
    let folder = folder();
    let archive = open(folder.path());
    history(&archive, 4);
    let only = |archive: &Archive| -> Vec<u64> {
        archive.stats().unwrap().versions.iter().map(|version| version.only_bytes).collect()
    };
    let before = only(&archive);
    // Five pages of the first version are only in it: in the others they are changed. The last has five of its own.
    let five = 5 * 512..6 * 512;
    assert!(
        five.contains(&before[0]) && before[1] == 0 && before[2] == 0 && five.contains(&before[3]),
        "{before:?}"
    );
    archive.retire(1).unwrap();
    let after = only(&archive);
    assert!(five.contains(&after[0]) && after[1] == 0, "{after:?}");
}
