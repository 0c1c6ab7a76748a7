//! Volumes that are full, broken, gone, or somebody else's: each is a clear answer and never a loss. What was published
//! before stays as it was, foreign volumes are left alone, and when the trouble is over publishing goes on and no volume
//! of asat's is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod common;
#[path = "lab/mod.rs"]
mod lab;

#[path = "lab_bad_volumes/anew.rs"]
mod anew;
#[path = "lab_bad_volumes/beside.rs"]
mod beside;
#[path = "lab_bad_volumes/choice.rs"]
mod choice;
#[path = "lab_bad_volumes/foreign.rs"]
mod foreign;
#[path = "lab_bad_volumes/gone.rs"]
mod gone;
#[path = "lab_bad_volumes/grounds.rs"]
mod grounds;
#[path = "lab_bad_volumes/lost.rs"]
mod lost;
#[path = "lab_bad_volumes/places.rs"]
mod places;
#[path = "lab_bad_volumes/room.rs"]
mod room;
#[path = "lab_bad_volumes/site.rs"]
mod site;
#[path = "lab_bad_volumes/stuck.rs"]
mod stuck;
