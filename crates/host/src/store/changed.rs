//! Reading what has changed in a store's file since an earlier clone of it, in a clone that is the state by itself.
//!
//! Where it is known which bytes are the same in both, only the others are read, and not through SQLite: the file alone is
//! the state, so its pages are where they should be.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use asat_core::PageSize;

use super::content::Content;
use super::error::Error;
use super::frozen::forget;
use super::in_file::PENDING_BYTE;
use super::scan::in_rollback_mode;
use super::{CutError, PageSink};
use crate::clones::Unchanged;

/// Hands the pages of a clone to `sink`, in order, and says of those that are unchanged only that
/// ([`PageSink::same`]).
///
/// # Errors
/// Where the file lacks pages or cannot be read, the sink gives up, or `cancel` is set.
pub fn read_changed(
    path: &Path,
    (page_size, page_count): (PageSize, u32),
    unchanged: &Unchanged,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
) -> Result<(), CutError> {
    let mut begun = false;
    let failed = |error, begun| CutError { error, begun };
    let file = File::open(path).map_err(|source| failed(Error::from_io("read", path, source), false))?;
    let result = hand_over(&file, path, (page_size, page_count), unchanged, cancel, sink, &mut begun);
    // Nobody else reads it, and the store's own pages should stay in the cache.
    forget(&file, 0, None);
    result.map_err(|error| failed(error, begun))
}

fn hand_over(
    file: &File,
    path: &Path,
    (page_size, page_count): (PageSize, u32),
    unchanged: &Unchanged,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
    begun: &mut bool,
) -> Result<(), Error> {
    let failed = |source: io::Error| Error::from_io("read", path, source);
    let size = u64::from(page_size.bytes());
    // It may be longer: SQLite grows files by whole chunks if an application asks for that. What follows the last page is
    // no part of the database.
    let length = file.metadata().map_err(failed)?.len();
    Content { page_size, page_count, wal: false }.check_lengths(path, length, 0)?;
    *begun = true;
    sink.begin(page_size, page_count).map_err(Error::Sink)?;
    let mut page = vec![0; page_size.as_usize()];
    for number in 1..=page_count {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Stopping { path: path.to_owned() });
        }
        let at = size * u64::from(number - 1);
        // The first page is not handed on as it is, so its bytes say nothing of what was kept.
        let is_same = number != 1 && unchanged.contains(&(at..at + size));
        if is_same && sink.same(number).map_err(Error::Sink)? {
            continue;
        }
        if number == PENDING_BYTE / page_size.bytes() + 1 {
            page.fill(0);
        } else {
            read_page(file, &mut page, at).map_err(failed)?;
        }
        let handed =
            if number == 1 { sink.page(1, &in_rollback_mode(&page)) } else { sink.page(number, &page) };
        handed.map_err(Error::Sink)?;
    }
    Ok(())
}

/// Reads a page, with zeros for what the file has not of it: the last page may be there in part.
fn read_page(file: &File, page: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = page.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => {
                rest.fill(0);
                break;
            }
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
