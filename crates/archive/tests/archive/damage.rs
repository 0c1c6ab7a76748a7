//! Damage: whatever bytes a file has, reading never gives wrong data, and verification says so.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::common::{
    self, Content, Model, assert_contents, assert_holds, cases, compact, files, go_on, is_spare, open, page,
    put_files, read, verify, with_dictionary, write,
};
use asat_archive::{Archive, Contents, Error, Kept, Report, Retired, check};
use asat_core::{Code, Problem};
use proptest::prelude::*;

/// Four versions of a few pages. The second has new content in one page, the third a page that is a difference from what the first has,
/// and the fourth one that is the first one's again.
fn small(folder: &Path) -> Model {
    let archive = open(folder);
    let mut content = Content::new(512, [1, 25, 2, 7]);
    let mut model = Model::new();
    for number in 1..=4 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        match number {
            1 => content.pages[1] = page(512, 22),
            2 => content.edit(2, 100, 77),
            _ => content.pages[1] = page(512, 25),
        }
    }
    model
}

/// The same, and the second version is given up: the last file is a manifest alone.
fn with_one_given_up(folder: &Path) -> Model {
    let model = small(folder);
    open(folder).retire(2).unwrap();
    model
}

/// Fourteen versions in one segment, but for the last two; one of them is given up.
fn merged(folder: &Path) -> Model {
    let mut model = small(folder);
    let archive = open(folder);
    let mut content = model[&4].clone();
    for number in 5..=14 {
        content.edit(2, 10 * usize::try_from(number).unwrap(), 77);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        if number == 12 {
            archive.retire(6).unwrap();
            compact(&archive);
            model.remove(&6);
            assert_eq!(files(folder).len(), 2, "it is one segment and a manifest");
        }
    }
    model
}

/// The small one, of which a page was mended.
fn mended(folder: &Path) -> Model {
    let mut model = small(folder);
    let path = folder.join("000000000001.segment");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let archive = open(folder);
    let contents: Contents = model[&1].pages.iter().map(|page| (check(page), page.clone())).collect();
    archive.repair(&verify(&archive, None).damage, &contents, &mut go_on).unwrap();
    assert_holds(&archive, &model);
    // With the next change, the damaged file goes.
    let mut content = model[&4].clone();
    content.edit(2, 300, 77);
    write(&archive, 5, &content).unwrap();
    model.insert(5, content);
    assert!(!path.exists());
    model
}

/// The small one, of which the second version was put back.
fn put_back(folder: &Path) -> Model {
    let model = small(folder);
    let archive = open(folder);
    let meta = archive.describe(2).unwrap();
    let pages = &model[&2].pages;
    archive
        .put_back(meta, false, |rebuild| Ok(pages.iter().try_for_each(|page| rebuild.page(page))?))
        .unwrap();
    model
}

/// The versions that a report names.
fn affected(report: &Report) -> Vec<u64> {
    let affected: BTreeSet<u64> =
        report.findings.iter().flat_map(|finding| finding.affects.clone()).collect();
    affected.into_iter().collect()
}

/// The files that an archive says that it cannot read.
fn unread(archive: &Archive) -> Vec<PathBuf> {
    let path = |error| match error {
        Error::Damaged { path, .. } | Error::Io { path, .. } => path,
        error => panic!("{error}"),
    };
    archive.unread().into_iter().map(path).collect()
}

