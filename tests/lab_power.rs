//! Whenever the power goes or the daemon dies, nothing that was acknowledged is lost, and no volume is left that nobody
//! speaks of.

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

#[path = "lab_power/boundaries.rs"]
mod boundaries;
mod common;
#[path = "lab_power/cuts.rs"]
mod cuts;
#[path = "lab_store/ground.rs"]
mod ground;
#[path = "lab/mod.rs"]
mod lab;
#[path = "lab_store/ledger.rs"]
mod ledger;
#[path = "lab_power/records.rs"]
mod records;
#[path = "lab_power/unfrozen.rs"]
mod unfrozen;
#[path = "lab_power/work.rs"]
mod work;
