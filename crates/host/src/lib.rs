//! The host: every effect on the machine besides the archive's and the catalogue's own files.
//!
//! Here are the clock, the claim on the state folder, the socket, the reading of a live store under SQLite's
//! own locks, the processes that do so, and the as-at copies. Every error names the object concerned and becomes an
//! [`asat_core::Problem`] that says what to do next.

mod apart;
pub mod brake;
pub mod clock;
pub mod clones;
pub mod copies;
pub mod dm;
pub mod doctor;
pub mod fiemap;
pub mod journal;
pub mod lvm;
pub mod machine;
pub mod memory;
pub mod mounts;
#[doc(hidden)]
pub mod outside;
pub mod peer;
pub mod program;
pub mod query;
pub mod random;
pub mod scratch;
pub mod socket;
pub mod state_folder;
pub mod store;
pub mod summaries;
pub mod tree;
pub mod volume;
pub mod watching;
pub mod worker;

pub use copies::Copies;
pub use state_folder::StateFolder;
