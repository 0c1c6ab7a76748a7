//! The page archive: keeps every version of one store as the pages that changed since the version before.
//!
//! An [`Archive`] is a row of files that are created once and never changed. Each may be a *segment*: for some pages what they became at
//! which version, as frames with an index. And each has a *manifest*, which says of which segments the archive consists from then on;
//! the newest one counts. Whatever happens to an archive is one more file: a version that was written, one that was given up, segments
//! that were merged. A page of a version is what it became last, up to that version.
//!
//! The format is described in `docs/archive-format.md`.

mod archive;
mod builder;
mod codec;
mod compact;
mod compress;
mod error;
mod files;
pub mod fingerprint;
mod folder;
mod follow;
mod hashes;
mod head;
mod history;
mod index;
mod layout;
mod lock;
mod manifest;
mod mend;
mod merge;
mod objects;
pub mod outside;
mod pages;
mod reader;
mod recent;
mod records;
mod segment;
mod state;
mod verify;
mod view;
mod writer;

#[cfg(test)]
extern crate self as asat_archive;
#[cfg(test)]
#[path = "../tests/inside/mod.rs"]
mod inside;

pub use archive::Archive;
pub use compact::{Compacted, Retired, Stats, VersionStats};
pub use compress::Told;
pub use error::Error;
pub use files::{ArchiveFile, Checker, FileId, Files};
pub use fingerprint::Fingerprinter;
pub use folder::{Opened, REMOTE_NOTE, stores_in};
pub use follow::FileBytes;
pub use head::GoOn;
pub use index::Check;
pub use manifest::{Cut, Meta};
pub use mend::{Contents, Damage, PutRight, Rebuild, Remedy, check};
pub use merge::Pace;
pub use reader::Reader;
pub use records::Changes;
pub use verify::{Finding, Progress, Report};
pub use writer::{Kept, Writer};
