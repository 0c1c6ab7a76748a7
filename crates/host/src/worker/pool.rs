//! The workers of all stores: one that waits is taken for the next request, and ends after a while.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::error::Trouble;
use super::identity::Identity;
use super::process::Process;
use super::words::Place;
use crate::store::{Error, Target, owner_of};

/// How many workers wait at most, of all stores.
const MOST_IDLE: usize = 16;
/// For how long one waits.
const IDLE: Duration = Duration::from_secs(60);

/// Processes that work on stores.
#[derive(Clone, Debug)]
pub struct Workers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    arguments: Vec<OsString>,
    idle: Mutex<Waiting>,
    /// The owner of each store, as it was when the store was first seen.
    owners: Mutex<BTreeMap<PathBuf, Owner>>,
    failures: AtomicU64,
}

/// Whose a store is.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    user: u32,
    /// As whom the store's workers act; nothing where that is this process's own user.
    pub(super) identity: Option<Identity>,
}

/// The workers that wait.
#[derive(Debug, Default)]
struct Waiting {
    workers: Vec<Idle>,
    /// Whether a thread looks after them: one does for all, however often they are taken and kept again.
    is_looked_after: bool,
}

/// A worker that waits.
#[derive(Debug)]
struct Idle {
    key: Key,
    process: Process,
    since: Instant,
}

/// What a worker was started for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    path: PathBuf,
    identity: Option<Identity>,
}

/// A worker that is at work. It ends with the value, unless it is done.
#[derive(Debug)]
pub(super) struct Lent {
    workers: Workers,
    key: Key,
    owner: Option<u32>,
    process: Option<Process>,
    /// Whether it serves nobody else when it is done.
    is_bound: bool,
}

/// As whom a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    /// As the store's owner, where this process is root.
    Owner,
    /// As this process's own user.
    Own,
}

impl Workers {
    /// Workers that are started so: a program that calls [`serve`](super::serve()). It is told whom to act as by `--as-user` and an
    /// [`Identity`].
    #[must_use]
    pub fn new(program: &Path, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(OsString::from).collect();
        Self(Arc::new(Inner {
            program: program.to_owned(),
            arguments,
            idle: Mutex::default(),
            owners: Mutex::default(),
            failures: AtomicU64::new(0),
        }))
    }

    /// Takes note of who owns a store, where it is there: its workers act as that user from now on, and refuse another one's file.
    pub fn pin_owner(&self, path: &Path) {
        // Where it cannot be told yet, it is at the first request.
        let _ = self.owner(path);
    }

    /// How often a worker has failed: ended, did not answer, or said what it should not.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    pub(super) fn owner(&self, path: &Path) -> Result<Owner, Error> {
        if let Some(owner) = lock(&self.0.owners).get(path) {
            return Ok(owner.clone());
        }
        // A file system or a directory of users that does not answer holds up this store alone.
        let user = owner_of(path)?;
        let identity = Identity::of_owner(user).map_err(|error| Error::from_io("look at", path, error))?;
        let owner = Owner { user, identity };
        // Who was found first stays.
        Ok(lock(&self.0.owners).entry(path.to_owned()).or_insert(owner).clone())
    }

    /// A worker for a store, which waits for the first order.
    pub(super) fn lend(&self, path: &Path, whom: As) -> Result<Lent, Error> {
        let owner = if whom == As::Owner { Some(self.owner(path)?) } else { None };
        let (owner, identity) = owner.map(|owner| (owner.user, owner.identity)).unzip();
        let identity = identity.flatten();
        let key = Key { path: path.to_owned(), identity };
        let process = match self.waiting(&key) {
            Some(process) => process,
            None => self.start(&key).map_err(|trouble| self.count(trouble).of(path))?,
        };
        Ok(Lent { workers: self.clone(), key, owner, process: Some(process), is_bound: false })
    }

    fn waiting(&self, key: &Key) -> Option<Process> {
        loop {
            let idle = {
                let idle = &mut lock(&self.0.idle).workers;
                let index = idle.iter().rposition(|idle| idle.key == *key)?;
                idle.remove(index)
            };
            let mut process = idle.process;
            if process.is_ready() {
                return Some(process);
            }
        }
    }

    fn start(&self, key: &Key) -> Result<Process, Trouble> {
        let mut arguments = self.0.arguments.clone();
        if let Some(identity) = &key.identity {
            arguments.extend(["--as-user".into(), identity.to_string().into()]);
        }
        Process::start(&self.0.program, &arguments)
    }

    fn count(&self, trouble: Trouble) -> Trouble {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        trouble
    }

    /// Keeps a worker for the next request.
    fn keep(&self, key: Key, process: Process) {
        let mut idle = lock(&self.0.idle);
        idle.workers.push(Idle { key, process, since: Instant::now() });
        let surplus = if idle.workers.len() > MOST_IDLE { Some(idle.workers.remove(0)) } else { None };
        if !idle.is_looked_after {
            let workers = Arc::downgrade(&self.0);
            let thread = thread::Builder::new().name("store-workers".to_owned());
            // Without a thread they wait until the next one is kept, and end with the daemon in any case.
            idle.is_looked_after = thread.spawn(move || end_idle(&workers)).is_ok();
        }
        drop(idle);
        // To end takes a moment, in which nobody else is kept waiting.
        drop(surplus);
    }
}

/// Ends the workers that have waited for long, until none waits.
fn end_idle(workers: &Weak<Inner>) {
    loop {
        thread::sleep(IDLE / 2);
        let Some(workers) = workers.upgrade() else { return };
        let mut idle = lock(&workers.idle);
        let old = idle.workers.extract_if(.., |idle| idle.since.elapsed() >= IDLE).collect::<Vec<_>>();
        idle.is_looked_after = !idle.workers.is_empty();
        let is_over = !idle.is_looked_after;
        drop(idle);
        drop(old);
        if is_over {
            return;
        }
    }
}

impl Owner {
    /// A store of this owner's, as it is named to a worker.
    pub(super) fn place(&self, path: &Path) -> Place {
        Place::from(&Target { path: path.to_owned(), owner: Some(self.user) })
    }
}

impl Lent {
    /// The store, as it is named to the worker.
    pub(super) fn place(&self) -> Place {
        Place::from(&Target { path: self.key.path.clone(), owner: self.owner })
    }

    /// Where the store is.
    pub(super) fn path(&self) -> &Path {
        &self.key.path
    }

    /// Does something with the worker. Where that fails, the worker has ended.
    pub(super) fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Process) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        let gone = || Trouble::Ended(None);
        let done = self.process.as_mut().ok_or_else(gone).and_then(work);
        done.map_err(|trouble| {
            self.process = None;
            self.workers.count(trouble).of(&self.key.path)
        })
    }

    /// Has the worker serve nobody else: it keeps something between two requests.
    pub(super) fn bind(&mut self) {
        self.is_bound = true;
    }

    /// Ends the worker, which still has something to say that nobody wants to hear.
    pub(super) fn give_up(&mut self) {
        self.process = None;
    }

    /// Whether the worker has ended.
    pub(super) fn is_over(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.is_spoiled)
    }

    /// Ends the request: the worker waits for the next one.
    pub(super) fn done(&mut self) {
        if self.is_bound {
            return;
        }
        if let Some(process) = self.process.take().filter(|process| !process.is_spoiled) {
            self.workers.keep(self.key.clone(), process);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
