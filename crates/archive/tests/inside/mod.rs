//! Tests for which objects are needed that a caller of the archive does not see.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]

#[path = "../common/mod.rs"]
mod common;

mod ahead;
mod contract;
mod few;
mod forged;
mod full;
mod two_writers;
