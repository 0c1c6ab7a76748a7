//! What is taken over, what is refused, and what is left as it was.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use asat_archive::{Archive, stores_in};
use asat_core::Code;
use asat_upgrade::{Outcome, Wanted};
use common::{Root, assert_holds, image_of, names, store, upgrade};

fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn every_live_version_is_taken_over_and_the_old_archive_removed() {
    for name in ["few", "some", "many"] {
        let root = Root::with(name);
        let before = bytes_in(&root.archive());
        let outcome = root.upgrade().unwrap();
        assert_eq!((outcome.versions, outcome.bytes_before), (Some(root.versions.len()), before));
        assert!(outcome.left_out.is_empty() && outcome.kept.is_none(), "{outcome:?}");
        assert_eq!(outcome.bytes_after, bytes_in(&root.archive()));
        assert_eq!(names(root.path()), ["report"]);
        assert!(names(&root.archive()).iter().all(|name| name.ends_with(".segment")));
        assert_holds(&root.archive(), &root.versions);
    }
}

#[test]
fn an_upgrade_that_finds_nothing_to_do_says_so() {
    let root = Root::with("few");
    root.upgrade().unwrap();
    let after = image_of(root.path());
    assert_eq!(root.upgrade().unwrap(), Outcome::default());
    assert_eq!(image_of(root.path()), after);
}

#[test]
fn a_store_without_an_archive_is_named() {
    let root = Root::with("few");
    let problem = asat_upgrade::upgrade(root.path(), &"other".parse().unwrap(), &Wanted::default(), &|_| {})
        .unwrap_err();
    assert_eq!(problem.code, Code::UnknownStore);
    assert!(problem.detail.contains("other"), "{problem}");
}

#[test]
fn the_archive_that_is_begun_is_no_stores() {
    let root = Root::with("few");
    fs::create_dir(root.aside()).unwrap();
    assert_eq!(stores_in(root.path()).unwrap(), [store()]);
}

#[test]
fn an_archive_that_another_asat_has_open_is_left_alone() {
    let root = Root::with("few");
    let before = image_of(root.path());
    let folder = fs::File::open(root.archive()).unwrap();
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(root.upgrade().unwrap_err().code, Code::InUse);
    assert_eq!(image_of(root.path()), before);
}

#[test]
fn todays_archive_says_how_an_old_one_is_taken_over() {
    let root = Root::with("few");
    let problem = asat_core::Problem::from(Archive::open(&root.archive()).unwrap_err());
    assert!(problem.detail.contains("format version 4"), "{problem}");
    assert!(problem.hint.contains("asat archive upgrade"), "{problem}");
}

