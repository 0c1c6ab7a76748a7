//! What each new version of a store changed, told in the order of the versions: as an event, and to the command of the configuration.
//!
//! Each reader has a thread of its own, and a note of the newest version that it was told of. A thread looks again whenever something was
//! committed, so that nothing is missed, and a restarted daemon goes on where the last one ended. Comparing waits until a version is in
//! the archive, and gives way to everything else that runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use asat_core::register::History;
use asat_core::version::{State, Version};
use asat_core::{Problem, StoreName, VersionId};
use asat_host::{machine, program};
use asat_wire::Diff;
use tokio::sync::watch;

use super::{Comparisons, Handle, Notice, failed};

/// How long the command may take.
const DEADLINE: Duration = Duration::from_secs(300);
/// After how long a command that failed is started again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The threads of the readers.
pub(super) struct Feed {
    command: Arc<Mutex<Vec<String>>>,
    stop: watch::Sender<bool>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Feed {
    /// Begins to tell.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(
        handle: &Handle,
        comparisons: &Arc<Comparisons>,
        command: &[String],
    ) -> Result<Self, Problem> {
        let (stop, stopped) = watch::channel(false);
        let command = Arc::new(Mutex::new(command.to_vec()));
        let mut feed =
            Self { command: Arc::clone(&command), stop, stopping: Arc::default(), threads: Vec::new() };
        let events = handle.clone();
        feed.spawn("feed", handle, comparisons, &stopped, move |diff| {
            events.notify(Notice::Diff(Arc::new(diff()?)));
            Some(true)
        })?;
        let stopping = Arc::clone(&feed.stopping);
        feed.spawn("feed-command", handle, comparisons, &stopped, move |diff| {
            let command = command.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if command.is_empty() { Some(true) } else { Some(run(&command, &diff()?, &stopping)) }
        })?;
        Ok(feed)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        handle: &Handle,
        comparisons: &Arc<Comparisons>,
        stopped: &watch::Receiver<bool>,
        tell: impl FnMut(&Compare<'_>) -> Option<bool> + Send + 'static,
    ) -> Result<(), Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| failed("start what tells of changes", &error))?;
        let reader = Reader {
            name,
            archived: handle.archived(),
            handle: handle.clone(),
            comparisons: Arc::clone(comparisons),
            stopping: Arc::clone(&self.stopping),
            told: begun(name, handle, comparisons),
            tell,
            retry: RETRY.0,
        };
        let stopped = stopped.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            machine::give_way();
            runtime.block_on(reader.read(stopped));
        });
        self.threads.push(thread.map_err(|error| failed("start what tells of changes", &error))?);
        Ok(())
    }

    /// From now on this command is told.
    pub(super) fn configure(&self, command: &[String]) {
        *self.command.lock().unwrap_or_else(PoisonError::into_inner) = command.to_vec();
    }

    /// Ends all threads. What was not told yet is told after the next start.
    pub(super) fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("what tells of changes ended with a panic; the next start continues it");
            }
        }
    }
}

/// Starts the command for what a version changed; answers whether that succeeded.
fn run(command: &[String], diff: &Diff, stopping: &AtomicBool) -> bool {
    let store = diff.to.split('@').next().unwrap_or_default();
    let since = diff.from.clone().unwrap_or_default();
    let environment = [("ASAT_STORE", store), ("ASAT_VERSION", &diff.to), ("ASAT_SINCE", &since)];
    let input = serde_json::to_vec(diff).unwrap_or_default();
    let is_over = || stopping.load(Ordering::Relaxed);
    match program::run_with(command, &environment, &input, DEADLINE, is_over) {
        Ok(()) => {
            tracing::info!(version = diff.to, "the command of the feed has the message");
            true
        }
        Err(error) if is_over() => {
            tracing::warn!(
                version = diff.to,
                "the command of the feed gets the message again after the next start: {error}"
            );
            false
        }
        Err(error) => {
            tracing::error!(version = diff.to, "the command of the feed, which is started again: {error}");
            false
        }
    }
}

/// Who is told, and of what already.
struct Reader<Tell> {
    name: &'static str,
    handle: Handle,
    comparisons: Arc<Comparisons>,
    archived: watch::Receiver<()>,
    stopping: Arc<AtomicBool>,
    /// The newest version of each store that was told of.
    told: BTreeMap<StoreName, u64>,
    /// Answers whether it has taken what a version changed; else it is told again. What it does not ask for, is not compared.
    tell: Tell,
    /// After how long.
    retry: Duration,
}

/// Tells what a version changed; nothing if that was given up because the daemon stops.
type Compare<'a> = dyn Fn() -> Option<Diff> + 'a;

