//! The kernel's device-mapper, asked directly.
//!
//! How full a snapshot or a pool is must be known many times a second, and while the machine is in trouble.
//! Starting a program for it costs a thousand times the question, and needs memory, a process and a disk that
//! answers. So the daemon opens `/dev/mapper/control` once and asks by ioctl.
//!
//! Three orders change a device. [`Control::suspend`] and [`Control::resume`] take the UUID of a logical volume
//! and nothing else; whose volume it is, the [`brake`](crate::brake) has to know. [`Control::delete_thin`] has a pool give up
//! what LVM has removed and failed to tell it.
//!
//! [`Events`] wakes whoever would look too late otherwise.
//!
//! [`wire`] knows the bytes of a question and of its answer, [`target`] the words that the kernel uses for
//! the state of each kind of target; both are pure. [`control`] alone speaks to the kernel.

mod control;
mod error;
mod events;
pub mod target;
pub mod wire;

pub use control::Control;
pub use error::Error;
pub use events::Events;
pub use wire::{Device, DeviceState, Selector, Target};
