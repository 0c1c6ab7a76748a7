//! What the process of a query may take of the machine, and what is said if it would take more.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use rustix::process::{Resource, Rlimit, getppid, setrlimit};

use super::{Bounds, Said};
use crate::worker::bounds;

/// SQLite asks after so many operations whether it shall go on: every few microseconds.
const OPERATIONS: i32 = 1000;
/// How often the temporary files are looked at. What is written meanwhile may exceed their bound.
const LOOK: Duration = Duration::from_millis(20);
/// So many temporary files may be open. With the bound of each, the kernel so bounds all of them, whatever one of SQLite's operations does.
const TEMPORARY_FILES: u64 = 32;

/// The limits of this process.
pub(super) struct Limits {
    until: Instant,
    disk_bytes: u64,
    is_full: Arc<AtomicBool>,
}

impl Limits {
    /// Bounds the memory of this process. Its time begins.
    ///
    /// # Errors
    /// If SQLite does not take its bound.
    pub(super) fn begin(bounds: &Bounds) -> rusqlite::Result<Self> {
        bounds::set(bounds.memory_bytes)?;
        let until = Instant::now() + bounds.time;
        Ok(Self { until, disk_bytes: bounds.disk_bytes, is_full: Arc::default() })
    }

    /// Bounds the temporary files, once everything else is open, and has the connection stop when a limit is reached.
    ///
    /// # Errors
    /// If the machine refuses.
    pub(super) fn watch(&self, connection: &mut Connection) -> io::Result<()> {
        let open = u64::try_from(fs::read_dir("/proc/self/fd")?.count()).unwrap_or(u64::MAX);
        for (resource, most) in
            [(Resource::Fsize, self.disk_bytes), (Resource::Nofile, open.saturating_add(TEMPORARY_FILES))]
        {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        // Nobody wants the answer of a daemon that has gone.
        let daemon = getppid();
        let (until, disk_bytes, is_full) = (self.until, self.disk_bytes, Arc::clone(&self.is_full));
        let mut look_at = Instant::now() + LOOK;
        let is_over = move || {
            let now = Instant::now();
            if now >= look_at {
                look_at = now + LOOK;
                // What cannot be looked at is bounded by the kernel alone.
                let full = temporary_bytes().is_ok_and(|bytes| bytes > disk_bytes);
                is_full.fetch_or(full, Ordering::Relaxed);
            }
            now >= until || is_full.load(Ordering::Relaxed) || getppid() != daemon
        };
        connection.progress_handler(OPERATIONS, Some(is_over)).map_err(io::Error::other)
    }

    /// What is said if an error is a limit's doing.
    pub(super) fn reached(&self, error: &rusqlite::Error) -> Option<Said> {
        match error.sqlite_error_code()? {
            ErrorCode::OperationInterrupted if self.is_full.load(Ordering::Relaxed) => Some(Said::Full),
            ErrorCode::OperationInterrupted => Some(Said::Late),
            // All databases are open: it is a temporary file that cannot be.
            ErrorCode::CannotOpen => Some(Said::Full),
            ErrorCode::OutOfMemory => {
                Some(Said::Refused("it needs more memory than a query may take".to_owned()))
            }
            _ => None,
        }
    }
}

/// How large the temporary files of this process are together. SQLite has deleted their names.
fn temporary_bytes() -> io::Result<u64> {
    let mut bytes = 0;
    for file in fs::read_dir("/proc/self/fd")? {
        // One of the descriptors is that of this list, and may be closed already.
        let Ok(about) = fs::metadata(file?.path()) else { continue };
        if about.is_file() && about.nlink() == 0 {
            bytes += about.blocks() * 512;
        }
    }
    Ok(bytes)
}
