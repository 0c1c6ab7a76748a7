//! Noticing that the tree is not where it was.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::Error;
use super::mounted::TABLE;

/// What to wait for where the kernel does not tell what happens.
const NAP: Duration = Duration::from_secs(1);

/// Tells when something has happened by which a tree may be gone: somebody has mounted or unmounted something, or the session
/// of a tree has ended.
#[derive(Debug)]
pub struct Watch {
    table: File,
    bell: OwnedFd,
}

impl Watch {
    /// Watches from now on.
    ///
    /// # Errors
    /// Where the mount table cannot be opened, or there is no descriptor left.
    pub fn new() -> Result<Self, Error> {
        let table = Path::new(TABLE);
        let failed = |error: std::io::Error| Error::io("watch", table)(error);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self {
            table: File::open(table).map_err(failed)?,
            bell: bell.map_err(|error| failed(error.into()))?,
        })
    }

    /// Waits until something has happened, somebody rings, or so much time is over. It may also return without a reason.
    pub fn wait(&self, longest: Duration) {
        let longest = Timespec::try_from(longest).ok();
        // A table of mounts that has changed since the last look has a condition of its own, and can be read in any case.
        let mut polled = [PollFd::new(&self.table, PollFlags::PRI), PollFd::new(&self.bell, PollFlags::IN)];
        match poll(&mut polled, longest.as_ref()) {
            Ok(_) => {
                // There is nothing in it where it has not been rung.
                let _ = rustix::io::read(&self.bell, &mut [0; 8]);
            }
            Err(Errno::INTR) => {}
            Err(_) => thread::sleep(NAP),
        }
    }

    /// Has whoever waits look.
    pub fn ring(&self) {
        // It fails only where it has been rung 2^64 times, which has the same effect.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}
