//! The rows that differ between versions, held against what SQLite says of the same files.

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

mod common;
mod damage;
mod find;
mod formats;
mod histories;
mod reads;
mod scripts;