/// Whatever can be read is right, what cannot is refused and named, and the file is found.
fn check_damaged(folder: &Path, file: &Path, model: &Model, what: &str) {
    let (archive, opened) = Archive::open(folder).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(opened.removed, [""; 0], "{what}");
    let is_unread = |path: &Path| unread(&archive).contains(&path.to_owned());
    let (mut unreadable, live) = (Vec::new(), archive.live());
    for (&number, content) in model {
        let result = read(&archive, number);
        match &result {
            Ok(bytes) => assert_eq!(*bytes, content.bytes(), "{what}: version {number} read wrong"),
            Err(Error::NoSuchVersion { .. }) if is_unread(file) || !file.exists() => {}
            // It was given up before.
            Err(Error::NoSuchVersion { .. }) if !live.contains(&number) => {}
            Err(error) => assert!(error.is_loss(), "{what}: {error}"),
        }
        if result.is_err() && live.contains(&number) {
            unreadable.push(number);
        }
        let _ = archive.describe(number);
    }
    let report = verify(&archive, None);
    assert!(report.findings.iter().any(|finding| finding.file == file), "{what}: {report:?}");
    let mut findings = report.findings.iter();
    assert!(findings.all(|finding| finding.what.contains(finding.file.to_str().unwrap())), "{report:?}");
    assert_eq!(affected(&report), unreadable, "{what}: {report:?}");
    // Of one version alone, its own damage is told and no other's.
    for number in
        unreadable.iter().copied().chain(live.into_iter().rev().find(|number| !unreadable.contains(number)))
    {
        let findings = verify(&archive, Some(number)).findings;
        let names = findings.iter().any(|finding| finding.affects.contains(&number));
        assert_eq!(names, unreadable.contains(&number), "{what}: version {number}: {findings:?}");
    }
}

/// Flips bits of every file but the first ones, and cuts each short.
fn damage_every_file(kind: &str, make: fn(&Path) -> Model, but: usize) {
    let folder = common::folder();
    let model = make(folder.path());
    let before = files(folder.path());
    let is_there = |(name, _): &&(String, Vec<u8>)| !is_spare(name, &before);
    for (name, good) in before.iter().skip(but).filter(is_there) {
        let path = folder.path().join(name);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let frames_end = u64::from_le_bytes(good[good.len() - 172..][..8].try_into().unwrap());
        for (nth, byte) in (0..).zip(good) {
            // All bits of the bytes that tell what it is, and one of each other byte.
            let is_magic = nth < 12 || nth + 12 >= good.len() as u64;
            if (12..frames_end).contains(&nth) && nth % 8 != 0 {
                // Of frames, one byte is as good as the next.
                continue;
            }
            for bit in (0..8).filter(|bit| is_magic || nth / 8 % 8 == *bit) {
                file.write_all_at(&[byte ^ (1 << bit)], nth).unwrap();
                check_damaged(
                    folder.path(),
                    &path,
                    &model,
                    &format!("{kind}: {name}, bit {bit} of byte {nth}"),
                );
            }
            file.write_all_at(&[*byte], nth).unwrap();
        }
        for len in (0..good.len()).filter(|len| len % 7 == 0 || len + 200 > good.len()) {
            std::fs::write(&path, &good[..len]).unwrap();
            check_damaged(folder.path(), &path, &model, &format!("{kind}: {name}, cut to {len}"));
        }
        for more in [1, 12, 172, 4096] {
            std::fs::write(&path, [good.as_slice(), &vec![0; more]].concat()).unwrap();
            check_damaged(folder.path(), &path, &model, &format!("{kind}: {name}, {more} bytes more"));
        }
        std::fs::remove_file(&path).unwrap();
        if *name == before[before.len() - 1].0 {
            // It is as if it had never been there.
            let archive = open(folder.path());
            let live: Vec<u64> = archive.live();
            let left = model.iter().filter(|(number, _)| live.contains(number));
            assert_contents(&archive, &left.map(|(number, content)| (*number, content.clone())).collect());
        } else {
            check_damaged(folder.path(), &path, &model, &format!("{kind}: {name} is gone"));
        }
        std::fs::write(&path, good).unwrap();
    }
    assert_eq!(files(folder.path()), before);
    assert!(verify(&open(folder.path()), None).findings.is_empty());
}

#[test]
fn damage_to_a_segment_is_found() {
    damage_every_file("segments", small, 0);
}

#[test]
fn damage_to_a_manifest_alone_is_found() {
    damage_every_file("a version given up", with_one_given_up, 4);
}

#[test]
fn damage_to_a_merged_segment_is_found() {
    damage_every_file("merged", merged, 0);
}

#[test]
fn damage_to_what_was_mended_is_found() {
    damage_every_file("mended", mended, 3);
}

