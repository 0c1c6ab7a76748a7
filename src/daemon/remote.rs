//! History in object storage: how each store stands, for those who ask, and the threads that push it.

mod pushing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use asat_core::guard::{self, Step};
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_remote::{Manifest, Service};
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub(super) use pushing::Pushing;

use crate::config::RemoteConfig;

/// How a store stands to the bucket.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The versions that are known to be there.
    pub stored: Arc<BTreeSet<u64>>,
    /// The newest file with records of the archive that is known to be there; 0 if there is none.
    pub records: u64,
    /// The newest manifest that this daemon has created, or found to be its own.
    pub manifest: Option<Arc<Manifest>>,
    /// What keeps the rest from coming there, and since when.
    pub trouble: Option<(Problem, Timestamp)>,
    /// Whether somebody else publishes the store there: the daemon does not try again then.
    pub is_fenced: bool,
    /// Since when there is something in the archive that is not there.
    pub behind: Option<Instant>,
}

/// Where a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteState {
    /// In the bucket.
    Stored,
    /// Not known to be there yet.
    Pending,
    /// Not there, and it will not come there: somebody else publishes the store.
    Fenced,
}

impl RemoteState {
    /// The state as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Pending => "pending",
            Self::Fenced => "fenced",
        }
    }
}

/// What comes of a take-over, or of a push.
pub type RemoteAnswer = oneshot::Receiver<Result<(), Problem>>;

/// A store, as those who ask see it and as those who push it do.
#[derive(Debug)]
struct StorePush {
    standing: watch::Sender<Standing>,
    /// The way to the thread that pushes it; nothing before that runs.
    thread: Option<mpsc::UnboundedSender<Command>>,
    /// Wakes that thread if it waits for a merge.
    awaited: Arc<Notify>,
}

impl Default for StorePush {
    fn default() -> Self {
        let standing = watch::Sender::new(Standing::default());
        Self { standing, thread: None, awaited: Arc::default() }
    }
}

/// What a thread that pushes hears.
#[derive(Debug)]
enum Command {
    /// Somebody wants this daemon to publish the store from now on.
    TakeOver(oneshot::Sender<Result<(), Problem>>),
    /// Somebody wants all of the archive as it is now to be in the bucket at once.
    Push(oneshot::Sender<Result<(), Problem>>),
}

/// How all stores stand to the bucket. Without a `[remote]` in the configuration none does.
#[derive(Debug)]
pub struct Remotes {
    config: Option<RemoteConfig>,
    stores: Mutex<BTreeMap<StoreName, StorePush>>,
    /// Counts changes of what versions are said to be.
    revision: AtomicU64,
    service: ArcSwapOption<Service>,
}

impl Remotes {
    pub(super) fn new(config: Option<RemoteConfig>) -> Self {
        Self {
            config,
            stores: Mutex::default(),
            revision: AtomicU64::new(0),
            service: ArcSwapOption::empty(),
        }
    }

    /// The problem that no bucket is configured.
    #[must_use]
    pub fn no_bucket() -> Problem {
        let hint = "name one in [remote] of the configuration (docs/remote.md)";
        Problem::new(Code::Invalid, "no bucket is configured", hint)
    }

    /// What is configured, if something is.
    #[must_use]
    pub fn config(&self) -> Option<&RemoteConfig> {
        self.config.as_ref()
    }

    /// How a store stands; nothing without a bucket.
    #[must_use]
    pub fn standing(&self, store: &StoreName) -> Option<Standing> {
        self.config.as_ref()?;
        Some(self.lock().get(store).map(|store| store.standing.borrow().clone()).unwrap_or_default())
    }

    /// Where a version is; nothing without a bucket.
    #[must_use]
    pub fn state(&self, id: &VersionId) -> Option<RemoteState> {
        self.config.as_ref()?;
        let stores = self.lock();
        let Some(standing) = stores.get(&id.store).map(|store| store.standing.borrow()) else {
            return Some(RemoteState::Pending);
        };
        Some(match (standing.stored.contains(&id.number), standing.is_fenced) {
            (true, _) => RemoteState::Stored,
            (false, true) => RemoteState::Fenced,
            (false, false) => RemoteState::Pending,
        })
    }

    /// What tells a list of versions from one that was written before something of this has changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Which of these versions must not be given up, as they are nowhere else.
    pub(super) fn held(&self, versions: &[VersionId]) -> Vec<VersionId> {
        if self.config.as_ref().is_none_or(|config| !config.required) {
            return Vec::new();
        }
        let is_held = |id: &&VersionId| self.state(id) != Some(RemoteState::Stored);
        versions.iter().filter(is_held).cloned().collect()
    }

