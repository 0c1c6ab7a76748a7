//! Whether a commit is under way in a store's WAL: its frames are in the file, and no reader sees them yet.
//!
//! In WAL mode a writer appends the frames of a transaction to the WAL, has them written to the disk if `synchronous` says so,
//! and only then names the last one in the wal-index, which is when the commit is there for readers. Between the two the
//! WAL's times have moved already, and the wal-index is memory whose changes move no times. So a reader in between sees the
//! state before, in files that do not change any more when the commit becomes visible. A writer that is killed in
//! between leaves the same behind, for as long as somebody else keeps the wal-index: whoever recovers the WAL later
//! makes that transaction a commit, again without a write.
//!
//! What is looked for is a frame past the wal-index's last one (`mxFrame`) that ends a transaction and belongs to this
//! generation of the WAL, which its salts say. Checksums are not looked at: a frame whose page is still being written
//! counts. A writer lock would tell less (a killed writer has none), and could not be asked for without taking it for a moment.
//!
//! The files are read with descriptors of another table ([`apart`]), so no lock of this process is lost, and by `read`, so
//! that nobody who truncates them can end this process.
//! The formats: <https://www.sqlite.org/walformat.html>, <https://www.sqlite.org/fileformat.html#walformat>.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use asat_core::PageSize;
use rustix::fs::OFlags;

use crate::apart::apart;

/// The length of the WAL's header, and of that of a frame.
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// How many frames without an end of a transaction are looked at. Somebody rolled a large transaction back that leaves more.
const MOST_FRAMES: u64 = 100_000;

/// The wal-index's header, as far as it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Index {
    /// The last frame that readers see.
    last: u32,
    /// The salts of the WAL's generation, as they are in the file.
    salts: [u8; 8],
}

/// Whether a commit is in the WAL that readers do not see yet; also if that cannot be told.
pub(super) fn is_in(wal: &Path, index: &Path) -> bool {
    match fs::symlink_metadata(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Ok(metadata) if metadata.len() <= WAL_HEADER as u64 => return false,
        _ => {}
    }
    apart(|| look(&open(wal)?, &open(index)?)).unwrap_or(true)
}

/// Opens a plain file, and waits for nobody.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no file")),
    }
}

