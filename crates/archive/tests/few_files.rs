//! There are few files, however many versions were written, and as many of them are open at most. With as many open as there may be, nothing
//! is said of what is stored. It is the only test here: the bound is its process's.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::ops::ControlFlow;

use asat_archive::Error;
use common::{Content, compact, files, open, page, read, verify, write};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn open_now() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

/// The number that the next file gets. What the bound is held against are numbers, and whatever runs the tests may leave high ones open.
fn lowest_free() -> u64 {
    let next = std::fs::File::open("/dev/null").unwrap();
    u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&next)).unwrap()
}

#[test]
fn there_are_few_files_and_too_many_open_ones_are_no_damage() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, [3, 6, 2, 7]);
    let before = open_now();
    let (mut most_segments, mut most_open) = (0, 0);
    for number in 1..=1000_u64 {
        content.pages[usize::try_from(number % 4).unwrap()] = page(512, 100 + number);
        write(&archive, number, &content).unwrap();
        if number > 4 && number % 20 != 0 {
            archive.retire(number - 4).unwrap();
        }
        if number % 8 == 0 {
            compact(&archive);
            let segments = archive.stats().unwrap().segments;
            assert!(segments <= 12, "{segments} segments after {number} versions");
            let there = files(folder.path()).len();
            assert!(there <= segments + 2, "{there} files for {segments} segments");
            most_segments = most_segments.max(segments as u64);
        }
        most_open = most_open.max(open_now() - before);
    }
    // What readers hold is not counted: there are none.
    assert!(most_open <= 2 * most_segments + 16, "{most_open} files open, {most_segments} segments");
    assert_eq!(read(&archive, 1000).unwrap(), content.bytes());
    // The newest file does not name each of the 950 versions that were given up.
    archive.retire(995).unwrap();
    let newest = files(folder.path()).pop().unwrap().1.len();
    assert!(newest < 1500, "a file with nothing but a manifest takes {newest} bytes");
    drop(archive);

    let archive = open(folder.path());
    let (before, free) = (getrlimit(Resource::Nofile), lowest_free());
    let mut refused = 0;
    for more in 0..12 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(free + more), ..before }).unwrap();
        let archive = archive.clone();
        match archive.verify(None, &mut |_, _| ControlFlow::Continue(())) {
            Err(Error::Io { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
            Ok(report) => assert_eq!(report.findings, [], "with {more} files more"),
        }
        assert!(
            archive.unreadable().map_or_else(|error| !error.is_loss(), |unreadable| unreadable.is_empty())
        );
        for result in [archive.stats().map(drop), archive.retire(1000).map(drop), read(&archive, 1).map(drop)]
        {
            assert!(result.is_ok() || !result.unwrap_err().is_loss(), "with {more} files more");
        }
    }
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(refused > 0, "the bound was never met");
    assert_eq!(verify(&archive, None).findings, []);
    drop(archive);
    assert_eq!(open(folder.path()).newest(), Some(999));
}
