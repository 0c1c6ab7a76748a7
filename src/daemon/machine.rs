//! The machine: performs the engine's effects with the stores, the volumes, the archives and the as-at copies.
//!
//! It decides nothing. Each method does what one effect says and reports what came of it.

mod backend;
mod change_cache;
mod configured;
mod cut;
mod filing;
mod guarded;
mod marker;
mod pages;
mod relied;
mod repair;
mod restore;
mod room;
mod set;
mod sink;
mod snapshots;
mod source;
mod survey;
mod throttle;
mod tracked;
mod unchanged;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use asat_archive::Stats;
use asat_core::clock::{self, Anchor, Believed, Bounds, Reading};
use asat_core::event::{ArchiveFailure, Effect, Outcome, Retired, Survey};
use asat_core::guard::Short;
use asat_core::register::Register;
use asat_core::retention::Weight;
use asat_core::version::Version;
use asat_core::{Backing, Code, Problem, StoreName, VersionId};
use asat_host::copies::Copies;
use asat_host::lvm::Timing;
use asat_host::lvm::names::InstallationId;
use asat_host::scratch::Scratch;
use asat_host::worker::Workers;
use jiff::Timestamp;

use super::archives::{Archives, Note};
use super::follow::Follows;
use super::handle::Handle;
use super::host::Host;
use super::notices::{Notice, Notices};
use super::recording::Recorders;
use super::remote::Remotes;
use super::tree::Recent;
use crate::config::Config;
use crate::metrics::Metrics;
use backend::Backends;
pub(super) use backend::Reserved;
use change_cache::ChangeCache;
pub use change_cache::VersionGuard;
use configured::{Settings, Store, workers};
use cut::Cutting;
pub use repair::found;
pub(super) use set::of_store;
use snapshots::{SnapshotVersion, Witnessed};
pub use source::VersionBytes;
use throttle::Throttle;
use tracked::Tracking;

/// The stores, volumes, archives and copies of one state folder.
pub struct Machine {
    /// What the configuration says that may change while the daemon runs.
    settings: ArcSwap<Settings>,
    backends: Backends,
    /// What opens stores.
    workers: Workers,
    /// A folder that has too little space left for anything new.
    short: Mutex<Option<Short>>,
    pub(super) archives: Arc<Archives>,
    /// How the stores stand to the bucket.
    remotes: Remotes,
    /// How the bucket stands that is followed.
    follows: Arc<Follows>,
    copies: Copies,
    /// The root of the tree of versions, while it is mounted.
    tree: ArcSwapOption<PathBuf>,
    /// What is open in it.
    pub(super) recent: Recent,
    /// Where versions lie while a store is brought back to them.
    scratch: PathBuf,
    notices: Notices,
    /// Who is told of damage that nobody has looked for.
    pub(super) driver: OnceLock<Handle>,
    /// What brings the archives up to the catalogue.
    pub(super) recorders: Recorders,
    /// The versions that are held by snapshots.
    hot: Mutex<BTreeMap<VersionId, SnapshotVersion>>,
    /// What each store's file was like when its last version was cut by a snapshot.
    witnesses: Mutex<BTreeMap<StoreName, Witnessed>>,
    /// What each store was like when its last version was cut, as far as that shows without reading it.
    seen: ChangeCache,
    /// What is known of what changed in the stores that are tracked.
    tracking: Tracking,
    metrics: Arc<Metrics>,
    /// Whether it was told why all of a snapshot is read, and not what has changed.
    is_told_of_reading: AtomicBool,
    /// How many seconds the last archive run of each store took.
    archive_runs: Mutex<BTreeMap<StoreName, u64>>,
    last_cuts: Mutex<BTreeMap<StoreName, Timestamp>>,
    /// What was believed of the clocks last; nothing where nothing is recorded yet.
    anchor: ArcSwapOption<Anchor>,
    /// Shared with what ends the queries of checks.
    stopping: Arc<AtomicBool>,
    /// What background work gives way to, and what waits for it.
    precedence: throttle::Precedence,
}

impl Machine {
    /// Opens every archive that the configuration or the state folder names, and finds out how each store is to be cut.
    ///
    /// # Errors
    /// Where an archive cannot be opened, or a store is to be cut by snapshots of the volume that the state lies on.
    pub fn open(
        config: &Config,
        installation: InstallationId,
        tree: Option<PathBuf>,
        notices: Notices,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, BTreeMap<StoreName, Backing>), Problem> {
        let timing = Arc::clone(metrics) as Arc<dyn Timing>;
        let (backends, mut backings) = Backends::open(config, installation, timing)?;
        Scratch::clean(&config.scratch())?;
        let follows = Arc::new(Follows::new(config));
        let archives = Arc::new(Archives::open(config, &follows)?);
        // Whatever it is cut by: its next version would get a number that the files may have given already.
        for (store, problem) in archives.unreadable() {
            backings.entry(store).and_modify(|backing| *backing = Backing::Unusable(problem));
        }
        let machine = Self {
            settings: ArcSwap::from_pointee(Settings::of(config)),
            backends,
            workers: workers(config),
            short: Mutex::default(),
            archives,
            remotes: Remotes::new(config.remote.clone()),
            follows,
            copies: Copies::new(config.copies()),
            tree: ArcSwapOption::from_pointee(tree),
            recent: Recent::default(),
            scratch: config.scratch(),
            notices,
            driver: OnceLock::new(),
            recorders: Recorders::default(),
            hot: Mutex::default(),
            witnesses: Mutex::default(),
            seen: ChangeCache::default(),
            tracking: Tracking::default(),
            metrics: Arc::clone(metrics),
            is_told_of_reading: AtomicBool::new(false),
            archive_runs: Mutex::default(),
            last_cuts: Mutex::default(),
            anchor: ArcSwapOption::empty(),
            stopping: Arc::default(),
            precedence: throttle::Precedence::default(),
        };
        Ok((machine, backings))
    }

