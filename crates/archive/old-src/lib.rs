//! The page archive: keeps every version of one store as the pages that changed since the version before.
//!
//! An [`Archive`] is a folder of *layers*, one file each, in one chain ordered by version number. A page of a
//! version is found in the newest layer at or below it. Layers are written once and never changed; what may
//! change is only which of them exist, and each such change is one atomic rename or unlink. The folder needs
//! no record beside it: file names say which versions live, and each file says the rest about itself.
//!
//! The format is described in `docs/archive-format.md`.

mod archive;
mod chain;
mod change;
mod codec;
mod compact;
mod compress;
mod correct;
mod disk;
mod error;
pub mod fingerprint;
mod fold;
mod footer;
mod frames;
mod index;
mod meta;
mod naming;
#[doc(hidden)]
pub mod outside;
mod pack;
mod packer;
mod pages;
mod past;
mod reader;
mod rebuild;
mod redirect;
mod relied;
mod repair;
mod replay;
mod resolve;
mod retire;
mod spans;
mod spool;
mod stats;
mod survey;
mod suspect;
mod trim;
mod unreadable;
mod verify;
mod writer;

pub use archive::{Archive, Opened, stores_in};
pub use compact::Compacted;
pub use compress::Told;
pub use error::Error;
pub use fingerprint::Fingerprinter;
pub use fold::Pace;
pub use meta::{Cut, Meta};
pub use reader::Reader;
pub use rebuild::Rebuild;
pub use relied::GoOn;
pub use repair::{Contents, Damage, PutRight, Remedy};
pub use retire::Retired;
pub use stats::{Stats, VersionStats};
pub use verify::{Finding, Progress, Report};
pub use writer::{Kept, Writer};
