//! The lab, and what a real device-mapper does in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "lab/mod.rs"]
mod lab;

#[path = "lab/devices.rs"]
mod devices;
#[path = "lab/guests.rs"]
mod guests;
