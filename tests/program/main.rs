//! The whole program, tried from outside: a daemon and a client as a person would start them, on this machine and on others.
//!
//! All of it is one binary, so that its tests share what is built, and tests that wait run beside tests that work. Names that begin
//! with `lab_` boot a kernel.

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

mod api;
mod bad_input;
mod cli;
mod cli_client;
mod clients;
mod common;
mod concurrent;
mod config;
mod crash;
mod dependencies;
mod documents;
mod fleet;
mod follow;
mod full_disk;
mod hostile;
mod hostile_owner;
mod lab;
mod lab_bad_volumes;
mod lab_brake;
mod lab_devices;
mod lab_guard;
mod lab_guests;
mod lab_mounts;
mod lab_power;
mod lab_reflink;
mod lab_speed;
mod lab_store;
mod lab_tree;
mod lab_volumes;
mod logs;
mod metrics;
mod nspawn;
mod page;
mod python;
mod recovery;
mod remote;
mod schemathesis;
#[allow(dead_code)]
#[path = "../../crates/remote/tests/remote/servers.rs"]
mod servers;
mod service;
mod tidy;
mod tracked;
mod transfer;
