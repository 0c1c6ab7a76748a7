//! Where versions are read: the tree, the plain files beside it, and what the kernel keeps of either.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use asat_core::Problem;
use rustix::fs::{Advice, fadvise};

use crate::failed;
use crate::process::Daemon;
use crate::site::Site;

/// The tree below a benchmark's folder.
const TREE: &str = "tree";

/// A benchmark's folder with a tree of versions in it, and its daemon.
pub(super) struct Shelf {
    /// Before the folder, so that nothing is mounted in it when that goes.
    daemon: Option<Daemon>,
    pub(super) site: Site,
}

impl Shelf {
    pub(super) fn make(dir: Option<&Path>) -> Result<Self, Problem> {
        let keeping = format!("backend = \"pages\"\n[fuse]\nroot = \"{TREE}\"\n");
        let site = Site::with_store_at(dir, "store/report.db", &keeping)?;
        fs::create_dir(site.path("store")).map_err(|error| failed("make a folder", error))?;
        Ok(Self { daemon: Some(site.start()?), site })
    }

    /// Starts the daemon anew: the kernel has nothing of the new tree, and the daemon has no version open, and nothing to do beside what is
    /// measured.
    pub(super) async fn restart(&mut self) -> Result<(), Problem> {
        if let Some(daemon) = self.daemon.take() {
            daemon.until_idle().await?;
            daemon.stop()?;
        }
        self.daemon.insert(self.site.start()?).until_idle().await
    }

    /// The most memory that the daemon ever had resident, in bytes; answers it as the daemon is stopped.
    pub(super) fn stop(&mut self) -> Result<u64, Problem> {
        let Some(daemon) = self.daemon.take() else { return Ok(0) };
        let peak_rss_bytes = daemon.peak_rss_bytes()?;
        daemon.stop()?;
        Ok(peak_rss_bytes)
    }

    /// A version's path in the tree.
    pub(super) fn path_of(&self, version: &str) -> PathBuf {
        self.site.path(TREE).join(version).join("report.db")
    }

    /// A plain file with the content of a version, on disk; answers its length too.
    pub(super) fn plain_copy(&self, version: &str) -> Result<(PathBuf, u64), Problem> {
        let plain = self.site.path("plain.db");
        let copied = fs::copy(self.path_of(version), &plain).and_then(|length| {
            // What is not on disk yet, the kernel cannot forget.
            File::open(&plain)?.sync_all()?;
            Ok(length)
        });
        Ok((plain, copied.map_err(|error| failed("copy a version; is FUSE to be had?", error))?))
    }

    /// Has the kernel forget what it keeps of the archive.
    pub(super) fn forget_archive(&self) -> Result<(), Problem> {
        forget_below(&self.site.path("state/archive"))
    }
}

/// Has the kernel forget what it keeps of a file.
pub(super) fn forget(path: &Path) -> Result<(), Problem> {
    let forgotten = File::open(path).and_then(|file| Ok(fadvise(&file, 0, None, Advice::DontNeed)?));
    forgotten.map_err(|error| failed(&format!("have {} forgotten", path.display()), error))
}

fn forget_below(folder: &Path) -> Result<(), Problem> {
    let cannot = |error| failed(&format!("list {}", folder.display()), error);
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() { forget_below(&path)? } else { forget(&path)? }
    }
    Ok(())
}
