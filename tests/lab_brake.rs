//! The brake on a real device-mapper: writers wait while it holds, and go on whatever becomes of whoever held it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

#[path = "lab/mod.rs"]
mod lab;

#[path = "lab_brake/failing.rs"]
mod failing;
#[path = "lab_brake/ground.rs"]
mod ground;
#[path = "lab_brake/holding.rs"]
mod holding;
#[path = "lab_brake/left.rs"]
mod left;
#[path = "lab_brake/racing.rs"]
mod racing;
#[path = "lab_brake/saving.rs"]
mod saving;
#[allow(dead_code)]
#[path = "lab_volumes/site.rs"]
mod site;
#[path = "lab_brake/udev.rs"]
mod udev;
#[path = "lab_brake/writer.rs"]
mod writer;
