//! Damage: whatever bytes a pack file has, reading never gives wrong data, and verification says so.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use asat_archive::{Archive, Error, Kept, Report, Retired};
use asat_core::{Code, Problem};
use common::{Content, Model, assert_holds, compact, files, open, page, read, verify, write};
use proptest::prelude::*;

/// Four versions of a few pages. Version 2 needs pages of both layers, version 3 has a page that is stored as its
/// difference from version 1's, and version 4 one that is version 1's again.
fn small(folder: &Path) -> Model {
    let archive = open(folder);
    let mut content = Content::new(512, [1, 24, 3, 7]);
    let mut model = Model::new();
    for number in 1..=4 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        match number {
            1 => content.pages[1] = page(512, 22),
            2 => content.edit(2, 100, 77),
            _ => content.pages[1] = page(512, 24),
        }
    }
    model
}

/// The versions that a report names.
fn affected(report: &Report) -> Vec<u64> {
    let affected: BTreeSet<u64> =
        report.findings.iter().flat_map(|finding| finding.affects.clone()).collect();
    affected.into_iter().collect()
}

/// Whatever can be read is right, nothing panics, and at least one finding names the file.
fn check_damaged(folder: &Path, file: &Path, model: &Model, what: &str) {
    let archive = open(folder);
    let mut unreadable = Vec::new();
    for (&number, content) in model {
        match read(&archive, number) {
            Ok(bytes) => assert_eq!(bytes, content.bytes(), "{what}: version {number} read wrong"),
            Err(Error::Damaged { .. } | Error::Newer { .. }) => unreadable.push(number),
            Err(error) => panic!("{what}: {error}"),
        }
        let _ = archive.describe(number);
    }
    // Pages are not read for it.
    let resolved = |number: &u64| archive.read(*number).is_err();
    let named: Vec<u64> = archive.unreadable().into_iter().map(|(number, _)| number).collect();
    assert_eq!(named, model.keys().copied().filter(resolved).collect::<Vec<_>>(), "{what}");
    let report = verify(&archive, None);
    assert!(!report.findings.is_empty(), "{what}: not found");
    assert!(report.findings.iter().any(|finding| finding.file == file), "{what}: {report:?}");
    assert_eq!(affected(&report), unreadable, "{what}: {report:?}");
    for number in unreadable {
        assert!(!verify(&archive, Some(number)).findings.is_empty(), "{what}: version {number}");
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let folder = common::folder();
    let model = small(folder.path());
    for name in ["1.pack", "2.pack", "3.pack", "4.pack"] {
        let path = folder.path().join(name);
        let good = std::fs::read(&path).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        for (nth, byte) in (0..).zip(&good) {
            for bit in 0..8 {
                file.write_all_at(&[byte ^ (1 << bit)], nth).unwrap();
                check_damaged(folder.path(), &path, &model, &format!("{name}, bit {bit} of byte {nth}"));
            }
            file.write_all_at(&[*byte], nth).unwrap();
        }
    }
    assert!(verify(&open(folder.path()), None).findings.is_empty());
}

/// Three versions of which the last has nothing of the first any more, though it continues the second, which continues that.
fn outgrown(folder: &Path) -> Model {
    let archive = open(folder);
    let mut content = Content::new(512, [3, 6, 7, 9]);
    let mut model = Model::new();
    for number in 1..=3 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        for nth in [0, 1].map(|nth| nth + if number == 1 { 0 } else { 2 }) {
            content.pages[nth] = page(512, 3 * (10 * number + u64::try_from(nth).unwrap()));
        }
    }
    model
}

