//! Reading: every page size, every way to read, and readers that outlive what they read.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{self, Content, Model, assert_holds, compact, cut, open, page, write};
use asat_archive::{Error, Kept};
use asat_core::PageSize;

#[test]
fn every_page_size_is_kept() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let folder = common::folder();
        let archive = open(folder.path());
        // Seed 0 is a page of zeros, as the lock-byte page is.
        let first = Content::new(page_size, 0..12);
        let second = Content::new(page_size, [0, 1, 31, 3, 0, 5, 0, 7]);
        let model: Model = [(1, first), (2, second)].into();
        model.iter().for_each(|(&number, content)| _ = write(&archive, number, content).unwrap());
        assert_holds(&archive, &model);
    }
}

/// A reader that was opened before its version was given up still shows it, and so what later versions do not have of it counts.
#[test]
fn a_version_that_was_given_up_differs_in_what_later_ones_do_not_lie_upon() {
    let folder = common::folder();
    let archive = open(folder.path());
    let before = Content::new(512, 1..600);
    write(&archive, 1, &before).unwrap();
    let mut wrong = before.clone();
    wrong.edit(299, 100, 7);
    write(&archive, 2, &wrong).unwrap();
    let given_up = archive.read(2).unwrap();
    archive.retire(2).unwrap();
    let mut after = before.clone();
    after.edit(5, 100, 7);
    write(&archive, 3, &after).unwrap();
    let newest = archive.read(3).unwrap();
    assert_eq!(newest.differing_from(&given_up).unwrap(), [6, 300]);
    assert_eq!(given_up.differing_from(&newest).unwrap(), [6, 300]);
    assert_eq!(newest.differing_from(&archive.read(1).unwrap()).unwrap(), [6]);
}

#[test]
fn the_ways_to_read_agree() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(4096, 1..300);
    write(&archive, 1, &content).unwrap();
    (0..299).step_by(7).for_each(|nth| content.pages[nth] = page(4096, 1000 + nth as u64));
    write(&archive, 2, &content).unwrap();
    let (reader, bytes) = (archive.read(2).unwrap(), content.bytes());
    let mut one = vec![0; 4096];
    for (number, expected) in (1..).zip(&content.pages) {
        reader.read_page(number, &mut one).unwrap();
        assert_eq!(&one, expected);
    }
    for (number, len) in [(0, 4096), (300, 4096), (1, 4095), (u32::MAX, 4096)] {
        assert!(matches!(reader.read_page(number, &mut vec![0; len]), Err(Error::Misuse(_))));
    }
    for offset in [0, 1, 4095, 4096, 4097, 100_000, bytes.len() - 1, bytes.len(), bytes.len() + 1, usize::MAX]
    {
        for len in [0, 1, 100, 4096, 8192, 10_000, 700_001] {
            let mut buffer = vec![0; len];
            let read = reader.read_at(offset as u64, &mut buffer).unwrap();
            let expected = &bytes[offset.min(bytes.len())..offset.saturating_add(len).min(bytes.len())];
            assert_eq!(&buffer[..read], expected, "{len} bytes at {offset}");
        }
    }
    let path = folder.path().join("as-at.db");
    let file = std::fs::File::options().create_new(true).write(true).open(&path).unwrap();
    let told = std::sync::atomic::AtomicU64::new(0);
    let progress = |bytes| {
        told.fetch_max(bytes, std::sync::atomic::Ordering::Relaxed);
    };
    reader.write_to_file(&file, &path, &progress).unwrap();
    assert_eq!(told.into_inner(), reader.len());
    let mut written = Vec::new();
    std::fs::File::open(&path).unwrap().read_to_end(&mut written).unwrap();
    assert_eq!(written, bytes);
}

#[test]
fn more_than_waits_in_memory_arrives_whole_and_in_order() {
    let folder = common::folder();
    let archive = open(folder.path());
    // Pages come much faster than they are compressed, so most of these 48 MB wait on disk for a while.
    let content = Content::new(65536, 1..768);
    write(&archive, 1, &content).unwrap();
    assert_eq!(common::files(folder.path()).len(), 1, "nothing else is left in the folder");
    assert_holds(&archive, &[(1, content)].into());
}

