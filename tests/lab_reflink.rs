//! Stores that are cut by clones of their files, on a real XFS and on a real btrfs: what clones share, what is told of them, and
//! what is left alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    unreachable_pub
)]

#[path = "lab_reflink/btrfs.rs"]
mod btrfs;
#[path = "lab_reflink/choice.rs"]
mod choice;
mod common;
#[path = "lab_reflink/foreign.rs"]
mod foreign;
#[path = "lab_reflink/full.rs"]
mod full;
#[path = "lab/mod.rs"]
mod lab;
#[path = "lab_reflink/measuring.rs"]
mod measuring;
#[path = "lab_reflink/newest.rs"]
mod newest;
#[path = "lab_reflink/sharing.rs"]
mod sharing;
#[path = "lab_reflink/site.rs"]
mod site;