#[test]
fn damage_to_a_version_that_was_put_back_is_found() {
    damage_every_file("put back", put_back, 4);
}

/// It is there twice. Without either, the pages that were compressed with it cannot be read, and they are put back from what has them still.
#[test]
fn damage_to_a_dictionary_is_found_and_put_right() {
    let folder = common::folder();
    let model = with_dictionary(folder.path());
    let (name, good) = files(folder.path()).into_iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let path = folder.path().join(name);
    let number = |at: usize| u64::from_le_bytes(good[good.len() - 172 + at..][..8].try_into().unwrap());
    // One begins where the frames end, and one ends where the directory begins.
    let (first, second) = (number(0) + 300, number(8) - 300);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let flip = |at: u64, bit: u8| file.write_all_at(&[good[usize::try_from(at).unwrap()] ^ bit], at).unwrap();
    for at in [first, second] {
        flip(at, 4);
        check_damaged(folder.path(), &path, &model, &format!("the dictionary, at {at}"));
        assert_contents(&open(folder.path()), &model);
        flip(at, 0);
    }
    [first, second].into_iter().for_each(|at| flip(at, 4));
    check_damaged(folder.path(), &path, &model, "the dictionary, both times");
    let contents: Contents =
        model.values().flat_map(|content| &content.pages).map(|page| (check(page), page.clone())).collect();
    let archive = open(folder.path());
    assert!(read(&archive, 8).is_err());
    archive.repair(&verify(&archive, None).damage, &contents, &mut go_on).unwrap();
    assert_holds(&archive, &model);
}

/// The path of a file.
fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.segment"))
}

#[test]
fn a_newest_file_that_cannot_be_read_is_done_without_if_nobody_misses_it() {
    let folder = common::folder();
    let mut model = with_one_given_up(folder.path());
    let newest = file_of(folder.path(), 5);
    std::fs::write(&newest, "rubbish").unwrap();
    let archive = open(folder.path());
    assert_eq!(unread(&archive), std::slice::from_ref(&newest));
    assert_eq!(archive.forget_unread().unwrap(), std::slice::from_ref(&newest));
    assert!(!newest.exists() && unread(&archive).is_empty() && archive.forget_unread().unwrap().is_empty());
    assert_eq!(verify(&archive, None).findings, []);
    let content = model[&2].clone();
    write(&archive, 5, &content).unwrap();
    model.insert(5, content);
    drop(archive);
    let archive = open(folder.path());
    assert_contents(&archive, &model);
    assert_eq!(verify(&archive, None).findings, []);
}

