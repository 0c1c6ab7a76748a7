//! The moment between two transactions of a writer that never pauses.

use std::hint;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::store::opened_file::OpenedFile;

/// How long at most one looks for the moment before the lock is asked for all the same. With the pauses between, it takes a
/// fifth of a processor.
const LOOK: Duration = Duration::from_micros(500);

/// Waits a little for the moment at which nobody writes a store in a rollback mode. In WAL mode there is no wait.
///
/// Such a writer lets go of its lock for some microseconds. Asking for the lock itself hits on one of them by chance, and
/// asking all the time would keep the writer from committing, since to ask is to read for a moment. This look takes no lock.
pub(super) fn wait_for_moment(connection: &Connection) {
    let Some(file) = OpenedFile::database(connection) else { return };
    let since = Instant::now();
    while file.is_reserved() && since.elapsed() < LOOK {
        hint::spin_loop();
    }
}