#[test]
fn a_reader_is_not_disturbed_by_what_happens_after() {
    let folder = common::folder();
    let archive = open(folder.path());
    let (mut content, mut model) = (Content::new(512, 1..40), Model::new());
    for number in 1..=12_u64 {
        (0..12).for_each(|nth| content.pages[nth * 3] = page(512, number * 1000 + nth as u64));
        content.pages[usize::try_from(number).unwrap()] = page(512, number * 1000 + 500);
        (0..12).for_each(|nth| content.edit(nth * 3 + 1, 20 * nth, 7));
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    let readers: Vec<_> = model.keys().map(|&number| (number, archive.read(number).unwrap())).collect();
    for number in [3, 4, 5, 6, 12, 1, 8, 7] {
        archive.retire(number).unwrap();
        compact(&archive);
        for (number, reader) in &readers {
            let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
            reader.read_at(0, &mut bytes).unwrap();
            assert_eq!(bytes, model[number].bytes());
        }
    }
}

/// Tells others that it is over, also where that is because of a failure.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_and_upkeep_and_writer_at_the_same_time() {
    let folder = common::folder();
    let archive = open(folder.path());
    // Pages that change a little, each at a pace of its own, so that differences lie upon differences; and some that are new.
    let mut content = Content::new(512, (0..30).map(|nth| 3 * nth));
    let mut contents = vec![content.clone()];
    for number in 1..=300_u64 {
        for nth in (0..30).filter(|nth| number.is_multiple_of(nth % 5 + 1)) {
            content.edit(usize::try_from(nth).unwrap(), usize::try_from(number * 7 % 500).unwrap(), 77);
        }
        content.pages[usize::try_from(number % 30).unwrap()] = page(512, 3 * (number + 50));
        contents.push(content.clone());
    }
    let content = |number: u64| &contents[usize::try_from(number).unwrap()];
    (1..=40).for_each(|number| _ = write(&archive, number, content(number)).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&is_over);
            for number in (2..=298).filter(|number| number % 4 != 0) {
                while archive.newest() <= Some(number + 1) {
                    assert!(!is_over.load(Ordering::Relaxed), "nobody writes any more");
                    std::thread::yield_now();
                }
                archive.retire(number).unwrap();
                compact(&archive);
            }
        });
        scope.spawn(|| {
            let over = Over(&is_over);
            (41..=300).for_each(|number| _ = write(&archive, number, content(number)).unwrap());
            // Others go on.
            std::mem::forget(over);
        });
        for step in [1, 7] {
            let (archive, is_over) = (&archive, &is_over);
            scope.spawn(move || {
                let mut was_over = false;
                while !was_over {
                    was_over = is_over.load(Ordering::Relaxed);
                    // All of them, one after another or in jumps.
                    for number in (1..=300).cycle().step_by(step).take(300) {
                        match common::read(archive, number) {
                            Ok(bytes) => assert_eq!(bytes, content(number).bytes()),
                            Err(Error::NoSuchVersion { .. }) => {}
                            Err(error) => panic!("{number}: {error}"),
                        }
                    }
                }
            });
        }
        scope.spawn(|| (0..10).for_each(|_| assert_eq!(common::verify(&archive, None).findings, [])));
    });
    assert!(archive.live().contains(&300) && !archive.contains(2));
}

#[test]
fn a_version_that_somebody_was_told_of_is_stored_even_where_nothing_changed() {
    let folder = common::folder();
    let archive = open(folder.path());
    let content = Content::new(512, [1, 2]);
    write(&archive, 1, &content).unwrap();
    let mut writer = archive.begin(2, PageSize::new(512).unwrap(), 2).unwrap();
    content.pages.iter().zip(1..).for_each(|(page, number)| writer.page(number, page).unwrap());
    let kept = writer.finish(asat_archive::Cut { even_if_unchanged: true, ..cut() }).unwrap();
    assert!(matches!(kept, Kept::Stored { pages_changed: 0, .. }), "{kept:?}");
    archive.retire(1).unwrap();
    drop(archive);
    let again = open(folder.path());
    assert_eq!((again.live(), common::read(&again, 2).unwrap()), (vec![2], content.bytes()));
}

#[test]
fn the_rules_of_writing_are_kept() {
    let folder = common::folder();
    let archive = open(folder.path());
    let size = PageSize::new(512).unwrap();
    let one = page(512, 1);
    {
        let mut writer = archive.begin(5, size, 2).unwrap();
        assert!(matches!(archive.begin(6, size, 2), Err(Error::Busy { .. })));
        assert!(writer.page(2, &one).is_err() && writer.page(1, &one[1..]).is_err());
        writer.page(1, &one).unwrap();
        assert!(writer.page(1, &one).is_err());
        assert!(matches!(writer.finish(cut()), Err(Error::Misuse(_))));
    }
    assert_holds(&archive, &Model::new());
    assert!(matches!(
        write(&archive, 5, &Content::new(512, [1, 2])).unwrap(),
        Kept::Stored { pages_changed: 2, .. }
    ));
    assert!(matches!(archive.begin(5, size, 2), Err(Error::Misuse(_))));
    {
        let _writer = archive.begin(6, size, 2).unwrap();
        assert!(matches!(archive.retire(5), Err(Error::Busy { .. })));
    }
    let same = write(&archive, 6, &Content::new(512, [1, 2])).unwrap();
    assert!(matches!(same, Kept::Unchanged { same_as: 5, .. }));
    let shorter = write(&archive, 6, &Content::new(512, [1])).unwrap();
    assert!(matches!(shorter, Kept::Stored { pages_changed: 0, .. }));
    let deep = (0..200).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    let mut writer = archive.begin(7, size, 1).unwrap();
    writer.page(1, &page(512, 2)).unwrap();
    assert!(matches!(writer.finish(asat_archive::Cut { note: deep, ..cut() }), Err(Error::Misuse(_))));
    assert_eq!(archive.live(), [5, 6]);
    let stop = archive.verify(None, &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(stop, Err(Error::Stopped)));
}
