//! Versions that are written anew: all others stay what they are, whatever was written and given up while they were lost.

use std::path::Path;

use crate::common::{self, Content, Model, assert_holds, compact, open, page, read, write};
use asat_archive::{Archive, Meta, Retired};
use asat_core::Code;

/// As many versions: a page never changes, one a little each time, and another one wholly.
fn history(archive: &Archive, count: u64) -> Model {
    let (mut content, mut model) = (Content::new(512, (1..9).map(|seed| 21 * seed + 3)), Model::new());
    for number in 1..=count {
        let nth = usize::try_from(number).unwrap();
        content.edit(0, nth * 20, 7);
        content.edit(nth % 4 + 1, 100, 9);
        content.pages[nth % 3 + 5] = page(512, 21 * (number + 100) + 3);
        write(archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    model
}

fn lose(folder: &Path, file: u64) {
    std::fs::remove_file(folder.join(format!("{file:012}.segment"))).unwrap();
}

fn put_back(archive: &Archive, meta: &Meta, content: &Content) -> Result<(), Code> {
    let put_back = archive.put_back(meta.clone(), false, |rebuild| {
        content.pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
    });
    put_back.map(|file| assert!(file.is_some(), "it is another content")).map_err(|problem| problem.code)
}

fn rebuild(archive: &Archive, number: u64, content: &Content) -> Result<(), Code> {
    let rebuilt = common::rebuild(archive, number, |rebuild| {
        content.pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
    });
    rebuilt.map(|file| assert!(file.is_some(), "it is another content")).map_err(|problem| problem.code)
}

/// It holds now, after merges, and after a start.
fn assert_settles(archive: Archive, model: &Model) {
    assert_holds(&archive, model);
    compact(&archive);
    assert_holds(&archive, model);
    let folder = archive.folder().to_owned();
    drop(archive);
    assert_holds(&open(&folder), model);
}

#[test]
fn what_later_versions_have_in_common_with_older_ones_stays() {
    for number in 1..=7 {
        for retired in [&[][..], &[1], &[2, 3], &[6]] {
            let folder = common::folder();
            let archive = open(folder.path());
            let mut model = history(&archive, 7);
            for gone in retired.iter().filter(|gone| **gone != number) {
                archive.retire(*gone).unwrap();
                model.remove(gone);
            }
            rebuild(&archive, number, &model[&number]).unwrap();
            assert_holds(&archive, &model);
            let mut content = model[&7].clone();
            content.edit(0, 300, 7);
            content.edit(4, 300, 7);
            write(&archive, 8, &content).unwrap();
            model.insert(8, content);
            assert_settles(archive, &model);
        }
    }
}

#[test]
fn a_version_that_was_written_while_another_one_was_not_known_stays_what_it_is() {
    for has_other_pages in [true, false] {
        let folder = common::folder();
        let archive = open(folder.path());
        let mut model = history(&archive, 7);
        let meta = archive.describe(7).unwrap();
        drop(archive);
        // Nothing says that there was a seventh version: its file was the newest one.
        lose(folder.path(), 7);
        let archive = open(folder.path());
        assert_eq!(archive.newest(), Some(6));
        let mut content = model[&6].clone();
        content.edit(3, 300, 7);
        content.pages.extend(has_other_pages.then(|| page(512, 5000)));
        write(&archive, 8, &content).unwrap();
        content.edit(2, 300, 7);
        write(&archive, 9, &content).unwrap();
        let (eight, nine) = (read(&archive, 8).unwrap(), content);
        archive.retire(8).unwrap();
        put_back(&archive, &meta, &model[&7]).unwrap();
        model.insert(9, nine);
        assert_holds(&archive, &model);
        assert_ne!(eight, model[&9].bytes());
        assert_settles(archive, &model);
    }
}

#[test]
fn a_version_that_is_written_above_a_lost_one_does_not_lie_upon_what_is_below() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 7);
    let meta = archive.describe(7).unwrap();
    archive.retire(2).unwrap();
    model.remove(&2);
    drop(archive);
    lose(folder.path(), 7);
    let archive = open(folder.path());
    let mut content = model[&6].clone();
    content.edit(3, 300, 7);
    let mut writer = archive.begin(8, content.page_size(), content.count()).unwrap();
    assert_eq!(writer.compared_with(), None);
    (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
    // Nothing is put back meanwhile.
    assert_eq!(put_back(&archive, &meta, &model[&7]), Err(Code::InUse));
    assert_eq!(rebuild(&archive, 4, &model[&4]), Err(Code::InUse));
    writer.finish(common::cut()).unwrap();
    assert_eq!(read(&archive, 8).unwrap(), content.bytes());
    put_back(&archive, &meta, &model[&7]).unwrap();
    model.insert(8, content);
    assert_settles(archive, &model);
}

#[test]
fn giving_up_the_version_below_a_lost_one_does_not_give_up_that() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 7);
    let meta = archive.describe(7).unwrap();
    archive.retire(2).unwrap();
    drop(archive);
    lose(folder.path(), 7);
    let archive = open(folder.path());
    assert!(matches!(archive.retire(6).unwrap(), Retired::Retired { .. }));
    [2, 6].iter().for_each(|number| _ = model.remove(number));
    put_back(&archive, &meta, &model[&7]).unwrap();
    assert_settles(archive, &model);
}

