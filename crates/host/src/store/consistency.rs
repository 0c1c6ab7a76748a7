//! Several stores as they were at one instant.
//!
//! The writers of all are held together, by the writers' lock of each, so that there is a moment at which every store is what
//! is fixed of it. While they are held, a read transaction is begun on each store that is read, and each store of which a
//! snapshot is taken is held still. Then they are let go: those of stores in WAL mode at once, since their transactions see what they
//! have seen; those of stores in a rollback mode when all pages were read, as with one store, or when the snapshot is there.
//!
//! Nobody is held while there is no telling for how long. The locks are taken in the order of the members. Whoever
//! has one waits for the next for [`PATIENCE`] at most; where that is not enough, all are let go, the store that is in the way is waited
//! for alone, for as long as its [`Limits::busy`] lasts, and all begins again. So a long transaction on one store keeps
//! nobody from writing to another, and a program that locks several of the stores itself, in whatever order, gets on. The whole
//! hold is bounded by the shortest [`Limits::hold`] of the members.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use asat_core::check::CheckResult;
use jiff::Timestamp;

use super::error::Error;
use super::file::StoreFile;
use super::still::{self, Still, Writers, still_under};
use super::target::Target;
use super::transaction::Transaction;
use super::wait::Wait;
use super::{Checks, CutError, Limits, PageSink, Read, hand_over};
use crate::clock;

/// How long the writers of one store are held at most while another one is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// A store that takes part.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// How long it may be waited for, and how long its writers may be held.
    pub limits: &'a Limits,
    /// Whether a snapshot is taken of it, or a clone. Else its pages are read.
    pub by_snapshot: bool,
}

/// What is fixed of a store.
#[derive(Debug)]
pub enum Moment {
    /// A read transaction.
    Read(Fixed),
    /// The store is held still, until a snapshot of it is there.
    Still(Box<Still>),
}

/// A read transaction whose content was fixed together with that of others.
pub struct Fixed {
    transaction: Transaction,
    /// How long a commit may have to wait in the rollback-journal modes.
    hold: Duration,
    /// In WAL mode, for how long a commit could have had to wait; in the rollback modes that is known at the end.
    blocked: Duration,
}

/// Fixes the content of several stores as it was at one instant, which is returned with what is fixed of each, in their order.
///
/// # Errors
/// Those of [`super::read_pages`] and [`super::still()`], with the index of the member that they are of; also where a store
/// may not be written by this process, whose writers could not be held. No lock is left on any store then.
pub fn fix_together(
    members: &[Member<'_>],
    cancel: &AtomicBool,
) -> Result<(Timestamp, Vec<Moment>), (usize, Error)> {
    let limits = common_limits(members);
    let taking = |(member, limits): (&Member<'_>, Limits)| {
        Taking::new(member.path.into(), limits, member.by_snapshot, cancel)
    };
    let takings: Vec<Taking<'_>> = members.iter().zip(limits).map(taking).collect();
    together(takings)
}

/// The limits of each member, with the shortest hold of all.
pub(crate) fn common_limits(members: &[Member<'_>]) -> Vec<Limits> {
    let hold = members.iter().map(|member| member.limits.hold).min().unwrap_or_default();
    members.iter().map(|member| Limits { hold, ..*member.limits }).collect()
}

/// A store that takes part, step by step. Whatever is held of it is let go where the value is dropped.
pub(crate) trait Take {
    /// What is fixed of it.
    type Moment;

    /// Finds the store's file, and does what needs nobody to be held.
    fn prepare(&mut self) -> Result<(), Error>;

    /// Holds the store's writers, and waits for that as long as the store may be waited for where nobody else is held, or while
    /// half of the hold is left of those who are held for so long already.
    fn hold(&mut self, others_held: Option<Duration>) -> Result<(), Error>;

    /// For how long the store's writers are held by now.
    fn held(&self) -> Duration;

    /// Lets the store's writers go.
    fn free(&mut self) -> Result<(), Error>;

    /// Whether the store may be waited for any longer.
    fn has_time(&self) -> bool;

    /// Fixes the content while writers are held.
    fn fix(&mut self) -> Result<(), Error>;

    /// Lets writers go who need not be held any longer.
    fn let_go(self, cut_at: Timestamp) -> Result<Self::Moment, Error>;
}

/// The instant at which all stores were fixed, and what was fixed of each.
pub(crate) type Together<M> = (Timestamp, Vec<M>);

/// Takes all the steps with all stores.
pub(crate) fn together<T: Take>(mut takings: Vec<T>) -> Result<Together<T::Moment>, (usize, Error)> {
    each(&mut takings, T::prepare)?;
    hold_all(&mut takings)?;
    each(&mut takings, T::fix)?;
    // All are held by now, and what is fixed of each is its newest content.
    let cut_at = clock::now();
    Ok((cut_at, each(takings, |taking| taking.let_go(cut_at))?))
}

/// A member in this process, and the patience for it.
pub(crate) struct Taking<'a> {
    store: Target,
    limits: Limits,
    by_snapshot: bool,
    cancel: &'a AtomicBool,
    since: Instant,
    file: Option<Arc<StoreFile>>,
    /// The writers, while they are held and the moment does not hold them itself.
    writers: Option<Writers>,
    moment: Option<Moment>,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(store: Target, limits: Limits, by_snapshot: bool, cancel: &'a AtomicBool) -> Self {
        let since = Instant::now();
        Self { store, limits, by_snapshot, cancel, since, file: None, writers: None, moment: None }
    }

    fn wait(&self) -> Wait<'_> {
        Wait { limits: &self.limits, cancel: self.cancel, since: self.since }
    }

    /// What an earlier step has left.
    fn left<T>(&self, what: Option<T>) -> Result<T, Error> {
        let reason = || "the step before was not taken".to_owned();
        what.ok_or_else(|| Error::Failed {
            doing: "hold",
            path: self.store.path.clone(),
            reason: reason(),
            full: false,
        })
    }
}

