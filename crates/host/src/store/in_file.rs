//! Pages that the database's file has as a read transaction sees them. They are read from there, many at once, which takes a fraction of
//! what SQLite takes for one after another.
//!
//! If SQLite uses no WAL, these are all pages: nobody writes to the file as long as a reader has its lock.
//!
//! If it uses one, and all of the WAL is in the file, these are all pages, too. A checkpoint moves nothing past the mark of a transaction. So if
//! the frames that the wal-index says to be in the file are all that it has *afterwards*, the transaction sees the last one, no page had a
//! newer frame that a checkpoint would have moved in its place, and the file stays as it is.
//!
//! Else these are the pages of which the WAL has no frame. A transaction sees of a page its newest frame among those up to the
//! transaction's own last one, and what the file has if there is none. As long as the transaction lasts,
//! * the WAL does not begin anew while a transaction has a mark in it, so all frames that it sees are found;
//! * a checkpoint moves no frame into the file that comes after this mark, and those before it are of pages that have a frame. A transaction
//!   with the first mark (0) keeps checkpoints from moving any.
//!   <https://www.sqlite.org/walformat.html#locks>
//!
//! Whether SQLite uses a WAL is asked of SQLite, and not of the file's header: it uses one that lies beside a file in rollback mode, too.
//! Whatever looks like a frame counts as one, also what is left of an earlier generation: then SQLite is asked for the page.

use std::sync::atomic::{AtomicU32, Ordering};

use asat_core::PageSize;

use super::opened_file::{MOST_AT_ONCE, OpenedFile};
use super::scan::Source;
use super::wal::{Index, WAL_HEADER, frame_length, is_header, offset_after, read_words};

/// The byte in whose page nothing is ever stored, since SQLite locks bytes there.
/// <https://www.sqlite.org/fileformat.html#the_lock_byte_page>
pub(super) const PENDING_BYTE: u32 = 0x4000_0000;

/// With more frames in a WAL, all pages are asked of SQLite: their numbers are read one by one.
const MOST_FRAMES: u32 = 1 << 18;

/// Pages of a database's file, for as long as a read transaction lasts.
pub(super) struct InFile<'a> {
    file: OpenedFile<'a>,
    page_size: PageSize,
    /// The pages that are not read from the file, in order.
    elsewhere: Vec<u32>,
    buffer: Vec<u8>,
}

impl<'a> InFile<'a> {
    /// The file that a transaction reads. Nothing: SQLite is to be asked for all pages, as the WAL cannot be read, or that is as fast.
    pub(super) fn of(source: &Source<'a>) -> Option<Self> {
        Self::by(source, |word| word.load(Ordering::Acquire))
    }

    /// The same, with how a word of the wal-index is read.
    fn by(source: &Source<'a>, load: impl FnMut(&AtomicU32) -> u32) -> Option<Self> {
        let (connection, page_size) = (source.connection, source.content.page_size);
        if connection.is_autocommit() {
            // There is no transaction any more, and the next statement says why.
            return None;
        }
        let file = OpenedFile::database(connection)?;
        let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).ok()?;
        let mut elsewhere = match mode == "wal" && !is_backfilled(&file, page_size, load) {
            true => pages_of(&OpenedFile::wal(connection)?, page_size, source.content.page_count)?,
            false => Vec::new(),
        };
        // The first one is not handed over as it is, and nothing is known of what the file has in the place of the other one.
        elsewhere.extend([1, PENDING_BYTE / page_size.bytes() + 1]);
        elsewhere.sort_unstable();
        elsewhere.dedup();
        Some(Self { file, page_size, elsewhere, buffer: Vec::new() })
    }

    /// Reads some pages from the first one on, up to the last one at most; nothing if SQLite is to be asked for the first.
    pub(super) fn read(&mut self, first: u32, last: u32) -> Option<&[u8]> {
        let next = self.elsewhere.get(self.elsewhere.partition_point(|page| *page < first));
        let end = next.copied().unwrap_or(u32::MAX).min(last.saturating_add(1));
        let size = self.page_size.as_usize();
        let count = usize::try_from(end.saturating_sub(first)).ok()?.min((MOST_AT_ONCE / size).max(1));
        if count == 0 {
            return None;
        }
        self.buffer.resize(count * size, 0);
        let at = u64::from(first.checked_sub(1)?) * u64::from(self.page_size.bytes());
        self.file.read(&mut self.buffer, at).then_some(self.buffer.as_slice())
    }
}