#[test]
fn a_version_that_was_given_up_does_not_come_back() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut model = history(&archive, 7);
    for number in [4, 7] {
        archive.retire(number).unwrap();
        let content = model.remove(&number).unwrap();
        assert_eq!(rebuild(&archive, number, &content), Err(Code::NotReadable));
    }
    // Nor where it is given up meanwhile; and what is no content of it changes nothing.
    let pages = model[&5].pages.clone();
    let rebuilt = common::rebuild(&archive, 5, |rebuild| {
        archive.retire(5)?;
        pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
    });
    assert_eq!(rebuilt.unwrap_err().code, Code::NotReadable);
    model.remove(&5);
    let other =
        common::rebuild(&archive, 6, |rebuild| pages.iter().try_for_each(|page| Ok(rebuild.page(page)?)));
    assert_eq!(other.unwrap(), None);
    assert_settles(archive, &model);
}

#[test]
fn a_version_can_be_written_while_the_content_of_another_is_read_that_is_written_anew() {
    for is_known in [true, false] {
        let folder = common::folder();
        let archive = open(folder.path());
        let mut model = history(&archive, 7);
        let meta = archive.describe(7).unwrap();
        drop(archive);
        if !is_known {
            lose(folder.path(), 7);
        }
        let archive = open(folder.path());
        let mut content = model[&6].clone();
        content.edit(0, 300, 7);
        content.edit(3, 300, 7);
        let pages = &model[&7].pages;
        let put_back = archive.put_back(meta.clone(), false, |rebuild| {
            write(&archive, 8, &content).unwrap();
            pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
        });
        if is_known {
            assert!(put_back.unwrap().is_some());
        } else {
            // What is written now would be seen in what was written meanwhile, which was not compared with it.
            assert_eq!(put_back.unwrap_err().code, Code::InUse);
            assert_eq!((archive.live().last(), read(&archive, 8).unwrap()), (Some(&8), content.bytes()));
            self::put_back(&archive, &meta, &model[&7]).unwrap();
        }
        model.insert(8, content);
        assert_settles(archive, &model);
    }
}

/// Reading a version takes as long as the store is large, and nobody waits for that who publishes.
#[test]
fn versions_are_published_and_given_up_while_one_is_written_anew() {
    for number in 1..=7_u64 {
        for gone in [None, Some(6), Some(7)].into_iter().filter(|gone| *gone != Some(number)) {
            let folder = common::folder();
            let archive = open(folder.path());
            let mut model = history(&archive, 7);
            let (mut last, content) = (model[&7].clone(), model[&number].clone());
            let rebuilt = common::rebuild(&archive, number, |rebuild| {
                for next in [8, 9] {
                    last.edit(0, 300, 5);
                    last.edit(next % 4, 200, 9);
                    write(&archive, next as u64, &last)?;
                    model.insert(next as u64, last.clone());
                }
                if let Some(gone) = gone {
                    archive.retire(gone)?;
                    model.remove(&gone);
                }
                Ok(content.pages.iter().try_for_each(|page| rebuild.page(page))?)
            });
            assert!(rebuilt.unwrap().is_some());
            assert_settles(archive, &model);
        }
    }
}

/// What was never known is put below what there is then, or not at all.
#[test]
fn what_is_published_while_an_unknown_version_is_put_back_shows_nothing_of_it() {
    for (known, meanwhile) in [(&[1_u64][..], 4_u64), (&[1, 3], 4), (&[1, 3, 4], 5)] {
        for retired in [None, Some(3)] {
            let folder = common::folder();
            let archive = open(folder.path());
            let mut model = history(&archive, 1);
            let (first, mut content) = (model[&1].clone(), model[&1].clone());
            for number in known.iter().skip(1) {
                content.edit(3, 40, 1);
                write(&archive, *number, &content).unwrap();
                model.insert(*number, content.clone());
            }
            let mut second = first;
            second.pages[6] = page(512, 21 * 777 + 3);
            let mut fingerprinter = asat_archive::Fingerprinter::new(second.page_size(), second.count());
            second.pages.iter().for_each(|page| _ = fingerprinter.page(page));
            let meta =
                Meta { number: 2, fingerprint: fingerprinter.finish(), ..archive.describe(1).unwrap() };
            let put_back = archive.put_back(meta, false, |rebuild| {
                content.edit(4, 40, 1);
                write(&archive, meanwhile, &content)?;
                model.insert(meanwhile, content.clone());
                if let Some(retired) = retired.filter(|retired| known.contains(retired)) {
                    archive.retire(retired)?;
                    model.remove(&retired);
                }
                Ok(second.pages.iter().try_for_each(|page| rebuild.page(page))?)
            });
            match put_back {
                Ok(file) => _ = file.map(|_| model.insert(2, second)).unwrap(),
                Err(problem) => assert_eq!(problem.code, Code::InUse, "{problem}"),
            }
            assert_settles(archive, &model);
        }
    }
}
