//! The core of asat: what a version is, how it lives, and what is to be done about it.
//!
//! Everything here is pure. There is no clock, no file, no process and no thread: time arrives with the
//! events, and effects leave as values. `clippy.toml` makes the build fail where this crate reaches for one.

pub mod audit;
pub mod check;
pub mod clock;
pub mod engine;
pub mod event;
pub mod freshness;
pub mod guard;
pub mod harm;
pub mod instant;
pub mod labels;
pub mod query;
pub mod recorder;
pub mod register;
pub mod retention;
pub mod sizing;
pub mod snapshot;
pub mod track;
pub mod tree;
pub mod version;
pub mod watch;

pub mod boundary;
mod by;
mod line;
pub mod names;
mod nearest;
pub mod problem;
pub mod units;

pub use by::By;
pub use engine::{Backing, Engine, GroupCommit, LeaseBounds, LeaseUse, Policy, StorePolicy, Toll, Waiting};
pub use line::check_line;
pub use names::{NameError, SetName, StoreName, TagName, VersionId, VersionRef};
pub use nearest::nearest;
pub use problem::{Code, Problem};
pub use units::{Fingerprint, PageSize};
