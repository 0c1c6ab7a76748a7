//! The threads that push: each store has one, and all share the service.
//!
//! A thread looks at its archive whenever something has come into one, and pushes what the bucket does not have. What only moves within the
//! archive can wait for a while, as it may have moved again by then. What fails is tried again, later and later; if somebody else
//! publishes the store, only when a person says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use asat_archive::Archive;
use asat_core::{Code, Problem, StoreName};
use asat_host::machine;
use asat_remote::{Error, Holder, Manifest, NoteFile, Publisher, Repository, Service, Stop, put_back};
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use super::{Command, Standing};
use crate::config::{self, Config, RemoteConfig};
use crate::daemon::{Handle, Machine, failed};

/// After how long something that failed is tried again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// For how long it waits for a merge that begins with what has come, unless somebody waits for the bucket: it then gets what that makes alone,
/// and not what it is made of too.
const MERGE: Duration = Duration::from_secs(15);
/// How long it may take until what moves within an archive, or is given up, is so in the bucket, if nothing is published: it comes there
/// with the next publication else, which saves requests.
const MOVED: Duration = Duration::from_secs(3600);

/// All threads, and what they share.
pub(in crate::daemon) struct Pushing {
    shared: Arc<Shared>,
    threads: Mutex<BTreeMap<StoreName, JoinHandle<()>>>,
}

struct Shared {
    config: RemoteConfig,
    /// The repository, once it was found and tried.
    repository: Mutex<Opening>,
    stop: Stop,
    /// Sends nothing, and is closed when the threads are to end.
    stopped: watch::Sender<bool>,
    machine: Arc<Machine>,
    handle: Handle,
    holder: Holder,
}

impl Pushing {
    /// Begins to push, if a bucket is configured. It is not asked anything before a thread runs, so a daemon starts without it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(in crate::daemon) fn start(
        config: &Config,
        handle: &Handle,
        machine: &Arc<Machine>,
    ) -> Result<Option<Self>, Problem> {
        let Some(remote) = &config.remote else { return Ok(None) };
        let stop = Stop::new();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let shared = Shared {
            config: remote.clone(),
            repository: Mutex::default(),
            stop,
            stopped: watch::Sender::new(false),
            machine: Arc::clone(machine),
            handle: handle.clone(),
            holder: Holder { host, process: Uuid::now_v7().to_string() },
        };
        let pushing = Self { shared: Arc::new(shared), threads: Mutex::default() };
        pushing.push_all()?;
        Ok(Some(pushing))
    }

    /// Pushes the stores that have come since, too.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(in crate::daemon) fn push_all(&self) -> Result<(), Problem> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for store in self.shared.machine.archives().stores() {
            if !threads.contains_key(&store) {
                threads.insert(store.clone(), start(&self.shared, store)?);
            }
        }
        Ok(())
    }

    /// Ends all threads. What is under way is broken off, and goes on after the next start.
    pub(in crate::daemon) fn stop(self) {
        self.shared.stop.stop();
        self.shared.stopped.send_replace(true);
        for (store, thread) in self.threads.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if thread.join().is_err() {
                tracing::error!(%store, "what pushes {store} ended with a panic; the next start continues it");
            }
        }
    }
}

