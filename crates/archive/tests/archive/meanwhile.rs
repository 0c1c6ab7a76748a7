//! What happens while segments are merged: versions are given up and written, and what was computed before that must not be
//! relied upon.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::common::{self, Content, Model, assert_holds, compact, cut, folder, open, page, write};
use asat_archive::{Archive, Compacted, Reader};

/// A page that cannot be compressed, so that it is worth giving back.
fn raw(seed: u64) -> Vec<u8> {
    page(512, 21 * seed + 3)
}

/// Seven versions of twelve pages, in each of which every page is another, but for two: one never changes, and of the other one a little
/// changes each time.
fn seven(archive: &Archive) -> Model {
    let (mut model, mut little) = (Model::new(), raw(2));
    for number in 1..=7 {
        let mut content =
            Content { page_size: 512, pages: (0..12).map(|nth| raw(number * 100 + nth)).collect() };
        little[usize::try_from(number).unwrap() * 20] ^= 9;
        content.pages.extend([raw(1), little.clone()]);
        write(archive, number, &content).unwrap();
        model.insert(number, content);
    }
    model
}

fn retire(archive: &Archive, model: &mut Model, number: u64) {
    archive.retire(number).unwrap();
    model.remove(&number);
}

/// Compacts, and does something once, when a merge is under way.
fn compact_and(archive: &Archive, meanwhile: impl FnOnce()) -> Compacted {
    let (mut meanwhile, mut asked) = (Some(meanwhile), 0);
    let compacted = archive.compact(&mut |_| {
        asked += 1;
        // It is asked before each merge, and when the first segment was read.
        if asked == 2 {
            meanwhile.take().into_iter().for_each(|meanwhile| meanwhile());
        }
        ControlFlow::Continue(())
    });
    assert!(meanwhile.is_none(), "nothing was merged");
    compacted.unwrap()
}

fn readers(archive: &Archive, model: &Model) -> Vec<(u64, Reader)> {
    model.keys().map(|number| (*number, archive.read(*number).unwrap())).collect()
}

/// Those who read go on, and in the end all is as if nothing had happened meanwhile.
fn assert_settles(archive: &Archive, model: &Model, readers: Vec<(u64, Reader)>, was: &Model) {
    for (number, reader) in readers {
        let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
        reader.read_at(0, &mut bytes).unwrap();
        assert!(bytes == was[&number].bytes(), "version {number} as it was read before");
    }
    assert_holds(archive, model);
    while compact(archive).more {}
    assert_holds(archive, model);
    let fresh = folder();
    let fresh = open(fresh.path());
    model.iter().for_each(|(&number, content)| _ = write(&fresh, number, content).unwrap());
    assert!(
        archive.bytes() <= fresh.bytes() * 6 / 5 + 1000,
        "{} bytes, {} when fresh",
        archive.bytes(),
        fresh.bytes()
    );
    let folder = archive.folder().to_owned();
    let copy = common::folder();
    common::put_files(copy.path(), &common::files(&folder));
    assert_holds(&open(copy.path()), model);
}

#[test]
fn versions_may_be_given_up_while_segments_are_merged() {
    for given_up in [&[2][..], &[4], &[1], &[7], &[7, 6, 5, 4], &[4, 5, 6], &[1, 2, 4, 5, 6, 7]] {
        let folder = folder();
        let archive = open(folder.path());
        let mut model = seven(&archive);
        retire(&archive, &mut model, 3);
        let (readers, was) = (readers(&archive, &model), model.clone());
        compact_and(&archive, || given_up.iter().for_each(|number| _ = archive.retire(*number).unwrap()));
        model.retain(|number, _| !given_up.contains(number));
        assert_settles(&archive, &model, readers, &was);
    }
}

#[test]
fn a_version_that_is_published_while_segments_are_merged_keeps_what_it_leaves_out() {
    for given_up in [2, 4, 6] {
        let folder = folder();
        let archive = open(folder.path());
        let mut model = seven(&archive);
        retire(&archive, &mut model, 3);
        let mut content = model[&7].clone();
        content.pages[5] = raw(205);
        content.edit(13, 300, 7);
        let mut writer = archive.begin(8, content.page_size(), content.count()).unwrap();
        (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
        let (readers, was) = (readers(&archive, &model), model.clone());
        compact_and(&archive, || {
            assert!(!archive.wait_for_writer(Duration::ZERO));
            writer.finish(cut()).unwrap();
            assert!(archive.wait_for_writer(Duration::ZERO));
            archive.retire(given_up).unwrap();
        });
        model.remove(&given_up);
        model.insert(8, content);
        assert_settles(&archive, &model, readers, &was);
    }
}

#[test]
fn a_version_that_was_begun_before_keeps_what_it_leaves_out() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = seven(&archive);
    let mut content = model[&7].clone();
    content.edit(13, 300, 7);
    let mut writer = archive.begin(8, content.page_size(), content.count()).unwrap();
    (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
    for number in 1..=6 {
        retire(&archive, &mut model, number);
        compact(&archive);
    }
    writer.finish(cut()).unwrap();
    model.insert(8, content);
    retire(&archive, &mut model, 7);
    assert_settles(&archive, &model, vec![], &Model::new());
}

#[test]
fn a_merge_that_is_stopped_leaves_everything_as_it_was() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = seven(&archive);
    retire(&archive, &mut model, 3);
    for after in 0..3 {
        let (before, mut asked) = (common::files(folder.path()), 0);
        let compacted = archive.compact(&mut |_| {
            asked += 1;
            if asked > after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(compacted.unwrap().more);
        assert!(archive.is_worth_compacting());
        assert!(common::files(folder.path()) == before, "stopped when asked {after} times");
    }
    assert!(!compact(&archive).more);
    // Nothing is left to do; that is known when it was looked at once more.
    compact(&archive);
    assert!(!archive.is_worth_compacting());
    assert_settles(&archive, &model, vec![], &Model::new());
}
