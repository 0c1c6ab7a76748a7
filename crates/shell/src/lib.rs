//! The shell around the engine: it commits what the engine decides, has effects performed in their order, and answers those who
//! ask.
//!
//! It is synchronous, and does nothing to the machine by itself: clocks, records, threads and listeners are behind [`Ports`]. The
//! daemon has real ones; the simulator has a model of the machine behind them, and so runs what the daemon runs.

mod cause;
mod driver;
mod lanes;
mod ports;
mod shared;

pub use cause::{caused_by, request};
pub use driver::{Driver, Request, is_republication};
pub use ports::{Audience, Executor, Heard, Ports, Records};
pub use shared::SharedEngine;
