//! What the machine finds in the configuration and in the state folder as it is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use asat_archive::{Archive, Error};
use asat_core::{Problem, StoreName};
use asat_host::worker::Workers;

use super::Machine;
use crate::config::Config;

/// The archives by their stores, and why some have none.
#[derive(Default)]
pub(super) struct Archives {
    pub(super) open: BTreeMap<StoreName, Arc<Archive>>,
    /// Those of which no file can be read. Another history must not begin in their place, and the other stores are kept all the same.
    pub(super) unread: BTreeMap<StoreName, Problem>,
}

/// Opens the archive of every store that is configured, or that has one.
pub(super) fn open_archives(config: &Config) -> Result<Archives, Problem> {
    let mut names: BTreeSet<StoreName> = config.stores.keys().cloned().collect();
    names.extend(asat_archive::stores_in(&config.archives())?);
    let mut archives = Archives::default();
    for name in names {
        match open_archive(config, &name) {
            Ok(archive) => _ = archives.open.insert(name, archive),
            Err(error) if error.is_loss() => {
                let problem = refused(&name, error);
                tracing::error!(store = %name, "{problem}");
                archives.unread.insert(name, problem);
            }
            Err(error) => return Err(refused(&name, error)),
        }
    }
    Ok(archives)
}

/// Opens a store's archive, and makes it where there is none.
pub(super) fn open_archive(config: &Config, name: &StoreName) -> Result<Arc<Archive>, Error> {
    let (archive, opened) = Archive::open(&config.archive(name))?;
    if !opened.removed.is_empty() {
        tracing::info!(store = %name, files = ?opened.removed, "{name}: removed what a crash had left");
    }
    for error in archive.unread() {
        tracing::warn!(store = %name, %error, "{name}: a file of its archive cannot be read: {error}");
    }
    if !opened.foreign.is_empty() {
        tracing::warn!(store = %name, files = ?opened.foreign, "{name}: left alone what is not the archive's");
    }
    Ok(Arc::new(archive))
}

/// Why an archive cannot be opened. If none of its files can be read, asat asks somebody first: it would begin an empty one.
pub(super) fn refused(name: &StoreName, error: Error) -> Problem {
    let is_loss = error.is_loss();
    let problem = Problem::from(error);
    if !is_loss {
        return problem;
    }
    let detail = format!("no file of the archive of {name} can be read: {}", problem.detail);
    let hint = "put the files back from a backup, or move them out of their folder to go on without these versions, and start asat \
                again (docs/recover.md)";
    Problem::new(problem.code, detail, hint)
}

/// What opens stores: this program, started again.
pub(super) fn workers(config: &Config) -> Workers {
    // The file of the program may be another one's by now, as after an upgrade.
    let workers = Workers::new(Path::new("/proc/self/exe"), &["store-worker"]);
    pin_owners(&workers, config);
    workers
}

impl Machine {
    /// How often a process that works on stores has failed.
    #[must_use]
    pub fn worker_failures(&self) -> u64 {
        self.workers.failures()
    }
}

/// Takes note of who owns each store.
pub(super) fn pin_owners(workers: &Workers, config: &Config) {
    config.stores.values().for_each(|store| workers.pin_owner(&store.path));
}
