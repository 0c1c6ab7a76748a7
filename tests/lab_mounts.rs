//! Snapshots mounted and shown to readers, on a real device-mapper: with ext4 and XFS, classic and thin.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

#[path = "lab/mod.rs"]
mod lab;

#[path = "lab_mounts/crashes.rs"]
mod crashes;
#[path = "lab_mounts/foreign.rs"]
mod foreign;
#[path = "lab_mounts/readers.rs"]
mod readers;
#[path = "lab_mounts/rollback.rs"]
mod rollback;
#[path = "lab_mounts/serving.rs"]
mod serving;
#[path = "lab_mounts/site.rs"]
mod site;
#[path = "lab_mounts/space.rs"]
mod space;
