//! A store that is kept open to be tracked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use asat_core::track::{self, Changes, Gap, Guard, Pace, Place, Seen, Step};

use super::super::error::Error;
use super::super::signature::Stamp;
use super::super::target::Target;
use super::super::transaction::Transaction;
use super::super::wait::Wait;
use super::super::wal::{Chain, Frame, Index};
use super::files::{End, Files};
use crate::clock;

/// Why a store is not tracked any more, or not now.
pub(super) enum Lost {
    /// It is not known what changed.
    Gap(Gap),
    /// SQLite does not give what is needed.
    Error(Error),
}

impl Lost {
    /// Why nothing is known then.
    pub(super) fn gap(self) -> Gap {
        match self {
            Self::Gap(gap) => gap,
            Self::Error(Error::Replaced { .. } | Error::Missing { .. }) => Gap::Written,
            Self::Error(_) => Gap::Unread,
        }
    }
}

impl From<Gap> for Lost {
    fn from(gap: Gap) -> Self {
        Self::Gap(gap)
    }
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<std::io::Error> for Lost {
    fn from(_: std::io::Error) -> Self {
        Self::Gap(Gap::Unread)
    }
}

/// An open store. The fields are dropped in this order: the locks go before the descriptors do.
pub(super) struct Open {
    /// The transaction that holds the place, unless that is let go.
    mark: Transaction,
    /// A connection without a transaction.
    spare: Transaction,
    files: Files,
    /// All before this place is noted, or was before the first read.
    since: Place,
    guard: Guard,
    /// What the wal-index said when the mark was moved last.
    index: Index,
    /// How far the WAL was in the database file at the last look, and what that was like then, if the two belong together.
    moved: Moved,
    main: Option<Stamp>,
    /// Since when the mark is let go.
    loose_since: Option<Instant>,
    /// The same, if it was taken again for a read before that helped.
    was_loose: Option<Instant>,
    /// How long the WAL was when the mark was let go in vain.
    let_go_at: u64,
    pace: Pace,
}

impl Open {
    /// Keeps the store open that this transaction has opened. What is in the WAL counts as known, unless the store was closed when its
    /// file was like `closed`: then it is new, and has to be all that was written since.
    pub(super) fn over(
        mark: Transaction,
        bound: u64,
        closed: Option<&Stamp>,
        wait: &Wait<'_>,
    ) -> Result<Self, Lost> {
        let files = Files::open(&mark.file, mark.content.page_size)?;
        // If this fails, they are dropped in the same order as the fields, and the last one to close the store tidies up.
        let mark = mark;
        let spare = Transaction::begin_on(Arc::clone(&mark.file), wait)?;
        spare.rest()?;
        let index = files.index()?.ok_or(Gap::Broken)?;
        let main = Stamp::of(&mark.file.metadata()?);
        if closed.is_some_and(|closed| main != *closed) {
            return Err(Gap::Written.into());
        }
        mark.tidies(false)?;
        spare.tidies(false)?;
        let since = if closed.is_some() { index.place.start() } else { index.place };
        let (guard, loose_since, let_go_at) = (Guard::Mark, None, 0);
        let (moved, main, pace) = (Moved::of(&index), None, Pace { bound });
        let was_loose = None;
        Ok(Self {
            mark,
            spare,
            files,
            since,
            guard,
            index,
            moved,
            main,
            loose_since,
            was_loose,
            let_go_at,
            pace,
        })
    }

    /// The transaction that holds the place.
    pub(super) fn mark(&self) -> &Transaction {
        &self.mark
    }

    /// The same, to read in it.
    pub(super) fn mark_mut(&mut self) -> &mut Transaction {
        &mut self.mark
    }

    /// Keeps to this bound from now on.
    pub(super) fn bound(&mut self, bound: u64) {
        self.pace = Pace { bound };
    }

