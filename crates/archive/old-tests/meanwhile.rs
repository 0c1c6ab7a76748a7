//! What happens while compaction is under way: versions are given up and written, and what was computed before that must not be
//! relied upon.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::ops::ControlFlow;

use asat_archive::{Archive, Compacted};
use common::{Content, Model, assert_holds, compact, cut, folder, open, page, write};

/// A page that cannot be compressed, so that it is worth referring to.
fn raw(seed: u64) -> Vec<u8> {
    page(512, 21 * seed + 3)
}

/// Seven versions of twelve pages, in each of which every page is another, but that the sixth has pages again that earlier ones
/// had.
fn seven(archive: &Archive, again: &[u64]) -> Model {
    let mut model = Model::new();
    for number in 1..=7 {
        let mut content =
            Content { page_size: 512, pages: (0..12).map(|nth| raw(number * 100 + nth)).collect() };
        if number == 6 {
            again.iter().for_each(|seed| content.pages[usize::try_from(seed % 100).unwrap()] = raw(*seed));
        }
        // What all have in common, so that none of them stands alone.
        content.pages.push(raw(1));
        write(archive, number, &content).unwrap();
        model.insert(number, content);
    }
    model
}

fn retire(archive: &Archive, model: &mut Model, number: u64) {
    archive.retire(number).unwrap();
    model.remove(&number);
}

/// Compacts, and does something once, when the first layer that referred to the run was written anew.
fn compact_and(archive: &Archive, meanwhile: impl FnOnce()) -> Compacted {
    let mut meanwhile = Some(meanwhile);
    let compacted = archive.compact(&mut |written| {
        if written > 0 {
            meanwhile.take().into_iter().for_each(|meanwhile| meanwhile());
        }
        ControlFlow::Continue(())
    });
    assert!(meanwhile.is_none(), "nothing was led elsewhere");
    compacted.unwrap()
}

/// In the end all is as if nothing had happened meanwhile.
fn assert_settles(archive: &Archive, model: &Model) {
    assert_holds(archive, model);
    while compact(archive).more {}
    assert_holds(archive, model);
    assert_eq!(compact(archive).layers_after, model.len());
    assert_holds(archive, model);
}

#[test]
fn a_run_that_grows_while_references_to_it_are_led_elsewhere_is_not_folded_with_the_new_part_referred_to() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = seven(&archive, &[203, 304]);
    retire(&archive, &mut model, 3);
    compact_and(&archive, || _ = archive.retire(2).unwrap());
    model.remove(&2);
    assert_settles(&archive, &model);
}

#[test]
fn a_version_that_is_published_while_references_are_led_elsewhere_keeps_what_it_refers_to() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = seven(&archive, &[304]);
    retire(&archive, &mut model, 3);
    let mut content = model[&7].clone();
    content.pages[5] = raw(205);
    let mut writer = archive.begin(8, content.page_size(), content.count()).unwrap();
    for (number, page) in (1..).zip(&content.pages) {
        writer.page(number, page).unwrap();
    }
    compact_and(&archive, || {
        writer.finish(cut()).unwrap();
        archive.retire(2).unwrap();
    });
    model.remove(&2);
    model.insert(8, content);
    assert_settles(&archive, &model);
}

#[test]
fn a_version_that_is_given_up_above_a_run_meanwhile_takes_the_run_with_it() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = seven(&archive, &[304]);
    retire(&archive, &mut model, 3);
    compact_and(&archive, || _ = archive.retire(4).unwrap());
    model.remove(&4);
    assert_settles(&archive, &model);
}

#[test]
fn a_newest_version_that_is_given_up_meanwhile_is_no_error() {
    let folder = folder();
    let archive = open(folder.path());
    let mut model = seven(&archive, &[304]);
    retire(&archive, &mut model, 3);
    compact_and(&archive, || [7, 6, 5, 4].into_iter().for_each(|number| _ = archive.retire(number).unwrap()));
    model.retain(|number, _| *number < 4);
    assert_settles(&archive, &model);
}
