//! The temporary folder that a benchmark works in: the store, the daemon's state, its socket and configuration.

use std::fs;
use std::path::{Path, PathBuf};

use asat_core::Problem;
use tempfile::TempDir;

use super::failed;
use super::process::Daemon;
use asat_client::{Client, Server};

/// The folder. Dropped, it is removed with everything in it.
pub(super) struct Site {
    folder: TempDir,
    /// The daemon's socket.
    pub(super) socket: PathBuf,
    /// The store that is published.
    pub(super) store: PathBuf,
}

impl Site {
    /// Makes the folder in `dir`, or where temporary files go, with a store in it that is kept by its pages.
    pub(super) fn make(dir: Option<&Path>) -> Result<Self, Problem> {
        let site = Self::with_store_at(dir, "store/report.db", "backend = \"pages\"\n")?;
        fs::create_dir(site.path("store")).map_err(|error| failed("make a folder", error))?;
        Ok(site)
    }

    /// Makes the folder, and configures a store whose file will be at a path in it and which is kept as `keeping`
    /// says, in the configuration's own words. The folder of the store is the caller's to make.
    pub(super) fn with_store_at(dir: Option<&Path>, store: &str, keeping: &str) -> Result<Self, Problem> {
        let folder = temporary(dir)?;
        let path = folder.path().to_owned();
        let site = Self { folder, socket: path.join("asat.sock"), store: path.join(store) };
        site.configure(keeping)?;
        Ok(site)
    }

    /// Has the next daemon keep the store in another way.
    pub(super) fn configure(&self, keeping: &str) -> Result<(), Problem> {
        let store = self.store.strip_prefix(self.folder()).unwrap_or(&self.store).display();
        let config = format!(
            "state = \"state\"\n[listen]\nunix = \"asat.sock\"\n\
             [[store]]\nname = \"report\"\npath = \"{store}\"\nmax_hold = \"10m\"\n{keeping}"
        );
        fs::write(self.path("asat.toml"), config).map_err(|error| failed("write a configuration", error))
    }

    /// A name for a volume group, as unique as the folder is: it has the same random letters.
    pub(super) fn group(&self, name: &str) -> String {
        let letters = self.folder().extension().and_then(|letters| letters.to_str()).unwrap_or("x");
        format!("asat_bench_{letters}_{name}")
    }

    /// A client of the daemon that runs on it.
    pub(super) fn client(&self) -> Client {
        Client::new(&Server::Unix(self.socket.clone()), None, None)
    }

    /// Starts the daemon on it.
    pub(super) fn start(&self) -> Result<Daemon, Problem> {
        Daemon::start(&self.path("asat.toml"))
    }

    /// A file or folder in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder itself.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A temporary folder in `dir`, or where temporary files are.
pub(super) fn temporary(dir: Option<&Path>) -> Result<TempDir, Problem> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("asat-bench.");
    let folder = dir.map_or_else(|| builder.tempdir(), |dir| builder.tempdir_in(dir));
    folder.map_err(|error| failed("make a temporary folder", error))
}
