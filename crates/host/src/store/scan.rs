//! The pages of a read transaction, handed to the sink one by one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

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