/// A difference says what its page must be, and not upon what it lies: that all entries are there does not mean that the page is.
#[test]
fn a_version_with_a_difference_upon_what_is_lost_is_lost_too_and_the_next_without_is_not() {
    let folder = common::folder();
    let archive = open(folder.path());
    let (mut content, mut model) = (Content::new(512, [3, 6, 9]), Model::new());
    for number in 1..=5 {
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        if number < 4 {
            content.edit(1, 100 * usize::try_from(number).unwrap(), 77);
        } else {
            content.pages[1] = page(512, 333);
        }
    }
    drop(archive);
    let path = folder.path().join("2.pack");
    let good = std::fs::read(&path).unwrap();
    let mut damaged = good.clone();
    damaged[good.len() - 180 - 200..good.len() - 180].fill(0);
    for found in [None, Some(damaged)] {
        match found {
            None => std::fs::remove_file(&path).unwrap(),
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        }
        let archive = open(folder.path());
        archive.expect((!path.exists()).then_some(2));
        for number in [3, 4] {
            let error = archive.read(number).map(drop).unwrap_err();
            assert!(
                matches!(&error, Error::Damaged { path: named, .. } if *named == path),
                "{number}: {error}"
            );
        }
        for number in [1, 5] {
            assert_eq!(common::read(&archive, number).unwrap(), model[&number].bytes());
        }
        let unreadable: Vec<u64> = archive.unreadable().into_iter().map(|(number, _)| number).collect();
        assert_eq!(unreadable, if path.exists() { vec![2, 3, 4] } else { vec![3, 4] });
    }
}

#[test]
fn damage_to_a_layer_does_not_reach_a_version_that_needs_nothing_of_it() {
    let folder = common::folder();
    let model = outgrown(folder.path());
    let path = folder.path().join("1.pack");
    let good = std::fs::read(&path).unwrap();
    let check = |what: &str| {
        check_damaged(folder.path(), &path, &model, what);
        let archive = open(folder.path());
        assert_eq!(read(&archive, 3).unwrap(), model[&3].bytes(), "{what}");
        assert!(verify(&archive, Some(3)).findings.is_empty(), "{what}");
    };
    for nth in 0..good.len() {
        let mut bytes = good.clone();
        bytes[nth] ^= 1 << (nth % 8);
        std::fs::write(&path, bytes).unwrap();
        check(&format!("bit {} of byte {nth}", nth % 8));
    }
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    check("cut short");
    std::fs::remove_file(&path).unwrap();
    let archive = open(folder.path());
    let error = read(&archive, 2).unwrap_err();
    assert!(matches!(&error, Error::Damaged { path: named, .. } if *named == path), "{error}");
    assert_eq!(read(&archive, 3).unwrap(), model[&3].bytes());
    let report = verify(&archive, None);
    assert_eq!((affected(&report), &report.findings[0].file), (vec![2], &path));
    assert!(report.findings[0].what.contains("missing"), "{report:?}");
}

#[test]
fn every_other_length_is_found() {
    let folder = common::folder();
    let model = small(folder.path());
    let path = folder.path().join("1.pack");
    let good = std::fs::read(&path).unwrap();
    for len in 0..good.len() {
        std::fs::write(&path, &good[..len]).unwrap();
        check_damaged(folder.path(), &path, &model, &format!("cut to {len}"));
    }
    for more in [1, 12, 180, 4096] {
        std::fs::write(&path, [good.as_slice(), &vec![0; more]].concat()).unwrap();
        check_damaged(folder.path(), &path, &model, &format!("{more} bytes more"));
    }
}

#[test]
fn a_newer_format_is_refused_and_not_called_damaged() {
    let folder = common::folder();
    small(folder.path());
    let path = folder.path().join("2.pack");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[8] = 5;
    bytes[end - 12] = 5;
    std::fs::write(&path, bytes).unwrap();
    let archive = open(folder.path());
    let error = read(&archive, 2).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 5, .. }), "{error}");
    assert_eq!(Problem::from(error).code, Code::NotReadable);
    let report = verify(&archive, None);
    assert_eq!(affected(&report), [2, 3, 4]);
    assert!(report.damage.is_empty());
    // Nothing of it is changed, whatever is asked for.
    archive.retire(3).unwrap();
    let before = files(folder.path());
    for refused in
        [archive.retire(2).map(drop), archive.compact(&mut |_| ControlFlow::Continue(())).map(drop)]
    {
        assert!(matches!(&refused, Err(Error::Newer { path: named, .. }) if *named == path), "{refused:?}");
    }
    assert!(
        archive
            .repair(&report.damage, &Default::default(), &mut |_| ControlFlow::Continue(()))
            .unwrap()
            .is_empty()
    );
    assert!(files(folder.path()) == before);
}

