//! What a commit that failed leaves in the log.
//!
//! SQLite writes a commit's pages to the log, syncs it, and only then counts them in. Where it fails in between, it takes the
//! commit back for everybody who has the catalogue open; but its pages are there, whole, and the next reader of the log after a kill
//! takes them for committed. So they are cut off before anybody hears that the commit failed.

use std::fs::OpenOptions;
use std::path::Path;

use rusqlite::Connection;

use crate::create::beside;
use crate::error::Error;

const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Cuts off what is in the log after the newest commit. Only this connection may write.
pub(crate) fn cut(connection: &Connection, path: &Path) -> Result<(), Error> {
    let asked = |error| Error::sqlite("look into the log of", path, error);
    let frames: i64 =
        connection.query_row("pragma wal_checkpoint(noop)", [], |row| row.get(1)).map_err(asked)?;
    let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(asked)?;
    let length = match u64::try_from(frames) {
        // It is written from the beginning, and all that was in it is in the database.
        Ok(0) => 0,
        Ok(frames) => HEADER + frames * (FRAME_HEADER + u64::from(page)),
        Err(_) => return Ok(()),
    };
    let log = beside(path, "-wal");
    // Nobody locks the log itself, so closing it loses no lock.
    let cut = OpenOptions::new().write(true).open(&log).and_then(|file| {
        if file.metadata()?.len() > length {
            file.set_len(length)?;
        }
        file.sync_all()
    });
    cut.map_err(|source| Error::io("take a commit that failed out of", &log, source))
}
