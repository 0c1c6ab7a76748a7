//! Requests with one answer, and those that are answered with pages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_core::check::{Check, CheckResult, Rows};
use asat_core::{Code, PageSize, Problem, boundary};

use super::error::Trouble;
use super::pool::{As, Lent, Workers};
use super::process::{Heard, nonsense};
use super::words::{Order, Reply, Said};
use crate::store::{Checks, CutError, Error, Frozen, Limits, PageSink, Read};

/// How much longer than it may take an answer is waited for: for a disk that is busy.
pub(super) const SLACK: Duration = Duration::from_secs(30);
/// The same for a query alone, which waits for nothing.
const QUERY_SLACK: Duration = Duration::from_secs(5);
/// How long the next pages may take.
const PAGES: Duration = Duration::from_secs(60);

impl Workers {
    /// As [`crate::store::read_pages`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn read_pages(
        &self,
        path: &Path,
        limits: &Limits,
        cancel: &Arc<AtomicBool>,
        sink: &mut dyn PageSink,
    ) -> Result<Read, CutError> {
        self.read_checked(path, limits, &Checks { checks: &[], cancel }, sink).map(|(read, _)| read)
    }

    /// As [`crate::store::read_checked`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn read_checked(
        &self,
        path: &Path,
        limits: &Limits,
        checks: &Checks<'_>,
        sink: &mut dyn PageSink,
    ) -> Result<(Read, Vec<CheckResult>), CutError> {
        let mut lent = self.lend(path, As::Owner).map_err(|error| CutError { error, begun: false })?;
        let order = Order::Read { store: lent.place(), limits: *limits, checks: checks.checks.to_vec() };
        let patience = limits.busy + time_of(checks.checks) + SLACK;
        read(&mut lent, &order, patience, checks, sink)
    }

    /// As [`crate::store::read_frozen`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn read_frozen(
        &self,
        file: &Path,
        with_wal: bool,
        cancel: &AtomicBool,
        sink: &mut dyn PageSink,
    ) -> Result<Frozen, CutError> {
        let order = Order::ReadFrozen { path: file.into(), with_wal };
        // Snapshots are the daemon's own, and lie where nobody else can go.
        let mut lent = self.lend(file, As::Own).map_err(|error| CutError { error, begun: false })?;
        stream(&mut lent, &order, SLACK, cancel, sink, || {}).and_then(|(reply, begun)| match reply {
            Reply::Frozen(frozen) => Ok(frozen),
            other => Err(CutError { error: unexpected(&lent, &other), begun }),
        })
    }

    /// As [`crate::store::check_frozen`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn check_frozen(
        &self,
        file: &Path,
        with_wal: bool,
        checks: &Checks<'_>,
    ) -> Result<Vec<CheckResult>, Error> {
        let order = Order::CheckFrozen { path: file.into(), with_wal, checks: checks.checks.to_vec() };
        let mut lent = self.lend(file, As::Own)?;
        let reply = ask(&mut lent, &order, time_of(checks.checks) + SLACK, checks.cancel);
        lent.done();
        match reply? {
            Reply::Checked(results) => {
                results.iter().for_each(|_| boundary::pass("checks: made"));
                Ok(results)
            }
            other => Err(unexpected(&lent, &other)),
        }
    }

    /// As [`crate::store::ask`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn ask(
        &self,
        path: &Path,
        sql: &str,
        deadline: Duration,
        most_hold: Duration,
        cancel: &AtomicBool,
    ) -> Result<Rows, Error> {
        let mut lent = self.lend(path, As::Owner)?;
        let order = Order::Ask { store: lent.place(), sql: sql.to_owned(), deadline, most_hold };
        let reply = ask(&mut lent, &order, deadline + QUERY_SLACK, cancel);
        lent.done();
        match reply? {
            Reply::Rows(rows) => Ok(rows),
            other => Err(unexpected(&lent, &other)),
        }
    }
}

/// How long checks may take.
pub(super) fn time_of(checks: &[Check]) -> Duration {
    checks.iter().fold(Duration::ZERO, |time, check| time.saturating_add(check.deadline))
}

/// What a worker answered that does not answer the question.
pub(super) fn unexpected(lent: &Lent, reply: &Reply) -> Error {
    let said: String = format!("{reply:?}").chars().take(100).collect();
    Trouble::Nonsense(format!("{said}, which is not what it was asked")).of(lent.path())
}

/// What is said if pages are told to be as they were, and are not known.
const NOT_THERE: &str = "the archive does not have the pages that did not change";

/// Gives an order, and waits for what comes of it.
pub(super) fn ask(
    lent: &mut Lent,
    order: &Order,
    patience: Duration,
    cancel: &AtomicBool,
) -> Result<Reply, Error> {
    lent.with(|process| {
        process.tell(order)?;
        match process.hear(patience, cancel)? {
            Heard::Said(Said::Done(reply)) => Ok(Ok(reply)),
            Heard::Said(Said::Failed { problem, is_busy }) => Ok(Err(Error::Worker { problem, is_busy })),
            other => Err(nonsense(&other)),
        }
    })?
}