/// Starts the thread of a store.
fn start(shared: &Arc<Shared>, store: StoreName) -> Result<JoinHandle<()>, Problem> {
    let unstarted = |error: std::io::Error| failed("start what pushes to the bucket", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(unstarted)?;
    let (commands, heard) = mpsc::unbounded_channel();
    shared.machine.remotes().pushed_by(&store, commands);
    let pusher = Pusher {
        shared: Arc::clone(shared),
        store,
        publisher: None,
        pushed: None,
        put_back: BTreeSet::new(),
        merges_late: false,
        retry: RETRY.0,
    };
    let thread = Builder::new().name("push".to_owned()).spawn(move || {
        machine::give_way();
        pusher.run(&runtime, heard);
    });
    thread.map_err(unstarted)
}

/// What one thread has.
struct Pusher {
    shared: Arc<Shared>,
    store: StoreName,
    publisher: Option<Publisher>,
    /// The archive's newest file when all of it was last in the bucket, and when that was.
    pushed: Option<(u64, Instant)>,
    /// Files of the archive that were put back, or are as the bucket has them. The archive sees that when it is opened next.
    put_back: BTreeSet<u64>,
    /// Whether the last merge that it waited for took too long.
    merges_late: bool,
    /// After how long the next failure is tried again.
    retry: Duration,
}

/// Why a thread goes on.
enum Wake {
    /// Something has come into an archive, or it is time.
    Look,
    /// Somebody says so.
    Command(Command),
    /// The daemon stops.
    Stop,
}

impl Pusher {
    fn run(mut self, runtime: &Runtime, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut archived = self.shared.handle.archived();
        let mut stopped = self.shared.stopped.subscribe();
        let awaited = self.shared.machine.remotes().awaited(&self.store);
        loop {
            archived.mark_unchanged();
            let pause = self.push();
            let wake = runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => return Wake::Stop,
                    Some(word) = commands.recv() => return Wake::Command(word),
                    () = sleep(pause) => return Wake::Look,
                    () = awaited.notified(), if self.looks_at_once() => return Wake::Look,
                    Ok(()) = archived.changed(), if self.looks_at_once() => {}
                    else => return Wake::Stop,
                }
                tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => Wake::Stop,
                    Some(word) = commands.recv() => Wake::Command(word),
                    () = awaited.notified() => Wake::Look,
                    () = self.until_merged(&mut archived) => Wake::Look,
                }
            });
            match wake {
                Wake::Look => {}
                Wake::Command(Command::TakeOver(answer)) => _ = answer.send(self.take_over()),
                Wake::Command(Command::Push(answer)) => _ = answer.send(self.push_now()),
                Wake::Stop => return,
            }
        }
    }

    /// Waits for a short time until the archive has nothing to merge, unless somebody waits for the bucket. If that was not enough, it is not
    /// waited for before it was merged: the disk may have no room for it, or the segments are long.
    async fn until_merged(&mut self, archived: &mut watch::Receiver<()>) {
        let Ok(archive) = self.shared.machine.archives().of(&self.store) else { return };
        if !archive.is_worth_compacting() {
            self.merges_late = false;
        } else if !self.merges_late && !self.shared.machine.remotes().has_waiting(&self.store) {
            let merged = async { while archive.is_worth_compacting() && archived.changed().await.is_ok() {} };
            self.merges_late = tokio::time::timeout(MERGE, merged).await.is_err();
        }
    }

    /// Whether it looks at once when something has come. What fails is tried again in its time.
    fn looks_at_once(&self) -> bool {
        self.standing().trouble.is_none()
    }

    fn standing(&self) -> Standing {
        self.shared.machine.remotes().standing(&self.store).unwrap_or_default()
    }

    /// Pushes what there is. Answers after how long it looks again in any case; not by itself if somebody else publishes the store.
    fn push(&mut self) -> Option<Duration> {
        if self.standing().is_fenced {
            return None;
        }
        let archive = match self.shared.machine.archives().of(&self.store) {
            Ok(archive) => archive,
            Err(problem) => return self.settle(Err(problem)),
        };
        let (newest, records) = (archive.newest_file(), archive.newest_records());
        let standing = self.standing();
        if let Some((pushed, at)) = self.pushed.filter(|_| standing.trouble.is_none()) {
            let is_stored = standing.records == records
                && archive.newest().is_none_or(|newest| standing.stored.contains(&newest));
            let waits = MOVED.saturating_sub(at.elapsed());
            if pushed == newest || is_stored && !waits.is_zero() {
                return Some(if pushed == newest { MOVED } else { waits });
            }
        }
        if standing.behind.is_none() {
            self.change(|standing| standing.behind = Some(Instant::now()));
        }
        let pushed = self.try_push(&archive, records);
        self.pushed = pushed.is_ok().then(|| (newest, Instant::now()));
        self.settle(pushed)
    }

    fn try_push(&mut self, archive: &Archive, records: u64) -> Result<(), Problem> {
        let mut pushed = self.publisher()?.push(archive);
        if let Err(Error::Unreadable { file, .. }) = &pushed
            && archive.is_of_records(*file)
            && !self.shared.machine.has_unread_records(&self.store)
        {
            // The catalogue has what it said.
            self.shared.machine.write_records_anew(&self.store)?;
            pushed = self.publisher()?.push(archive);
        }
        let head = self.publisher.as_ref().and_then(Publisher::head).cloned().map(Arc::new);
        if let Ok(versions) = &pushed {
            let stored = Arc::new(versions.iter().copied().collect());
            self.change(|standing| {
                standing.stored = stored;
                standing.records = records;
                standing.manifest = head.clone();
                standing.behind = None;
            });
        }
        if let (Some(head), Ok(_) | Err(Error::Unread { .. })) = (&head, &pushed) {
            self.put_back(archive, head)?;
        }
        Ok(pushed.map(drop)?)
    }

    /// Puts back from the bucket what the archive has lost. The versions that need it are there again at the next start.
    fn put_back(&mut self, archive: &Archive, head: &Manifest) -> Result<(), Problem> {
        let history = self.shared.repository()?.history(&self.store);
        for number in archive.files()?.lost_numbers() {
            if self.put_back.contains(&number) {
                continue;
            }
            let store = &self.store;
            match put_back(&history, head, number, archive.folder()) {
                Ok(true) => {
                    tracing::warn!(%store, "{store}: file {number} of its archive was lost, and is put back from the bucket");
                }
                Ok(false) => {}
                // Who publishes need not be able to read what it has stored.
                Err(error @ Error::Encrypted { .. }) => {
                    let problem = Problem::from(error);
                    tracing::error!(%store, "{store}: file {number} of its archive was lost, and is not put back: {problem}");
                }
                Err(error) => return Err(error.into()),
            }
            self.put_back.insert(number);
        }
        Ok(())
    }

    /// Pushes all of the archive at once, and answers what came of it.
    fn push_now(&mut self) -> Result<(), Problem> {
        // Nothing is taken for granted: it looks for each file in the bucket anew.
        (self.pushed, self.publisher) = (None, None);
        self.push();
        let standing = self.standing();
        standing.trouble.map_or(Ok(()), |(problem, _)| Err(problem))
    }

    fn take_over(&mut self) -> Result<(), Problem> {
        let archive = self.shared.machine.archives().of(&self.store)?;
        let taken = self.publisher()?.take_over(&*archive)?;
        tracing::warn!(store = %self.store, manifest = taken.number, "{}: is published to the bucket from here now", self.store);
        let head = Arc::new(taken);
        self.change(|standing| {
            standing.is_fenced = false;
            standing.trouble = None;
            standing.manifest = Some(head);
        });
        Ok(())
    }

    /// The publisher. The repository is opened and tried when it is needed first.
    fn publisher(&mut self) -> Result<&mut Publisher, Problem> {
        let publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => {
                let repository = self.shared.repository()?;
                let archive = self.shared.machine.archives().of(&self.store)?;
                let note = NoteFile(archive.folder().join(asat_archive::REMOTE_NOTE));
                Publisher::new(&repository, &self.store, self.shared.holder.clone(), Box::new(note))
            }
        };
        Ok(self.publisher.insert(publisher))
    }

    /// Takes note of what came of a push.
    fn settle(&mut self, pushed: Result<(), Problem>) -> Option<Duration> {
        let before = self.standing().trouble;
        let Err(problem) = pushed else {
            if before.is_some() {
                tracing::info!(store = %self.store, "{}: comes into the bucket again", self.store);
                self.change(|standing| standing.trouble = None);
            }
            self.retry = RETRY.0;
            return Some(MOVED);
        };
        if problem.code == Code::Stopping {
            return None;
        }
        let is_fenced = problem.code == Code::Fenced;
        let since = before.as_ref().map_or_else(Timestamp::now, |(_, since)| *since);
        // Each try may say it in other commands.
        if before.is_none_or(|(before, _)| before.code != problem.code) {
            tracing::error!(store = %self.store, "{}: does not come into the bucket: {problem}", self.store);
        }
        self.change(|standing| {
            standing.trouble = Some((problem, since));
            standing.is_fenced = is_fenced;
        });
        let pause = self.retry;
        self.retry = (self.retry * 2).min(RETRY.1);
        Some(pause).filter(|_| !is_fenced)
    }

    fn change(&self, change: impl FnOnce(&mut Standing)) {
        self.shared.machine.remotes().change(&self.store, change);
    }
}

