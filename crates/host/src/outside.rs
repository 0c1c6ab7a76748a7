//! What this crate reads of others, part by part, for the targets of `crates/fuzz`.
//!
//! Where something is written as it is read, what was taken is handed back as this crate writes it. Nothing else of the program
//! calls these.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::brake::words::{Answer, Request};
use crate::clones::Unchanged;
use crate::fiemap::Extent;
use crate::lvm::delta::report::{self, Asked};
use crate::worker::frames::{HEAD, Kind};
use crate::worker::words::{Order, Said};
use crate::{copies, doctor, journal, lvm, machine, mounts, store};

/// Whether a commit is under way in a WAL, by its wal-index.
pub fn is_commit_under_way(wal: &File, index: &File) -> io::Result<bool> {
    store::under_way::look(wal, index)
}

/// Whether the header of a database says a rollback mode; nothing where it is none.
#[must_use]
pub fn is_rollback(header: &[u8]) -> Option<bool> {
    mounts::rollback::is_rollback(Path::new("database"), header).ok()
}

/// Reads the report of `thin_delta` on these two volumes, of a pool with blocks of so many sectors.
pub fn same_blocks(text: &str, numbers: [u64; 2], block: u64) -> Result<Vec<Range<u64>>, &'static str> {
    report::parse(text, Asked { numbers, block })
}

/// Reads the settings that `lvmconfig` tells.
#[must_use]
pub fn lvm_settings(text: &str) -> Option<doctor::Settings> {
    doctor::tools::parse(text)
}

/// Reads the version that `lvm version` tells.
#[must_use]
pub fn lvm_version(text: &str) -> Option<String> {
    lvm::command::parse_version(text).map(|version| version.to_string())
}

/// For how long a process has run, as the kernel counts.
#[must_use]
pub fn process_time(stat: &str) -> Option<Duration> {
    machine::process::Stat::parse(stat).and_then(|stat| machine::process::time(stat.cpu))
}

/// When the machine was started, and what is written to a device, as the kernel tells them.
#[must_use]
pub fn counted(stat: &str) -> (Option<Duration>, Option<u64>, bool) {
    let is_still = machine::watch::parse(stat).is_some();
    (machine::process::booted(stat), machine::parse_written(stat), is_still)
}

/// Reads `JOURNAL_STREAM`.
#[must_use]
pub fn journal(stream: &str) -> Option<(u64, u64)> {
    journal::parse(stream)
}

/// Reads a line that the daemon says to the brake.
#[must_use]
pub fn brake_request(line: &[u8]) -> Option<String> {
    Request::parse(line).ok().map(|request| request.to_string())
}

/// Reads a line that the brake says to the daemon.
#[must_use]
pub fn brake_answer(line: &[u8]) -> Option<String> {
    Answer::parse(line).map(|answer| answer.to_string())
}

/// Reads what is said before a frame that a worker sends: its length, and whether it is words.
#[must_use]
pub fn frame_head(head: [u8; 5]) -> Option<(usize, bool)> {
    const { assert!(HEAD == 5) };
    Kind::read(head).map(|(kind, length)| (length, kind == Kind::Words))
}

/// Reads what a worker says.
pub fn said(words: &[u8]) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_slice::<Said>(words)?)
}

/// Reads what the daemon says to a worker.
pub fn ordered(words: &[u8]) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_slice::<Order>(words)?)
}

/// Recognises the name of a copy's folder.
#[must_use]
pub fn copy_name(name: &OsStr) -> Option<String> {
    copies::naming::Name::parse(name).map(|name| name.text())
}

/// Reads the recorded identity of a copy's file.
#[must_use]
pub fn copy_identity(text: &str) -> Option<String> {
    copies::identity::Identity::parse(text).map(|identity| identity.text())
}

/// An extent as the kernel tells it: its place in the file, that on the device, its length, and its flags.
pub type Told = (u64, u64, u64, u32);

/// What the maps of two clones have in common.
#[must_use]
pub fn unchanged(one: &[Told], other: &[Told]) -> Option<Unchanged> {
    let extents = |map: &[Told]| -> Vec<Extent> {
        let extent = |&(logical, physical, length, flags)| Extent {
            logical,
            physical,
            length,
            flags,
            ..Extent::default()
        };
        map.iter().map(extent).collect()
    };
    Unchanged::between(&extents(one), &extents(other))
}
