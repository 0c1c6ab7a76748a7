//! The way to the engine for everybody but the driver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use asat_catalogue::{Catalogue, Trail};
use asat_core::audit::{Filter, Page, Place, Verdict};
use asat_core::event::{Event, Reply};
use asat_core::guard::GuardEntry;
use asat_core::version::Lease;
use asat_core::{By, Code, Engine, Policy, Problem, StoreName, VersionId};
use asat_shell::{Heard, SharedEngine};
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::timeout;

use super::failures::Failures;
use super::guard::{Alarm, GuardStatus};
use super::message::Message;
use super::notices::{Notice, Notices};
use super::watch::Watches;
use crate::metrics::Metrics;

/// How long somebody waits at most until a version is in the archive.
const ARCHIVING_PATIENCE: Duration = Duration::from_secs(30);

/// What is wrong with the catalogue, if something is, as whoever looks at it has last found.
#[derive(Clone, Debug, Default)]
pub struct LastFound(Arc<RwLock<Option<Problem>>>);

impl LastFound {
    /// What was found, if something was.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes in what is found now; answers whether it is news.
    pub(super) fn set(&self, problem: Option<Problem>) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, problem.clone()) != problem
    }
}

/// The way to the engine for everybody else: send an event, read the state, listen to what happens.
#[derive(Clone)]
pub struct Handle {
    messages: Sender<Message>,
    engine: Arc<SharedEngine>,
    catalogue: Arc<PathBuf>,
    notices: Notices,
    standing: Arc<RwLock<GuardStatus>>,
    recording: LastFound,
    failures: Failures,
    verified: LastFound,
    watches: Watches,
    metrics: Arc<Metrics>,
}

impl Handle {
    /// The way to a driver that hears these messages.
    pub(super) fn new(
        messages: Sender<Message>,
        engine: Arc<SharedEngine>,
        catalogue: &Path,
        metrics: Arc<Metrics>,
        notices: Notices,
        (recording, failures): (LastFound, Failures),
    ) -> Self {
        let catalogue = Arc::new(catalogue.to_owned());
        let (standing, watches) = (Arc::default(), Watches::default());
        let verified = LastFound::default();
        Self {
            messages,
            engine,
            catalogue,
            notices,
            standing,
            recording,
            failures,
            verified,
            watches,
            metrics,
        }
    }

    /// Sends what somebody wants, and waits for the answer.
    ///
    /// # Errors
    /// What the engine answers; [`Code::Stopping`] where the daemon stops before it does.
    pub async fn ask(&self, by: By, event: Event) -> Result<Reply, Problem> {
        self.ask_and(by, event, |_| {}).await
    }

