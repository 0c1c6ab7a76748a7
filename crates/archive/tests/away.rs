//! What is written, given up, merged and repaired while a file is damaged or away: nothing else is served then, and nothing is lost that
//! the file needs when it is back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use asat_archive::Contents;
use asat_core::boundary::{self, Scheduler};
use common::{Content, files, go_on, open, page, put_files, read, verify, write};

fn segment(folder: &tempfile::TempDir, number: u64) -> PathBuf {
    folder.path().join(format!("{number:012}.segment"))
}

/// Flips a bit of the index of a segment that has one block: it begins where the frames end, which the footer says.
fn damage_only_block(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let footer = bytes.len() - 172;
    let frames_end = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
    bytes[usize::try_from(frames_end).unwrap()] ^= 1;
    fs::write(path, &bytes).unwrap();
}

/// A report of one version is no ground for leaving out what others need.
#[test]
fn repair_by_a_report_of_one_version_changes_no_other() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, 1..=4);
    write(&archive, 1, &content).unwrap();
    content.pages[0] = page(512, 50);
    // The second file has page 1 alone.
    write(&archive, 2, &content).unwrap();
    let second = content.bytes();
    content.pages[0] = page(512, 60);
    // The third has it once more, so version 3 needs nothing of the second.
    write(&archive, 3, &content).unwrap();
    drop(archive);
    damage_only_block(&segment(&folder, 2));
    let archive = open(folder.path());
    assert!(read(&archive, 2).is_err(), "damaged, and said so");
    let report = verify(&archive, Some(3));
    archive.repair(&report.damage, &Contents::new(), &mut go_on).unwrap();
    let now = read(&archive, 2);
    assert!(now.is_err() || now.unwrap() == second, "version 2 is served as something else");
}

/// A file is lost, another one damaged, both are in the backup. The lost one is put back.
#[test]
fn what_a_lost_version_needs_is_not_left_out() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, 1..=4);
    write(&archive, 1, &content).unwrap();
    content.pages[0] = page(512, 50);
    write(&archive, 2, &content).unwrap();
    content.pages[1] = page(512, 51);
    write(&archive, 3, &content).unwrap();
    let third = content.bytes();
    content.pages[0] = page(512, 60);
    content.pages[1] = page(512, 61);
    write(&archive, 4, &content).unwrap();
    archive.retire(2).unwrap();
    drop(archive);
    let backup = files(folder.path());
    damage_only_block(&segment(&folder, 2));
    fs::remove_file(segment(&folder, 3)).unwrap();
    let archive = open(folder.path());
    let report = verify(&archive, None);
    let _ = archive.repair(&report.damage, &Contents::new(), &mut go_on);
    drop(archive);
    // What is missing or damaged is put back from the backup.
    put_files(folder.path(), &backup[..3]);
    let archive = open(folder.path());
    let now = read(&archive, 3);
    assert!(now.unwrap() == third, "version 3 is served as something else");
}

/// A file is away while a compaction runs, and comes back.
#[test]
fn what_lies_below_a_lost_file_is_kept() {
    for away in [2, 3] {
        let folder = common::folder();
        let archive = open(folder.path());
        let mut content = Content::new(512, 1..=4);
        // It cannot be compressed, so what follows is stored as a difference.
        content.pages[1] = page(512, 3);
        let mut last = Vec::new();
        for number in 1..=4_u64 {
            write(&archive, number, &content).unwrap();
            last = content.bytes();
            content.edit(1, 40 * usize::try_from(number).unwrap(), 77);
        }
        (1..=3).for_each(|number| _ = archive.retire(number).unwrap());
        drop(archive);
        let file = fs::read(segment(&folder, away)).unwrap();
        fs::remove_file(segment(&folder, away)).unwrap();
        let archive = open(folder.path());
        assert!(read(&archive, 4).is_err());
        let _ = archive.compact(&mut go_on);
        drop(archive);
        fs::write(segment(&folder, away), &file).unwrap();
        let archive = open(folder.path());
        assert!(read(&archive, 4).is_ok_and(|read| read == last), "away {away}");
    }
}

