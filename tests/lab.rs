//! What asat does on a real kernel with device-mapper, FUSE, XFS and btrfs.
//!
//! One program has all of it, so that guests run side by side from the first test to the last.

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

mod common;
#[path = "lab/mod.rs"]
mod lab;

#[path = "lab/devices.rs"]
mod devices;
#[path = "lab/guests.rs"]
mod guests;
mod lab_bad_volumes;
mod lab_brake;
mod lab_guard;
mod lab_mounts;
mod lab_power;
mod lab_reflink;
mod lab_speed;
mod lab_store;
mod lab_tree;
mod lab_volumes;
#[path = "lab/small_blocks.rs"]
mod small_blocks;