/// Damages the newest file, and then the one before; what it had is put back, or it is itself.
fn lose_the_newest_files(is_back: bool) {
    let folder = common::folder();
    let mut model = with_one_given_up(folder.path());
    let (newest, before) = (file_of(folder.path(), 5), file_of(folder.path(), 4));
    let damage = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let end = bytes.len() - 172;
        bytes[end - 5] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    damage(&newest);
    let archive = open(folder.path());
    assert_eq!(unread(&archive), std::slice::from_ref(&newest));
    // What it said was that the second one is given up.
    assert_contents(&archive, &model);
    let report = verify(&archive, None);
    assert_eq!((report.findings.len(), &report.findings[0].file), (1, &newest));
    drop(archive);
    let good = std::fs::read(&before).unwrap();
    damage(&before);
    let archive = open(folder.path());
    assert_eq!(unread(&archive), [before.clone(), newest.clone()]);
    let fourth = model.remove(&4).unwrap();
    assert_contents(&archive, &model);
    // Nothing is taken from files that cannot be read, and no number is used again. What is written now stands alone, so the fourth one can
    // still be put back below it.
    let content = model[&2].clone();
    write(&archive, 5, &content).unwrap();
    drop(archive);
    let mut archive = open(folder.path());
    assert_eq!(unread(&archive), [before.clone(), newest.clone()]);
    assert!(file_of(folder.path(), 6).exists());
    model.insert(5, content);
    assert_contents(&archive, &model);
    model.insert(4, fourth.clone());
    if is_back {
        drop(archive);
        std::fs::write(&before, &good).unwrap();
        archive = open(folder.path());
    } else {
        put(&archive, 4, &fourth).unwrap();
    }
    assert_contents(&archive, &model);
    // Who has had a look at them removes them.
    std::fs::remove_file(&newest).unwrap();
    if !is_back {
        std::fs::remove_file(&before).unwrap();
    }
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

#[test]
fn if_the_newest_file_is_damaged_the_one_before_counts_and_it_is_said() {
    [false, true].into_iter().for_each(lose_the_newest_files);
}

/// Puts back a version that the archive knows nothing of any more.
fn put(archive: &Archive, number: u64, content: &Content) -> Result<(), Problem> {
    let mut fingerprinter = asat_archive::Fingerprinter::new(content.page_size(), content.count());
    content.pages.iter().for_each(|page| _ = fingerprinter.page(page));
    let meta = asat_archive::Meta {
        number,
        page_size: content.page_size(),
        page_count: content.count(),
        fingerprint: fingerprinter.finish(),
        store: common::cut().store,
        cut_at: common::cut().cut_at,
        wal: true,
        note: serde_json::json!(null),
    };
    let file = archive.put_back(meta, false, |rebuild| {
        Ok(content.pages.iter().try_for_each(|page| rebuild.page(page))?)
    })?;
    assert!(file.is_some());
    Ok(())
}

/// The third one was written upon the first, as nobody knew of the second: with that between them it still shows what it did.
#[test]
fn what_was_never_seen_in_later_versions_is_put_back_below_them_and_not_seen() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, [1, 3, 4, 6, 9]);
    let mut model = Model::new();
    for number in [1, 3, 4, 5] {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        content.edit(usize::try_from(number).unwrap() % 4, 100, 77);
    }
    archive.retire(3).unwrap();
    model.remove(&3);
    let mut second = model[&1].clone();
    second.pages[1] = page(512, 33);
    second.pages[2] = page(512, 34);
    second.pages[4] = page(512, 35);
    put(&archive, 2, &second).unwrap();
    model.insert(2, second.clone());
    assert_holds(&archive, &model);
    put(&archive, 6, &second).unwrap();
    model.insert(6, second);
    assert_holds(&archive, &model);
    compact(&archive);
    assert_holds(&archive, &model);
    archive.retire(2).unwrap();
    model.remove(&2);
    compact(&archive);
    assert_holds(&archive, &model);
}

#[test]
fn another_format_is_refused_and_not_called_damaged() {
    for (found, number) in [(7, 4), (5, 4), (4, 4), (7, 2)] {
        let folder = common::folder();
        let model = small(folder.path());
        let path = file_of(folder.path(), number);
        let good = std::fs::read(&path).unwrap();
        let mut bytes = good.clone();
        let end = bytes.len();
        (bytes[8], bytes[end - 12]) = (found, found);
        std::fs::write(&path, &bytes).unwrap();
        let before = files(folder.path());
        let is_it = |error: Error| {
            let is_named = matches!(&error, Error::Format { found: named, path: at } if *named == u32::from(found) && *at == path);
            assert!(is_named, "{error}");
            let problem = Problem::from(error);
            assert_eq!(problem.code, Code::NotReadable);
            assert_eq!(problem.hint.contains("asat archive upgrade"), found == 4, "{}", problem.hint);
        };
        match Archive::open(folder.path()) {
            Err(error) => is_it(error),
            // An older one of its files is newer than this build: nothing is done with it.
            Ok((archive, _)) => {
                assert_eq!(read(&archive, 1).unwrap(), model[&1].bytes());
                [2, 3, 4].into_iter().for_each(|number| is_it(read(&archive, number).unwrap_err()));
                is_it(archive.verify(None, &mut |_, _| ControlFlow::Continue(())).unwrap_err());
                is_it(archive.compact(&mut go_on).unwrap_err());
            }
        }
        assert_eq!(files(folder.path()), before);
        std::fs::write(&path, &good).unwrap();
        assert_holds(&open(folder.path()), &model);
    }
    // Format 4 had other names.
    for name in ["1.pack", "7-12.layer"] {
        let folder = common::folder();
        std::fs::write(folder.path().join(name), "asatpack").unwrap();
        let error = Archive::open(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Format { found: 4, .. }), "{error}");
    }
}

