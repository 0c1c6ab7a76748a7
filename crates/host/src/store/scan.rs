//! The pages of a read transaction, handed to the sink in order.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::track::Differing;
use rusqlite::{Connection, Statement};

use super::PageSink;
use super::content::Content;
use super::error::Error;
use super::in_file::InFile;

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

/// Hands every page over, in order. Memory does not grow with the store: pages are lent to the sink.
pub(super) fn hand_over(
    source: &Source<'_>,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
    begun: &mut bool,
) -> Result<(), Error> {
    let Content { page_size, page_count, .. } = source.content;
    let mut pages = Pages::of(source, cancel, true)?;
    check(source, cancel, 0)?;
    *begun = true;
    sink.begin(page_size, page_count).map_err(Error::Sink)?;
    if source.held.is_some() {
        sink.hurry().map_err(Error::Sink)?;
    }
    pages.hand_over(1, page_count, sink)
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
    let mut pages = Pages::of(source, cancel, changed.audit)?;
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
                pages.hand_over(next, last, sink)?;
            }
        }
        if page < end {
            pages.hand_over(page, page, sink)?;
        }
        next = page.saturating_add(1);
    }
    Ok(pages.read)
}

/// Pages as a transaction sees them.
struct Pages<'a> {
    source: &'a Source<'a>,
    cancel: &'a AtomicBool,
    /// Those that are read many at once.
    in_file: Option<InFile<'a>>,
    statement: Statement<'a>,
    read: u32,
}

impl<'a> Pages<'a> {
    /// Begins to read. `many`: most pages will be read.
    fn of(source: &'a Source<'a>, cancel: &'a AtomicBool, many: bool) -> Result<Self, Error> {
        let failed = |error: rusqlite::Error| Error::from_sqlite("read", source.path, &error);
        let sql = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
        let statement = source.connection.prepare(sql).map_err(failed)?;
        let in_file = if many { InFile::of(source) } else { None };
        Ok(Self { source, cancel, in_file, statement, read: 0 })
    }

    /// Hands over the pages from the first to the last.
    fn hand_over(&mut self, first: u32, last: u32, sink: &mut dyn PageSink) -> Result<(), Error> {
        let page_size = self.source.content.page_size;
        let mut next = first;
        while next <= last {
            check(self.source, self.cancel, self.read)?;
            let count = match self.in_file.as_mut().and_then(|in_file| in_file.read(next, last)) {
                Some(pages) => {
                    sink.pages(next, pages, page_size).map_err(Error::Sink)?;
                    u32::try_from(pages.len() / page_size.as_usize()).unwrap_or(u32::MAX)
                }
                None => self.hand_over_by_sqlite(next, sink).map(|()| 1)?,
            };
            self.read = self.read.saturating_add(count);
            next = next.saturating_add(count);
        }
        Ok(())
    }

    fn hand_over_by_sqlite(&mut self, number: u32, sink: &mut dyn PageSink) -> Result<(), Error> {
        let path = self.source.path;
        let failed = |error: rusqlite::Error| Error::from_sqlite("read", path, &error);
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let mut rows = self.statement.query([number]).map_err(failed)?;
        let row = rows.next().map_err(failed)?;
        let row = row.ok_or_else(|| damaged(format!("page {number} is not there")))?;
        let page = row.get_ref(0).map_err(failed)?;
        let page = page.as_blob().map_err(|error| failed(error.into()))?;
        if page.len() != self.source.content.page_size.as_usize() {
            return Err(damaged(format!("page {number} came with {} bytes", page.len())));
        }
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
