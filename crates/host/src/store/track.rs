//! Tracking a store in WAL mode, so that a publication reads only the pages that changed since an earlier one.
//!
//! A tracker keeps the store open, and a read transaction on it: the *mark*. SQLite lets nobody overwrite frames of the WAL that were
//! committed after it. From time to time the mark is moved on: another transaction is begun, the frames between the two are read, and only
//! then the older one ends. The pages in these frames are all that changed. Nobody is held up: a mark is what any reader has.
//!
//! What keeps the WAL from being begun anew makes it grow. So the mark is moved on often; when the WAL is half as long as it may
//! become all the same, the mark is let go for a moment, in which a writer can begin the WAL anew. What was written in
//! that moment is still there, after the place of the mark: see [`track::span`].
//!
//! When no other process has the store open, the tracker closes it too, so that the WAL is moved into the file and removed, as its
//! users expect. Until the database file is written to, what changes can only be in a new WAL, all of it.
//!
//! In any doubt the tracker knows nothing, and the store is read whole. The whole argument is in
//! `docs/decisions/26-changed-pages-from-the-wal.md`.

mod files;
mod open;

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use asat_core::check::CheckResult;
use asat_core::track::{Changes, Differing, Gap, Pace};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::scan::{Changed, Source};
use super::signature::{Stamp, is_local};
use super::transaction::Transaction;
use super::wait::Wait;
use super::{Checks, CutError, Limits, PageSink, Read, Target, check, hand_over, scan};
use open::{Closing, Lost, Open};

/// How often asat checks if somebody opens a store that nobody has open.
const CLOSED: Duration = Duration::from_millis(200);
/// How long to wait for a store to be ready to be closed.
const SOON: Duration = Duration::from_millis(20);
/// How long to wait if nothing is known: there is nothing to do for it.
const NOTHING: Duration = Duration::from_secs(3600);

/// How a tracked store is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Following {
    /// The longest that the WAL may become by the tracker's doing, in bytes.
    pub bound: u64,
    /// The token of an earlier read, whose pages the sink has if they have not changed.
    pub since: Option<u64>,
    /// Whether all pages are read, and the sink is told which should be as they were ([`PageSink::claim`]).
    pub audit: bool,
}

/// What a tracker said of a read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// By which later reads can name this one; nothing if the store is not tracked.
    pub token: Option<u64>,
    /// How many pages were read.
    pub pages: u32,
    /// Why all of them were read, if it was not known which had changed.
    pub whole: Option<String>,
}

/// What follows a store's WAL.
pub struct Tracker {
    store: Target,
    changes: Changes,
    state: State,
    /// Why nothing is known, if so.
    gap: Gap,
    pause: Duration,
    /// The longest that the WAL may become by the mark's doing, in bytes.
    bound: u64,
    /// Whether the store is closed when nobody else has it open.
    closes: bool,
}

enum State {
    /// Nothing is known.
    Off,
    /// The store is open, and a mark holds a place in its WAL.
    Open(Box<Open>),
    /// The store was closed, when its file was like that and held all that had been committed.
    Closed(Stamp),
}

impl Tracker {
    /// Tracks a store from its first read on.
    #[must_use]
    pub fn new(store: impl Into<Target>) -> Self {
        let (changes, state) = (Changes::default(), State::Off);
        Self {
            store: store.into(),
            changes,
            state,
            gap: Gap::New,
            pause: NOTHING,
            bound: u64::MAX,
            closes: true,
        }
    }

    /// Keeps the store open, though no other process has it open: they may all be in this one.
    #[must_use]
    pub fn stay_open(mut self) -> Self {
        self.closes = false;
        self
    }

    /// How long to wait before [`Self::tick`].
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Whether it is known what changes.
    #[must_use]
    pub fn is_tracking(&self) -> bool {
        self.changes.is_known()
    }

