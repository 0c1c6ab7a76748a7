//! What the engine does, told as a specification: one file a topic, over a [`world::World`] that plays the
//! catalogue and the machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod again;
mod audit;
mod clock;
mod clones;
mod following;
mod found;
mod grace;
mod hot;
mod invariants;
mod keep;
mod label;
mod leases;
mod open;
mod publish;
mod query;
mod recorded;
mod repair;
mod restore;
mod retain;
mod room;
mod sets;
mod space;
mod start;
mod tags;
mod thin;
mod tree;
mod walk;
mod world;