/// Whatever can be read is right, and every file that is not what its name says is named.
fn check_moved(folder: &Path, model: &Model, moved: &[PathBuf], what: &str) {
    let (archive, _) = match Archive::open(folder) {
        Ok(opened) => opened,
        Err(error) => return assert!(error.is_loss(), "{what}: {error}"),
    };
    for (number, content) in model {
        match read(&archive, *number) {
            Ok(bytes) => assert_eq!(bytes, content.bytes(), "{what}: version {number}"),
            Err(Error::NoSuchVersion { .. }) => {}
            Err(error) => assert!(error.is_loss(), "{what}: {error}"),
        }
    }
    let found: Vec<PathBuf> =
        verify(&archive, None).findings.into_iter().map(|finding| finding.file).collect();
    assert!(moved.iter().all(|path| found.contains(path)), "{what}: {found:?}");
}

#[test]
fn files_that_were_swapped_copied_renamed_or_are_of_another_archive_are_noticed() {
    let (folder, other) = (common::folder(), common::folder());
    let model = merged(folder.path());
    let (elsewhere, mut content) = (open(other.path()), Content::new(512, [11, 12, 13, 14]));
    for number in 1..=16 {
        write(&elsewhere, number, &content).unwrap();
        content.edit(2, 10, 66);
    }
    let before = files(folder.path());
    let paths: Vec<PathBuf> = before.iter().map(|(name, _)| folder.path().join(name)).collect();
    let (newest, is_segment) = (paths.len() - 1, |nth: &usize| !is_spare(&before[*nth].0, &before));
    let restore = || {
        files(folder.path())
            .iter()
            .for_each(|(name, _)| std::fs::remove_file(folder.path().join(name)).unwrap());
        put_files(folder.path(), &before);
    };
    for one in (0..paths.len()).filter(is_segment) {
        for two in (0..one).filter(is_segment) {
            std::fs::write(&paths[one], &before[two].1).unwrap();
            std::fs::write(&paths[two], &before[one].1).unwrap();
            let moved = [paths[one].clone(), paths[two].clone()];
            check_moved(folder.path(), &model, &moved, &format!("{one} and {two} swapped"));
            assert!(moved.iter().all(|path| path.exists()), "neither is deleted");
            restore();
        }
        // A copy under a number that is not given yet is none.
        let copy = file_of(folder.path(), 99);
        std::fs::copy(&paths[one], &copy).unwrap();
        check_moved(folder.path(), &model, std::slice::from_ref(&copy), &format!("{one} copied"));
        assert_contents(&open(folder.path()), &model);
        restore();
        if one != newest {
            std::fs::rename(&paths[one], &copy).unwrap();
            check_moved(folder.path(), &model, &[paths[one].clone(), copy], &format!("{one} renamed"));
            restore();
            let foreign = other.path().join(&before[one].0);
            std::fs::copy(&foreign, &paths[one]).unwrap();
            check_moved(
                folder.path(),
                &model,
                std::slice::from_ref(&paths[one]),
                &format!("{one} is foreign"),
            );
            restore();
        }
    }
    assert_holds(&open(folder.path()), &model);
}

