//! Every parser of bytes from outside, as a target that anything may be fed to.
//!
//! A target panics where a parser panics, and where it breaks what it promises: that what was taken and written again is the same,
//! that no page is read that the file does not have, that memory stays bounded. What a parser has to do with well-formed input
//! is the matter of its own tests.
//!
//! What they are fed with is in `corpus/TARGET`: a few files with names, which somebody has written, and many that are called by
//! their hash, which reach something more of the code and were found by `tools/fuzz`. The tests of this crate feed them all, and each
//! with changes. `make sim` looks for more, guided by what of the code is reached; checksums of the archive and of the catalogue's
//! records match whatever they say then (`cfg(fuzzing)`), as nobody would find bytes that do.

// It is a test, though it is not compiled as one: whatever goes wrong in it is to be loud.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod files;
mod lines;
mod machine;
mod records;
mod rows;
mod talk;

use rustix::process::{Resource, Rlimit, setrlimit};

/// A parser, or a few that read the same.
#[derive(Debug)]
pub struct Target {
    /// Its name, which its corpus has too.
    pub name: &'static str,
    /// Feeds it with bytes.
    pub feed: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    // What people and programs write in a line.
    Target { name: "names", feed: lines::names },
    Target { name: "instants", feed: lines::instants },
    Target { name: "rules", feed: lines::rules },
    Target { name: "labels", feed: lines::labels },
    Target { name: "tree", feed: lines::tree },
    // What is said over a connection.
    Target { name: "bodies", feed: talk::bodies },
    Target { name: "queries", feed: talk::queries },
    Target { name: "cursors", feed: talk::cursors },
    Target { name: "ranges", feed: talk::ranges },
    Target { name: "events", feed: talk::events },
    Target { name: "servers", feed: talk::servers },
    Target { name: "workers", feed: talk::workers },
    Target { name: "brake", feed: talk::brake },
    // What LVM and the kernel say.
    Target { name: "lvs", feed: machine::lvs },
    Target { name: "vgs", feed: machine::vgs },
    Target { name: "pvs", feed: machine::pvs },
    Target { name: "lvm_texts", feed: machine::lvm_texts },
    Target { name: "thin_delta", feed: machine::thin_delta },
    Target { name: "dm_answers", feed: machine::dm_answers },
    Target { name: "dm_targets", feed: machine::dm_targets },
    Target { name: "mountinfo", feed: machine::mountinfo },
    Target { name: "locks", feed: machine::locks },
    Target { name: "counters", feed: machine::counters },
    Target { name: "extents", feed: machine::extents },
    // Files of an archive, and stores with their logs.
    Target { name: "segment_ends", feed: files::segment_ends },
    Target { name: "archive_manifest", feed: files::archive_manifest },
    Target { name: "directory", feed: files::directory },
    Target { name: "block", feed: files::block },
    Target { name: "segment", feed: files::segment },
    Target { name: "frames", feed: files::frames },
    Target { name: "recorded", feed: records::recorded },
    Target { name: "archive", feed: files::archive },
    Target { name: "store", feed: files::store },
    Target { name: "wal_index", feed: files::wal_index },
    // Rows, and queries.
    Target { name: "rows", feed: rows::rows },
    Target { name: "sql", feed: rows::sql },
    // Other files.
    Target { name: "chunk", feed: records::chunk },
    Target { name: "newest", feed: records::newest },
    Target { name: "told", feed: records::told },
    Target { name: "copies", feed: records::copies },
    Target { name: "manifest", feed: records::manifest },
    Target { name: "remote", feed: records::remote },
    Target { name: "s3", feed: records::s3 },
    Target { name: "configuration", feed: records::configuration },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// How much memory this process may have mapped from here on: a parser that takes what a forged number says has more, and dies.
const MOST_MEMORY: u64 = 1 << 29;

/// Bounds the memory of this process.
///
/// # Panics
/// Where the machine refuses.
pub fn bound_memory() {
    setrlimit(Resource::As, Rlimit { current: Some(MOST_MEMORY), maximum: Some(MOST_MEMORY) }).unwrap();
}

/// The bytes as text, with signs for what is none.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Several inputs in one: the lengths of all but the last, four bytes each, and then all of them. What a length says beyond the
/// end ends there.
fn pieces<const COUNT: usize>(bytes: &[u8]) -> [&[u8]; COUNT] {
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(4 * (COUNT - 1)));
    let mut pieces = [&[][..]; COUNT];
    for (piece, length) in pieces.iter_mut().zip(lengths.as_chunks::<4>().0) {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap().min(rest.len());
        (*piece, rest) = rest.split_at(length);
    }
    pieces[COUNT - 1] = rest;
    pieces
}
