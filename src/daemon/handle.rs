//! The way to the engine for everybody but the driver, and what the daemon tells those who listen.

use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use asat_core::event::{Change, Event, Reply};
use asat_core::guard::Entry;
use asat_core::{Code, Engine, Problem, StoreName, VersionId};
use tokio::sync::{broadcast, oneshot};

use super::guard::{Alarm, Standing};
use super::message::Message;
use super::watch::{Watched, Watches};
use crate::wire::Progress;

/// What the daemon tells those who listen.
#[derive(Clone, Debug)]
pub enum Notice {
    /// These changes were committed.
    Changed(Arc<Vec<Change>>),
    /// A long effect has come this far.
    Progress(Progress),
    /// The guard did this.
    Guard(Box<Entry>),
    /// An alarm began or was acknowledged, or it is over.
    Alarm(Box<Alarm>, bool),
    /// The marker of a store has moved or was published, or watch mode has trouble with it or no more.
    Watch(StoreName, Box<Watched>),
}

/// How many notices a slow listener may be behind before it misses some.
const NOTICES: usize = 1024;

/// The way to send the notices.
pub type Notices = broadcast::Sender<Notice>;

/// The channel of notices.
pub fn notices() -> Notices {
    broadcast::channel(NOTICES).0
}

/// The way to the engine for everybody else: send an event, read the state, listen to what happens.
#[derive(Clone)]
pub struct Handle {
    messages: Sender<Message>,
    engine: Arc<RwLock<Engine>>,
    notices: Notices,
    standing: Arc<RwLock<Standing>>,
    watches: Watches,
}

impl Handle {
    /// The way to a driver that hears these messages.
    pub(super) fn new(messages: Sender<Message>, engine: Arc<RwLock<Engine>>, notices: Notices) -> Self {
        Self { messages, engine, notices, standing: Arc::default(), watches: Watches::default() }
    }

    /// Sends an event and waits for its answer.
    ///
    /// # Errors
    /// What the engine answers; [`Code::Stopping`] where the daemon stops before it does.
    pub async fn ask(&self, event: Event) -> Result<Reply, Problem> {
        let (sender, answer) = oneshot::channel();
        // Somebody who has gone away needs no answer.
        let listener = move |answer| drop(sender.send(answer));
        self.messages.send(Message::Ask(Box::new(event), Box::new(listener))).map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Sends an event; its answer goes to the listener, on the driver's thread. A daemon that stops answers nothing.
    pub(super) fn tell(&self, event: Event, listener: impl FnOnce(Result<Reply, Problem>) + Send + 'static) {
        let _ = self.messages.send(Message::Ask(Box::new(event), Box::new(listener)));
    }

    /// Has it recorded what the guard did.
    pub(super) fn log(&self, entries: Vec<Entry>) {
        // A daemon that stops records nothing more.
        let _ = self.messages.send(Message::Log(entries));
    }

    /// Changes what is known of how the guard stands.
    pub(super) fn change_standing(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.standing.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The engine, to read. Do not hold it for long.
    pub fn engine(&self) -> RwLockReadGuard<'_, Engine> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the guard stands.
    pub fn standing(&self) -> RwLockReadGuard<'_, Standing> {
        self.standing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How watch mode stands.
    #[must_use]
    pub fn watches(&self) -> &Watches {
        &self.watches
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
    pub async fn guard_log(&self, version: Option<VersionId>, limit: u32) -> Result<Vec<Entry>, Problem> {
        let (sender, answer) = oneshot::channel();
        self.messages.send(Message::ReadLog(version, limit, sender)).map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Tells those who listen.
    pub(super) fn notify(&self, notice: Notice) {
        // Nobody has to listen.
        let _ = self.notices.send(notice);
    }

    /// What happens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
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
