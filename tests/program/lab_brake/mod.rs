//! The brake on a real device-mapper: writers wait while it holds, and go on whatever becomes of whoever held it.

mod failing;
mod ground;
mod holding;
mod left;
mod racing;
mod saving;
mod udev;
pub mod writer;
