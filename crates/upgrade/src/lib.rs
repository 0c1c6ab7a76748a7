//! Takes an archive of format 4 over into the format that the program writes today.
//!
//! There each version had a file of its own, a *layer*, and the names of the files said which versions live. This crate has what it takes
//! to read that, and nothing to write it. Each live version is written anew into an archive of today's format, beside the old one, which
//! stays as it is until the new one was read and compared whole.

mod layers;
mod pack;
mod pages;
mod place;
mod upgrade;

pub use upgrade::{Outcome, Wanted, refuse_old, upgrade};
