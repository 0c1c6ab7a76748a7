//! Somebody waits until the last page of a version is taken, or nobody does.

use crate::common::{Content, cut, files, folder, open, read, write};

/// Several times what waits in memory to be compressed.
const PAGES: u64 = 600;

#[test]
fn the_same_is_stored_whether_somebody_waits_or_not() {
    let content = Content::new(65_536, 1..=PAGES);
    let stored = [false, true].map(|hurries| {
        let folder = folder();
        let archive = open(folder.path());
        let mut writer = archive.begin(1, content.page_size(), content.count()).unwrap();
        if hurries {
            writer.hurry();
        }
        (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
        writer.finish(cut()).unwrap();
        assert!(read(&archive, 1).unwrap() == content.bytes(), "hurries: {hurries}");
        files(folder.path())
    });
    assert!(stored[0] == stored[1]);
}

/// Several threads make the differences, and each is written in its place: whatever the order in which they are made, the bytes are the same.
#[test]
fn differences_that_several_threads_make_are_the_same_each_time() {
    let first = Content::new(1024, 1..=PAGES * 10);
    let mut second = first.clone();
    (0..second.pages.len()).for_each(|nth| second.edit(nth, nth % 900, 1 + u8::try_from(nth % 200).unwrap()));
    let stored = [(); 3].map(|()| {
        let folder = folder();
        let archive = open(folder.path());
        for (number, content) in (1..).zip([&first, &second]) {
            write(&archive, number, content).unwrap();
        }
        assert!(read(&archive, 1).unwrap() == first.bytes() && read(&archive, 2).unwrap() == second.bytes());
        files(folder.path())
    });
    assert!(stored.iter().all(|files| *files == stored[0]));
}

#[test]
fn a_version_that_is_given_up_leaves_nothing_whether_somebody_waits_or_not() {
    let content = Content::new(65_536, 1..=PAGES);
    for hurries in [false, true] {
        let folder = folder();
        let archive = open(folder.path());
        let before = files(folder.path());
        let mut writer = archive.begin(1, content.page_size(), content.count()).unwrap();
        if hurries {
            writer.hurry();
        }
        (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
        drop(writer);
        assert!(files(folder.path()) == before, "hurries: {hurries}");
    }
}
