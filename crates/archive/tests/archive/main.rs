//! The archive by its rules: histories against a plain model, damage of all kinds, crashes at each boundary, and a reader that is
//! written from the format's document alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod again;
mod anew;
mod by_the_book;
mod changes;
mod collisions;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod damage;
mod histories;
mod hurry;
mod meanwhile;
mod reading;
mod records;
mod relying;
mod repair;
mod statistics;
mod unread;
