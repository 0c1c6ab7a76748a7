//! Stores on volumes, and what becomes of them, for what uses both.

pub mod ground;
pub mod ledger;
