//! History in buckets: what a service must do, publishing, restoring, pruning, and everything that goes wrong on the way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods
)]

mod contract;
mod encrypted;
mod machine;
mod model;
mod protection;
#[macro_use]
mod publishing;
mod following;
mod random;
mod servers;
