//! What the configuration says of stores and of the work on archives. It may change while the daemon runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asat_core::check::Check;
use asat_core::clock::Bounds;
use asat_core::register::Register;
use asat_core::{Backing, Code, Problem, StoreName};
use asat_host::store::Limits;
use asat_host::worker::Workers;

use super::Machine;
use crate::config::{Config, StoreConfig, TrackConfig, WatchConfig};

/// All of it, as one configuration has it. Whatever is under way keeps what it began with.
pub(super) struct Settings {
    stores: BTreeMap<StoreName, Arc<Store>>,
    /// How many bytes a second compaction writes at most.
    pub(super) compaction_rate: u64,
    /// How far the machine's clock is believed.
    pub(super) clock: Bounds,
}

/// What a cut needs to know of a store.
pub(super) struct Store {
    pub(super) path: PathBuf,
    pub(super) limits: Limits,
    /// Whether the configuration says by which kind of snapshot it is cut.
    pub(super) is_kind_chosen: bool,
    pub(super) snapshot_size: Option<u64>,
    /// How it is tracked where it is cut by pages.
    pub(super) track: Option<TrackConfig>,
    pub(super) trim: bool,
    /// What its content must meet to be published.
    pub(super) checks: Vec<Check>,
    /// By which query it is published by itself.
    pub(super) watch: Option<WatchConfig>,
}

impl Settings {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            stores: config.stores.iter().map(|(name, s)| (name.clone(), Arc::new(Store::of(s)))).collect(),
            compaction_rate: config.compaction_rate,
            clock: config.clock,
        }
    }

    /// A store; the only one where none is named.
    pub(super) fn store<'a>(&'a self, name: Option<&'a StoreName>) -> Option<(&'a StoreName, &'a Store)> {
        let mut all = self.stores.iter();
        let (name, store) = match name {
            Some(name) => (name, self.stores.get(name)?),
            None => all.next().filter(|_| all.next().is_none())?,
        };
        Some((name, store))
    }
}

impl Store {
    fn of(config: &StoreConfig) -> Self {
        Self {
            path: config.path.clone(),
            limits: Limits { busy: config.busy_timeout, hold: config.max_hold },
            is_kind_chosen: config.backend.is_some(),
            snapshot_size: config.snapshot_size,
            track: config.track,
            trim: config.trim,
            checks: config.checks.clone(),
            watch: config.watch.clone(),
        }
    }
}

impl Machine {
    /// Gets the stores ready that a configuration adds: looks how each is to be cut, and opens its archive. Nobody sees
    /// them yet.
    ///
    /// # Errors
    /// Where an archive cannot be opened, or a store is to be cut by snapshots of the volume that the state lies on.
    pub(in crate::daemon) fn prepare(
        &self,
        config: &Config,
    ) -> Result<BTreeMap<StoreName, Backing>, Problem> {
        let known = self.settings();
        let mut added = config.clone();
        added.stores.retain(|name, _| !known.stores.contains_key(name));
        let mut backings = self.backends.look_at(&added)?;
        for (name, backing) in &mut backings {
            self.archives.add(config, name)?;
            if matches!(backing, Backing::Volume(origin) if self.backends.of(origin).needs_guard()) {
                *backing = Backing::Unusable(not_guarded(name));
            }
        }
        Ok(backings)
    }

    /// Why a store cannot be published before the next start, which adopts what its archive holds, where that is so: a number
    /// that is taken there must not be given to another version.
    pub(in crate::daemon) fn unknown_history(
        &self,
        store: &StoreName,
        register: &Register,
    ) -> Option<Problem> {
        let live = self.archives.of(store).ok()?.live();
        let history = register.history(store).ok();
        let unknown =
            |&number: &u64| history.is_none_or(|history| history.versions.headline(number).is_none());
        let first = live.into_iter().find(unknown)?;
        let detail =
            format!("the archive of store {store} holds versions that are not known yet, as {store}@{first}");
        Some(Problem::new(Code::Configuration, detail, "restart asat, which adopts them as it starts"))
    }

    /// Goes by this configuration from now on.
    pub(in crate::daemon) fn configure(&self, config: &Config) {
        pin_owners(&self.workers, config);
        self.backends.lvm.configure(config);
        self.tracking.keep(|name| config.stores.get(name).is_some_and(|store| store.track.is_some()));
        self.settings.store(Arc::new(Settings::of(config)));
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Where a store is, and how long one may wait for it.
    pub(super) fn configured(&self, store: &StoreName) -> Result<Arc<Store>, Problem> {
        self.settings().stores.get(store).cloned().ok_or_else(|| {
            let detail = format!("store {store} is not configured");
            Problem::new(Code::UnknownStore, detail, "add it to the configuration")
        })
    }
}

/// What opens stores: this program, started again.
pub(super) fn workers(config: &Config) -> Workers {
    // The file of the program may be another one's by now, as after an upgrade.
    let workers = Workers::new(Path::new("/proc/self/exe"), &["store-worker"]);
    pin_owners(&workers, config);
    workers
}

/// Takes note of who owns each store.
fn pin_owners(workers: &Workers, config: &Config) {
    config.stores.values().for_each(|store| workers.pin_owner(&store.path));
}

fn not_guarded(store: &StoreName) -> Problem {
    let detail =
        format!("store {store} is to be cut by snapshots of its volume, which the guard does not watch yet");
    Problem::new(Code::Configuration, detail, "restart asat, which looks at the volumes as it starts")
}
