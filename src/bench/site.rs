//! The temporary folder that a benchmark works in: the store, the daemon's state, its socket and configuration.

use std::fs;
use std::path::{Path, PathBuf};

use asat_core::Problem;
use tempfile::TempDir;

use super::failed;
use super::process::Daemon;
use crate::client::{Client, Server};

/// The folder. Dropped, it is removed with everything in it.
pub(super) struct Site {
    folder: TempDir,
    /// The daemon's socket.
    pub(super) socket: PathBuf,
    /// The store that is published.
    pub(super) store: PathBuf,
}

impl Site {
    /// Makes the folder in `dir`, or where temporary files go.
    pub(super) fn make(dir: Option<&Path>) -> Result<Self, Problem> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("asat-bench.");
        let folder = match dir {
            Some(dir) => builder.tempdir_in(dir),
            None => builder.tempdir(),
        };
        let folder = folder.map_err(|error| failed("make a temporary folder", error))?;
        let path = folder.path().to_owned();
        fs::create_dir(path.join("store")).map_err(|error| failed("make a folder", error))?;
        let config = "state = \"state\"\n[listen]\nunix = \"asat.sock\"\n\
                      [[store]]\nname = \"report\"\npath = \"store/report.db\"\nbackend = \"pages\"\n\
                      max_hold = \"10m\"\n";
        fs::write(path.join("asat.toml"), config).map_err(|error| failed("write a configuration", error))?;
        Ok(Self { folder, socket: path.join("asat.sock"), store: path.join("store/report.db") })
    }

    /// A client of the daemon that runs on it.
    pub(super) fn client(&self) -> Result<Client, Problem> {
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