    /// Moves the mark to what is committed now, and notes what was written since it was moved last.
    pub(super) fn step(&mut self, changes: &mut Changes, wait: &Wait<'_>) -> Result<(), Lost> {
        let before = self.look()?.ok_or(Gap::Broken)?;
        self.spare.again(wait)?;
        // What is fixed now is between the two looks. So what comes before the second is noted, and what comes after the first
        // is noted again the next time.
        let after = self.look()?.ok_or(Gap::Broken)?;
        self.collect(&after, changes)?;
        let is_same = before.place.salts == after.place.salts;
        self.since = if is_same { before.place } else { after.place.start() };
        let is_outside = before.place == after.place && after.is_backfilled();
        std::mem::swap(&mut self.mark, &mut self.spare);
        let is_anew = self.index.place.salts != after.place.salts;
        if is_anew {
            self.let_go_at = 0;
        }
        self.guard = if is_outside { Guard::Outside } else { Guard::Mark };
        self.index = after;
        let loose = self.loose_since.take();
        self.was_loose = loose.filter(|_| !is_anew);
        if loose.is_none() {
            self.spare.rest()?;
        }
        Ok(())
    }

    /// Looks at the wal-index, and whether the files are those that they were, and were written by SQLite alone. Nothing is known if
    /// somebody writes the wal-index all the time.
    fn look(&mut self) -> Result<Option<Index>, Lost> {
        let file = &self.mark.file;
        if !self.files.are_beside(file) {
            return Err(Gap::Sidecars.into());
        }
        let before = Stamp::of(&file.metadata()?);
        let Some(index) = self.files.index()? else { return Ok(None) };
        if index.page_size != self.mark.content.page_size {
            return Err(Gap::Shape.into());
        }
        // The file is written by checkpoints alone, and each says in the wal-index what it is about to write.
        let moved = Moved::of(&index);
        let is_quiet = moved == self.moved && index.backfilled == index.attempted;
        self.moved = moved;
        if is_quiet && self.main.is_some_and(|main| !before.is_unwritten(&main)) {
            return Err(Gap::Written.into());
        }
        let after = Stamp::of(&self.mark.file.metadata()?);
        self.main = after.is_unwritten(&before).then_some(after);
        Ok(Some(index))
    }

    /// Notes all that was committed up to what the wal-index says here.
    fn collect(&self, now: &Index, changes: &mut Changes) -> Result<(), Lost> {
        let span = track::span(&self.since, self.guard, &now.place)?;
        let mut note = |frame: Frame| changes.note(frame.page, frame.page_count);
        if let Some(tail) = span.tail {
            let start = Chain::after(tail, &self.index);
            let end = self.files.take(&mut start.clone(), &self.index, u32::MAX, &mut note)?;
            if !self.files.has(&start, &self.index) {
                return Err(Gap::Reset.into());
            }
            // The first commit after the WAL was begun anew may cut the file (`journal_size_limit`).
            if end != End::Other {
                return Err(Gap::Cut.into());
            }
        }
        if span.from.frame < span.to.frame {
            let mut chain = match span.from.frame {
                0 => self.files.begin(now)?,
                _ => Chain::after(span.from, now),
            };
            self.files.take(&mut chain, now, span.to.frame, note)?;
            if chain.place != span.to {
                return Err(Gap::Broken.into());
            }
        }
        Ok(())
    }

    /// Does what is due, and says how long to wait before the next time.
    pub(super) fn tick(
        &mut self,
        changes: &mut Changes,
        pause: Duration,
        wait: &Wait<'_>,
    ) -> Result<Duration, Lost> {
        // Somebody writes it: there will be another time.
        let Some(index) = self.look()? else { return Ok(pause) };
        let seen = self.seen(&index)?;
        match self.pace.next(&seen) {
            Step::Stay => {}
            Step::Move => {
                let in_vain = self.guard == Guard::Nothing && !seen.is_anew && !seen.is_backfilled;
                self.step(changes, wait)?;
                if in_vain {
                    self.let_go_at = seen.length;
                }
            }
            Step::LetGo => {
                self.step(changes, wait)?;
                self.let_go()?;
            }
        }
        Ok(Pace::pause(Some(&Seen { guard: self.guard, ..seen }), pause))
    }

