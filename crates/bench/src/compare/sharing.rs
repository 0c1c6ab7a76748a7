//! File systems whose files can share blocks, made in a file for a comparison.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use asat_core::Problem;
use asat_host::volume::mounts;
use clap::ValueEnum;
use tempfile::TempDir;

use crate::site::temporary;
use crate::{Tell, failed, tools};

/// The file is sparse: it takes what is written.
const BYTES: u64 = 32 << 30;

/// What kind of file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// XFS
    Xfs,
    /// Btrfs
    Btrfs,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

/// A file system that is mounted. Dropped, it is unmounted, and removed with everything on it.
pub(super) struct FileSystem<'a> {
    folder: TempDir,
    tell: Tell<'a>,
}

impl<'a> FileSystem<'a> {
    /// Makes one in a file in `dir`, or among temporary files, and mounts it.
    pub(super) fn make(kind: Kind, dir: Option<&Path>, tell: Tell<'a>) -> Result<Self, Problem> {
        let folder = temporary(dir)?;
        let image = folder.path().join("image");
        let sized = File::create(&image).and_then(|file| file.set_len(BYTES));
        sized.map_err(|error| failed("make a file for a file system", error))?;
        let quiet = OsStr::new("-q");
        tools::run(&format!("mkfs.{}", kind.name()), &[quiet, image.as_os_str()])?;
        // From here on it is unmounted if anything fails.
        let made = Self { folder, tell };
        fs::create_dir(made.folder()).map_err(|error| failed("make a mount point", error))?;
        let options = ["-t", kind.name(), "-o", "loop"].map(OsStr::new);
        tools::run("mount", &[&options[..], &[image.as_os_str(), made.folder().as_os_str()]].concat())?;
        Ok(made)
    }

    /// Where it is mounted.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }
}

impl Drop for FileSystem<'_> {
    fn drop(&mut self) {
        // The kernel's table has no symbolic links.
        let Ok(folder) = self.folder().canonicalize() else { return };
        let is_mounted =
            |table: String| mounts::parse(&table).iter().any(|mount| mount.mount_point == folder);
        if !fs::read_to_string("/proc/self/mountinfo").is_ok_and(is_mounted) {
            return;
        }
        if let Err(Problem { detail, .. }) = tools::run("umount", &[OsStr::new("--"), folder.as_os_str()]) {
            (self.tell)(&format!("{detail}; unmount it, then remove {}", self.folder.path().display()));
        }
    }
}
