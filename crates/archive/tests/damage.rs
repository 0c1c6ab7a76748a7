//! Damage: whatever bytes a file has, reading never gives wrong data, and verification says so.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use asat_archive::{Archive, Contents, Error, Kept, Report, Retired, check};
use asat_core::{Code, Problem};
use common::{
    Content, Model, assert_contents, assert_holds, cases, compact, files, go_on, open, page, put_files, read,
    verify, write,
};
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

/// Ten versions in one segment, but for the last two; one of them is given up.
fn merged(folder: &Path) -> Model {
    let mut model = small(folder);
    let archive = open(folder);
    let mut content = model[&4].clone();
    for number in 5..=10 {
        content.edit(2, 10 * usize::try_from(number).unwrap(), 77);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        if number == 8 {
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
    archive.put_back(meta, |rebuild| Ok(pages.iter().try_for_each(|page| rebuild.page(page))?)).unwrap();
    model
}

/// The versions that a report names.
fn affected(report: &Report) -> Vec<u64> {
    let affected: BTreeSet<u64> =
        report.findings.iter().flat_map(|finding| finding.affects.clone()).collect();
    affected.into_iter().collect()
}

/// Whatever can be read is right, what cannot is refused and named, and the file is found.
fn check_damaged(folder: &Path, file: &Path, model: &Model, what: &str) {
    let (archive, opened) = match Archive::open(folder) {
        Ok(opened) => opened,
        Err(Error::Damaged { path, .. }) if files(folder).len() == 1 && path == *file => return,
        Err(error) => panic!("{what}: {error}"),
    };
    let is_unread = |path: &Path| opened.unread.iter().any(|name| path.ends_with(name));
    assert_eq!(opened.removed, [""; 0], "{what}");
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

/// Whether the newest manifest does not name a file.
fn is_needed_by_nobody(name: &str, files: &[(String, Vec<u8>)]) -> bool {
    let newest = String::from_utf8_lossy(&files[files.len() - 1].1).into_owned();
    let number: u64 = name.strip_suffix(".segment").unwrap().parse().unwrap();
    !newest.contains(&format!("\"file\":{number},"))
}

/// Flips bits of every file but the first ones, and cuts each short.
fn damage_every_file(kind: &str, make: fn(&Path) -> Model, but: usize) {
    let folder = common::folder();
    let model = make(folder.path());
    let before = files(folder.path());
    for (name, good) in before.iter().skip(but) {
        let path = folder.path().join(name);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        for (nth, byte) in (0..).zip(good) {
            // All bits of the bytes that tell what it is, and one of each other byte.
            let is_magic = nth < 12 || nth + 12 >= good.len() as u64;
            for bit in (0..8).filter(|bit| is_magic || nth % 8 == *bit) {
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
        if *name == before[before.len() - 1].0 || is_needed_by_nobody(name, &before) {
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