#[test]
fn a_layer_that_is_missing_or_exchanged_is_noticed() {
    let (folder, other) = (common::folder(), common::folder());
    let model = small(folder.path());
    write(&open(other.path()), 1, &Content::new(512, [11, 12, 13, 14])).unwrap();
    let (path, elsewhere) = (folder.path().join("1.pack"), folder.path().join("aside"));
    std::fs::rename(&path, &elsewhere).unwrap();
    let archive = open(folder.path());
    assert!(matches!(read(&archive, 2), Err(Error::Damaged { .. })));
    assert_eq!(affected(&verify(&archive, None)), [2, 3, 4]);
    drop(archive);
    std::fs::copy(other.path().join("1.pack"), &path).unwrap();
    let archive = open(folder.path());
    assert!(matches!(read(&archive, 2), Err(Error::Damaged { .. })));
    assert_eq!(affected(&verify(&archive, None)), [2, 3, 4]);
    drop(archive);
    std::fs::rename(&elsewhere, &path).unwrap();
    common::assert_holds(&open(folder.path()), &model);
    // A file under another number is not that version.
    std::fs::copy(&path, folder.path().join("5.pack")).unwrap();
    assert!(matches!(read(&open(folder.path()), 5), Err(Error::Damaged { .. })));
}

/// A version whose pages were taken for those of one that cannot be read would be acknowledged and never be read.
#[test]
fn what_is_written_above_a_damaged_layer_can_be_read() {
    for (reopened, pack) in [(false, "1.pack"), (true, "1.pack"), (false, "4.pack"), (true, "4.pack")] {
        for from_end in [None, Some(1), Some(20), Some(200)] {
            let what = format!("{pack}, {from_end:?} bytes from its end, reopened: {reopened}");
            let folder = common::folder();
            let mut content = small(folder.path()).remove(&4).unwrap();
            let mut archive = open(folder.path());
            let path = folder.path().join(pack);
            // What is known of the newest version is in memory now.
            drop(archive.begin(5, content.page_size(), content.count()).unwrap());
            match from_end {
                None => std::fs::remove_file(&path).unwrap(),
                Some(bytes) => {
                    let mut damaged = std::fs::read(&path).unwrap();
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
            assert_eq!(read(&open(folder.path()), 5).unwrap(), content.bytes(), "{what}");
        }
    }
}

#[test]
fn foreign_files_are_left_alone() {
    let folder = common::folder();
    small(folder.path());
    let foreign = ["007.pack", "1.pack.bak", "2.layer", "README", "x.tmp"];
    foreign.iter().for_each(|name| std::fs::write(folder.path().join(name), name).unwrap());
    std::fs::create_dir(folder.path().join("9.pack")).unwrap();
    std::os::unix::fs::symlink("1.pack", folder.path().join("8.pack")).unwrap();
    std::fs::write(folder.path().join("5.tmp"), "half").unwrap();
    let (archive, opened) = Archive::open(folder.path()).unwrap();
    assert_eq!(opened.removed, ["5.tmp"]);
    assert_eq!(opened.freed_bytes, 4);
    assert_eq!(opened.foreign, ["007.pack", "1.pack.bak", "2.layer", "8.pack", "9.pack", "README", "x.tmp"]);
    assert_eq!(archive.live(), [1, 2, 3, 4]);
}

#[test]
fn a_second_archive_in_the_same_folder_is_refused() {
    let folder = common::folder();
    let _first = open(folder.path());
    assert!(matches!(Archive::open(folder.path()), Err(Error::Busy { .. })));
}

/// Puts the right checksums on a hostile footer, index and metadata.
fn forge(good: &[u8], change: impl Fn(&mut [u64; 5])) -> Vec<u8> {
    let hash = |bytes: &[u8]| asat_archive::fingerprint::page_hash(bytes);
    let (body, footer) = good.split_at(good.len() - 180);
    let mut numbers = [0_u64; 5];
    for (number, bytes) in numbers.iter_mut().zip(footer.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().unwrap());
    }
    change(&mut numbers);
    let mut footer = [numbers.map(u64::to_le_bytes).concat(), footer[40..136].to_vec()].concat();
    footer.extend(hash(&footer));
    [body, &footer, &good[good.len() - 12..]].concat()
}

#[test]
fn lengths_in_a_forged_footer_are_not_believed() {
    let folder = common::folder();
    let model = small(folder.path());
    let path: PathBuf = folder.path().join("1.pack");
    let good = std::fs::read(&path).unwrap();
    assert_eq!(forge(&good, |_| {}), good);
    for field in 0..5 {
        for value in [0, 1, 11, 0xffff, u64::from(u32::MAX), 1 << 40, u64::MAX / 2, u64::MAX - 179, u64::MAX]
        {
            std::fs::write(&path, forge(&good, |numbers| numbers[field] = value)).unwrap();
            check_damaged(folder.path(), &path, &model, &format!("field {field} is {value}"));
        }
    }
    let wrap = |numbers: &mut [u64; 5]| {
        numbers[0] = numbers[0].wrapping_add(u64::MAX - 5);
        numbers[1] += 6;
    };
    std::fs::write(&path, forge(&good, wrap)).unwrap();
    check_damaged(folder.path(), &path, &model, "lengths that wrap around");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn garbage_is_found(garbage in prop::collection::vec(any::<u8>(), 0..600), keep_ends in any::<bool>()) {
        let folder = common::folder();
        let model = small(folder.path());
        let path = folder.path().join("1.pack");
        let good = std::fs::read(&path).unwrap();
        let bytes = if keep_ends {
            [&good[..12], &garbage, &good[good.len() - 180..]].concat()
        } else {
            garbage
        };
        std::fs::write(&path, bytes).unwrap();
        check_damaged(folder.path(), &path, &model, "garbage");
        prop_assert!(files(folder.path()).len() == 4);
    }
}

#[test]
fn what_a_missing_pack_needs_is_kept_until_it_is_back_or_given_up() {
    for missing in [3, 5] {
        let folder = common::folder();
        let (mut model, aside) = (Model::new(), folder.path().parent().unwrap());
        let aside = tempfile::tempdir_in(aside).unwrap();
        {
            let archive = open(folder.path());
            let mut content = Content::new(512, 1..20);
            for number in 1..=5_u8 {
                content.pages[usize::from(number)] = common::page(512, 1000 + u64::from(number));
                write(&archive, number.into(), &content).unwrap();
                model.insert(number.into(), content.clone());
            }
            for number in [2, 4] {
                archive.retire(number).unwrap();
                model.remove(&number);
            }
        }
        let name = format!("{missing}.pack");
        let (pack, aside) = (folder.path().join(&name), aside.path().join(&name));
        std::fs::rename(&pack, &aside).unwrap();
        {
            let archive = open(folder.path());
            archive.expect([missing]);
            let before = files(folder.path()).len();
            compact(&archive);
            // Giving up the newest would take what lies between it and the next.
            let newest = archive.newest().unwrap();
            archive.retire(newest).unwrap();
            model.remove(&newest);
            compact(&archive);
            assert_eq!(files(folder.path()).len(), before, "{missing}");
        }
        std::fs::rename(&aside, &pack).unwrap();
        assert_holds(&open(folder.path()), &model);
        std::fs::remove_file(&pack).unwrap();
        let archive = open(folder.path());
        archive.expect([missing]);
        let given_up = archive.retire(missing).unwrap();
        assert_eq!(given_up, Retired::Retired { freed_bytes: 0, worth_compacting: true });
        compact(&archive);
        model.remove(&missing);
        assert_holds(&archive, &model);
        let names: Vec<String> = files(folder.path()).into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| name.ends_with(".pack")), "{names:?}");
    }
}