/// Whether the database's file has all that is in the WAL; not if that cannot be told.
fn is_backfilled(
    file: &OpenedFile<'_>,
    page_size: PageSize,
    mut load: impl FnMut(&AtomicU32) -> u32,
) -> bool {
    let Some(words) = file.wal_index() else { return false };
    let index = Index::read(&read_words(|at| words.get(at).map_or(0, &mut load)), page_size);
    index.is_some_and(|index| index.page_size == page_size && index.backfilled == index.place.frame)
}

/// The pages of which a WAL has a frame; nothing if it cannot be read, is none, or has so many frames that finding them takes longer than
/// asking SQLite for the pages.
fn pages_of(wal: &OpenedFile<'_>, page_size: PageSize, page_count: u32) -> Option<Vec<u32>> {
    let length = wal.length()?;
    if length == 0 {
        return Some(Vec::new());
    }
    let mut header = [0; WAL_HEADER];
    if !wal.read(&mut header, 0) || !is_header(&header, page_size) {
        return None;
    }
    let count = length.saturating_sub(WAL_HEADER as u64) / frame_length(page_size) as u64;
    let number = |frame| {
        let mut number = [0; 4];
        wal.read(&mut number, offset_after(page_size, frame)).then(|| u32::from_be_bytes(number))
    };
    let count =
        u32::try_from(count).ok().filter(|count| *count <= page_count.saturating_mul(4).min(MOST_FRAMES))?;
    let pages = (0..count).map(number).collect::<Option<_>>()?;
    // Only somebody who breaks the rules cuts it while its frames are in use.
    (wal.length()? >= length).then_some(pages)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::*;
    use crate::store::content::Content;
    use crate::store::wal::INDEX;

    const ROWS: i64 = 120;

    /// A store, and a connection that writes it. Each row has a page of its own, and some more.
    struct Store {
        folder: TempDir,
        writer: Connection,
    }

    impl Store {
        fn make(journal_mode: &str, page_size: u32) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let writer = Connection::open(folder.path().join("report.db")).unwrap();
            let set = format!(
                "pragma page_size = {page_size}; pragma journal_mode = {journal_mode}; pragma wal_autocheckpoint = 0"
            );
            writer.busy_timeout(std::time::Duration::ZERO).unwrap();
            writer.execute_batch(&set).unwrap();
            writer.execute_batch("create table t(id integer primary key, data blob)").unwrap();
            let mut store = Self { folder, writer };
            store.change(1..=ROWS, 0);
            store
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join("report.db")
        }

        fn change(&mut self, rows: impl IntoIterator<Item = i64>, round: i64) {
            let length = self.writer.query_row("pragma page_size", [], |row| row.get::<_, i64>(0)).unwrap();
            let transaction = self.writer.transaction().unwrap();
            for row in rows {
                let data = vec![
                    u8::try_from((row * 7 + round * 31) % 251).unwrap();
                    usize::try_from(length).unwrap()
                ];
                transaction.execute("insert or replace into t values (?1, ?2)", (row, data)).unwrap();
            }
            transaction.commit().unwrap();
        }

        fn reader(&self) -> Connection {
            let reader = Connection::open(self.path()).unwrap();
            reader.execute_batch("begin; select count(*) from sqlite_schema").unwrap();
            reader
        }
    }

    fn source<'a>(connection: &'a Connection, path: &'a Path) -> Source<'a> {
        Source { connection, path, content: Content::read(connection, path).unwrap(), held: None }
    }

    fn by_sqlite(source: &Source<'_>, page: u32) -> Vec<u8> {
        let sql = "select data from sqlite_dbpage where pgno = ?1";
        source.connection.query_row(sql, [page], |row| row.get(0)).unwrap()
    }

    /// All pages that are in the file, as they are there.
    fn found(source: &Source<'_>) -> Vec<(u32, Vec<u8>)> {
        try_found(source).expect("pages are read from the file")
    }

    /// The same, unless all are to be asked of SQLite.
    fn try_found(source: &Source<'_>) -> Option<Vec<(u32, Vec<u8>)>> {
        InFile::of(source).map(|in_file| all_of(in_file, source))
    }

    fn all_of(mut in_file: InFile<'_>, source: &Source<'_>) -> Vec<(u32, Vec<u8>)> {
        let size = source.content.page_size.as_usize();
        let (mut pages, mut next) = (Vec::new(), 1);
        while next <= source.content.page_count {
            match in_file.read(next, source.content.page_count) {
                Some(read) => {
                    assert!(
                        !read.is_empty()
                            && read.len() <= MOST_AT_ONCE.max(size)
                            && read.len().is_multiple_of(size)
                    );
                    pages.extend((next..).zip(read.chunks_exact(size).map(<[u8]>::to_vec)));
                    next += u32::try_from(read.len() / size).unwrap();
                }
                None => next += 1,
            }
        }
        pages
    }

    #[test]
    fn all_but_the_first_page_are_in_the_file_of_a_store_that_nobody_has_in_wal_mode() {
        for (mode, page_size) in [("delete", 512), ("truncate", 4096), ("persist", 65536)] {
            let store = Store::make(mode, page_size);
            let (path, reader) = (store.path(), store.reader());
            let source = source(&reader, &path);
            let found = found(&source);
            assert_eq!(found.len(), usize::try_from(source.content.page_count - 1).unwrap(), "{mode}");
            found
                .iter()
                .for_each(|(page, read)| assert_eq!(*read, by_sqlite(&source, *page), "{mode}: page {page}"));
        }
    }

    #[test]
    fn a_page_with_a_frame_in_the_wal_is_not_read_from_the_file() {
        let mut store = Store::make("wal", 4096);
        store.writer.execute_batch("pragma wal_checkpoint(truncate)").unwrap();
        let (path, all) = (store.path(), store.reader());
        let count = found(&source(&all, &path)).len();
        assert!(count > 100, "the WAL is empty: {count}");
        drop(all);
        store.change([5, 60], 1);
        let reader = store.reader();
        let source = source(&reader, &path);
        let found = found(&source);
        assert!(found.len() < count && found.len() > 100, "{}", found.len());
        found.iter().for_each(|(page, read)| assert_eq!(*read, by_sqlite(&source, *page), "page {page}"));
    }

    /// If somebody copies a file in rollback mode over a store and leaves its WAL, SQLite uses that WAL, though the header says rollback mode.
    #[test]
    fn a_wal_counts_also_if_the_header_says_rollback_mode() {
        let store = Store::make("wal", 4096);
        store
            .writer
            .execute_batch("create table u(n); insert into u values (1); pragma wal_checkpoint(truncate)")
            .unwrap();
        // This leaves the first page as it is.
        store.writer.execute_batch("update u set n = 2").unwrap();
        // Closing this loses no lock that matters: nobody reads.
        let file = std::fs::OpenOptions::new().write(true).open(store.path()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 2], 18).unwrap();
        drop(file);
        let (path, reader) = (store.path(), store.reader());
        let source = source(&reader, &path);
        assert!(!source.content.wal, "as the header says");
        let found = found(&source);
        assert_eq!(
            found.len(),
            usize::try_from(source.content.page_count).unwrap() - 2,
            "all but the first and one more"
        );
        let expected: Vec<_> = found.iter().map(|(page, _)| by_sqlite(&source, *page)).collect();
        assert!(found.iter().map(|(_, read)| read).eq(&expected));
        // Somebody moves the WAL into the file meanwhile.
        store.writer.execute_batch("pragma wal_checkpoint(passive)").unwrap();
        let later = super::tests::found(&source);
        assert!(later.len() > found.len(), "all but the first are in the file now");
        assert!(found.iter().all(|page| later.contains(page)), "what is read from the file stays as it was");
    }

    #[test]
    fn all_but_the_first_page_are_in_the_file_if_all_of_the_wal_is() {
        let mut store = Store::make("wal", 4096);
        store.writer.execute_batch("pragma wal_checkpoint(passive)").unwrap();
        let (path, reader) = (store.path(), store.reader());
        let source = source(&reader, &path);
        let all = usize::try_from(source.content.page_count - 1).unwrap();
        let found = found(&source);
        assert_eq!(found.len(), all, "the WAL still has all frames");
        found.iter().for_each(|(page, read)| assert_eq!(*read, by_sqlite(&source, *page), "page {page}"));
        // The next commit begins the WAL anew, since this transaction reads the file alone.
        store.change([5, 60], 1);
        let _ = store.writer.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()));
        let later = super::tests::found(&source);
        assert!(later.len() < all && later.iter().all(|page| found.contains(page)), "{}", later.len());
    }

    /// A checkpoint leaves out a frame of a page that has a newer one.
    #[test]
    fn a_commit_and_a_checkpoint_while_the_index_is_read_show_nothing_that_the_transaction_does_not_see() {
        for at in 0..INDEX / 4 {
            let mut store = Store::make("wal", 4096);
            store.writer.execute_batch("pragma wal_checkpoint(truncate)").unwrap();
            store.change([5, 60], 1);
            let (path, reader) = (store.path(), store.reader());
            let source = source(&reader, &path);
            let mut read = 0;
            let in_file = InFile::by(&source, |word| {
                if read == at {
                    store.change([60], 2);
                    store.writer.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
                }
                read += 1;
                word.load(Ordering::Acquire)
            });
            for (page, read) in all_of(in_file.unwrap(), &source) {
                assert_eq!(read, by_sqlite(&source, page), "page {page}, with word {at}");
            }
            assert_eq!(read, INDEX / 4);
        }
    }

    /// Another connection commits and makes checkpoints all the time.
    #[test]
    fn the_file_has_what_the_transaction_sees_whenever_others_write() {
        let mut store = Store::make("wal", 512);
        let path = store.path();
        let writer = std::thread::spawn(move || {
            for round in 0..400 {
                store.change([round % ROWS + 1, round * 7 % ROWS + 1], round);
                let kind = ["passive", "truncate", "restart"][usize::try_from(round % 3).unwrap()];
                // One that cannot be done because of the reader does what it can.
                let _ = store.writer.query_row(&format!("pragma wal_checkpoint({kind})"), [], |_| Ok(()));
            }
            store
        });
        let reader = Connection::open(&path).unwrap();
        while !writer.is_finished() {
            reader.execute_batch("begin; select count(*) from sqlite_schema").unwrap();
            let source = source(&reader, &path);
            for (page, read) in try_found(&source).unwrap_or_default() {
                assert_eq!(read, by_sqlite(&source, page), "page {page}");
            }
            reader.execute_batch("rollback").unwrap();
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_wal_with_many_more_frames_than_there_are_pages_is_not_looked_through() {
        let mut store = Store::make("wal", 1024);
        (1..10).for_each(|round| store.change(1..=ROWS, round));
        let (path, reader) = (store.path(), store.reader());
        assert!(InFile::of(&source(&reader, &path)).is_none());
    }

    #[test]
    fn nothing_is_read_from_the_file_after_the_transaction() {
        let store = Store::make("delete", 4096);
        let (path, reader) = (store.path(), store.reader());
        let source = source(&reader, &path);
        reader.execute_batch("rollback").unwrap();
        assert!(InFile::of(&source).is_none());
    }

    #[test]
    fn what_is_no_wal_says_nothing() {
        let store = Store::make("wal", 4096);
        let (path, reader) = (store.path(), store.reader());
        let mut source = source(&reader, &path);
        assert!(InFile::of(&source).is_some());
        source.content.page_size = PageSize::new(512).unwrap();
        assert!(InFile::of(&source).is_none(), "it has pages of another size");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Change(Vec<i64>),
        Checkpoint(&'static str),
    }

    fn step() -> impl Strategy<Value = Step> {
        let kinds = prop::sample::select(vec!["passive", "full", "restart", "truncate"]);
        prop_oneof![
            prop::collection::vec(1..=ROWS + 20, 1..12).prop_map(Step::Change),
            kinds.prop_map(Step::Checkpoint),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Others write and checkpoint before and while a transaction lasts: of each page that is read from the file, it
        /// has what the transaction sees, as one says who reads through SQLite.
        #[test]
        fn the_file_has_what_the_transaction_sees(
            before in prop::collection::vec(step(), 0..6), meanwhile in prop::collection::vec(step(), 0..6),
        ) {
            let mut store = Store::make("wal", 1024);
            let mut round = 0;
            let mut take = |store: &mut Store, step: &Step| match step {
                Step::Change(rows) => {
                    round += 1;
                    store.change(rows.iter().copied(), round);
                }
                // One that cannot be done because of the reader does what it can.
                Step::Checkpoint(kind) => {
                    let _ = store.writer.query_row(&format!("pragma wal_checkpoint({kind})"), [], |_| Ok(()));
                }
            };
            before.iter().for_each(|step| take(&mut store, step));
            let (path, reader) = (store.path(), store.reader());
            let source = source(&reader, &path);
            let expected: Vec<Vec<u8>> = (1..=source.content.page_count).map(|page| by_sqlite(&source, page)).collect();
            for step in meanwhile.iter().map(Some).chain([None]) {
                for (page, read) in found(&source) {
                    prop_assert_eq!(&read, &expected[usize::try_from(page - 1).unwrap()], "page {}", page);
                }
                step.into_iter().for_each(|step| take(&mut store, step));
            }
        }
    }
}
