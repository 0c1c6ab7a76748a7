//! Opening versions in the tree.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use asat_archive::{Archive, Error, Reader};
use asat_core::register::Register;
use asat_core::version::LeaseId;
use asat_core::{Code, Problem, VersionId};
use asat_host::tree::{Content, Versions};

use super::leases::{Lease, Leases};
use crate::daemon::Machine;

/// The versions, for whoever opens one in the tree.
pub(in crate::daemon) struct Shelf {
    machine: Arc<Machine>,
    leases: Arc<Leases>,
}

impl Versions for Shelf {
    type Open = Opened;

    fn look<T>(&self, look: impl FnOnce(&Register) -> T) -> T {
        look(self.leases.handle.engine().register())
    }

    fn opened(&self, id: &VersionId) -> Option<Arc<Opened>> {
        self.machine.recent.find(id)
    }

    fn open(&self, id: &VersionId) -> Result<Arc<Opened>, Problem> {
        match self.open_anew(id) {
            Ok(opened) => Ok(self.machine.recent.add(id, opened)),
            Err(problem) => {
                tracing::warn!(version = %id, "{id}: cannot be opened in the tree: {problem}");
                Err(problem)
            }
        }
    }
}

impl Shelf {
    pub(super) fn new(machine: Arc<Machine>, leases: Arc<Leases>) -> Self {
        Self { machine, leases }
    }

    fn open_anew(&self, id: &VersionId) -> Result<Opened, Problem> {
        // One that is given up meanwhile is gone.
        self.leases.handle.is_archived(id)?;
        if self.machine.recent.is_barred(id) {
            let detail =
                format!("an administrator has revoked the lease under which {id} was open in the tree");
            return Err(Problem::new(Code::InUse, detail, "ask that user why, or try again in a minute"));
        }
        self.wait_until_archived(id)?;
        let lease = Lease::take(&self.leases, id)?;
        let archive = self.machine.archives().of(&id.store)?;
        let reader = ArcSwap::from_pointee(self.machine.archives().read(id)?);
        let is_far = self.machine.archives().are_followed();
        Ok(Opened { id: id.clone(), archive, reader, lease, revoked: AtomicBool::new(false), is_far })
    }

    /// Waits for a version that is only in its snapshot. There it is not read: its pages could not be checked, and the
    /// snapshot would have to stay for as long as the file is open. A program cannot be ended while it waits.
    fn wait_until_archived(&self, id: &VersionId) -> Result<(), Problem> {
        let handle = &self.leases.handle;
        if handle.is_archived(id)? {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| crate::daemon::failed("wait", &error))?;
        runtime.block_on(handle.until_archived(id))
    }
}

/// A version that somebody has open.
pub(in crate::daemon) struct Opened {
    id: VersionId,
    archive: Arc<Archive>,
    reader: ArcSwap<Reader>,
    lease: Lease,
    revoked: AtomicBool,
    /// Whether it is read from a bucket.
    is_far: bool,
}

impl Opened {
    /// Whether this lease holds it.
    pub(in crate::daemon) fn is_held_by(&self, lease: &LeaseId) -> bool {
        self.lease.is(lease)
    }

    /// Lets nobody read it any more: its lease was revoked.
    pub(in crate::daemon) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
        self.lease.forget();
    }
}

impl Opened {
    /// Reads with what the archive has now: a reader keeps the files with which it was opened, and one that was damaged then may have
    /// been repaired since.
    fn read_again(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let reader = self.archive.read(self.id.number)?;
        let length = reader.read_at(at, buffer)?;
        self.reader.store(Arc::new(reader));
        Ok(length)
    }
}

impl Content for Opened {
    fn length(&self) -> u64 {
        self.reader.load().len()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.revoked.load(Ordering::Acquire) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let read = match self.reader.load().read_at(at, buffer) {
            // What is away for a moment would not be there the second time either.
            Err(error @ (Error::Away { .. } | Error::Stopped)) => Err(error),
            Err(_) => self.read_again(at, buffer),
            read => read,
        };
        read.map_err(|error| {
            tracing::error!(version = %self.id, "{}: cannot be read in the tree: {}", self.id, Problem::from(error));
            io::ErrorKind::InvalidData.into()
        })
    }

    fn is_far(&self) -> bool {
        self.is_far
    }

    fn read_unasked(&self, at: u64, buffer: &mut [u8]) -> Option<usize> {
        if self.revoked.load(Ordering::Acquire) {
            return None;
        }
        self.reader.load().read_at(at, buffer).ok()
    }

    fn look_ahead(&self) {
        self.reader.load().look_ahead();
    }
}
