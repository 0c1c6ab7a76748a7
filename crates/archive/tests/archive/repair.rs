//! Repair: what is damaged is stored again from wherever its content still is.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::common::{
    self, Content, Model, assert_contents, assert_holds, compact, files, go_on, is_spare, open, page,
    put_files, read, verify, write,
};
use asat_archive::{Archive, Contents, Damage, Error, Fingerprinter, Meta, PutRight, Remedy, check};
use asat_core::Problem;

/// The pages of a content by their checks.
fn contents(content: &Content) -> Contents {
    content.pages.iter().map(|page| (check(page), page.clone())).collect()
}

/// A repair that nobody stops.
fn repair(archive: &Archive, damage: &Damage, contents: &Contents) -> Vec<PutRight> {
    archive.repair(damage, contents, &mut go_on).unwrap()
}

fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.segment"))
}

/// Three versions; the second and the third have a page each that is a difference.
fn history(folder: &Path) -> Model {
    let archive = open(folder);
    let mut content = Content::new(512, [3, 6, 2, 7]);
    let mut model = Model::new();
    for number in 1..=3 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        content.edit(2, 100 * usize::try_from(number).unwrap(), 77);
        content.pages[0] = page(512, 3 * (number + 50));
    }
    model
}

/// What was recorded of a version elsewhere.
fn meta(number: u64, content: &Content) -> Meta {
    let mut fingerprinter = Fingerprinter::new(content.page_size(), content.count());
    content.pages.iter().for_each(|page| _ = fingerprinter.page(page));
    Meta {
        number,
        page_size: content.page_size(),
        page_count: content.count(),
        fingerprint: fingerprinter.finish(),
        store: common::cut().store,
        cut_at: common::cut().cut_at,
        wal: true,
        note: serde_json::json!({ "label": "close" }),
    }
}

/// Puts a version back from a content.
fn put_back(archive: &Archive, meta: Meta, content: &Content) -> Result<Option<PathBuf>, Problem> {
    archive
        .put_back(meta, false, |rebuild| Ok(content.pages.iter().try_for_each(|page| rebuild.page(page))?))
}

