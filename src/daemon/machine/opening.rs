//! What the machine finds in the configuration and in the state folder as it is opened.

use std::collections::BTreeMap;

use asat_archive::Archive;
use asat_core::snapshot::{Backend, Origin};
use asat_core::{Backing, Problem, StoreName};
use asat_host::store::Limits;

use super::Store;
use crate::config::Config;

/// The stores that are cut by clones.
pub(super) fn clones_of(backings: &BTreeMap<StoreName, Backing>) -> BTreeMap<StoreName, Origin> {
    let cloned = |(name, backing): (&StoreName, &Backing)| match backing {
        Backing::Volume(origin) if origin.backend == Backend::Reflink => Some((name.clone(), origin.clone())),
        _ => None,
    };
    backings.iter().filter_map(cloned).collect()
}

/// What cuts need to know of the configured stores.
pub(super) fn stores(config: &Config) -> BTreeMap<StoreName, Store> {
    let store = |(name, store): (&StoreName, &crate::config::StoreConfig)| {
        let limits = Limits { busy: store.busy_timeout, hold: store.max_hold };
        let (path, snapshot_size, trim) = (store.path.clone(), store.snapshot_size, store.trim);
        let (is_kind_chosen, checks, watch) =
            (store.backend.is_some(), store.checks.clone(), store.watch.clone());
        (name.clone(), Store { path, limits, is_kind_chosen, snapshot_size, trim, checks, watch })
    };
    config.stores.iter().map(store).collect()
}

/// Opens the archive of every store that is configured, or that has one.
pub(super) fn open_archives(config: &Config) -> Result<BTreeMap<StoreName, Archive>, Problem> {
    let mut names: Vec<StoreName> = config.stores.keys().cloned().collect();
    names.extend(asat_archive::stores_in(&config.archives())?);
    let mut archives = BTreeMap::new();
    for name in names {
        if archives.contains_key(&name) {
            continue;
        }
        let (archive, opened) = Archive::open(&config.archive(&name))?;
        if !opened.removed.is_empty() {
            tracing::info!(store = %name, files = ?opened.removed, "removed what a crash had left");
        }
        if !opened.foreign.is_empty() {
            tracing::warn!(store = %name, files = ?opened.foreign, "left alone what is not the archive's");
        }
        archives.insert(name, archive);
    }
    Ok(archives)
}