    /// The same; `then` hears the answer first, on the driver's thread, before anything else is decided.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub async fn ask_and(
        &self,
        by: By,
        event: Event,
        then: impl FnOnce(&Result<Reply, Problem>) + Send + 'static,
    ) -> Result<Reply, Problem> {
        let (sender, answer) = oneshot::channel();
        let listener = move |answer| {
            then(&answer);
            // Somebody who has gone away needs no answer.
            if sender.send(answer).is_ok() { Heard::Caller } else { Heard::Nobody }
        };
        self.messages.send(Message::ask(by, event, listener)).map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Gives a lease back; answers with what tells when that is recorded. If it cannot be, the lease ends by itself.
    pub fn close(&self, by: By, lease: Lease) -> std::sync::mpsc::Receiver<()> {
        let (recorded, wait) = std::sync::mpsc::channel();
        let event = Event::Close { version: lease.version, lease: lease.id };
        let listener = move |_| {
            // Nobody may wait for it.
            let _ = recorded.send(());
            Heard::Daemon
        };
        let _ = self.messages.send(Message::ask(by, event, listener));
        wait
    }

    /// Sends an event for which nobody asked; its answer goes to the listener, on the driver's thread. A daemon that stops answers nothing.
    pub(super) fn tell(&self, event: Event, listener: impl FnOnce(Result<Reply, Problem>) + Send + 'static) {
        let heard = |answer| {
            listener(answer);
            Heard::Daemon
        };
        let _ = self.messages.send(Message::ask(By::asat(), event, heard));
    }

    /// Waits until a version is in the archive that is only in its snapshot yet.
    ///
    /// # Errors
    /// If it cannot be read, or is not there after [`ARCHIVING_PATIENCE`].
    pub async fn until_archived(&self, id: &VersionId) -> Result<(), Problem> {
        let mut archived = self.notices.archived();
        let archived = async {
            while !self.is_archived(id)? {
                archived.changed().await.map_err(|_| stopping())?;
            }
            Ok(())
        };
        timeout(ARCHIVING_PATIENCE, archived).await.unwrap_or_else(|_| {
            let detail = format!("{id} is on its way into the archive");
            let hint = "try again later, or lease it, which reads it in its snapshot";
            Err(Problem::new(Code::InUse, detail, hint))
        })
    }

    /// Whether a version that can be read is in the archive.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_archived(&self, id: &VersionId) -> Result<bool, Problem> {
        let engine = self.engine();
        let version = &engine.register().entry(id)?.version;
        version.check_readable()?;
        Ok(version.is_archived())
    }

    /// Has the engine go by another policy, and waits until what follows from it is committed.
    ///
    /// # Errors
    /// Where that cannot be committed; the policy is the one before then.
    pub(super) fn configure(&self, policy: Policy) -> Result<(), Problem> {
        let (sender, answer) = oneshot::channel();
        let stores: BTreeSet<StoreName> = policy.stores.keys().cloned().collect();
        self.messages.send(Message::Configure(Box::new(policy), sender)).map_err(|_| stopping())?;
        answer.blocking_recv().map_err(|_| stopping())??;
        self.failures.keep(&stores);
        Ok(())
    }

    /// Has it recorded what the guard did.
    pub(super) fn log(&self, entries: Vec<GuardEntry>) {
        // A daemon that stops records nothing more.
        let _ = self.messages.send(Message::Log(entries));
    }

    /// Changes what is known of how the guard stands.
    pub(super) fn change_standing(&self, change: impl FnOnce(&mut GuardStatus)) {
        change(&mut self.standing.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The engine, to read. Do not hold it for long.
    pub fn engine(&self) -> RwLockReadGuard<'_, Engine> {
        self.engine.read()
    }

    /// The engine, for who reads it again and again.
    pub(super) fn shared_engine(&self) -> Arc<SharedEngine> {
        Arc::clone(&self.engine)
    }

    /// How often the engine has taken something in: what was true of it is true still while this is the same. Whoever has it
    /// locked sees no change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.engine.revision()
    }

    /// How the guard stands.
    pub fn standing(&self) -> RwLockReadGuard<'_, GuardStatus> {
        self.standing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything can be recorded, as the driver has last found.
    #[must_use]
    pub fn recording(&self) -> &LastFound {
        &self.recording
    }

    /// Whether the catalogue is what was recorded, as the last verification has found.
    #[must_use]
    pub fn verified(&self) -> &LastFound {
        &self.verified
    }

    /// How watch mode stands.
    #[must_use]
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Why stores could not be published when that was tried last.
    #[must_use]
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// What the daemon counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Notes that somebody knows of an alarm, by its key as people read it; `None` where no such alarm is on.
    pub fn acknowledge(&self, key: &str) -> Option<Alarm> {
        let mut standing = self.standing.write().unwrap_or_else(PoisonError::into_inner);
        let alarm = standing.acknowledge(key, asat_host::clock::now())?;
        drop(standing);
        self.notify(Notice::Alarm(Box::new(alarm.clone()), false));
        Some(alarm)
    }

    /// What the guard did for a version, or for anything where none is named: newest first, at most `limit`.
    ///
    /// # Errors
    /// Where the catalogue cannot be read; [`Code::Stopping`] where the daemon stops before it answers.
    pub async fn guard_log(
        &self,
        version: Option<VersionId>,
        limit: u32,
    ) -> Result<Vec<GuardEntry>, Problem> {
        let (sender, answer) = oneshot::channel();
        self.messages.send(Message::ReadLog(version, limit, sender)).map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// A page of the audit trail: entries that a filter wants, newest first, with numbers below `before`. It is read
    /// beside the driver, and may block.
    ///
    /// # Errors
    /// Where the catalogue cannot be read.
    pub fn trail(&self, filter: &Filter, before: Option<u64>, limit: u32) -> Result<Page, Problem> {
        Ok(Trail::open(&self.catalogue)?.page(filter, before, limit)?)
    }

    /// Whether the audit trail is what was written, and has this place in it where one is given. All of it is read, beside
    /// the driver; that may block.
    ///
    /// # Errors
    /// Where the catalogue cannot be read.
    pub fn verify_trail(&self, noted: Option<Place>) -> Result<Verdict, Problem> {
        Ok(Trail::open(&self.catalogue)?.verify(noted)?)
    }

    /// What is wrong with the catalogue, if something is: whether every record is what was committed, the newest commit is the newest that
    /// was acknowledged, and the audit trail is whole. All of it is read, beside the driver; that may block. What is found is known
    /// until the next verification.
    #[must_use]
    pub fn verify_catalogue(&self) -> Option<Problem> {
        if let Some(problem) = self.recording.problem() {
            return Some(problem);
        }
        let found = self.read_catalogue();
        self.verified.set(found.clone());
        found
    }

    fn read_catalogue(&self) -> Option<Problem> {
        let broken = |(_, what): (u64, String)| {
            let detail = format!("the audit trail in {} is damaged: {what}", self.catalogue.display());
            let hint = "put a copy of the catalogue by `asat backup` in its place (docs/recover.md); the records themselves are whole";
            Problem::new(Code::Damaged, detail, hint)
        };
        match Catalogue::verify(&self.catalogue) {
            Ok(()) => self.verify_trail(None).map_or_else(Some, |verdict| verdict.broken.map(broken)),
            Err(error) => Some(error.into()),
        }
    }

    /// The catalogue's file.
    #[must_use]
    pub fn catalogue(&self) -> &Path {
        &self.catalogue
    }

    /// Tells those who listen.
    pub(super) fn notify(&self, notice: Notice) {
        // Nobody has to listen.
        self.notices.send(notice);
    }

    /// What happens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.notices.listen()
    }

    /// What changes whenever something has come into an archive.
    pub(super) fn archived(&self) -> watch::Receiver<()> {
        self.notices.archived()
    }

    /// Tells those who wait for it that something has come into an archive.
    pub(super) fn tell_archived(&self) {
        self.notices.tell_archived();
    }

    /// What changes whenever something was recorded.
    pub(super) fn recorded(&self) -> watch::Receiver<()> {
        self.notices.recorded()
    }

    /// Lets the driver end once what was asked before is answered.
    pub(super) fn stop(&self) {
        // A driver that is gone has nothing left to stop.
        let _ = self.messages.send(Message::Stop);
    }
}

pub(super) fn stopping() -> Problem {
    Problem::new(Code::Stopping, "the daemon is stopping", "try again when it runs again")
}
