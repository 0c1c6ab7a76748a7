//! The disk that a query takes while it is answered: a folder of its own, for the tables of what changed and for SQLite's temporary files.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use asat_core::Problem;

use crate::machine::room;
use crate::scratch::failed;
use crate::worker::Identity;

/// A query may take this part of the free space.
const SHARE: u64 = 4;

/// The folder. It is removed with the value, with all that is in it.
#[derive(Debug)]
pub struct Workspace {
    folder: PathBuf,
    bytes: u64,
}

impl Workspace {
    /// Makes an empty folder in that for scratch files. The query may take so many bytes in it, and no more than a [`SHARE`] of what is
    /// free: the daemon needs the disk, too.
    ///
    /// # Errors
    /// If the machine refuses.
    pub fn create(scratch: &Path, bytes: u64) -> Result<Self, Problem> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut workspace =
            Self { folder: scratch.join(format!("query-{}", NEXT.fetch_add(1, Ordering::Relaxed))), bytes };
        let free = workspace.make(scratch).map_err(|error| failed("make", &workspace.folder, &error))?;
        workspace.bytes = bytes.min(free / SHARE);
        Ok(workspace)
    }

    /// Makes the folder; answers how many bytes are free.
    fn make(&self, scratch: &Path) -> io::Result<u64> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(scratch)?;
        builder.recursive(false).create(&self.folder)?;
        if rustix::process::geteuid().is_root() {
            // The process of the query is in this folder when it becomes that user, who cannot reach it from outside.
            let nobody = Identity::nobody();
            chown(&self.folder, Some(nobody.user()), Some(nobody.group()))?;
        }
        Ok(room(&self.folder)?.0)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// How many bytes may still be written.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn left(&self) -> Result<u64, Problem> {
        let taken =
            || fs::read_dir(&self.folder)?.map(|file| Ok(file?.metadata()?.len())).sum::<io::Result<u64>>();
        let taken = taken().map_err(|error| failed("read", &self.folder, &error))?;
        Ok(self.bytes.saturating_sub(taken))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