impl Take for Taking<'_> {
    type Moment = Moment;

    fn prepare(&mut self) -> Result<(), Error> {
        let file = Arc::new(StoreFile::find(&self.store)?);
        if self.by_snapshot {
            still::prepare(&file, &self.wait())?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn hold(&mut self, others_held: Option<Duration>) -> Result<(), Error> {
        let file = self.left(self.file.clone())?;
        let Limits { busy, hold } = self.limits;
        let patience = others_held.map(|held| PATIENCE.min((hold / 2).saturating_sub(held)));
        let busy = patience.map_or(busy, |patience| busy.min(self.since.elapsed() + patience));
        let limits = Limits { busy, hold };
        self.writers = Some(Writers::take(&file, &Wait { limits: &limits, ..self.wait() })?);
        Ok(())
    }

    fn held(&self) -> Duration {
        self.writers.as_ref().map_or(Duration::ZERO, |writers| writers.since.elapsed())
    }

    fn free(&mut self) -> Result<(), Error> {
        self.writers = None;
        Ok(())
    }

    fn has_time(&self) -> bool {
        self.since.elapsed() < self.limits.busy
    }

    fn fix(&mut self) -> Result<(), Error> {
        let file = self.left(self.file.clone())?;
        let writers = self.writers.take();
        let writers = self.left(writers)?;
        if self.by_snapshot {
            let still = still_under(&self.store, file, writers, &self.wait())?;
            self.moment = Some(Moment::Still(Box::new(still)));
            return Ok(());
        }
        let mut transaction = Transaction::begin_on(file, &self.wait())?;
        transaction.since = writers.since;
        self.writers = Some(writers);
        let hold = self.limits.hold;
        self.moment = Some(Moment::Read(Fixed { transaction, hold, blocked: Duration::ZERO }));
        Ok(())
    }

    fn let_go(mut self, cut_at: Timestamp) -> Result<Moment, Error> {
        let moment = self.moment.take();
        let mut moment = self.left(moment)?;
        match &mut moment {
            Moment::Read(fixed) => {
                fixed.transaction.file.check_name(&self.store)?;
                fixed.transaction.cut_at = cut_at;
                if let Some(writers) = self.writers.take() {
                    fixed.blocked = writers.release(&self.store.path)?;
                }
            }
            Moment::Still(still) => {
                still.set_instant(cut_at);
                still.free_writers()?;
            }
        }
        Ok(moment)
    }
}

/// Holds the writers of all.
fn hold_all<T: Take>(takings: &mut [T]) -> Result<(), (usize, Error)> {
    loop {
        let mut refused = None;
        for index in 0..takings.len() {
            let others_held = if index > 0 { takings.first().map(T::held) } else { None };
            let Some(taking) = takings.get_mut(index) else { break };
            if let Err(error) = taking.hold(others_held) {
                refused = Some((index, error));
                break;
            }
        }
        let Some((index, error)) = refused else { return Ok(()) };
        each(takings.iter_mut().take(index), T::free)?;
        let Some(taking) = takings.get_mut(index) else { return Err((index, error)) };
        if index == 0 || !taking.has_time() || !error.is_busy() {
            return Err((index, error));
        }
        taking.hold(None).and_then(|()| taking.free()).map_err(|error| (index, error))?;
    }
}

/// Does the same with each, and says with which one it failed.
fn each<I, T>(
    items: impl IntoIterator<Item = I>,
    mut work: impl FnMut(I) -> Result<T, Error>,
) -> Result<Vec<T>, (usize, Error)> {
    let numbered = items.into_iter().enumerate();
    numbered.map(|(index, item)| work(item).map_err(|error| (index, error))).collect()
}

impl Fixed {
    /// Reads all pages into `sink`, once the content has met all checks, as [`super::read_checked`] does.
    ///
    /// # Errors
    /// Those of [`super::read_checked`], but for those of waiting.
    pub fn read(
        self,
        checks: &Checks<'_>,
        sink: &mut dyn PageSink,
    ) -> Result<(Read, Vec<CheckResult>), CutError> {
        let Self { transaction, hold, blocked } = self;
        let (read, results) = hand_over(transaction, hold, checks.cancel, Some(checks), sink)?;
        let writer_blocked = if read.wal { blocked } else { read.writer_blocked };
        Ok((Read { writer_blocked, ..read }, results))
    }
}

impl std::fmt::Debug for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fixed").field("cut_at", &self.transaction.cut_at).finish_non_exhaustive()
    }
}