/// Gives an order that is answered with a store's pages, and hands these on.
pub(super) fn read(
    lent: &mut Lent,
    order: &Order,
    patience: Duration,
    checks: &Checks<'_>,
    sink: &mut dyn PageSink,
) -> Result<(Read, Vec<CheckResult>), CutError> {
    // Nobody announces the steps of another process.
    let made = || checks.checks.iter().for_each(|_| boundary::pass("checks: made"));
    stream(lent, order, patience, checks.cancel, sink, made).and_then(|(reply, begun)| match reply {
        Reply::Read(read, results) => Ok((read, results)),
        other => Err(CutError { error: unexpected(lent, &other), begun }),
    })
}

pub(super) fn stream(
    lent: &mut Lent,
    order: &Order,
    patience: Duration,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
    at_begin: impl Fn(),
) -> Result<(Reply, bool), CutError> {
    let mut taken = Taken { shape: None, next: 1 };
    let mut step = || -> Result<Reply, Error> {
        lent.with(|process| process.tell(order))?;
        let mut patience = patience;
        loop {
            let heard = lent.with(|process| match process.hear(patience, cancel)? {
                Heard::Pages(pages) => taken.pages(pages, sink),
                Heard::Said(Said::Begin(size, count)) if taken.shape.is_none() => {
                    at_begin();
                    taken.shape = Some((size, count));
                    Ok(sink.begin(size, count).map_err(Error::Sink).map(|()| None))
                }
                Heard::Said(Said::Hurry) if taken.shape.is_some() && taken.next == 1 => {
                    Ok(sink.hurry().map_err(Error::Sink).map(|()| None))
                }
                Heard::Said(Said::Same(count)) => taken.same(count, sink),
                Heard::Said(Said::Claim(count)) if taken.may_come(count) => {
                    Ok(sink.claim(count).map_err(Error::Sink).map(|()| None))
                }
                Heard::Said(Said::Failed { problem, is_busy }) => Ok(Err(Error::Worker { problem, is_busy })),
                Heard::Said(Said::Done(reply)) if taken.is_whole() => Ok(Ok(Some(reply))),
                other => Err(nonsense(&other)),
            })?;
            match heard {
                Ok(None) => patience = PAGES,
                Ok(Some(reply)) => return Ok(reply),
                // A worker that still has pages to hand over ends with the value.
                Err(Error::Sink(problem)) => {
                    lent.give_up();
                    return Err(Error::Sink(problem));
                }
                Err(error) => {
                    lent.done();
                    return Err(error);
                }
            }
        }
    };
    let result = step();
    let begun = taken.shape.is_some();
    if result.is_ok() {
        lent.done();
    }
    result.map(|reply| (reply, begun)).map_err(|error| CutError { error, begun })
}

/// What was taken of a store's pages.
struct Taken {
    shape: Option<(PageSize, u32)>,
    /// The number of the next page.
    next: u32,
}

impl Taken {
    /// Hands on pages. The outer error is the worker's, and the inner one the sink's.
    fn pages(
        &mut self,
        pages: &[u8],
        sink: &mut dyn PageSink,
    ) -> Result<Result<Option<Reply>, Error>, Trouble> {
        let wrong = |what: &str| Trouble::Nonsense(what.to_owned());
        let (size, _) = self.shape.ok_or_else(|| wrong("pages before it began"))?;
        if !pages.len().is_multiple_of(size.as_usize()) {
            return Err(wrong("a part of a page"));
        }
        let came = u32::try_from(pages.len() / size.as_usize())
            .ok()
            .filter(|came| *came > 0 && self.may_come(*came));
        let came = came.ok_or_else(|| wrong("no pages, or more than there are"))?;
        let taken = sink.pages(self.next, pages, size);
        self.next = self.next.saturating_add(came);
        Ok(taken.map(|()| None).map_err(Error::Sink))
    }

    /// Hands on that pages are as they were.
    fn same(&mut self, count: u32, sink: &mut dyn PageSink) -> Result<Result<Option<Reply>, Error>, Trouble> {
        if count == 0 || !self.may_come(count) {
            return Err(Trouble::Nonsense("pages that there are not, as they were".to_owned()));
        }
        let last = self.next + (count - 1);
        let taken = sink.same_run(self.next, last).and_then(|taken| match taken {
            true => Ok(()),
            false => Err(Problem::new(Code::Internal, NOT_THERE, "publish again: all pages are read then")),
        });
        self.next = last.saturating_add(1);
        Ok(taken.map(|()| None).map_err(Error::Sink))
    }

    /// Whether so many pages are still to come.
    fn may_come(&self, count: u32) -> bool {
        self.shape.is_some_and(|(_, all)| self.next.checked_add(count).is_some_and(|end| end - 1 <= all))
    }

    fn is_whole(&self) -> bool {
        self.shape.is_some_and(|(_, count)| self.next == count.saturating_add(1))
    }
}
