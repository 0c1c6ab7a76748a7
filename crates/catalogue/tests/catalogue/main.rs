//! The catalogue: what is committed is read back, what is damaged is noticed, and what it does not know is refused.

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

mod audit;
#[path = "../common/mod.rs"]
mod common;
mod engine;
mod guard;
#[path = "../../../core/tests/engine/invariants.rs"]
mod invariants;
mod refusals;
mod roundtrip;
mod seal;
#[path = "../../../core/tests/engine/world.rs"]
#[allow(dead_code, reason = "the engine's tests use the rest of it")]
mod world;