impl Shared {
    /// The repository. The service is tried when it is opened first: whether it keeps two publishers apart. All stores need it, and one
    /// of them tries at a time.
    fn repository(&self) -> Result<Repository, Problem> {
        let Ok(mut opening) = self.repository.try_lock() else {
            let detail = format!("{} has not answered yet", self.config.place.url);
            return Err(Problem::new(
                Code::RemoteUnavailable,
                detail,
                "look at the network and at the service",
            ));
        };
        match &*opening {
            Opening::Open(repository) => return Ok(repository.clone()),
            Opening::Failed(problem, at) if at.elapsed() < RETRY.0 => return Err(problem.clone()),
            Opening::Failed(..) | Opening::Untried => {}
        }
        match self.open() {
            Ok(repository) => {
                *opening = Opening::Open(repository.clone());
                Ok(repository)
            }
            Err(problem) => {
                *opening = Opening::Failed(problem.clone(), Instant::now());
                Err(problem)
            }
        }
    }

    fn open(&self) -> Result<Repository, Problem> {
        let RemoteConfig { place, recipients, .. } = &self.config;
        let (identities, recipients) = (place.identities()?, config::recipients(recipients)?);
        let service = Service::open_with(&place.url, self.stop.clone(), &place.options())?;
        let service = Arc::new(service);
        self.machine.remotes().served_by(Arc::clone(&service));
        let repository = Repository::open(service)?.encrypted_to(recipients.as_ref())?;
        repository.probe()?;
        Ok(repository.read_with(identities))
    }
}

/// How far the opening of the repository has come.
#[derive(Default)]
enum Opening {
    #[default]
    Untried,
    Open(Repository),
    Failed(Problem, Instant),
}

/// Waits; for ever if there is nothing to wait for.
async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
