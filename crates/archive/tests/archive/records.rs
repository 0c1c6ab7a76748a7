//! What is recorded beside the versions, against a plain map: in few files, whatever happens to the rest of the archive, after crashes, and
//! with damage.

use std::collections::BTreeMap;

use asat_archive::{Archive, Changes, Error};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::camera::images_of;
use crate::common::{self, Content, cases, compact, files, open, page, put_files, verify, write};

type Values = BTreeMap<String, String>;

/// What somebody does with an archive.
#[derive(Clone, Debug)]
enum Op {
    Record(Vec<(u8, Option<u16>)>),
    Anew(Vec<(u8, u16)>),
    Write,
    Retire,
    Compact,
    Reopen,
}

fn any_op() -> impl Strategy<Value = Op> {
    let changes = prop::collection::vec((any::<u8>(), any::<Option<u16>>()), 0..6);
    prop_oneof![
        6 => changes.prop_map(Op::Record),
        1 => prop::collection::vec((any::<u8>(), any::<u16>()), 0..6).prop_map(Op::Anew),
        2 => Just(Op::Write),
        1 => Just(Op::Retire),
        1 => Just(Op::Compact),
        1 => Just(Op::Reopen),
    ]
}

fn key(key: u8) -> String {
    format!("key {}", key % 40)
}

/// A value whose length says something of the number, so that files are of different lengths.
fn value(number: u16) -> String {
    (0..number % 900).map(|nth| blake3::hash(&(number ^ nth).to_le_bytes()).to_string()).collect()
}

fn change(archive: &Archive, model: &mut Values, changes: Changes) {
    archive.record(changes.clone()).unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => _ = model.insert(key, value),
            None => _ = model.remove(&key),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(48), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_recorded_last_is_there(ops in prop::collection::vec(any_op(), 1..24)) {
        let folder = common::folder();
        let (mut archive, mut model, mut version) = (open(folder.path()), Values::new(), 0);
        for op in ops {
            match op {
                Op::Record(changes) => {
                    let changes = changes.into_iter().map(|(name, number)| (key(name), number.map(value)));
                    change(&archive, &mut model, changes.collect());
                }
                Op::Anew(values) => {
                    model = values.into_iter().map(|(name, number)| (key(name), value(number))).collect();
                    archive.record_anew(model.clone()).unwrap();
                }
                Op::Write => {
                    version += 1;
                    write(&archive, version, &Content::new(512, version..version + 4)).unwrap();
                }
                Op::Retire => _ = archive.newest().map(|newest| archive.retire(newest).unwrap()),
                Op::Compact => _ = compact(&archive),
                Op::Reopen => {
                    drop(archive);
                    archive = open(folder.path());
                }
            }
            prop_assert_eq!(&archive.records().unwrap(), &model);
        }
        prop_assert!(verify(&archive, None).findings.is_empty());
    }
}

#[test]
fn there_are_few_files_however_much_is_recorded() {
    let folder = common::folder();
    let (archive, mut model, mut written) = (open(folder.path()), Values::new(), 0);
    for number in 0..400 {
        let changes = (0..40).map(|nth| {
            let key = format!("{number}/{nth}");
            (key.clone(), Some(blake3::hash(key.as_bytes()).to_string()))
        });
        change(&archive, &mut model, changes.collect());
        written += files(folder.path()).last().unwrap().1.len();
    }
    assert_eq!(archive.records().unwrap(), model);
    let (there, bytes) = (files(folder.path()).len(), archive.bytes());
    assert!(there <= 8, "there are {there} files of {bytes} bytes");
    assert!(written < 30 * usize::try_from(bytes).unwrap(), "{written} bytes were written for {bytes}");
}

#[test]
fn a_crash_leaves_what_was_recorded_before_or_after() {
    let folder = common::folder();
    let (archive, mut before) = (open(folder.path()), Values::new());
    write(&archive, 1, &Content::new(512, 1..9)).unwrap();
    change(
        &archive,
        &mut before,
        Changes::from([("pin".into(), Some("1".into())), ("tag".into(), Some("2".into()))]),
    );
    let changes = Changes::from([("pin".into(), None), ("tag".into(), Some("3".into()))]);
    let images = images_of(folder.path(), || archive.record(changes.clone()).unwrap());
    assert!(images.len() > 4);
    for image in images {
        let folder = common::folder();
        put_files(folder.path(), &image);
        let archive = open(folder.path());
        let mut found = archive.records().unwrap();
        assert!(found == before || found == Values::from([("tag".into(), "3".into())]), "{found:?}");
        change(&archive, &mut found, changes.clone());
        assert_eq!(archive.records().unwrap(), found);
        assert!(verify(&archive, None).findings.is_empty());
        assert!(files(folder.path()).len() <= 3);
    }
}

