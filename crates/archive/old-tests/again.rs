//! Pages that are again what they once were: they are stored once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use asat_archive::Archive;
use common::{Content, Model, assert_holds, compact, cut, files, folder, open, page, verify, write};

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
fn a_store_that_is_brought_back_takes_next_to_nothing() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 20);
    for (number, back) in [(21, 1), (22, 20), (23, 11)] {
        let content = model[&back].clone();
        write(&archive, number, &content).unwrap();
        model.insert(number, content);
        let bytes = archive.stored_bytes(number).unwrap();
        assert!(bytes < 36 * 100 + 600, "version {number} is version {back} again, and takes {bytes} bytes");
    }
    assert_holds(&archive, &model);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

#[test]
fn what_a_later_version_has_from_a_given_up_one_stays() {
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
    // It is stored once more, where it is needed.
    let fresh = common::folder();
    let fresh = open(fresh.path());
    model.iter().for_each(|(&number, content)| _ = write(&fresh, number, content).unwrap());
    assert!(archive.bytes() < fresh.bytes() * 6 / 5, "{} bytes, {} fresh", archive.bytes(), fresh.bytes());
}

#[test]
fn the_pace_hears_of_every_byte_that_compaction_writes() {
    let folder = folder();
    let archive = open(folder.path());
    let model = history(&archive, 6);
    // It refers to versions up to the third, and is written anew when those are folded.
    write(&archive, 7, &model[&3]).unwrap();
    (1..=3).for_each(|number| _ = archive.retire(number).unwrap());
    let (before, mut told) = (files(folder.path()), 0);
    let compacted = archive.compact(&mut |bytes| {
        told += bytes;
        ControlFlow::Continue(())
    });
    compacted.unwrap();
    let after = files(folder.path());
    let new: Vec<_> = after.iter().filter(|file| !before.contains(file)).collect();
    let names: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["1-4.pack", "7.pack"]);
    assert_eq!(told, new.iter().map(|(_, bytes)| u64::try_from(bytes.len()).unwrap()).sum::<u64>());
}

#[test]
fn a_version_that_is_being_written_keeps_what_it_may_refer_to() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 6);
    let content = model[&2].clone();
    let mut writer = archive.begin(7, content.page_size(), content.count()).unwrap();
    (1..).zip(&content.pages).for_each(|(nth, page)| writer.page(nth, page).unwrap());
    for number in [1, 2, 3] {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    assert!(compact(&archive).more, "it waits for the version that is written");
    archive.wait_for_writer(Duration::ZERO);
    writer.finish(cut()).unwrap();
    archive.wait_for_writer(Duration::from_secs(60));
    model.insert(7, content);
    assert_holds(&archive, &model);
    assert!(!compact(&archive).more);
    assert_holds(&archive, &model);
    assert_eq!(files(folder.path()).len(), 4);
}

#[test]
fn a_page_that_is_damaged_is_stored_again() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 4);
    let file = std::fs::File::options().write(true).open(folder.path().join("1.pack")).unwrap();
    // The frame of page 6, which changes in version 2, is the sixth of as many raw pages.
    file.write_all_at(b"damaged", 12 + 5 * 512).unwrap();
    let content = model[&1].clone();
    write(&archive, 5, &content).unwrap();
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
    let model = history(&archive, 3);
    write(&archive, 4, &model[&1]).unwrap();
    let stats = archive.stats().unwrap();
    let only: Vec<u64> = stats.versions.iter().map(|version| version.only_bytes).collect();
    // Ten pages of the first version are only in it and in the fourth.
    assert!(only[0] == 0 && only[1] == 0, "{only:?}");
    assert_eq!(only[2], 5 * (512 + 35), "{only:?}");
    archive.retire(4).unwrap();
    assert_eq!(archive.stats().unwrap().versions[0].only_bytes, 5 * (512 + 35));
}