/// A version whose pages were taken for those of one that cannot be read would be acknowledged and never be read.
#[test]
fn what_is_written_above_damage_can_be_read() {
    for (reopened, number) in [(false, 1), (true, 1), (false, 3), (true, 3), (false, 4), (true, 4)] {
        for from_end in [None, Some(1), Some(200), Some(400)] {
            let what = format!("file {number}, {from_end:?} bytes from its end, reopened: {reopened}");
            let folder = common::folder();
            let mut model = small(folder.path());
            let mut content = model[&4].clone();
            let mut archive = open(folder.path());
            let path = file_of(folder.path(), number);
            let good = std::fs::read(&path).unwrap();
            // What is known of the newest version is in memory now.
            drop(archive.begin(5, content.page_size(), content.count()).unwrap());
            match from_end {
                None => std::fs::remove_file(&path).unwrap(),
                Some(bytes) => {
                    let mut damaged = good.clone();
                    let at = damaged.len() - bytes;
                    damaged[at] ^= 1;
                    std::fs::write(&path, damaged).unwrap();
                }
            }
            if reopened {
                drop(archive);
                archive = open(folder.path());
            }
            content.edit(3, 50, 66);
            // It may be noticed only when what is known turns out to be of no use any more.
            let written = write(&archive, 5, &content).or_else(|error| {
                assert!(matches!(error, Error::Damaged { .. } | Error::Io { .. }), "{what}: {error}");
                write(&archive, 5, &content)
            });
            assert!(matches!(written, Ok(Kept::Stored { .. })), "{what}: {written:?}");
            assert_eq!(read(&archive, 5).unwrap(), content.bytes(), "{what}");
            drop(archive);
            let archive = open(folder.path());
            assert_eq!(read(&archive, 5).unwrap(), content.bytes(), "{what}");
            drop(archive);
            if number == 4 && from_end.is_none() && reopened {
                // Nobody knew that there was a file of that number, and it was given again.
                continue;
            }
            // When the file is back, all are what they were. What was newest, and was not seen any more, does not come back.
            std::fs::write(&path, &good).unwrap();
            model.insert(5, content);
            let archive = open(folder.path());
            let live = archive.live();
            assert!((1..=5).all(|number| number == 4 || live.contains(&number)), "{what}: {live:?}");
            model.retain(|number, _| live.contains(number));
            assert_contents(&archive, &model);
        }
    }
}

#[test]
fn what_a_missing_file_needs_is_kept_until_it_is_back_or_given_up() {
    for missing in [3, 5] {
        let (folder, aside) = (common::folder(), common::folder());
        let mut model = Model::new();
        let archive = open(folder.path());
        let mut content = Content::new(512, 1..20);
        for number in 1..=5_u8 {
            content.pages[usize::from(number)] = page(512, 1000 + u64::from(number));
            write(&archive, number.into(), &content).unwrap();
            model.insert(number.into(), content.clone());
        }
        for number in [2, 4] {
            archive.retire(number).unwrap();
            model.remove(&number);
        }
        drop(archive);
        let path = file_of(folder.path(), missing);
        let aside = aside.path().join("aside");
        std::fs::copy(&path, &aside).unwrap();
        std::fs::remove_file(&path).unwrap();
        let archive = open(folder.path());
        compact(&archive);
        // Giving up the newest takes nothing with it that may be needed.
        let newest = archive.newest().unwrap();
        assert!(matches!(archive.retire(newest).unwrap(), Retired::Retired { .. }));
        model.remove(&newest);
        compact(&archive);
        drop(archive);
        std::fs::copy(&aside, &path).unwrap();
        assert_holds(&open(folder.path()), &model);
        std::fs::remove_file(&path).unwrap();
        let archive = open(folder.path());
        assert!(archive.read(missing).map(drop).unwrap_err().is_loss());
        assert!(matches!(archive.retire(missing).unwrap(), Retired::Retired { .. }));
        model.remove(&missing);
        archive.repair(&verify(&archive, None).damage, &Contents::new(), &mut go_on).unwrap();
        compact(&archive);
        assert_holds(&archive, &model);
        // And what is written now sees nothing of it.
        let content = Content::new(512, 2..21);
        write(&archive, 6, &content).unwrap();
        model.insert(6, content);
        assert_holds(&archive, &model);
    }
}