    /// Tells a driver from now on of damage that is met.
    pub(super) fn drive_by(&self, driver: Handle) {
        self.archives.hold_against(driver.clone());
        // It has one driver for as long as it lives.
        let _ = self.driver.set(driver);
    }

    /// The archives of the stores.
    #[must_use]
    pub fn archives(&self) -> &Arc<Archives> {
        &self.archives
    }

    /// How the stores stand to the bucket.
    #[must_use]
    pub fn remotes(&self) -> &Remotes {
        &self.remotes
    }

    /// How the bucket stands that is followed.
    #[must_use]
    pub fn follows(&self) -> &Follows {
        &self.follows
    }

    /// How often a process that works on stores has failed.
    #[must_use]
    pub fn worker_failures(&self) -> u64 {
        self.workers.failures()
    }

    /// Holds the version whose content a store still has, where that can be seen without reading it; no lock is taken, neither
    /// the store's nor one of ours. The only store need not be named.
    #[must_use]
    pub fn unchanged_since(&self, store: Option<&StoreName>) -> Option<(VersionId, VersionGuard)> {
        let settings = self.settings.load();
        let (name, store) = settings.store(store)?;
        // What a check finds may depend on more than the content: on the day, for example.
        let (number, hold) = self.seen.unchanged(name, &store.path).filter(|_| store.checks.is_empty())?;
        Some((VersionId { store: name.clone(), number }, hold))
    }

    /// What is believed of what the clocks say now.
    #[must_use]
    pub fn believed(&self) -> Believed {
        clock::believed(self.anchor.load().as_deref(), &self.settings.load().clock, &self.clocks())
    }

    /// The clock where it is doubted, and how far it is believed.
    pub(super) fn doubted(&self) -> Option<(Believed, Bounds)> {
        let believed = self.believed();
        believed.doubted.then(|| (believed, self.settings.load().clock))
    }

    /// Whether the tree of versions is mounted.
    #[must_use]
    pub fn has_tree(&self) -> bool {
        self.tree.load().is_some()
    }

    /// Takes note of where the tree of versions is mounted from now on.
    pub(super) fn set_tree(&self, root: Option<PathBuf>) {
        self.tree.store(root.map(Arc::new));
    }

    /// Lets go of a version that nobody reads in the tree any more, as somebody wants to give it up.
    pub fn let_go(&self, id: &VersionId) {
        self.recent.let_go(id);
    }

    /// Where a leased version is read: in the tree, in its snapshot, or in the cache. `None` where it has no copy yet and
    /// needs one.
    #[must_use]
    pub fn path(&self, version: &Version) -> Option<PathBuf> {
        match (self.tree.load().as_deref(), &version.copy) {
            (Some(root), _) if version.is_archived() => Some(asat_host::tree::path(root, &version.id)),
            (_, Some(copy)) if copy.in_snapshot => Some(self.backends.lvm.shown(&version.id)),
            (_, Some(_)) => Some(self.copies.path(&version.id)),
            (_, None) => None,
        }
    }

    fn drop_copy(&self, id: &VersionId) -> Result<(), Problem> {
        for backend in self.backends.all() {
            backend.hide(id)?;
        }
        Ok(self.copies.drop_copy(id)?)
    }

    /// Takes back a cut of which nothing is recorded.
    fn uncut(&self, id: &VersionId) -> Result<(), Problem> {
        match self.hot(id) {
            Ok(hot) => {
                self.forget_witness(id);
                self.drop_snapshot(id, &hot.snapshot)
            }
            Err(_) => self.retire(id).map(drop),
        }
    }

    fn retire(&self, id: &VersionId) -> Result<Retired, Problem> {
        self.forget_witness(id);
        Ok(match self.archives.of(&id.store)?.retire(id.number)? {
            asat_archive::Retired::Retired { freed_bytes, worth_compacting } => {
                Retired { freed_bytes, worth_compacting }
            }
            asat_archive::Retired::AlreadyGone => Retired { freed_bytes: 0, worth_compacting: false },
        })
    }