#[test]
fn another_format_is_refused_and_left_as_it_was() {
    for (found, hint) in [(3_u32, "asat export"), (5, "a newer one")] {
        let root = Root::with("few");
        let path = root.file_of(root.versions[2].number);
        let mut bytes = fs::read(&path).unwrap();
        let again = bytes.len() - 12;
        bytes[8..12].copy_from_slice(&found.to_le_bytes());
        bytes[again..again + 4].copy_from_slice(&found.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let before = image_of(root.path());
        for leave_damaged in [false, true] {
            let problem = upgrade(root.path(), leave_damaged).unwrap_err();
            assert_eq!(problem.code, Code::NotReadable);
            assert!(problem.detail.contains(&format!("format version {found}")), "{problem}");
            assert!(problem.hint.contains(hint), "{problem}");
        }
        let after = image_of(root.path());
        assert!(before.iter().all(|(path, bytes)| after[path] == *bytes));
    }
}

/// Each byte of a file of the middle, one after another, is another one.
#[test]
fn a_version_that_is_damaged_is_named_and_left_out_only_if_somebody_says_so() {
    let whole = Root::with("few");
    let number = whole.versions[4].number;
    let len = fs::read(whole.file_of(number)).unwrap().len();
    let mut seen = 0;
    // The first and the last bytes, and some in between: header, frames, index, description, footer.
    for place in (0..12).chain((12..len - 180).step_by(61)).chain((len - 180..len).step_by(7)) {
        let root = Root::with("few");
        let path = root.file_of(number);
        let mut bytes = fs::read(&path).unwrap();
        bytes[place] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let before = image_of(root.path());
        let Err(problem) = root.upgrade() else {
            // Nobody reads what every later version has in its own layer, or the checksum of the whole file.
            assert_holds(&root.archive(), &root.versions);
            continue;
        };
        seen += 1;
        assert_eq!(problem.code, Code::Damaged, "{place}: {problem}");
        assert!(problem.detail.contains("report@") && problem.hint.contains("--leave-damaged"), "{problem}");
        let after = image_of(root.path());
        assert!(before.iter().all(|(path, bytes)| after[path] == *bytes));
        let outcome = upgrade(root.path(), true).unwrap();
        let is_left_out = |number: u64| outcome.left_out.iter().any(|(left_out, _)| *left_out == number);
        assert!(is_left_out(number), "{place}: {outcome:?}");
        assert!(
            outcome
                .left_out
                .iter()
                .all(|(left_out, _)| problem.detail.contains(&format!("report@{left_out}")))
        );
        let rest: Vec<_> = root.versions.iter().filter(|meta| !is_left_out(meta.number)).cloned().collect();
        assert!(rest.len() >= 4, "{outcome:?}");
        assert_holds(&root.archive(), &rest);
        assert_eq!(names(root.path()), ["report"]);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn versions_above_one_that_is_gone_are_taken_over_if_they_need_nothing_of_it() {
    for nth in 0..13 {
        let root = Root::with("few");
        let gone = root.versions[nth].number;
        fs::remove_file(root.file_of(gone)).unwrap();
        let outcome = upgrade(root.path(), true).unwrap();
        let is_left =
            |number: u64| number != gone && outcome.left_out.iter().all(|(other, _)| *other != number);
        let rest: Vec<_> = root.versions.iter().filter(|meta| is_left(meta.number)).cloned().collect();
        assert!(rest.iter().filter(|meta| meta.number < gone).count() == nth, "{outcome:?}");
        assert_holds(&root.archive(), &rest);
    }
}

#[test]
fn a_version_that_should_be_there_and_is_not_is_damaged() {
    let root = Root::with("few");
    let gone = root.versions[12].number;
    let mut wanted =
        Wanted { expected: root.versions.iter().map(|meta| meta.number).collect(), leave_damaged: false };
    fs::remove_file(root.file_of(gone)).unwrap();
    let upgrade = |wanted: &Wanted| asat_upgrade::upgrade(root.path(), &store(), wanted, &|_| {});
    let problem = upgrade(&wanted).unwrap_err();
    assert_eq!(problem.code, Code::Damaged);
    assert!(problem.detail.contains(&format!("report@{gone} ")), "{problem}");
    wanted.leave_damaged = true;
    let outcome = upgrade(&wanted).unwrap();
    assert_eq!(outcome.left_out.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [gone]);
    assert_holds(&root.archive(), &root.versions[..12]);
}

#[test]
fn an_upgrade_goes_on_once_a_damaged_version_is_put_back() {
    let root = Root::with("some");
    let path = root.file_of(root.versions[9].number);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(root.upgrade().unwrap_err().code, Code::Damaged);
    let taken = Archive::open(&root.aside()).unwrap().0.live();
    assert_eq!(taken, root.versions[..9].iter().map(|meta| meta.number).collect::<Vec<_>>());
    fs::write(&path, &whole).unwrap();
    root.upgrade().unwrap();
    assert_holds(&root.archive(), &root.versions);
}

/// What was taken over already is not believed if the old archive has another in its place, or has it no more.
#[test]
fn what_was_taken_over_is_that_of_the_old_archive_or_begun_anew() {
    let begun = |from: &str| {
        let root = Root::with(from);
        let last = root.file_of(root.versions.last().unwrap().number);
        let whole = fs::read(&last).unwrap();
        fs::write(&last, &whole[..20]).unwrap();
        root.upgrade().unwrap_err();
        fs::write(&last, &whole).unwrap();
        root
    };
    // A version was given up since.
    let root = begun("some");
    let path = root.file_of(root.versions[9].number);
    fs::rename(&path, path.with_extension("layer")).unwrap();
    root.upgrade().unwrap();
    let rest: Vec<_> =
        root.versions.iter().enumerate().filter(|(nth, _)| *nth != 9).map(|(_, meta)| meta.clone()).collect();
    assert_holds(&root.archive(), &rest);
    // It is another archive.
    let (root, other) = (begun("some"), begun("few"));
    fs::rename(other.aside(), root.path().join("other")).unwrap();
    fs::rename(root.aside(), other.aside()).unwrap();
    fs::rename(root.path().join("other"), root.aside()).unwrap();
    for root in [root, other] {
        root.upgrade().unwrap();
        assert_holds(&root.archive(), &root.versions);
    }
    // A version could not be read, and can be now.
    let root = Root::with("some");
    let path = root.file_of(root.versions[3].number);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, "damaged").unwrap();
    let stop = |text: &str| assert!(!text.starts_with("reading all"), "stopped before it is compared");
    let wanted = Wanted { leave_damaged: true, ..Wanted::default() };
    let stopped = || asat_upgrade::upgrade(root.path(), &store(), &wanted, &stop);
    assert!(catch_unwind(AssertUnwindSafe(stopped)).is_err());
    assert!(!Archive::open(&root.aside()).unwrap().0.live().contains(&root.versions[3].number));
    fs::write(&path, &whole).unwrap();
    root.upgrade().unwrap();
    assert_holds(&root.archive(), &root.versions);
}

#[test]
fn files_that_are_not_asats_are_kept() {
    let root = Root::with("few");
    fs::write(root.archive().join("notes.txt"), "mine").unwrap();
    let outcome = root.upgrade().unwrap();
    assert_eq!(outcome.kept, Some(root.aside()));
    assert!(names(&root.aside()).contains(&"notes.txt".to_owned()));
    assert_holds(&root.archive(), &root.versions);
    let again = root.upgrade().unwrap();
    assert_eq!((again.versions, again.kept), (None, Some(root.aside())));
    fs::remove_file(root.aside().join("notes.txt")).unwrap();
    assert_eq!(root.upgrade().unwrap(), Outcome::default());
    assert_eq!(names(root.path()), ["report"]);
}

#[test]
fn files_of_both_formats_in_one_place_are_for_somebody_to_look_at() {
    let root = Root::with("few");
    let kept = Root::with("few");
    root.upgrade().unwrap();
    let stray = kept.file_of(kept.versions[2].number);
    fs::copy(&stray, root.archive().join(stray.file_name().unwrap())).unwrap();
    assert_eq!(root.upgrade().unwrap_err().code, Code::InUse);
    // An old archive beside what is left of another old one.
    let root = Root::with("few");
    fs::create_dir(root.aside()).unwrap();
    fs::copy(&stray, root.aside().join(stray.file_name().unwrap())).unwrap();
    let before = image_of(root.path());
    assert_eq!(root.upgrade().unwrap_err().code, Code::InUse);
    assert_eq!(image_of(root.path()), before);
}