/// Given up while a newer file is unread; that is forgotten then.
#[test]
fn what_was_given_up_below_an_unread_file_is_not_seen() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, 1..=4);
    write(&archive, 1, &content).unwrap();
    let first = content.clone();
    content.pages[0] = page(512, 50);
    write(&archive, 2, &content).unwrap();
    content.pages[1] = page(512, 51);
    write(&archive, 3, &content).unwrap();
    drop(archive);
    let bytes = fs::read(segment(&folder, 3)).unwrap();
    fs::write(segment(&folder, 3), &bytes[..100]).unwrap();
    let archive = open(folder.path());
    archive.retire(2).unwrap();
    archive.forget_unread().unwrap();
    let mut content = first;
    content.pages[2] = page(512, 70);
    write(&archive, 4, &content).unwrap();
    assert!(read(&archive, 4).unwrap() == content.bytes());
    drop(archive);
    let archive = open(folder.path());
    assert!(read(&archive, 4).unwrap() == content.bytes(), "version 4 is served as something else");
}

/// Puts a file back when a thread is about to open a segment for the nth time.
struct PutsBack;

/// How many openings of segments come before, and where the file is, and was.
type Place = (usize, PathBuf, PathBuf);

thread_local! {
    static AWAY: RefCell<Option<Place>> = const { RefCell::new(None) };
}

impl Scheduler for PutsBack {
    fn step(&self, name: &'static str) {
        if name != "archive: open a segment" {
            return;
        }
        AWAY.with_borrow_mut(|away| match away {
            Some((0, is, was)) => {
                fs::rename(is, was).unwrap();
                *away = None;
            }
            Some((left, ..)) => *left -= 1,
            None => {}
        });
    }

    fn blocked(&self, _: &'static str) -> bool {
        false
    }

    fn fork(&self) -> Option<usize> {
        None
    }

    fn begin(&self, _: usize) {}

    fn end(&self, _: usize) {}

    fn join(&self, _: usize) {}
}

/// What is done while a file is put back.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Merge,
    Repair,
    Publish,
    Retire,
}

/// A file is put back at any moment of what changes an archive: all versions are what they were after that.
#[test]
fn a_file_that_is_put_back_meanwhile_loses_nothing() {
    boundary::schedule(&PutsBack);
    let cases = [
        (Meanwhile::Merge, 3),
        (Meanwhile::Repair, 3),
        (Meanwhile::Publish, 5),
        (Meanwhile::Retire, 3),
        (Meanwhile::Retire, 5),
    ];
    for (meanwhile, file) in cases {
        let openings = (0..).take_while(|nth| is_put_back(meanwhile, file, *nth)).count();
        assert!(openings > 3, "{meanwhile:?}: {openings}");
    }
}

/// Puts a file back before a segment is opened for the nth time; answers whether it was opened so often.
fn is_put_back(meanwhile: Meanwhile, file: u64, nth: usize) -> bool {
    let (folder, mut contents) = (common::folder(), BTreeMap::new());
    let archive = open(folder.path());
    let mut content = Content::new(512, 1..=12);
    for number in 1..=6 {
        content.pages[0] = page(512, 100 + number);
        // What pages became at version 2, only version 3 shows; and what they become at 5, the next one does not.
        let changed = if matches!(number, 2 | 4 | 5) { 1..12 } else { 0..0 };
        changed.for_each(|nth| content.pages[nth] = page(512, 1000 * number + nth as u64));
        if number == 6 {
            content.clone_from(&contents[&4]);
            content.pages[0] = page(512, 106);
        } else {
            write(&archive, number, &content).unwrap();
        }
        contents.insert(number, content.clone());
    }
    archive.retire(2).unwrap();
    drop(archive);
    let (is, was) = (folder.path().join("away"), segment(&folder, file));
    fs::rename(&was, &is).unwrap();
    let archive = open(folder.path());
    AWAY.set(Some((nth, is.clone(), was.clone())));
    match meanwhile {
        Meanwhile::Merge => _ = archive.compact(&mut go_on),
        Meanwhile::Repair => {
            let report = verify(&archive, None);
            let _ = archive.repair(&report.damage, &Contents::new(), &mut go_on);
        }
        Meanwhile::Publish => _ = write(&archive, 6, &contents[&6]).unwrap(),
        Meanwhile::Retire => {
            archive.retire(4).unwrap();
            archive.compact(&mut go_on).unwrap();
        }
    }
    let was_put_back = AWAY.take().is_none();
    if !was_put_back {
        fs::rename(&is, &was).unwrap();
    }
    drop(archive);
    let archive = open(folder.path());
    for number in archive.live() {
        let found = read(&archive, number).unwrap();
        assert!(
            found == contents[&number].bytes(),
            "{meanwhile:?}: version {number}, put back before opening {nth}"
        );
    }
    assert!(archive.contains(file), "{meanwhile:?}: put back before opening {nth}");
    was_put_back
}
