//! What the guard plans, told as a specification: one file a topic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod hostile;
mod ladder;
mod levels;
mod memory;
mod pools;
mod records;
mod scene;
mod share;
mod world;
