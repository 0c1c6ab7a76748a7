//! What a read transaction on a database has fixed.

use std::path::Path;

use asat_core::PageSize;
use rusqlite::Connection;

use super::error::Error;

/// The measures of a database, and its journal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) page_size: PageSize,
    pub(super) page_count: u32,
    pub(super) wal: bool,
}

impl Content {
    /// Reads what the content is like.
    pub(super) fn read(connection: &Connection, path: &Path) -> Result<Self, Error> {
        let failed = |error: rusqlite::Error| Error::from_sqlite("read", path, &error);
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        // Pages are used once. This is a setting of the connection, not of the store.
        connection.execute_batch("PRAGMA cache_size = 16").map_err(failed)?;
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).map_err(failed);
        let bytes = number("PRAGMA page_size")?;
        let page_size = PageSize::new(bytes).ok_or_else(|| damaged(format!("its page size is {bytes}")))?;
        let page_count = number("PRAGMA page_count")?;
        if page_count == 0 {
            return Err(Error::Empty { path: path.to_owned() });
        }
        let (write_version, read_version) = connection
            .query_row("SELECT data FROM sqlite_dbpage WHERE pgno = 1", [], |row| {
                let page = row.get_ref(0)?.as_blob()?;
                Ok((page.get(18).copied(), page.get(19).copied()))
            })
            .map_err(failed)?;
        let wal = match (write_version, read_version) {
            (Some(1 | 2), Some(2)) => true,
            (Some(1 | 2), Some(1)) => false,
            _ => {
                let what = "its file format is newer than this SQLite".to_owned();
                return Err(Error::Unsupported { path: path.to_owned(), what });
            }
        };
        Ok(Self { page_size, page_count, wal })
    }

    /// Refuses a database of which a part is missing, given the lengths of its file and of the WAL that counts, in
    /// bytes. A last page that is in the file in part counts, as with SQLite, which reads zeros for the rest of it. SQLite
    /// also reads zeros past the file's end if a WAL says that there are more pages; such a database is refused here.
    pub(super) fn check_lengths(&self, path: &Path, main: u64, wal: u64) -> Result<(), Error> {
        let page_size = u64::from(self.page_size.bytes());
        let page_count = u64::from(self.page_count);
        let in_file = main.div_ceil(page_size);
        // Each page past the end must be in a frame of the WAL, except the one of the lock bytes, which is nowhere.
        let frames = wal.saturating_sub(32) / (page_size + 24);
        let lock_page = (1 << 30) / page_size + 1;
        let nowhere = u64::from((in_file..page_count).contains(&(lock_page - 1)));
        if page_count > in_file + frames + nowhere {
            let what =
                format!("it has {page_count} pages; its file holds {in_file}, and its WAL at most {frames}");
            return Err(Error::Damaged { path: path.to_owned(), what });
        }
        Ok(())
    }
}