    /// The stores that have been behind for longer than the configuration allows, as alarms.
    pub(super) fn late(&self) -> Vec<Step> {
        let Some(config) = &self.config else { return Vec::new() };
        let late = |(store, pushed): (&StoreName, &StorePush)| {
            let standing = pushed.standing.borrow();
            let since = standing.behind.filter(|since| since.elapsed() >= config.late_after)?;
            let minutes = since.elapsed().as_secs() / 60;
            let (why, hint) = match &standing.trouble {
                Some((problem, _)) => (problem.detail.clone(), problem.hint.clone()),
                None => ("it is being stored".to_owned(), "look at the line to the bucket".to_owned()),
            };
            let text =
                format!("versions of {store} have not been in the bucket for {minutes} minutes: {why}");
            Some(guard::unstored(store, text, hint))
        };
        self.lock().iter().filter_map(late).collect()
    }

    /// The service, once it was tried.
    #[must_use]
    pub fn service(&self) -> Option<Arc<Service>> {
        self.service.load_full()
    }

    /// Notes the service, to tell what is asked of it.
    fn served_by(&self, service: Arc<Service>) {
        self.service.store(Some(service));
    }

    /// Returns when a version is in the bucket, and what is recorded beside the versions up to this file of the archive.
    ///
    /// # Errors
    /// What keeps it from there, if that does not pass by itself.
    pub async fn until_stored(&self, id: &VersionId, records: u64) -> Result<(), Problem> {
        let mut changes = self.watch(&id.store);
        let mut awaited = Some(self.awaited(&id.store));
        loop {
            let standing = changes.borrow_and_update().clone();
            if standing.stored.contains(&id.number) && standing.records >= records {
                return Ok(());
            }
            if let Some((problem, _)) = standing.trouble.filter(|(problem, _)| !passes(problem.code)) {
                let detail = format!("{id} is published here, and not in the bucket: {}", problem.detail);
                return Err(Problem { detail, ..problem });
            }
            awaited.take().iter().for_each(|awaited| awaited.notify_one());
            if changes.changed().await.is_err() {
                return Err(Problem::new(
                    Code::Stopping,
                    format!("{id} is not in the bucket yet"),
                    "try again",
                ));
            }
        }
    }

    /// Has this daemon publish a store from now on, instead of the machine that does so far. The answer comes later.
    ///
    /// # Errors
    /// If no bucket is configured, or the store is not pushed.
    pub fn take_over(&self, store: &StoreName) -> Result<RemoteAnswer, Problem> {
        self.command(store, Command::TakeOver)
    }

    /// Has all of a store's archive be pushed at once, also what could wait, and what has failed and would be tried again later.
    ///
    /// # Errors
    /// As [`Self::take_over`].
    pub fn push(&self, store: &StoreName) -> Result<RemoteAnswer, Problem> {
        self.command(store, Command::Push)
    }

    fn command(
        &self,
        store: &StoreName,
        command: impl FnOnce(oneshot::Sender<Result<(), Problem>>) -> Command,
    ) -> Result<RemoteAnswer, Problem> {
        if self.config.is_none() {
            return Err(Self::no_bucket());
        }
        let (answer, answered) = oneshot::channel();
        let stores = self.lock();
        let thread = stores.get(store).and_then(|store| store.thread.as_ref());
        if thread.is_some_and(|thread| thread.send(command(answer)).is_ok()) {
            return Ok(answered);
        }
        Err(Problem::new(Code::UnknownStore, format!("store {store} has no archive"), "restart the daemon"))
    }

    /// What is notified when somebody begins to wait until something of a store is in the bucket.
    fn awaited(&self, store: &StoreName) -> Arc<Notify> {
        Arc::clone(&self.lock().entry(store.clone()).or_default().awaited)
    }

    /// Whether somebody waits until something of a store is in the bucket.
    fn has_waiting(&self, store: &StoreName) -> bool {
        self.lock().get(store).is_some_and(|store| store.standing.receiver_count() > 0)
    }

    /// Notes the way to the thread that pushes a store.
    fn pushed_by(&self, store: &StoreName, thread: mpsc::UnboundedSender<Command>) {
        self.lock().entry(store.clone()).or_default().thread = Some(thread);
    }

    fn watch(&self, store: &StoreName) -> watch::Receiver<Standing> {
        self.lock().entry(store.clone()).or_default().standing.subscribe()
    }

    /// Changes how a store stands.
    fn change(&self, store: &StoreName, change: impl FnOnce(&mut Standing)) {
        self.lock().entry(store.clone()).or_default().standing.send_modify(change);
        self.revision.fetch_add(1, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<StoreName, StorePush>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a problem may pass without anybody doing anything.
fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::RemoteUnavailable | Code::StorageFull | Code::InUse | Code::TooManyFiles | Code::Internal
    )
}