/// What there is to tell of a store.
#[derive(Default)]
enum Next {
    /// A version, and the one before it.
    Version(VersionId, Option<VersionId>),
    /// Versions up to this number are none that can be told.
    Passed(u64),
    /// Nothing, or what is next is not in the archive yet.
    #[default]
    Nothing,
}

impl<Tell: FnMut(&Compare<'_>) -> Option<bool>> Reader<Tell> {
    /// Tells what is new, now and whenever something was committed, until the daemon stops.
    async fn read(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let has_all = self.tell_all();
            let pause = if has_all { None } else { Some(self.retry) };
            self.retry = if has_all { RETRY.0 } else { (self.retry * 2).min(RETRY.1) };
            tokio::select! {
                () = wait(&mut self.archived, pause) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }

    /// Tells of every store what is new. Answers whether all of it was taken.
    fn tell_all(&mut self) -> bool {
        let stores: Vec<StoreName> = {
            let engine = self.handle.engine();
            engine.register().stores().map(|history| history.store.name.clone()).collect()
        };
        // What one store has is told even if that of another was not taken.
        let taken: Vec<bool> = stores.iter().map(|store| self.tell_of(store)).collect();
        !taken.contains(&false)
    }

    /// Tells what is new of a store.
    fn tell_of(&mut self, store: &StoreName) -> bool {
        // Of a store that has come since the start, all is news.
        let mut told = self.told.get(store).copied().unwrap_or(0);
        // What is not told when the daemon stops, is told after the next start.
        while !self.stopping.load(Ordering::Relaxed) {
            if self.told.insert(store.clone(), told) != Some(told) {
                self.comparisons.summaries.tell(self.name, store, told);
            }
            match self.look(store, |history| next(history, told)) {
                Next::Nothing => return true,
                Next::Passed(number) => told = number,
                Next::Version(id, since) => {
                    let compare = || diff(&self.comparisons, &id, since.as_ref(), &self.stopping);
                    match (self.tell)(&compare) {
                        Some(true) => told = id.number,
                        Some(false) => return false,
                        None => return true,
                    }
                }
            }
        }
        true
    }

    fn look<T: Default>(&self, store: &StoreName, look: impl FnOnce(&History) -> T) -> T {
        self.handle.engine().register().history(store).map(look).unwrap_or_default()
    }
}

/// What a version changed, or why nobody can say.
fn diff(
    comparisons: &Comparisons,
    id: &VersionId,
    since: Option<&VersionId>,
    stopping: &Arc<AtomicBool>,
) -> Option<Diff> {
    let nothing = |problem| {
        let from = since.map(ToString::to_string);
        Some(Diff { from, to: id.to_string(), tables: Vec::new(), problem })
    };
    let Some(since) = since else { return nothing(None) };
    match comparisons.diff(since, id, stopping) {
        // A comparison that was given up says nothing of the version.
        _ if stopping.load(Ordering::Relaxed) => None,
        Ok(diff) => Some(diff),
        Err(problem) => {
            tracing::warn!(version = %id, "{id}: cannot be compared with {since}: {problem}");
            nothing(Some(problem.to_string()))
        }
    }
}

/// Waits until something has come into an archive; if something failed, until it is time to try again.
async fn wait(archived: &mut watch::Receiver<()>, pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None if archived.changed().await.is_ok() => {}
        // The daemon is about to stop.
        None => std::future::pending().await,
    }
}

/// The newest version of each store that a reader was told of. That is found out before anything can be published: what comes later is news.
fn begun(name: &str, handle: &Handle, comparisons: &Comparisons) -> BTreeMap<StoreName, u64> {
    let engine = handle.engine();
    let of_store = |history: &History| {
        let store = history.store.name.clone();
        // What was there before anybody was told is no news.
        let newest = history.newest_readable().map_or(0, |entry| entry.version.id.number);
        let told = comparisons.summaries.told(name, &store).unwrap_or(newest);
        // In a state folder that was put back from a backup, versions come anew that were told of.
        let told = told.min(history.next_number() - 1);
        comparisons.summaries.tell(name, &store, told);
        (store, told)
    };
    engine.register().stores().map(of_store).collect()
}

/// What comes after the version of this number.
fn next(history: &History, told: u64) -> Next {
    let Some(entry) = history.versions.range(told + 1..).next() else { return Next::Nothing };
    let version = &entry.version;
    match version.state {
        State::Cutting => Next::Nothing,
        State::Ready if !version.is_archived() => Next::Nothing,
        State::Ready => {
            let is_readable = |version: &&Version| version.state == State::Ready && version.is_archived();
            let before = history.versions.range(..version.id.number).rev().map(|entry| &entry.version);
            Next::Version(
                version.id.clone(),
                before.filter(is_readable).map(|version| version.id.clone()).next(),
            )
        }
        State::Retiring | State::Retired | State::Failed | State::Lost => Next::Passed(version.id.number),
    }
}