#[test]
fn damage_is_found_and_what_is_recorded_anew_takes_its_place() {
    let folder = common::folder();
    let (archive, mut model) = (open(folder.path()), Values::new());
    change(&archive, &mut model, Changes::from([("tag".into(), Some("month-end".into()))]));
    // The newest file has a manifest that names it.
    write(&archive, 1, &Content::new(512, 1..9)).unwrap();
    drop(archive);
    let image = files(folder.path());
    let (name, bytes) = &image[0];
    // The manifest that follows counts no more.
    let end = u64::from_le_bytes(bytes[bytes.len() - 172..][..8].try_into().unwrap()) as usize;
    for at in 12..end {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(folder.path().join(name), damaged).unwrap();
        let archive = open(folder.path());
        assert!(archive.records().unwrap_err().is_loss(), "byte {at}");
        let report = verify(&archive, None);
        assert!(report.damage.records && report.findings.len() == 1, "byte {at}: {report:?}");
        assert!(report.findings[0].file.ends_with(name));
        // It is one of the files that a copy elsewhere must not be made of.
        assert_eq!(archive.files().unwrap().lost, [1]);
    }
    let archive = open(folder.path());
    archive.record_anew(model.clone()).unwrap();
    assert_eq!(archive.records().unwrap(), model);
    assert!(verify(&archive, None).findings.is_empty() && archive.files().unwrap().lost.is_empty());
}

#[test]
fn what_cannot_be_taken_in_keeps_nothing_from_being_recorded() {
    let folder = common::folder();
    let (archive, mut model) = (open(folder.path()), Values::new());
    change(&archive, &mut model, Changes::from([("tag".into(), Some("month-end".into()))]));
    write(&archive, 1, &Content::new(512, 1..9)).unwrap();
    std::fs::remove_file(folder.path().join(&files(folder.path())[0].0)).unwrap();
    archive.record(Changes::from([("pin".into(), Some("1".into()))])).unwrap();
    // What is lost stays known to be lost.
    assert!(matches!(archive.records(), Err(error) if error.is_loss()));
    archive.record_anew(model.clone()).unwrap();
    assert_eq!(archive.records().unwrap(), model);
}

#[test]
fn the_document_says_where_records_are() {
    let folder = common::folder();
    let archive = open(folder.path());
    archive.record(Changes::from([("tag/close".into(), Some("7".into()))])).unwrap();
    write(&archive, 1, &Content { page_size: 512, pages: vec![page(512, 1)] }).unwrap();
    let image = files(folder.path());
    let (newest, bytes) = (&image[1].1, &image[0].1);
    let footer = &newest[newest.len() - 172..];
    let at = u64::from_le_bytes(footer[16..24].try_into().unwrap()) as usize;
    let manifest: Value = serde_json::from_slice(&newest[at..newest.len() - 172]).unwrap();
    let [named] = manifest["records"].as_array().unwrap().as_slice() else { panic!("{manifest}") };
    assert_eq!(named["file"], 1);
    let written = &bytes[12..12 + named["bytes"].as_u64().unwrap() as usize];
    let identity = u64::from_le_bytes(blake3::hash(written).as_bytes()[..8].try_into().unwrap());
    assert_eq!(named["identity"].as_u64(), Some(identity));
    let said: Value = serde_json::from_slice(&zstd::decode_all(written).unwrap()).unwrap();
    assert_eq!(said, json!({ "tag/close": "7" }));
}

#[test]
fn more_than_fits_is_refused_and_what_there_is_stays() {
    let folder = common::folder();
    let (archive, mut model) = (open(folder.path()), Values::new());
    change(&archive, &mut model, Changes::from([("tag".into(), Some("month-end".into()))]));
    let long = "x".repeat(128 << 20);
    let refused = archive.record(Changes::from([("long".into(), Some(long))]));
    assert!(matches!(refused, Err(Error::Misuse(_))), "{:?}", refused.err().map(|error| error.to_string()));
    assert_eq!(archive.records().unwrap(), model);
    change(&archive, &mut model, Changes::from([("pin".into(), Some("audit".into()))]));
    assert_eq!(archive.records().unwrap(), model);
}

#[test]
fn few_files_are_written_upon_one_that_is_damaged() {
    let folder = common::folder();
    let (archive, mut model) = (open(folder.path()), Values::new());
    change(&archive, &mut model, Changes::from([("tag".into(), Some("month-end".into()))]));
    write(&archive, 1, &Content::new(512, 1..9)).unwrap();
    std::fs::remove_file(folder.path().join(&files(folder.path())[0].0)).unwrap();
    for number in 0..20 {
        archive.record(Changes::from([(format!("{number}"), Some("7".into()))])).unwrap();
    }
    assert!(files(folder.path()).len() <= 4);
    assert_eq!(archive.readable_records().unwrap().len(), 20);
}
