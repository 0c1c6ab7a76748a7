//! The shell around the core: its [`Driver`] commits what the engine decides, has effects performed in their order, and answers those
//! who ask; its [`Guard`] looks, and begins what the core plans against a want of space.
//!
//! Both are synchronous, and do nothing to the machine by themselves: clocks, records, threads and listeners are behind [`Ports`] and
//! [`GuardPorts`]. The daemon has real ones; the simulator has a model of the machine behind them, and so runs what the daemon runs.

mod cause;
mod driver;
mod guard;
mod lanes;
mod ports;
mod shared;

pub use cause::{caused_by, request};
pub use driver::{Driver, Request, is_republication};
pub use guard::{Ended, Guard, Look, Missing, Planned, Recorded, Told};
pub use ports::{Actuators, Audience, Executor, GuardPorts, Heard, Ports, Records, Sensors, Spectators};
pub use shared::SharedEngine;
