//! The pages of a read transaction, handed to the sink one by one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::track::Differing;
use rusqlite::{Connection, Statement};

use super::PageSink;
use super::content::Content;
use super::error::Error;

/// What is read.
pub(super) struct Source<'a> {
    /// A connection in a read transaction.
    pub(super) connection: &'a Connection,
    pub(super) path: &'a Path,
    /// What that transaction has fixed.
    pub(super) content: Content,
    /// Since when commits wait for the read, and how long they may; nothing where none waits.
    pub(super) held: Option<(Instant, Duration)>,
}

/// Hands every page over, in order. Memory does not grow with the store: each page is lent to the sink.
pub(super) fn hand_over(
    source: &Source<'_>,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
    begun: &mut bool,
) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| Error::from_sqlite("read", source.path, &error);
    let damaged = |what: String| Error::Damaged { path: source.path.to_owned(), what };
    let content = source.content;
    let mut statement = source.connection.prepare("SELECT pgno, data FROM sqlite_dbpage").map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    check(source, cancel, 0)?;
    *begun = true;
    sink.begin(content.page_size, content.page_count).map_err(Error::Sink)?;
    if source.held.is_some() {
        sink.hurry().map_err(Error::Sink)?;
    }
    let mut expected = 1;
    while let Some(row) = rows.next().map_err(failed)? {
        let number: u32 = row.get(0).map_err(failed)?;
        let page = row.get_ref(1).map_err(failed)?;
        let page = page.as_blob().map_err(|error| failed(error.into()))?;
        if number != expected || page.len() != content.page_size.as_usize() {
            return Err(damaged(format!("page {expected} came as {number} with {} bytes", page.len())));
        }
        check(source, cancel, number - 1)?;
        let handed =
            if number == 1 { sink.page(1, &in_rollback_mode(page)) } else { sink.page(number, page) };
        handed.map_err(Error::Sink)?;
        expected = number.saturating_add(1);
    }
    if expected != content.page_count.saturating_add(1) {
        return Err(damaged(format!("it ended after {} of {} pages", expected - 1, content.page_count)));
    }
    Ok(())
}

/// Which pages are handed over.
pub(super) struct Changed<'a> {
    /// Those that may differ from what the sink has.
    pub(super) differing: &'a Differing,
    /// Whether the others are handed over as well, to be held against what the sink has.
    pub(super) audit: bool,
}

/// Hands over the pages that may have changed, in order, and says of the others that they have not. Answers how many were read.
pub(super) fn hand_over_changed(
    source: &Source<'_>,
    changed: &Changed<'_>,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
    begun: &mut bool,
) -> Result<u32, Error> {
    let Content { page_size, page_count, .. } = source.content;
    let failed = |error: rusqlite::Error| Error::from_sqlite("read", source.path, &error);
    let sql = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
    let mut pages =
        Pages { source, cancel, statement: source.connection.prepare(sql).map_err(failed)?, read: 0 };
    check(source, cancel, 0)?;
    *begun = true;
    sink.begin(page_size, page_count).map_err(Error::Sink)?;
    let mut next = 1;
    let end = page_count.saturating_add(1);
    for page in changed.differing.pages(page_count).chain([end]) {
        if next < page {
            let last = page - 1;
            if changed.audit {
                sink.claim(page - next).map_err(Error::Sink)?;
            }
            if changed.audit || !sink.same_run(next, last).map_err(Error::Sink)? {
                (next..page).try_for_each(|number| pages.hand_over(number, sink))?;
            }
        }
        if page < end {
            pages.hand_over(page, sink)?;
        }
        next = page.saturating_add(1);
    }
    Ok(pages.read)
}

/// Pages that are read one by one.
struct Pages<'a> {
    source: &'a Source<'a>,
    cancel: &'a AtomicBool,
    statement: Statement<'a>,
    read: u32,
}

impl Pages<'_> {
    fn hand_over(&mut self, number: u32, sink: &mut dyn PageSink) -> Result<(), Error> {
        let path = self.source.path;
        let failed = |error: rusqlite::Error| Error::from_sqlite("read", path, &error);
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        check(self.source, self.cancel, self.read)?;
        let mut rows = self.statement.query([number]).map_err(failed)?;
        let row = rows.next().map_err(failed)?;
        let row = row.ok_or_else(|| damaged(format!("page {number} is not there")))?;
        let page = row.get_ref(0).map_err(failed)?;
        let page = page.as_blob().map_err(|error| failed(error.into()))?;
        if page.len() != self.source.content.page_size.as_usize() {
            return Err(damaged(format!("page {number} came with {} bytes", page.len())));
        }
        self.read += 1;
        let handed =
            if number == 1 { sink.page(1, &in_rollback_mode(page)) } else { sink.page(number, page) };
        handed.map_err(Error::Sink)
    }
}

/// Gives up where that was asked for, or where writers would wait for too long. A look at the clock costs little
/// beside a page, and a sink that is slow must not make the hold longer than its bound.
fn check(source: &Source<'_>, cancel: &AtomicBool, read: u32) -> Result<(), Error> {
    let path = || source.path.to_owned();
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::Stopping { path: path() });
    }
    if let Some((since, bound)) = source.held {
        let held = since.elapsed();
        if held > bound {
            let pages = source.content.page_count;
            return Err(Error::HoldExceeded { path: path(), bound, held, read, pages });
        }
    }
    Ok(())
}

/// The first page, with the file-format versions of a rollback-mode database. A copy in WAL mode could not be
/// opened read-only without its sidecars.
pub(super) fn in_rollback_mode(page: &[u8]) -> Vec<u8> {
    let mut page = page.to_vec();
    if let Some(versions) = page.get_mut(18..20) {
        versions.fill(1);
    }
    page
}
