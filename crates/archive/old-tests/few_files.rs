//! With as many files open as there may be, nothing is said of what is stored. It is the only test here: the bound is its process's.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::ops::ControlFlow;

use asat_archive::Error;
use common::{Content, open, page, verify, write};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn too_many_open_files_are_no_damage() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, [3, 6, 2, 7]);
    for number in 1..=40 {
        write(&archive, number, &content).unwrap();
        content.pages[usize::try_from(number % 4).unwrap()] = page(512, 100 + number);
    }
    let open_now = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let before = getrlimit(Resource::Nofile);
    let mut refused = 0;
    for more in 0..12 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(open_now + more), ..before }).unwrap();
        match archive.verify(None, &mut |_, _| ControlFlow::Continue(())) {
            Err(Error::Io { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
            Ok(report) => assert_eq!(report.findings, [], "with {more} files more"),
        }
        assert!(archive.unreadable().iter().all(|(_, error)| !error.is_loss()));
        if let Ok(stats) = archive.stats() {
            assert!(stats.versions.iter().all(|version| !version.damaged), "with {more} files more");
        }
    }
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(refused > 0, "the bound was never met");
    assert_eq!(verify(&archive, None).findings, []);
}
