//! What the machine finds in the configuration and in the state folder as it is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asat_archive::Archive;
use asat_core::{Problem, StoreName};

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
    let (archive, opened) = Archive::open(&config.archive(name))?;
    if !opened.removed.is_empty() {
        tracing::info!(store = %name, files = ?opened.removed, "{name}: removed what a crash had left");
    }
    if !opened.foreign.is_empty() {
        tracing::warn!(store = %name, files = ?opened.foreign, "{name}: left alone what is not the archive's");
    }
    Ok(Arc::new(archive))
}
