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
    let since = Instant::now();
    let hold = members.iter().map(|member| member.limits.hold).min().unwrap_or_default();
    let limits: Vec<Limits> = members.iter().map(|member| Limits { hold, ..*member.limits }).collect();
    let taking = |(member, limits)| Taking { member, wait: Wait { limits, cancel, since } };
    let takings: Vec<Taking<'_>> = members.iter().zip(&limits).map(taking).collect();
    let files = each(&takings, |taking| taking.prepare())?;
    let writers = hold_all(&takings, &files)?;
    let held = takings.iter().zip(files).zip(writers);
    let mut moments = each(held, |((taking, file), writers)| taking.fix(file, writers))?;
    // All are held by now, and what is fixed of each is its newest content.
    let cut_at = clock::now();
    each(takings.iter().zip(&mut moments), |(taking, moment)| taking.let_go(moment, cut_at))?;
    Ok((cut_at, moments.into_iter().map(|(moment, _)| moment).collect()))
}

/// A member, and the patience for it.
struct Taking<'a> {
    member: &'a Member<'a>,
    wait: Wait<'a>,
}

/// What is fixed, and the writers who are still held for it, where the moment does not hold them itself.
type Holding = (Moment, Option<Writers>);

impl Taking<'_> {
    /// Finds the store's file, and does what needs nobody to be held.
    fn prepare(&self) -> Result<Arc<StoreFile>, Error> {
        let file = Arc::new(StoreFile::find(self.member.path)?);
        if self.member.by_snapshot {
            still::prepare(&file, &self.wait)?;
        }
        Ok(file)
    }

    /// Holds the store's writers, and waits for that as long as the store may be waited for where nobody else is held, or while
    /// half of the hold of the `first` is left.
    fn hold(&self, file: &Arc<StoreFile>, first: Option<&Writers>) -> Result<Writers, Error> {
        let Limits { busy, hold } = *self.wait.limits;
        let patience = first.map(|first| PATIENCE.min((hold / 2).saturating_sub(first.since.elapsed())));
        let busy = patience.map_or(busy, |patience| busy.min(self.wait.since.elapsed() + patience));
        let limits = Limits { busy, hold };
        Writers::take(file, &Wait { limits: &limits, ..self.wait })
    }

    /// Whether the store may be waited for any longer.
    fn has_time(&self) -> bool {
        self.wait.since.elapsed() < self.wait.limits.busy
    }

    /// Fixes the content while writers are held.
    fn fix(&self, file: Arc<StoreFile>, writers: Writers) -> Result<Holding, Error> {
        if self.member.by_snapshot {
            let still = still_under(self.member.path, file, writers, &self.wait)?;
            return Ok((Moment::Still(Box::new(still)), None));
        }
        let mut transaction = Transaction::begin_on(file, &self.wait)?;
        transaction.since = writers.since;
        let fixed = Fixed { transaction, hold: self.wait.limits.hold, blocked: Duration::ZERO };
        Ok((Moment::Read(fixed), Some(writers)))
    }

    /// Lets writers go who need not be held any longer.
    fn let_go(&self, (moment, writers): &mut Holding, cut_at: Timestamp) -> Result<(), Error> {
        match moment {
            Moment::Read(fixed) => {
                fixed.transaction.file.check_name(self.member.path)?;
                fixed.transaction.cut_at = cut_at;
                if let Some(writers) = writers.take() {
                    fixed.blocked = writers.release(self.member.path)?;
                }
                Ok(())
            }
            Moment::Still(still) => {
                still.set_instant(cut_at);
                still.free_writers()
            }
        }
    }
}

/// Holds the writers of all.
fn hold_all(takings: &[Taking<'_>], files: &[Arc<StoreFile>]) -> Result<Vec<Writers>, (usize, Error)> {
    loop {
        let mut held = Vec::new();
        let refused = takings.iter().zip(files).enumerate().find_map(|(index, (taking, file))| match taking
            .hold(file, held.first())
        {
            Ok(writers) => {
                held.push(writers);
                None
            }
            Err(error) => Some((index, taking, file, error)),
        });
        let Some((index, taking, file, error)) = refused else { return Ok(held) };
        let was_alone = held.is_empty();
        drop(held);
        if was_alone || !taking.has_time() || !matches!(error, Error::Busy { .. }) {
            return Err((index, error));
        }
        taking.hold(file, None).map(drop).map_err(|error| (index, error))?;
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
