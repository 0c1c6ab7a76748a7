//! The guard on a real device-mapper: writers at full speed fill snapshots that were made far too small for them, and
//! no version is lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    unreachable_pub
)]

mod common;
#[path = "lab_store/ground.rs"]
mod ground;
#[path = "lab/mod.rs"]
mod lab;

#[path = "lab_guard/bad_lvm.rs"]
mod bad_lvm;
#[path = "lab_guard/ballast.rs"]
mod ballast;
#[path = "lab_guard/beside/mod.rs"]
mod beside;
#[path = "lab_guard/by_hand.rs"]
mod by_hand;
#[path = "lab_guard/clock.rs"]
mod clock;
#[path = "lab_guard/contest.rs"]
mod contest;
#[path = "lab_guard/events.rs"]
mod events;
#[path = "lab_guard/flood.rs"]
mod flood;
#[path = "lab_guard/log.rs"]
mod log;
#[path = "lab_guard/needed.rs"]
mod needed;
#[path = "lab_guard/pinned.rs"]
mod pinned;
#[path = "lab_guard/pool.rs"]
mod pool;
#[path = "lab_guard/pool_of_lvm.rs"]
mod pool_of_lvm;
#[path = "lab_guard/pool_over.rs"]
mod pool_over;
#[path = "lab_guard/room.rs"]
mod room;
#[path = "lab_guard/seen.rs"]
mod seen;
#[path = "lab_guard/service.rs"]
mod service;
#[path = "lab_guard/site.rs"]
mod site;
#[path = "lab_guard/stopped.rs"]
mod stopped;
#[allow(dead_code)]
#[path = "lab_brake/writer.rs"]
mod writer;