#[test]
fn foreign_files_are_left_alone() {
    let folder = common::folder();
    small(folder.path());
    let foreign = ["000000000007.pack.bak", "5.tmp", "7.segment", "000000000000.segment", "README", "x.tmp"];
    foreign.iter().for_each(|name| std::fs::write(folder.path().join(name), name).unwrap());
    let unfinished = "00000000000000000005.tmp".to_owned();
    std::fs::write(folder.path().join(&unfinished), "half").unwrap();
    let (archive, opened) = Archive::open(folder.path()).unwrap();
    assert_eq!(opened.removed, [unfinished]);
    let mut foreign = foreign.to_vec();
    foreign.sort_unstable();
    assert_eq!(opened.foreign, foreign);
    assert_eq!(archive.live(), [1, 2, 3, 4]);
    assert!(foreign.iter().all(|name| folder.path().join(name).exists()));
}

#[test]
fn a_second_archive_in_the_same_folder_is_refused() {
    let folder = common::folder();
    let _first = open(folder.path());
    assert!(matches!(Archive::open(folder.path()), Err(Error::Busy { .. })));
}

/// Puts the right checksum on a footer with other places.
fn forge(good: &[u8], change: impl Fn(&mut [u64; 4])) -> Vec<u8> {
    let (body, footer) = good.split_at(good.len() - 172);
    let mut numbers = [0_u64; 4];
    for (number, bytes) in numbers.iter_mut().zip(footer.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().unwrap());
    }
    change(&mut numbers);
    let mut footer = [numbers.map(u64::to_le_bytes).concat(), footer[32..128].to_vec()].concat();
    footer.extend(asat_archive::fingerprint::page_hash(&footer));
    [body, &footer, &good[good.len() - 12..]].concat()
}