pub(crate) fn look(wal: &File, index: &File) -> io::Result<bool> {
    let mut copies = [0; 96];
    index.read_exact_at(&mut copies, 0)?;
    let Some(index) = Index::read(&copies) else { return Ok(true) };
    let mut header = [0; WAL_HEADER];
    wal.read_exact_at(&mut header, 0)?;
    let length = wal.metadata()?.len();
    // Another size is none that a frame of SQLite has, and with one of four gigabytes the place of the last would be beyond all files.
    let page_size = number(&header, 8, u32::from_be_bytes).and_then(PageSize::new);
    let Some(page_size) = page_size else { return Ok(true) };
    let frame_size = u64::from(page_size.bytes()) + FRAME_HEADER as u64;
    let frame = |number: u64| {
        let mut frame = [0; FRAME_HEADER];
        wal.read_exact_at(&mut frame, WAL_HEADER as u64 + (number - 1) * frame_size).map(|()| frame)
    };
    let in_file = header.get(16..24);
    let last = u64::from(index.last);
    let is_of_index = |salts: Option<&[u8]>| salts == Some(&index.salts);
    if last > 0 && !(is_of_index(in_file) && is_of_index(frame(last)?.get(8..16))) {
        // The wal-index is of another generation than the file: somebody begins anew, or it was left behind.
        return Ok(true);
    }
    if last == 0 && is_older_by_one(&header, index.salts) {
        // All that the file holds is in the database, and the next writer begins it anew.
        return Ok(false);
    }
    for number in last + 1..=last + MOST_FRAMES {
        if WAL_HEADER as u64 + (number - 1) * frame_size + FRAME_HEADER as u64 > length {
            return Ok(false);
        }
        let frame = frame(number)?;
        if frame.get(8..16) != in_file {
            return Ok(false);
        }
        // The size of the database after a commit; zero in all other frames.
        if frame.get(4..8) != Some(&[0; 4]) {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Whether the wal-index says that the WAL begins anew, and the file is still that of the generation before: the first
/// salt counts those.
fn is_older_by_one(header: &[u8], salts: [u8; 8]) -> bool {
    let first = |bytes: &[u8], at| number(bytes, at, u32::from_be_bytes);
    first(header, 16).map(|salt| salt.wrapping_add(1)) == first(&salts, 0)
}

impl Index {
    /// Reads the two copies of the header; nothing if they differ or are not whole, as while somebody writes them.
    fn read(copies: &[u8]) -> Option<Self> {
        const VERSION: u32 = 3_007_000;
        let (first, second) = copies.split_at_checked(48)?;
        let native = |at| number(first, at, u32::from_ne_bytes);
        let is_initialised = first.get(12) != Some(&0);
        let is_whole = first == second && native(0) == Some(VERSION) && is_initialised;
        let sums = (native(40)?, native(44)?);
        (is_whole && checksum(first.get(..40)?) == sums)
            .then_some(Self { last: native(16)?, salts: first.get(32..40)?.try_into().ok()? })
    }
}

/// SQLite's checksum of the wal-index's header.
fn checksum(bytes: &[u8]) -> (u32, u32) {
    let words = bytes.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_ne_bytes);
    let words: Vec<u32> = words.collect();
    words.chunks_exact(2).fold((0, 0), |(one, two): (u32, u32), pair| {
        let one = one.wrapping_add(pair.first().copied().unwrap_or(0)).wrapping_add(two);
        (one, two.wrapping_add(pair.last().copied().unwrap_or(0)).wrapping_add(one))
    })
}

fn number(bytes: &[u8], at: usize, read: impl Fn([u8; 4]) -> u32) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(read)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rusqlite::Connection;

    use super::*;

    /// A store in WAL mode, and the paths of its WAL and its wal-index.
    struct Store {
        folder: tempfile::TempDir,
        connection: Connection,
        wal: PathBuf,
        index: PathBuf,
    }

    impl Store {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            let connection = Connection::open(path("store.db")).unwrap();
            connection
                .execute_batch("pragma journal_mode = wal; create table t (a); insert into t values (0)")
                .unwrap();
            Self { connection, wal: path("store.db-wal"), index: path("store.db-shm"), folder }
        }

        fn is_under_way(&self) -> bool {
            is_in(&self.wal, &self.index)
        }

        /// Executes something, and says whether a reader who looked between its frames and the wal-index would have found a
        /// commit under way.
        fn was_under_way_in(&self, sql: &str) -> bool {
            let before = self.folder.path().join("before-shm");
            fs::copy(&self.index, &before).unwrap();
            self.connection.execute_batch(sql).unwrap();
            assert!(!self.is_under_way(), "after {sql}");
            is_in(&self.wal, &before)
        }
    }

    #[test]
    fn a_commit_is_under_way_from_its_last_frame_until_the_wal_index_names_it() {
        let store = Store::new();
        assert!(!store.is_under_way());
        for sql in ["insert into t values (1)", "update t set a = 7", "create table u (b)", "vacuum"] {
            assert!(store.was_under_way_in(sql), "{sql}");
        }
    }

    #[test]
    fn the_first_commit_of_a_generation_is_seen_whoever_began_it() {
        for checkpoint in ["passive", "restart", "truncate"] {
            let store = Store::new();
            store.connection.execute_batch(&format!("pragma wal_checkpoint({checkpoint})")).unwrap();
            assert!(!store.is_under_way(), "{checkpoint}");
            // A connection of its own has other salts in mind.
            let other = Connection::open(store.folder.path().join("store.db")).unwrap();
            let store = Store { connection: other, ..store };
            assert!(store.was_under_way_in("insert into t values (1)"), "{checkpoint}");
        }
    }

    #[test]
    fn what_was_rolled_back_is_not_under_way() {
        let store = Store::new();
        let spilled = "pragma cache_size = 1; begin;
            with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)
            insert into t select zeroblob(5000) from n; rollback";
        let before = fs::metadata(&store.wal).unwrap().len();
        assert!(!store.was_under_way_in(spilled));
        assert!(fs::metadata(&store.wal).unwrap().len() > before + 100_000);
        assert!(store.was_under_way_in("insert into t values (1)"));
    }

    #[test]
    fn a_commit_whose_last_page_is_still_being_written_is_under_way() {
        let store = Store::new();
        assert!(store.was_under_way_in("insert into t values (1)"));
        let before = store.folder.path().join("before-shm");
        let torn = store.folder.path().join("torn-wal");
        fs::copy(&store.wal, &torn).unwrap();
        let length = fs::metadata(&torn).unwrap().len();
        File::options().write(true).open(&torn).unwrap().set_len(length - 4096).unwrap();
        assert!(is_in(&torn, &before));
    }

    #[test]
    fn what_cannot_be_told_counts_as_under_way_and_no_wal_as_none() {
        let store = Store::new();
        let path = |name: &str| store.folder.path().join(name);
        assert!(!is_in(&path("none"), &store.index));
        fs::write(path("empty"), []).unwrap();
        assert!(!is_in(&path("empty"), &store.index));
        fs::write(path("zeros"), [0; 200]).unwrap();
        let strange = [path("none"), path("empty"), path("zeros"), store.folder.path().to_owned()];
        for index in &strange {
            assert!(is_in(&store.wal, index), "{}", index.display());
        }
        let fifo = path("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(is_in(&store.wal, &fifo));
        let mut torn = fs::read(&store.index).unwrap();
        torn[16] ^= 1;
        fs::write(path("torn"), torn).unwrap();
        assert!(is_in(&store.wal, &path("torn")));
    }
}
