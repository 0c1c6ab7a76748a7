//! A version that was written can be read, whatever happened before to what it relies on.

use std::ops::Range;
use std::path::Path;

use crate::common::{self, Content, compact, cut, files, open, page, read, verify, write};
use asat_archive::{Archive, Kept};

/// Versions whose pages are stored whole and as differences upon differences; some are given up.
fn history(folder: &Path) -> Content {
    let archive = open(folder);
    let mut content = Content::new(512, 1..13);
    let first = content.clone();
    for number in 1..=8_u64 {
        write(&archive, number, &content).unwrap();
        let nth = usize::try_from(number).unwrap();
        content.edit(0, 50 * nth, 9);
        content.edit(nth, 100, 7);
        content.edit(nth / 2, 300, 5);
        content.pages[9] = page(512, 3 * (number + 40));
        if number == 6 {
            content.pages[9..].clone_from_slice(&first.pages[9..]);
        }
    }
    write(&archive, 9, &content).unwrap();
    [2, 4, 5].into_iter().for_each(|number| _ = archive.retire(number).unwrap());
    content
}

/// Publishes a content; answers the version that has it.
fn publish(archive: &Archive, number: u64, content: &Content) -> u64 {
    match write(archive, number, content).unwrap() {
        Kept::Stored { .. } => number,
        Kept::Unchanged { same_as, .. } => same_as,
    }
}

/// Hands over only those pages that the archive cannot say of that it has them.
fn publish_the_same(archive: &Archive, number: u64, content: &Content) -> u64 {
    let page_count = u32::try_from(content.pages.len()).unwrap();
    let mut writer = archive.begin(number, content.page_size(), page_count).unwrap();
    for (page, bytes) in (1..).zip(&content.pages) {
        if !writer.same(page).unwrap() {
            writer.page(page, bytes).unwrap();
        }
    }
    match writer.finish(cut()).unwrap() {
        Kept::Stored { .. } => number,
        Kept::Unchanged { same_as, .. } => same_as,
    }
}

/// How long the footer is that every file ends with.
const FOOTER_LEN: usize = 172;

/// The bytes of a segment at which its frames lie.
fn frames(segment: &[u8]) -> Range<usize> {
    let footer = &segment[segment.len() - FOOTER_LEN..];
    12..usize::try_from(u64::from_le_bytes(footer[..8].try_into().unwrap())).unwrap()
}

/// Publishes what is there unchanged, changed a little, and both once more; each can be read.
fn check(archive: &Archive, content: &Content, what: &str) {
    let mut changed = content.clone();
    changed.edit(3, 77, 1);
    type Publish = fn(&Archive, u64, &Content) -> u64;
    let ways: [(Publish, &Content); 6] = [
        (publish, content),
        (publish, &changed),
        (publish, &changed),
        (publish, content),
        (publish_the_same, content),
        (publish, &changed),
    ];
    for (number, (way, content)) in (10..).zip(ways) {
        let version = way(archive, number, content);
        assert!(read(archive, version).unwrap() == content.bytes(), "{what}: version {version} is another");
    }
}

#[test]
fn a_version_can_be_read_that_is_published_upon_a_flipped_bit() {
    let folder = common::folder();
    let content = history(folder.path());
    let sound = files(folder.path());
    for (name, bytes) in &sound {
        // All of the last eight bytes of the frames, and some of the others and of what is around them.
        let frames = frames(bytes);
        let tail = frames.end.saturating_sub(8)..frames.end;
        for at in (0..bytes.len()).filter(|at| at % 61 == 7 || tail.contains(at)) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(folder.path().join(name), flipped).unwrap();
            check(&open(folder.path()), &content, &format!("byte {at} of {name}"));
            restore(folder.path(), &sound);
        }
    }
}

/// Puts a folder back to what it was.
fn restore(folder: &Path, sound: &[(String, Vec<u8>)]) {
    files(folder).into_iter().for_each(|(name, _)| std::fs::remove_file(folder.join(name)).unwrap());
    common::put_files(folder, sound);
}

#[test]
fn a_file_that_is_changed_while_the_archive_is_open_is_read_again() {
    let folder = common::folder();
    let content = history(folder.path());
    let sound = files(folder.path());
    for (name, bytes) in &sound {
        let frames = frames(bytes);
        for at in frames.clone().step_by(97).chain(frames.clone().last()) {
            let archive = open(folder.path());
            assert_eq!(archive.read_newest(&|| true).unwrap(), 0);
            // Whatever the clock's steps are, the file is of another time then.
            let path = folder.path().join(name);
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            std::fs::write(&path, flipped).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            check(&archive, &content, &format!("byte {at} of {name}"));
            drop(archive);
            restore(folder.path(), &sound);
        }
    }
}

#[test]
fn a_page_that_is_lost_is_stored_again_once_and_what_is_sound_is_left_out() {
    let folder = common::folder();
    let archive = open(folder.path());
    let content = Content::new(512, [1, 2, 4, 5, 8, 10]);
    write(&archive, 1, &content).unwrap();
    drop(archive);
    let path = folder.path().join("000000000001.segment");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let archive = open(folder.path());
    assert_eq!(archive.read_newest(&|| true).unwrap(), 1);
    let kept = write(&archive, 2, &content).unwrap();
    assert!(matches!(kept, Kept::Stored { pages_changed: 1, .. }), "{kept:?}");
    let kept = write(&archive, 3, &content).unwrap();
    assert!(matches!(kept, Kept::Unchanged { same_as: 2, .. }), "{kept:?}");
    assert!(read(&archive, 1).is_err());
    assert!(read(&archive, 2).unwrap() == content.bytes());
    // Each later one too, and after a start.
    drop(archive);
    let archive = open(folder.path());
    let kept = write(&archive, 3, &content).unwrap();
    assert!(matches!(kept, Kept::Unchanged { same_as: 2, .. }), "{kept:?}");
    let report = verify(&archive, None);
    assert_eq!(report.findings.iter().flat_map(|finding| finding.affects.clone()).collect::<Vec<_>>(), [1]);
}

#[test]
fn what_a_verification_finds_is_not_relied_on() {
    let folder = common::folder();
    let archive = open(folder.path());
    let content = Content::new(512, [1, 2, 4, 5, 8, 10]);
    write(&archive, 1, &content).unwrap();
    // Nothing but reading shows that this one has changed.
    let path = folder.path().join("000000000001.segment");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(write(&archive, 2, &content).unwrap(), write(&archive, 2, &content).unwrap());
    let report = verify(&archive, None);
    assert_eq!(report.findings.iter().flat_map(|finding| finding.affects.clone()).collect::<Vec<_>>(), [1]);
    assert!(matches!(write(&archive, 2, &content).unwrap(), Kept::Stored { pages_changed: 1, .. }));
    assert!(read(&archive, 2).unwrap() == content.bytes());
}

#[test]
fn what_was_merged_can_be_relied_on() {
    let folder = common::folder();
    let content = history(folder.path());
    let archive = open(folder.path());
    assert_eq!(archive.read_newest(&|| true).unwrap(), 0);
    [1, 3, 6, 7].into_iter().for_each(|number| _ = archive.retire(number).unwrap());
    compact(&archive);
    check(&archive, &content, "merged");
}
