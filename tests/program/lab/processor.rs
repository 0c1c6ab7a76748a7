//! Which processor each guest runs on.
//!
//! A guest's kernel and the programs inside it are processes that wake each other at every system call. Where the kernel
//! of this machine spreads them, each of these wakes another processor, which takes a virtual machine's idle one tens of
//! microseconds: a guest that stays on one processor is several times as fast.

use std::sync::{Mutex, PoisonError};

use rustix::thread::{CpuSet, sched_getaffinity};

/// How many guests of this process run on each processor.
static GUESTS: Mutex<[u32; CpuSet::MAX_CPU]> = Mutex::new([0; CpuSet::MAX_CPU]);

/// A processor, for as long as the guest runs.
pub struct Processor(usize);

impl Processor {
    /// The one that has the fewest guests, of those that this process may use.
    pub fn least_used() -> Self {
        let usable = sched_getaffinity(None).unwrap();
        let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        let least =
            (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu)).min_by_key(|cpu| guests[*cpu]).unwrap();
        guests[least] += 1;
        Self(least)
    }

    /// The words that start a command there.
    pub fn command(&self) -> [String; 3] {
        ["taskset".to_owned(), "--cpu-list".to_owned(), self.0.to_string()]
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        GUESTS.lock().unwrap_or_else(PoisonError::into_inner)[self.0] -= 1;
    }
}