    /// As [`super::read_checked`], but of the pages that are as they were at an earlier read the sink is told only that.
    ///
    /// # Errors
    /// Those of [`super::read_checked`].
    pub fn read(
        &mut self,
        following: Following,
        limits: &Limits,
        checks: &Checks<'_>,
        sink: &mut dyn PageSink,
    ) -> Result<(Read, Vec<CheckResult>, Followed), CutError> {
        let wait = Wait { limits, cancel: checks.cancel, since: Instant::now() };
        let failed = |error| CutError { error, begun: false };
        self.bound = following.bound;
        if let Some(transaction) = self.get_ready(&wait).map_err(failed)? {
            // It is read as a store that nobody tracks.
            let (read, results) = hand_over(transaction, limits.hold, checks.cancel, Some(checks), sink)?;
            let whole = Some(self.gap.to_string());
            return Ok((read, results, Followed { token: None, pages: read.page_count, whole }));
        }
        let State::Open(open) = &mut self.state else {
            return Err(failed(Error::Replaced { path: self.store.path.clone() }));
        };
        let differing = following.since.and_then(|token| self.changes.since(token));
        if differing.is_none() {
            self.changes.forget();
        }
        let token = self.changes.begin(open.mark().content.page_count);
        self.pause = Pace::pause(None, Duration::ZERO);
        let done = read(open, differing.as_ref(), following.audit, checks, sink);
        match open.may_let_go() {
            Ok(false) => {}
            Ok(true) => self.pause = Pace::GLANCE,
            Err(lost) => self.lose(lost.gap()),
        }
        let (read, results, pages) = done?;
        let whole = differing.is_none().then(|| std::mem::replace(&mut self.gap, Gap::New).to_string());
        Ok((read, results, Followed { token: Some(token), pages, whole }))
    }

    /// Moves the mark to what is committed now, and has all before it noted. If nothing is known, that begins here. Gives the transaction if
    /// the store cannot be tracked.
    fn get_ready(&mut self, wait: &Wait<'_>) -> Result<Option<Transaction>, Error> {
        match self.advance(wait) {
            Ok(()) => {}
            Err(Lost::Gap(gap)) => self.lose(gap),
            Err(Lost::Error(error)) if error.is_busy() || error.ends_waiting() => return Err(error),
            Err(Lost::Error(_)) => self.lose(Gap::Unread),
        }
        if matches!(self.state, State::Open(_)) {
            return Ok(None);
        }
        let transaction = Transaction::begin(&self.store, wait)?;
        let gap = match () {
            () if !transaction.content.wal => Some(Gap::NoWal),
            () if is_local(&transaction.file.path) != Some(true) => Some(Gap::Remote),
            () if transaction.is_read_only() => Some(Gap::ReadOnly),
            () => None,
        };
        if let Some(gap) = gap {
            self.lose(gap);
            return Ok(Some(transaction));
        }
        let opened = Open::over(transaction, self.bound, None, wait);
        match opened.and_then(|open| self.begin(open, wait)) {
            Ok(()) => Ok(None),
            Err(Lost::Error(error)) if error.is_busy() || error.ends_waiting() => Err(error),
            Err(lost) => {
                self.lose(lost.gap());
                Transaction::begin(&self.store, wait).map(Some)
            }
        }
    }

    /// Has all noted that was committed up to now, if the store is tracked.
    fn advance(&mut self, wait: &Wait<'_>) -> Result<(), Lost> {
        match &mut self.state {
            State::Off => return Ok(()),
            State::Open(open) => {
                open.bound(self.bound);
                open.mark().file.check_name(&self.store).map_err(|_| Gap::Written)?;
                return open.step(&mut self.changes, wait);
            }
            State::Closed(_) => {}
        }
        self.open_again(wait)
    }

    /// Opens a store that was closed.
    fn open_again(&mut self, wait: &Wait<'_>) -> Result<(), Lost> {
        let State::Closed(stamp) = &self.state else { return Ok(()) };
        let transaction = Transaction::begin(&self.store, wait)?;
        if !transaction.content.wal {
            return Err(Gap::NoWal.into());
        }
        let open = Open::over(transaction, self.bound, Some(stamp), wait)?;
        self.begin(open, wait)
    }

