//! Repair: what is damaged is stored again from wherever its content still is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::ops::ControlFlow;

use asat_archive::fingerprint::page_hash;
use asat_archive::{Archive, Contents, Damage, Error, Meta, PutRight, Remedy};
use asat_core::Problem;
use common::{Content, Model, assert_holds, files, open, page, read, verify, write};

/// The pages of a content by their hashes.
fn contents(content: &Content) -> Contents {
    content.pages.iter().map(|page| (page_hash(page), page.clone())).collect()
}

/// A repair that nobody stops.
fn repair(archive: &Archive, damage: &Damage, contents: &Contents) -> Result<Vec<PutRight>, Error> {
    archive.repair(damage, contents, &mut |_| ControlFlow::Continue(()))
}

/// The files that were put right.
fn named(repaired: &[PutRight]) -> Vec<&std::path::PathBuf> {
    repaired.iter().map(|repaired| &repaired.file).collect()
}

/// Three versions; the second and the third have a page each that is a difference.
fn history(folder: &std::path::Path) -> Model {
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

#[test]
fn every_flipped_bit_is_repaired() {
    let folder = common::folder();
    let model = history(folder.path());
    // What each version has is somewhere, and none has it all.
    let everywhere: Contents = model.values().flat_map(contents).collect();
    for name in ["1.pack", "2.pack", "3.pack"] {
        let path = folder.path().join(name);
        let good = std::fs::read(&path).unwrap();
        for byte in 0..good.len() {
            let mut bytes = good.clone();
            bytes[byte] ^= 1 << (byte % 8);
            std::fs::write(&path, &bytes).unwrap();
            let archive = open(folder.path());
            let report = verify(&archive, None);
            assert!(!report.findings.is_empty());
            let repaired = repair(&archive, &report.damage, &everywhere).unwrap();
            assert_eq!(named(&repaired), [&path], "byte {byte} of {name}");
            assert_holds(&archive, &model);
            drop(archive);
            assert_holds(&open(folder.path()), &model);
            std::fs::write(&path, &good).unwrap();
        }
    }
    assert_holds(&open(folder.path()), &model);
}

/// Where the entries of a pack's index begin (`docs/archive-format.md`).
fn entries(pack: &[u8]) -> Vec<usize> {
    let footer = &pack[pack.len() - 180..];
    let number =
        |at: usize| usize::try_from(u64::from_le_bytes(footer[at..at + 8].try_into().unwrap())).unwrap();
    let (mut at, mut entries) = (number(0), Vec::new());
    for _ in 0..number(32) {
        entries.push(at);
        for _ in ["page number", "length and encoding"] {
            at += pack[at..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
        }
        at += 32;
    }
    entries
}

/// Not every flip can be tried there; the pages tell where it is.
#[test]
fn a_flipped_bit_in_a_long_index_is_repaired() {
    let folder = common::folder();
    let archive = open(folder.path());
    // Pages that cannot be compressed, most of which change, are again what they were, and then change a little.
    let pages = |seed: u64| (0..15_000).map(move |nth| 3 * (nth + seed));
    let first = Content::new(512, pages(0));
    let mut second = Content::new(512, pages(15_000));
    second.pages.splice(0..500, first.pages[..500].to_vec());
    let mut fourth = first.clone();
    (300..14_900).for_each(|nth| fourth.edit(nth, 100, 77));
    for (number, content) in (1..).zip([&first, &second, &first, &fourth]) {
        write(&archive, number, content).unwrap();
    }
    drop(archive);
    for (number, encoding) in [(1, 0), (2, 0), (3, 3), (4, 2)] {
        let name = format!("{number}.pack");
        let path = folder.path().join(&name);
        let good = std::fs::read(&path).unwrap();
        let entries = entries(&good);
        assert!(entries.len() > 14_000 && good[entries[1] + 1] & 3 == encoding, "{name}");
        for (nth, place, bit) in
            [(0, 0, 1), (1, 0, 1), (9_000, 0, 2), (9_000, 0, 7), (9_000, 1, 0), (9_000, 1, 6)]
                .into_iter()
                .chain([
                    (9_000, 1, 7),
                    (9_001, 2, 7),
                    (9_001, 10, 3),
                    (entries.len() - 1, 0, 1),
                    (entries.len() - 1, 12, 5),
                ])
        {
            let mut bytes = good.clone();
            bytes[entries[nth] + place] ^= 1 << bit;
            std::fs::write(&path, bytes).unwrap();
            let archive = open(folder.path());
            let report = verify(&archive, None);
            let repaired = repair(&archive, &report.damage, &Contents::new()).unwrap();
            let flipped = PutRight { number, file: path.clone(), by: Remedy::Bit };
            assert_eq!(repaired, [flipped], "{name}: entry {nth}, byte {place}, bit {bit}");
            assert!(std::fs::read(&path).unwrap() == good, "{name}: entry {nth}, byte {place}, bit {bit}");
        }
    }
}

/// In a long index it takes twenty seconds: a daemon that stops cannot wait for it, and verifications cannot make it again and again.
#[test]
fn the_search_for_a_flipped_bit_can_be_stopped_and_is_not_made_twice_in_vain() {
    let folder = common::folder();
    let model = history(folder.path());
    let path = folder.path().join("2.pack");
    let good = std::fs::read(&path).unwrap();
    let index = entries(&good)[0];
    let put = |flips: &[(usize, u8)]| {
        let mut bytes = good.clone();
        flips.iter().for_each(|&(nth, flip)| bytes[index + nth] ^= flip);
        // In place, as a disk changes bytes.
        std::fs::write(&path, bytes).unwrap();
    };
    put(&[(4, 1), (5, 1)]);
    let archive = open(folder.path());
    let tried = |most: u64| {
        let (damage, mut asked) = (verify(&archive, None).damage, 0);
        let result = archive.repair(&damage, &Contents::new(), &mut |_| {
            asked += 1;
            if asked > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (result, asked)
    };
    let (stopped, asked) = tried(10);
    assert!(matches!(stopped, Err(Error::Stopped)) && asked == 11, "{stopped:?} {asked}");
    let (in_vain, asked) = tried(u64::MAX);
    assert!(
        in_vain.unwrap().is_empty() && asked > 40,
        "a search that was stopped has not been made: {asked}"
    );
    let (in_vain, asked) = tried(u64::MAX);
    assert!(in_vain.unwrap().is_empty() && asked == 0, "{asked}");
    // Other damage of the same file is another search.
    put(&[(4, 1)]);
    assert_eq!(tried(u64::MAX).0.unwrap().len(), 1);
    assert_holds(&archive, &model);
}

#[test]
fn a_version_is_written_anew_from_its_whole_content_and_from_no_other() {
    let folder = common::folder();
    let model = history(folder.path());
    let path = folder.path().join("2.pack");
    let good = std::fs::read(&path).unwrap();
    let mut bytes = good.clone();
    let index = bytes.windows(9).position(|window| window == b"{\"store\":").unwrap() - 40;
    bytes[index..index + 20].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let archive = open(folder.path());
    // A page of the third is a difference from what the second has.
    assert_eq!(archive.unreadable().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3]);
    let damage = verify(&archive, None).damage;
    assert!(repair(&archive, &damage, &contents(&model[&2])).unwrap().is_empty(), "it is more than a bit");
    let rebuild = |from: u64| {
        archive.rebuild(2, |rebuild| {
            assert_eq!((rebuild.meta().number, rebuild.meta().page_count), (2, model[&2].count()));
            Ok(model[&from].pages.iter().try_for_each(|page| rebuild.page(page))?)
        })
    };
    assert_eq!(rebuild(3), Ok(None));
    assert!(std::fs::read(&path).unwrap() == bytes && files(folder.path()).len() == 3);
    assert_eq!(rebuild(2), Ok(Some(path)));
    assert_holds(&archive, &model);
    drop(archive);
    assert_holds(&open(folder.path()), &model);
}

/// Puts a version back from its content and from what was known of it.
fn put_back(
    archive: &Archive,
    meta: &Meta,
    content: &Content,
) -> Result<Option<std::path::PathBuf>, Problem> {
    archive
        .put_back(meta.clone(), |rebuild| Ok(content.pages.iter().try_for_each(|page| rebuild.page(page))?))
}

/// Any version whose file is gone, be it one into which others were folded or one with pages of another size, is put back below what
/// was stored since, and what is done later goes by it.
#[test]
fn a_version_whose_file_is_gone_is_put_back_whatever_was_stored_since() {
    let folder = common::folder();
    let archive = open(folder.path());
    let (mut content, mut model) = (Content::new(512, [3, 6, 2, 7]), Model::new());
    for number in 1..=8 {
        if number == 5 {
            content = Content::new(1024, [3, 6, 2]);
        }
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
        content.edit(1, 100, 77);
        content.pages[0] = page(content.page_size, 3 * (number + 50));
    }
    let metas: Vec<Meta> = (1..=8).map(|number| archive.describe(number).unwrap()).collect();
    for number in [1, 3, 6] {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    common::compact(&archive);
    drop(archive);
    let kept = files(folder.path());
    assert!(kept.iter().any(|(name, _)| name == "3-4.pack"), "{kept:?}");
    for &number in model.keys() {
        let gone = kept.iter().map(|(name, _)| name.clone()).find(|name| {
            let last = name.strip_suffix(".pack").and_then(|range| range.rsplit('-').next());
            last == Some(&number.to_string())
        });
        std::fs::remove_file(folder.path().join(gone.unwrap())).unwrap();
        let archive = open(folder.path());
        archive.expect([number]);
        let meta = &metas[usize::try_from(number).unwrap() - 1];
        let other = model.iter().find(|(other, _)| **other != number).unwrap().1;
        assert!(!matches!(put_back(&archive, meta, other), Ok(Some(_))), "{number} is not that");
        assert!(!archive.contains(number));
        assert!(put_back(&archive, meta, &model[&number]).unwrap().is_some());
        assert_holds(&archive, &model);
        // Nobody misses it any more.
        let mut left = model.clone();
        for given_up in [number, 4, 7] {
            if left.len() > 1 && left.remove(&given_up).is_some() {
                archive.retire(given_up).unwrap();
            }
        }
        common::compact(&archive);
        assert_holds(&archive, &left);
        assert!(verify(&archive, None).findings.is_empty());
        drop(archive);
        assert_holds(&open(folder.path()), &left);
        files(folder.path())
            .iter()
            .for_each(|(name, _)| std::fs::remove_file(folder.path().join(name)).unwrap());
        common::put_files(folder.path(), &kept);
    }
    // What was given up stays so, be it folded or not.
    let archive = open(folder.path());
    archive.retire(5).unwrap();
    for number in [3, 5] {
        assert!(put_back(&archive, &metas[number - 1], &content).is_err(), "{number}");
    }
}

#[test]
fn what_is_stored_while_the_newest_is_missing_needs_nothing_that_goes_when_that_is_back() {
    for by_hand in [true, false] {
        let (folder, elsewhere) = (common::folder(), common::folder());
        let archive = open(folder.path());
        let mut content = Content::new(512, [3, 6, 2, 7]);
        write(&archive, 1, &content).unwrap();
        content.edit(1, 100, 77);
        write(&archive, 2, &content).unwrap();
        let (meta, second) = (archive.describe(2).unwrap(), content.clone());
        drop(archive);
        let (gone, kept) = (folder.path().join("2.pack"), elsewhere.path().join("2.pack"));
        std::fs::rename(&gone, &kept).unwrap();
        let mut archive = open(folder.path());
        archive.expect([2]);
        content.edit(2, 100, 77);
        write(&archive, 3, &content).unwrap();
        if by_hand {
            drop(archive);
            std::fs::rename(&kept, &gone).unwrap();
            archive = open(folder.path());
        } else {
            assert!(put_back(&archive, &meta, &second).unwrap().is_some());
        }
        archive.retire(1).unwrap();
        common::compact(&archive);
        assert_holds(&archive, &Model::from([(2, second), (3, content)]));
    }
}

#[test]
fn what_nobody_has_stays_damaged_and_what_somebody_has_is_repaired_beside_it() {
    let folder = common::folder();
    let model = history(folder.path());
    let path = folder.path().join("1.pack");
    let mut bytes = std::fs::read(&path).unwrap();
    // The first two pages cannot be compressed.
    (bytes[12 + 100], bytes[12 + 512 + 100]) = (!bytes[112], !bytes[624]);
    std::fs::write(&path, &bytes).unwrap();
    let archive = open(folder.path());
    let damage = verify(&archive, None).damage;
    assert_eq!(damage.wanted().collect::<Vec<_>>(), [0, 1].map(|nth| page_hash(&model[&1].pages[nth])));
    // A content that is not what its hash says is not taken.
    let forged: Contents = damage.wanted().map(|hash| (hash, vec![7; 512])).collect();
    repair(&archive, &damage, &forged).unwrap();
    assert_eq!(verify(&archive, None).damage, damage);
    assert_eq!(repair(&archive, &damage, &Contents::new()).unwrap(), []);
    // The second page is in the store still, and the first is not.
    let by = Remedy::Pages(vec![page_hash(&model[&1].pages[1])]);
    assert_eq!(
        repair(&archive, &damage, &contents(&model[&3])).unwrap(),
        [PutRight { number: 1, file: path, by }]
    );
    assert!(read(&archive, 1).is_err());
    let report = verify(&archive, None);
    assert_eq!(report.findings.iter().flat_map(|finding| finding.affects.clone()).collect::<Vec<_>>(), [1]);
    for number in [2, 3] {
        assert_eq!(read(&archive, number).unwrap(), model[&number].bytes());
    }
}

#[test]
fn nothing_is_written_anew_that_cannot_be_judged_until_what_it_lies_upon_is_back() {
    let folder = common::folder();
    let model = history(folder.path());
    let everywhere: Contents = model.values().flat_map(contents).collect();
    let (below, path, away) = (folder.path().join("2.pack"), folder.path().join("3.pack"), common::folder());
    let good = std::fs::read(&path).unwrap();
    for byte in 0..good.len() {
        let mut damaged = good.clone();
        damaged[byte] ^= 1 << (byte % 8);
        std::fs::write(&path, &damaged).unwrap();
        let archive = open(folder.path());
        std::fs::rename(&below, away.path().join("2.pack")).unwrap();
        let repaired = repair(&archive, &verify(&archive, None).damage, &Contents::new()).unwrap();
        drop(archive);
        std::fs::rename(away.path().join("2.pack"), &below).unwrap();
        let archive = open(folder.path());
        let report = verify(&archive, None);
        // What was called put right is that.
        assert_eq!(report.findings.is_empty(), !repaired.is_empty(), "byte {byte}: {repaired:?}, {report:?}");
        repair(&archive, &report.damage, &everywhere).unwrap();
        assert_holds(&archive, &model);
        drop(archive);
        std::fs::write(&path, &good).unwrap();
    }
}

#[test]
fn what_was_given_up_or_is_gone_meanwhile_is_no_obstacle() {
    let folder = common::folder();
    let mut model = history(folder.path());
    let path = folder.path().join("1.pack");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[112] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let archive = open(folder.path());
    let damage = verify(&archive, None).damage;
    archive.retire(1).unwrap();
    let repaired = repair(&archive, &damage, &contents(&model[&1])).unwrap();
    assert_eq!(named(&repaired), [&folder.path().join("1.layer")]);
    model.remove(&1);
    assert_holds(&archive, &model);
    common::compact(&archive);
    assert_eq!(repair(&archive, &damage, &contents(&model[&2])).unwrap().len(), 0);
    assert_eq!(repair(&archive, &Damage::default(), &Contents::new()).unwrap().len(), 0);
    assert_holds(&archive, &model);
    assert_eq!(files(folder.path()).len(), 2);
}