#[test]
fn places_in_a_forged_footer_are_not_believed() {
    let folder = common::folder();
    let model = small(folder.path());
    for number in [1, 4] {
        let path = file_of(folder.path(), number);
        let good = std::fs::read(&path).unwrap();
        assert_eq!(forge(&good, |_| {}), good);
        for field in 0..4 {
            for value in
                [0, 1, 11, 0xffff, u64::from(u32::MAX), 1 << 40, u64::MAX / 2, u64::MAX - 171, u64::MAX]
            {
                std::fs::write(&path, forge(&good, |numbers| numbers[field] = value)).unwrap();
                check_damaged(folder.path(), &path, &model, &format!("place {field} is {value}"));
            }
        }
        std::fs::write(&path, &good).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn garbage_is_found(garbage in prop::collection::vec(any::<u8>(), 0..600), keep_ends in any::<bool>(), number in 1..=4_u64) {
        let folder = common::folder();
        let model = small(folder.path());
        let path = file_of(folder.path(), number);
        let good = std::fs::read(&path).unwrap();
        let bytes = if keep_ends {
            [&good[..12], &garbage, &good[good.len() - 172..]].concat()
        } else {
            garbage
        };
        std::fs::write(&path, bytes).unwrap();
        check_damaged(folder.path(), &path, &model, "garbage");
        prop_assert!(files(folder.path()).len() == 4);
    }
}

/// An archive with a long history, and what is done to its files.
fn long(folder: &Path) -> Model {
    let archive = open(folder);
    let (mut content, mut model) = (Content::new(512, 1..40), Model::new());
    for number in 1..=30 {
        let nth = usize::try_from(number).unwrap();
        content.edit(nth * 7 % 39, nth * 13 % 500, 77);
        content.pages[nth * 5 % 39] = page(512, 1000 + number);
        if number % 6 == 0 {
            content.pages.truncate(39);
        } else {
            content.pages.push(page(512, 2000 + number));
        }
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        if number % 9 == 4 {
            archive.retire(number - 3).unwrap();
            model.remove(&(number - 3));
        }
        if number == 12 || number == 22 {
            compact(&archive);
        }
    }
    model
}

/// One of three hundred damages is a few flips, zeroed bytes or a file cut short; and then another one at once.
#[test]
fn thirty_versions_with_three_hundred_damages_never_give_wrong_content() {
    let folder = common::folder();
    let model = long(folder.path());
    let before = files(folder.path());
    let seed = std::env::var("ASAT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut dice = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 16).unwrap() % below.max(1)
    };
    let mut read_well = 0;
    for nth in 0..300 {
        let mut what = format!("ASAT_SEED={seed}, damage {nth}:");
        for _ in 0..=dice(2) {
            let (name, good) = &before[dice(before.len())];
            let mut bytes = good.clone();
            let at = dice(bytes.len());
            match dice(3) {
                0 => (0..=dice(3)).for_each(|_| bytes[dice(good.len())] ^= 1 << dice(8)),
                1 => bytes.iter_mut().skip(at).take(1 + dice(700)).for_each(|byte| *byte = 0),
                _ => bytes.truncate(at),
            }
            write!(what, " {name} at {at}").unwrap();
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        match Archive::open(folder.path()) {
            Ok((archive, _)) => {
                let mut refused = BTreeSet::new();
                for (number, content) in &model {
                    match read(&archive, *number) {
                        Ok(bytes) => {
                            assert_eq!(bytes, content.bytes(), "{what}: version {number} read wrong")
                        }
                        Err(error) => _ = refused.insert(*number).then_some(error),
                    }
                }
                read_well += model.len() - refused.len();
                refused.retain(|number| archive.live().contains(number));
                let report = verify(&archive, None);
                assert_eq!(affected(&report), refused.into_iter().collect::<Vec<_>>(), "{what}: {report:?}");
            }
            Err(error) => assert!(error.is_loss(), "{what}: {error}"),
        }
        let now = files(folder.path());
        now.iter().for_each(|(name, _)| std::fs::remove_file(folder.path().join(name)).unwrap());
        put_files(folder.path(), &before);
    }
    assert!(read_well > 300 * model.len() / 3, "{read_well} of {} were read", 300 * model.len());
    assert_holds(&open(folder.path()), &model);
}

/// Versions of these numbers, each with another page than the one before.
fn written(folder: &Path, numbers: &[u64]) -> Model {
    let (archive, mut model) = (open(folder), Model::new());
    let mut content = Content::new(512, (1..9).map(|seed| 21 * seed + 3));
    for number in numbers {
        content.edit(usize::try_from(*number).unwrap(), 100, 9);
        write(&archive, *number, &content).unwrap();
        model.insert(*number, content.clone());
    }
    model
}

#[test]
fn a_file_that_comes_back_shows_nothing_of_what_was_written_without_it() {
    let folder = common::folder();
    let mut model = written(folder.path(), &[1, 2, 3, 7]);
    let newest = file_of(folder.path(), 4);
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, "rubbish").unwrap();
    let archive = open(folder.path());
    let mut content = model[&3].clone();
    for number in [5, 6] {
        content.edit(0, 100, 5);
        content.edit(6, 100, 5);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    drop(archive);
    std::fs::write(&newest, whole).unwrap();
    let archive = open(folder.path());
    // The seventh version lies upon the third, and would show what the fifth and the sixth have.
    model.remove(&7);
    assert_contents(&archive, &model);
    assert_eq!(verify(&archive, None).findings, []);
}

#[test]
fn a_file_that_comes_back_is_seen_if_what_it_lies_upon_is_there() {
    for is_there in [true, false] {
        let folder = common::folder();
        let mut model = written(folder.path(), &[1, 2, 3, 4]);
        let lost = [3, 4].map(|number| file_of(folder.path(), number));
        let whole = lost.each_ref().map(|path| std::fs::read(path).unwrap());
        lost.iter().for_each(|path| std::fs::write(path, "rubbish").unwrap());
        let content = model[&2].clone();
        write(&open(folder.path()), 5, &content).unwrap();
        model.insert(5, content);
        std::fs::write(&lost[1], &whole[1]).unwrap();
        if !is_there {
            std::fs::remove_file(&lost[0]).unwrap();
        }
        let above = [3, 4].map(|number| model.remove(&number).unwrap());
        assert_contents(&open(folder.path()), &model);
        std::fs::write(&lost[0], &whole[0]).unwrap();
        model.extend([3, 4].into_iter().zip(above));
        assert_contents(&open(folder.path()), &model);
    }
}
