//! The kernel's device-mapper, asked directly.
//!
//! How full a snapshot or a pool is must be known many times a second, and while the machine is in trouble.
//! Starting a program for it costs a thousand times the question, and needs memory, a process and a disk that
//! answers. So the daemon opens `/dev/mapper/control` once and asks by ioctl. Nothing here changes a device.
//!
//! [`wire`] knows the bytes of a question and of its answer, [`target`] the words that the kernel uses for
//! the state of each kind of target; both are pure. [`control`] alone speaks to the kernel.

mod control;
mod error;
pub mod target;
pub mod wire;

pub use control::Control;
pub use error::Error;
pub use wire::{Device, Selector, State, Target};
