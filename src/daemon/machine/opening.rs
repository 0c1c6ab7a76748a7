//! What the machine finds in the configuration and in the state folder as it is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use asat_archive::{Archive, Error};
use asat_core::{Problem, StoreName};
use asat_host::worker::Workers;

use super::Machine;
use crate::config::Config;

/// Opens the archive of every store that is configured, or that has one.
pub(in crate::daemon) fn open_archives(
    config: &Config,
) -> Result<BTreeMap<StoreName, Arc<Archive>>, Problem> {
    let mut names: BTreeSet<StoreName> = config.stores.keys().cloned().collect();
    names.extend(asat_archive::stores_in(&config.archives())?);
    let open = |name: StoreName| open_archive(config, &name).map(|archive| (name, archive));
    names.into_iter().map(open).collect()
}

/// Opens a store's archive, and makes it where there is none.
pub(super) fn open_archive(config: &Config, name: &StoreName) -> Result<Arc<Archive>, Problem> {
    let (archive, opened) = Archive::open(&config.archive(name)).map_err(|error| refused(name, error))?;
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
fn refused(name: &StoreName, error: Error) -> Problem {
    let is_loss = error.is_loss();
    let problem = Problem::from(error);
    if !is_loss {
        return problem;
    }
    let detail = format!("no file of the archive of {name} can be read: {}", problem.detail);
    let hint = "put the file back from a backup, or move the archive's files out of its folder to start without its versions \
                (docs/recover.md)";
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