    /// Begins to follow a store that was opened; if that fails, it is closed properly.
    fn begin(&mut self, mut open: Open, wait: &Wait<'_>) -> Result<(), Lost> {
        match open.step(&mut self.changes, wait) {
            Ok(()) => self.state = State::Open(Box::new(open)),
            Err(lost) => {
                open.close(&self.store);
                return Err(lost);
            }
        }
        Ok(())
    }

    /// Does what is due from time to time: moves the mark on, lets it go for a moment, closes the store or opens it again.
    pub fn tick(&mut self, cancel: &AtomicBool) {
        let limits = Limits { busy: Duration::ZERO, hold: Duration::ZERO };
        let wait = Wait { limits: &limits, cancel, since: Instant::now() };
        match self.take_tick(&wait) {
            Ok(()) => {}
            // Somebody has it locked for a moment.
            Err(Lost::Error(error)) if error.is_busy() => {}
            Err(lost) => self.lose(lost.gap()),
        }
    }

    fn take_tick(&mut self, wait: &Wait<'_>) -> Result<(), Lost> {
        match &mut self.state {
            State::Off => self.pause = NOTHING,
            State::Closed(stamp) => {
                self.pause = CLOSED;
                let (file, wal) = files(&self.store);
                if file != Some(*stamp) {
                    return Err(Gap::Written.into());
                }
                if wal > 0 {
                    return self.open_again(wait);
                }
            }
            State::Open(open) => {
                self.pause = open.tick(&mut self.changes, self.pause, wait)?;
                match if self.closes { open.may_close(&self.store)? } else { Closing::No } {
                    Closing::No => {}
                    Closing::Soon => self.pause = SOON,
                    Closing::Now(stamp) => {
                        self.close(State::Closed(stamp));
                        self.pause = CLOSED;
                    }
                }
            }
        }
        Ok(())
    }

    /// From now on nothing is known, for this reason.
    fn lose(&mut self, gap: Gap) {
        self.changes.forget();
        self.close(State::Off);
        (self.gap, self.pause) = (gap, NOTHING);
    }

    /// Closes the store, if it is open.
    fn close(&mut self, state: State) {
        if let State::Open(open) = std::mem::replace(&mut self.state, state) {
            open.close(&self.store);
        }
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        self.close(State::Off);
    }
}

/// What the store's file is like, and how long its WAL is.
fn files(store: &Target) -> (Option<Stamp>, u64) {
    let Ok(path) = store.path.canonicalize() else { return (None, 0) };
    let mut wal = path.clone().into_os_string();
    wal.push("-wal");
    let file = fs::metadata(&path).ok().map(|metadata| Stamp::of(&metadata));
    (file, fs::symlink_metadata(wal).map_or(0, |metadata| metadata.len()))
}

/// Reads what a mark has fixed, and says how many pages were read.
fn read(
    open: &mut Open,
    differing: Option<&Differing>,
    audit: bool,
    checks: &Checks<'_>,
    sink: &mut dyn PageSink,
) -> Result<(Read, Vec<CheckResult>, u32), CutError> {
    let mut begun = false;
    let transaction = open.mark_mut();
    let (content, cut_at, file) = (transaction.content, transaction.cut_at, transaction.file.clone());
    let checked = check::examine(transaction.connection_mut(), &file.path, checks, None);
    let results = checked.map_err(|error| CutError { error, begun })?;
    let source = Source { connection: transaction.connection(), path: &file.path, content, held: None };
    let handed = match differing {
        Some(differing) => {
            let changed = Changed { differing, audit };
            scan::hand_over_changed(&source, &changed, checks.cancel, sink, &mut begun)
        }
        None => scan::hand_over(&source, checks.cancel, sink, &mut begun).map(|()| content.page_count),
    };
    let pages = handed.map_err(|error| CutError { error, begun })?;
    let read = Read {
        page_size: content.page_size,
        page_count: content.page_count,
        wal: true,
        cut_at,
        writer_blocked: Duration::ZERO,
    };
    Ok((read, results, pages))
}