/// Repairs as long as that puts anything right: pages first, and then whole versions that cannot be read, as the daemon does it.
fn repair_all(archive: &Archive, everywhere: &Contents, model: &Model, what: &str) {
    for _ in 0..4 {
        let report = verify(archive, None);
        if report.findings.is_empty() {
            return;
        }
        repair(archive, &report.damage, everywhere);
        for (&number, content) in model {
            if read(archive, number).is_err() {
                assert!(
                    put_back(archive, meta(number, content), content).unwrap().is_some(),
                    "{what}: version {number}"
                );
            }
        }
    }
    let left: Vec<PathBuf> = verify(archive, None).findings.into_iter().map(|finding| finding.file).collect();
    let is_unread = |path: &PathBuf| {
        archive.unread().iter().any(|error| error.to_string().contains(path.to_str().unwrap()))
    };
    assert!(left.iter().all(is_unread), "{what}: {left:?}");
    // What was written last and cannot be read is kept for whoever wants to have a look at it.
    left.iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

/// Where the frames of a file end (`docs/archive-format.md`).
fn frames_end(file: &[u8]) -> usize {
    usize::try_from(u64::from_le_bytes(file[file.len() - 172..][..8].try_into().unwrap())).unwrap()
}

/// Flips bits all over every file, repairs, and looks that all is as it was, and as it would have been further on.
fn repair_every_byte(make: fn(&Path) -> Model, everywhere: impl Fn(&Model) -> Contents) {
    let folder = common::folder();
    let model = make(folder.path());
    let (before, everywhere) = (files(folder.path()), everywhere(&model));
    for (name, good) in &before {
        let path = folder.path().join(name);
        let frames_end = frames_end(good);
        // Of frames and hashes, one byte is as good as the next.
        for byte in
            (0..good.len()).filter(|byte| (frames_end..good.len() - 140).contains(byte) || byte % 8 == 0)
        {
            let mut bytes = good.clone();
            bytes[byte] ^= 1 << (byte / 8 % 8);
            std::fs::write(&path, &bytes).unwrap();
            let (archive, what) = (open(folder.path()), format!("byte {byte} of {name}"));
            assert!(!verify(&archive, None).findings.is_empty(), "{what}");
            repair_all(&archive, &everywhere, &model, &what);
            assert_contents(&archive, &model);
            drop(archive);
            assert_holds(&open(folder.path()), &model);
            files(folder.path())
                .iter()
                .for_each(|(name, _)| std::fs::remove_file(folder.path().join(name)).unwrap());
            put_files(folder.path(), &before);
        }
    }
    assert_holds(&open(folder.path()), &model);
}

#[test]
fn every_flipped_bit_is_repaired() {
    repair_every_byte(history, |model| model.values().flat_map(contents).collect());
}

/// Eleven versions in one segment, of which one is given up, and two more.
fn merged(folder: &Path) -> Model {
    let mut model = history(folder);
    let archive = open(folder);
    let mut content = model[&3].clone();
    for number in 4..=13 {
        content.edit(2, 30 * usize::try_from(number).unwrap(), 77);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        if number == 12 {
            archive.retire(5).unwrap();
            model.remove(&5);
            compact(&archive);
        }
    }
    // The manifest before is not there any more, so each file is needed.
    let mut last = content.clone();
    last.edit(2, 10, 77);
    write(&archive, 14, &last).unwrap();
    model.insert(14, last);
    assert_eq!(files(folder).len(), 3);
    model
}

#[test]
fn every_flipped_bit_of_a_merged_segment_is_repaired() {
    repair_every_byte(merged, |model| model.values().flat_map(contents).collect());
}

#[test]
fn a_version_is_written_anew_from_its_whole_content_and_from_no_other() {
    let folder = common::folder();
    let model = history(folder.path());
    let path = file_of(folder.path(), 2);
    let mut bytes = std::fs::read(&path).unwrap();
    // The block: nobody knows which pages the file has.
    let frames_end = frames_end(&bytes);
    bytes[frames_end + 2] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let archive = open(folder.path());
    let report = verify(&archive, None);
    // What the third one has of a page is a difference from what the second has.
    assert_eq!((&report.findings[0].file, &report.findings[0].affects[..]), (&path, &[2, 3][..]));
    assert!(repair(&archive, &report.damage, &model.values().flat_map(contents).collect()).is_empty());
    let meta = archive.describe(2).unwrap();
    let before = files(folder.path());
    assert_eq!(put_back(&archive, meta.clone(), &model[&3]), Ok(None));
    let mut short = model[&2].clone();
    short.pages.pop();
    assert_eq!(put_back(&archive, meta.clone(), &short), Ok(None));
    short.pages.extend([page(512, 1), page(512, 2)]);
    assert!(put_back(&archive, meta.clone(), &short).is_err(), "it has no fifth page");
    assert_eq!(files(folder.path()), before);
    assert_eq!(put_back(&archive, meta, &model[&2]), Ok(Some(file_of(folder.path(), 4))));
    // Nobody needs the damaged file any more.
    assert_holds(&archive, &model);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

/// Any version whose file is gone, be it one into which others were merged or one with pages of another size, is put back below what
/// was stored since, and what is done later goes by it.
#[test]
fn versions_whose_file_is_gone_are_put_back_whatever_was_stored_since() {
    let folder = common::folder();
    let archive = open(folder.path());
    let (mut content, mut model) = (Content::new(512, [3, 6, 2, 7]), Model::new());
    for number in 1..=14 {
        if number == 11 {
            content = Content::new(1024, [3, 6, 2]);
        }
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        content.edit(1, 100, 77);
        content.pages[0] = page(content.page_size, 3 * (number + 50));
        if number == 8 {
            compact(&archive);
        }
    }
    for number in [3, 12] {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    drop(archive);
    let kept = files(folder.path());
    for (name, _) in kept[..kept.len() - 1].iter().filter(|(name, _)| !is_spare(name, &kept)) {
        let path = folder.path().join(name);
        std::fs::remove_file(&path).unwrap();
        let archive = open(folder.path());
        let report = verify(&archive, None);
        assert!(report.findings.iter().any(|finding| finding.file == path), "{name}: {report:?}");
        for (&number, content) in &model {
            if read(&archive, number).is_err() {
                let other = model.iter().find(|(_, other)| *other != content).unwrap().1;
                assert!(
                    !matches!(put_back(&archive, meta(number, content), other), Ok(Some(_))),
                    "{number} is not that"
                );
                assert!(put_back(&archive, meta(number, content), content).unwrap().is_some());
            }
        }
        assert_contents(&archive, &model);
        // Nobody misses it any more.
        repair_all(&archive, &Contents::new(), &model, name);
        assert_holds(&archive, &model);
        let mut left = model.clone();
        for given_up in [4, 7, 11] {
            archive.retire(given_up).unwrap();
            left.remove(&given_up);
        }
        compact(&archive);
        let mut next = left[&14].clone();
        next.edit(2, 77, 77);
        write(&archive, 15, &next).unwrap();
        left.insert(15, next);
        assert_holds(&archive, &left);
        drop(archive);
        assert_holds(&open(folder.path()), &left);
        files(folder.path())
            .iter()
            .for_each(|(name, _)| std::fs::remove_file(folder.path().join(name)).unwrap());
        put_files(folder.path(), &kept);
    }
    // What was given up stays so.
    let archive = open(folder.path());
    assert!(put_back(&archive, meta(3, &model[&4]), &model[&4]).is_err());
    assert_holds(&archive, &model);
}

#[test]
fn what_nobody_has_stays_damaged_and_what_somebody_has_is_repaired_beside_it() {
    let folder = common::folder();
    let model = history(folder.path());
    let path = file_of(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    // The first two pages cannot be compressed.
    (bytes[12 + 100], bytes[12 + 512 + 100]) = (!bytes[112], !bytes[624]);
    std::fs::write(&path, &bytes).unwrap();
    let archive = open(folder.path());
    let report = verify(&archive, None);
    assert_eq!(report.findings[0].affects, [1, 2, 3]);
    assert_eq!(report.damage.wanted().collect::<Vec<_>>(), [0, 1].map(|nth| check(&model[&1].pages[nth])));
    // A content that is not what its check says is not taken.
    let forged: Contents = report.damage.wanted().map(|check| (check, vec![7; 512])).collect();
    assert_eq!(repair(&archive, &report.damage, &forged), []);
    assert_eq!(repair(&archive, &report.damage, &Contents::new()), []);
    assert_eq!(verify(&archive, None), report);
    // The second page is in the store still, and the first is not.
    let by = Remedy::Pages(vec![check(&model[&1].pages[1])]);
    let repaired = repair(&archive, &report.damage, &contents(&model[&3]));
    assert_eq!(repaired, [PutRight { number: 1, file: path.clone(), by }]);
    assert!(read(&archive, 1).is_err());
    let report = verify(&archive, None);
    assert_eq!((&report.findings[0].file, &report.findings[0].affects[..]), (&path, &[1][..]));
    for number in [2, 3] {
        assert_eq!(read(&archive, number).unwrap(), model[&number].bytes());
    }
    // Once somebody has it, or it is given up, all is well.
    archive.retire(1).unwrap();
    repair(&archive, &verify(&archive, None).damage, &Contents::new());
    assert_holds(&archive, &Model::from([2, 3].map(|number| (number, model[&number].clone()))));
}

/// The first version was given up, and nobody has its pages; what the second one shows lies upon one of them.
#[test]
fn what_lies_upon_something_that_nobody_has_is_repaired_by_its_own_content() {
    let folder = common::folder();
    let archive = open(folder.path());
    let (mut content, mut model) = (Content::new(512, [3, 6, 2, 7]), Model::new());
    for number in 1..=3 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        content.edit(if number == 1 { 1 } else { 3 }, 100, 77);
    }
    archive.retire(1).unwrap();
    model.remove(&1);
    let path = file_of(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    // The second page cannot be compressed.
    bytes[12 + 512 + 300] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let report = verify(&archive, None);
    assert_eq!((&report.findings[0].file, &report.findings[0].affects[..]), (&path, &[2, 3][..]));
    let repaired = repair(&archive, &report.damage, &model.values().flat_map(contents).collect());
    assert_eq!(repaired.iter().map(|repaired| &repaired.file).collect::<Vec<_>>(), [&path]);
    assert_holds(&archive, &model);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

#[test]
fn what_was_given_up_or_is_gone_meanwhile_is_no_obstacle() {
    let folder = common::folder();
    let mut model = history(folder.path());
    let path = file_of(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[112] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let archive = open(folder.path());
    let damage = verify(&archive, None).damage;
    archive.retire(1).unwrap();
    repair(&archive, &damage, &contents(&model[&1]));
    model.remove(&1);
    assert_holds(&archive, &model);
    compact(&archive);
    repair(&archive, &damage, &contents(&model[&2]));
    assert_holds(&archive, &model);
    assert_eq!(repair(&archive, &Damage::default(), &Contents::new()), []);
    compact(&archive);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

#[test]
fn a_repair_can_be_stopped_and_leaves_what_there_was() {
    let folder = common::folder();
    let archive = open(folder.path());
    let content = Content::new(4096, (0..400).map(|nth| 3 * nth));
    write(&archive, 1, &content).unwrap();
    let path = file_of(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    // In the manifest: all that is needed comes out, and has to be written once more.
    let end = bytes.len() - 180;
    bytes[end] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut newer = content.clone();
    newer.edit(0, 10, 77);
    write(&archive, 2, &newer).unwrap();
    let (before, damage) = (files(folder.path()), verify(&archive, None).damage);
    let stopped = archive.repair(&damage, &Contents::new(), &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(files(folder.path()), before);
    assert_eq!(repair(&archive, &damage, &Contents::new()).len(), 1);
    assert_holds(&archive, &Model::from([(1, content), (2, newer)]));
}

/// A segment with mended pages is of several versions, and what lies upon those is not in the segment after it.
#[test]
fn what_was_mended_of_several_versions_is_given_back_and_compaction_ends() {
    let folder = common::folder();
    let archive = open(folder.path());
    let (mut content, mut model) = (Content::new(512, [3, 6, 9, 12]), Model::new());
    for number in 1..=6 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        content.edit(usize::try_from(number % 4).unwrap(), 10 * usize::try_from(number).unwrap(), 77);
    }
    for number in [1, 3, 4] {
        let path = file_of(folder.path(), number);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        repair(&archive, &verify(&archive, None).damage, &model.values().flat_map(contents).collect());
    }
    assert_holds(&archive, &model);
    for number in [1, 3, 4] {
        archive.retire(number).unwrap();
        model.remove(&number);
        compact(&archive);
        assert_holds(&archive, &model);
    }
}

#[test]
fn a_removed_file_that_is_open_is_written_once_more_though_another_one_is_damaged() {
    let folder = common::folder();
    let model = history(folder.path());
    let archive = open(folder.path());
    assert_holds(&archive, &model);
    std::fs::remove_file(file_of(folder.path(), 2)).unwrap();
    // The first byte but two of its only block: all of it is damaged.
    let damaged = file_of(folder.path(), 3);
    let mut bytes = std::fs::read(&damaged).unwrap();
    let footer = bytes.len() - 172;
    let frames_end = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
    bytes[usize::try_from(frames_end).unwrap() + 2] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let report = verify(&archive, None);
    repair(&archive, &report.damage, &Contents::new());
    drop(archive);
    let archive = open(folder.path());
    for number in 1..=2 {
        assert!(read(&archive, number).unwrap() == model[&number].bytes(), "version {number}");
    }
}
