//! The guard on a real device-mapper: writers at full speed fill snapshots that were made far too small for them, and
//! no version is lost.

mod bad_lvm;
mod ballast;
mod beside;
mod by_hand;
mod clock;
mod contest;
mod events;
mod flood;
mod log;
mod needed;
mod pinned;
mod pool;
mod pool_of_lvm;
mod pool_over;
mod room;
mod seen;
mod service;
mod site;
mod stopped;