    /// Lets the mark go once it was read, if it was let go before or the WAL is to begin anew: else publishing after each commit would keep it from
    /// that. Answers whether it is let go.
    pub(super) fn may_let_go(&mut self) -> Result<bool, Lost> {
        let is_due = self.was_loose.is_some() || self.pace.next(&self.seen(&self.index)?) == Step::LetGo;
        let keeps = self.guard == Guard::Mark && is_due;
        if keeps {
            self.let_go()?;
        }
        Ok(keeps)
    }

    /// Whether a checkpoint has come as far as the mark, and there is more.
    fn is_held_up(&self, index: &Index) -> bool {
        let is_at_mark = index.backfilled > 0 && index.backfilled >= self.since.frame;
        index.place.salts == self.since.salts && is_at_mark && !index.is_backfilled()
    }

    /// What is seen of the WAL if its index says this.
    fn seen(&self, index: &Index) -> Result<Seen, Lost> {
        Ok(Seen {
            // If something was committed while the mark was moved, that may have fixed what was there before.
            is_moved: index.place != self.since,
            is_anew: index.place.salts != self.since.salts,
            is_backfilled: index.is_backfilled(),
            is_held_up: self.is_held_up(index),
            guard: self.guard,
            length: index.length(),
            file_length: self.files.length()?,
            let_go_at: self.let_go_at,
            loose: self.loose_since.map_or(Duration::ZERO, |since| since.elapsed()),
        })
    }

    fn let_go(&mut self) -> Result<(), Lost> {
        self.mark.rest()?;
        let since = self.was_loose.take().unwrap_or_else(Instant::now);
        (self.loose_since, self.guard) = (Some(since), Guard::Nothing);
        Ok(())
    }

    /// Closes the store. Its WAL is moved into the file and removed, if nobody else has it open. Not if another file has the store's name by now,
    /// whose WAL that would be: SQLite finds it by its name.
    pub(super) fn close(self, store: &Target) {
        if self.files.are_beside(&self.mark.file) && self.mark.file.check_name(store).is_ok() {
            // If this fails, the next one who opens the store finds the WAL.
            let _ = self.mark.tidies(true).and_then(|()| self.spare.tidies(true));
        }
    }

    /// Gets the store ready to be closed, if no other process has it open.
    pub(super) fn may_close(&mut self, store: &Target) -> Result<Closing, Lost> {
        let Some(index) = self.look()? else { return Ok(Closing::No) };
        if self.guard == Guard::Nothing || index.place != self.since || self.files.has_others()? {
            return Ok(Closing::No);
        }
        self.mark.file.check_name(store).map_err(|_| Gap::Written)?;
        if !index.is_backfilled() {
            let checkpoint =
                self.spare.connection().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            checkpoint.map_err(|error| self.spare.file.explain(&error))?;
            return Ok(Closing::Soon);
        }
        let stamp = Stamp::of(&self.mark.file.metadata()?);
        Ok(if stamp.is_settled(clock::now()) { Closing::Now(stamp) } else { Closing::Soon })
    }
}

/// Whether a store can be closed.
pub(super) enum Closing {
    /// Somebody has it open, or it is not known what was written last.
    No,
    /// Its WAL is on the way into its file, or the file was written just now.
    Soon,
    /// Its file is like this, holds all that was committed, and all that is written to it from now on shows in its times.
    Now(Stamp),
}

/// How far a WAL is in the database file, as the wal-index says it. Only checkpoints change it, and only they write the file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moved {
    salts: [u8; 8],
    backfilled: u32,
    attempted: u32,
}

impl Moved {
    fn of(index: &Index) -> Self {
        Self { salts: index.place.salts, backfilled: index.backfilled, attempted: index.attempted }
    }
}