    /// Compacts slowly, and not to the end where the daemon stops.
    fn compact(&self, store: &StoreName) -> Result<(), Problem> {
        let (archive, mut throttle) =
            (self.archives.of(store)?, Throttle::new(self.settings().compaction_rate));
        let mut pace = |written| match throttle.wait(written, &self.precedence, &self.stopping) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let compacted = loop {
            match archive.compact(&mut pace) {
                Ok(compacted) if compacted.more && !self.stopping.load(Ordering::Relaxed) => {
                    let _ = archive.wait_for_writer(Duration::from_secs(1));
                }
                compacted => break compacted,
            }
        };
        self.notices.tell_archived();
        compacted?;
        // What lies elsewhere now is read before a publication relies on it; if it cannot be, that one tries again.
        if let Err(problem) = self.read_newest(store) {
            tracing::debug!(store = %store, %problem, "{store}: what was compacted is not read yet");
        }
        Ok(())
    }

    /// What a store's archive takes, version by version.
    ///
    /// # Errors
    /// Where the store is not known, or its archive cannot be read.
    pub fn archive_stats(&self, store: &StoreName) -> Result<Stats, Problem> {
        Ok(self.archives.of(store)?.stats()?)
    }

    /// What of a store's archive which versions need.
    ///
    /// # Errors
    /// Where the store is not known, or its archive cannot be read.
    pub fn weigh(&self, store: &StoreName) -> Result<Weight, Problem> {
        Ok(self.archives.of(store)?.weigh()?)
    }

    /// Tells progress from any thread, for as long as that likes.
    fn progress_sink(&self) -> impl Fn(asat_wire::Progress) + Send + use<> {
        let notices = self.notices.clone();
        move |progress| notices.send(Notice::Progress(progress))
    }

    fn tell(&self, progress: asat_wire::Progress) {
        // Nobody has to listen.
        self.notices.send(Notice::Progress(progress));
    }

    /// Whether what is under way is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

impl Host for Machine {
    fn now(&self) -> Timestamp {
        self.believed().time
    }

    fn clocks(&self) -> Reading {
        asat_host::clock::read()
    }

    fn go_by(&self, anchor: &Anchor) {
        self.anchor.store(Some(Arc::new(anchor.clone())));
    }

    fn survey(&self, register: &Register) -> Result<Survey, Problem> {
        self.look_around(register)
    }

    fn archive_bytes(&self, store: &StoreName) -> u64 {
        self.archives.bytes(store)
    }

    fn held(&self, versions: &[VersionId], for_space: bool) -> Vec<VersionId> {
        let mut held = self.seen.held(versions);
        // A store that nobody can write to is worse than a version that is lost.
        if !for_space {
            held.extend(self.remotes.held(versions));
        }
        held
    }

    fn perform(&self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Cut { version, attributes, key, after, origin, then_restore, anew } => {
                let note = Note { attributes: attributes.clone(), key: key.clone(), ..Note::default() };
                // A store that is brought back may be one that meets no check any more, and is to be kept all the same.
                let checks = match then_restore {
                    None => self.demanded(&version.store, attributes),
                    Some(_) => Vec::new(),
                };
                let cutting =
                    Cutting { id: version, note, after: *after, checks: &checks, at: None, anew: *anew };
                Outcome::Cut(self.cut_as(&cutting, origin.as_ref()))
            }
            Effect::CutSet { set, members, attributes, key, after } => {
                let note = Note { attributes: attributes.clone(), key: key.clone(), ..Note::default() };
                Outcome::CutSet(self.cut_set(set, members, note, *after))
            }
            Effect::Restore { version, before, .. } => Outcome::Restore(self.restore(version, before)),
            Effect::Archive { version } => {
                let is_full = |failure: &ArchiveFailure| failure.problem.code == Code::StorageFull;
                Outcome::Archive(self.with_room(&version.store, is_full, || self.file(version)))
            }
            Effect::DropSnapshot { version, snapshot } => {
                Outcome::DropSnapshot(self.drop_snapshot(version, snapshot))
            }
            Effect::Retire { version } => Outcome::Retire(self.retire(version)),
            Effect::Compact { store } => Outcome::Compact(self.compact(store)),
            Effect::Weigh { store } => Outcome::Weigh(self.weigh(store)),
            Effect::Repair { store } => Outcome::Repair(self.repair(store)),
            Effect::MakeCopy { version, in_snapshot, .. } => {
                Outcome::MakeCopy(self.make_copy(version, *in_snapshot))
            }
            Effect::DropCopy { version } => Outcome::DropCopy(self.drop_copy(version)),
        }
    }

    fn undo(&self, effect: &Effect) -> Result<(), Problem> {
        match effect {
            Effect::Cut { version, .. } => self.uncut(version),
            Effect::CutSet { members, .. } => {
                // One that cannot be taken back keeps none of the others from it.
                members.iter().map(|member| self.uncut(&member.version)).fold(Ok(()), Result::and)
            }
            Effect::MakeCopy { version, .. } => self.drop_copy(version),
            // The others are done again at the next start.
            _ => Ok(()),
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// What is behind a lock. Every change under one leaves its value whole, so a panic elsewhere has spoilt nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
