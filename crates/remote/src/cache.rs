//! What is kept on this machine of files in a bucket: the parts of them that were read, up to a bound.
//!
//! Files in a bucket never change, so a part is fetched once and serves everybody until its place is needed. Parts lie in files without a
//! name: nothing is left of them after the process, and a start begins with nothing. What is expected to be read soon is fetched
//! together with the next part that somebody waits for: in one round trip, and not in one for each.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::bucket::Bucket;
use crate::cached::CachedFile;
use crate::error::Error;
use crate::files::{self, FilePart};
use crate::manifest::RemoteFile;
use crate::repository::History;

/// A file is fetched in parts of this many bytes.
pub(crate) const PART_BYTES: u64 = 128 << 10;
/// One request fetches so many parts in a row at most.
const MOST_IN_A_ROW: usize = 32;
/// So many parts that are expected are fetched at once; the others are fetched when they are needed.
const MOST_EXPECTED: usize = 128;
/// So much is left free on the disk, on which others have theirs.
const RESERVE_BYTES: u64 = 256 << 20;
/// If a read fails that took so long, the service is taken to be away for as long again: others do not wait for it in turn.
const SLOW: Duration = Duration::from_secs(3);
/// The least that a cache may have: what is read at once must find its place.
pub const LEAST_CACHE_BYTES: u64 = 64 << 20;

/// The cache of all files of one bucket.
pub struct Cache {
    pub(crate) bucket: Arc<dyn Bucket>,
    folder: PathBuf,
    /// How many bytes all parts may take.
    most: u64,
    /// How many they take.
    held: AtomicU64,
    /// Counts uses: a part was used the longer ago, the smaller its number is.
    uses: AtomicU64,
    files: Mutex<Vec<Weak<CachedFile>>>,
    /// What is fetched with whatever is fetched next.
    expected: Mutex<Vec<(Weak<CachedFile>, Range<usize>)>>,
    /// Held while room is made.
    clearing: Mutex<()>,
    /// What the service said last, if it took long and failed, and when.
    away: Mutex<Option<(String, Instant)>>,
}

impl Cache {
    /// An empty cache, whose parts lie in this folder.
    ///
    /// # Errors
    /// If the folder can neither be found nor made.
    pub fn new(bucket: Arc<dyn Bucket>, folder: &Path, most: u64) -> Result<Arc<Self>, Error> {
        std::fs::create_dir_all(folder).map_err(Error::local("create", folder))?;
        Ok(Arc::new(Self {
            bucket,
            folder: folder.to_owned(),
            most: most.max(LEAST_CACHE_BYTES),
            held: AtomicU64::new(0),
            uses: AtomicU64::new(1),
            files: Mutex::default(),
            expected: Mutex::default(),
            clearing: Mutex::default(),
            away: Mutex::default(),
        }))
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// A file of a store's history.
    pub(crate) fn file(self: &Arc<Self>, history: &History, named: &RemoteFile) -> Arc<CachedFile> {
        let file = CachedFile::new(Arc::clone(self), history, named);
        let mut files = lock(&self.files);
        files.retain(|known| known.strong_count() > 0);
        files.push(Arc::downgrade(&file));
        file
    }

    /// Where its parts lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of a use now.
    pub(crate) fn use_number(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Has parts be fetched with whatever is fetched next.
    pub(crate) fn expect(&self, file: &Weak<CachedFile>, parts: Range<usize>) {
        let mut expected = lock(&self.expected);
        let has = |(other, known): &(Weak<CachedFile>, Range<usize>)| {
            Weak::ptr_eq(other, file) && known.start <= parts.start && parts.end <= known.end
        };
        if expected.iter().any(has) {
            return;
        }
        let count: usize = expected.iter().map(|(_, parts)| parts.len()).sum();
        let parts = parts.start..parts.end.min(parts.start + MOST_EXPECTED.saturating_sub(count));
        if !parts.is_empty() {
            expected.push((Weak::clone(file), parts));
        }
    }

    /// Fetches parts of a file that are not here, and with them what is expected.
    ///
    /// # Errors
    /// If one of these parts cannot be had. What is expected may fail: it is fetched when it is needed.
    pub(crate) fn fetch(&self, file: &CachedFile, parts: &Range<usize>) -> Result<(), Error> {
        self.must_be_near(file)?;
        if self.must_have_room().is_err() {
            self.make_room();
            self.must_have_room()?;
        }
        let mut runs = file.begin(parts);
        let own = runs.len();
        if own == 0 {
            file.wait_for(parts);
            return Ok(());
        }
        let expected = std::mem::take(&mut *lock(&self.expected));
        for (file, parts) in expected {
            runs.extend(file.upgrade().into_iter().flat_map(|file| file.begin(&parts)));
        }
        let wanted: Vec<FilePart> = runs.iter().map(|run| run.file.part(&run.parts)).collect();
        let began = Instant::now();
        let fetched = files::read_parts(&*self.bucket, &wanted);
        self.note_whether_away(fetched.iter().take(own), began);
        let mut result = Ok(());
        for (nth, (run, fetched)) in runs.iter().zip(fetched).enumerate() {
            let put = fetched.and_then(|bytes| run.file.put(&run.parts, bytes));
            if nth < own {
                result = result.and(put);
            }
        }
        drop(runs);
        self.make_room();
        result
    }

    /// Fails at once if the service has just failed slowly.
    fn must_be_near(&self, file: &CachedFile) -> Result<(), Error> {
        match &*lock(&self.away) {
            Some((what, at)) if at.elapsed() < SLOW => Err(file.away(what)),
            _ => Ok(()),
        }
    }

    fn note_whether_away<'a>(
        &self,
        mut fetched: impl Iterator<Item = &'a Result<Option<Vec<u8>>, Error>>,
        began: Instant,
    ) {
        let failed = fetched.find_map(|fetched| match fetched {
            Err(Error::Service { what, .. }) if began.elapsed() >= SLOW => Some(what.clone()),
            _ => None,
        });
        *lock(&self.away) = failed.map(|what| (what, Instant::now()));
    }

    /// Sees that the disk has room for more than what is kept.
    fn must_have_room(&self) -> Result<(), Error> {
        if self.is_tight() {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(Error::local("write to the cache in", &self.folder)(full));
        }
        Ok(())
    }

    fn is_tight(&self) -> bool {
        // A folder that tells nothing is written to until that fails.
        rustix::fs::statvfs(&self.folder)
            .is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) < RESERVE_BYTES)
    }

    /// Takes note of bytes that are here from now on.
    pub(crate) fn took(&self, bytes: Range<u64>) {
        self.held.fetch_add(bytes.end - bytes.start, Ordering::Relaxed);
    }

    /// Takes note of bytes that are not here any more.
    pub(crate) fn gave(&self, bytes: Range<u64>) {
        self.held.fetch_sub(bytes.end - bytes.start, Ordering::Relaxed);
    }

    /// Drops the parts that were used longest ago, if there are too many. An eighth more is dropped, so that this is seldom.
    fn make_room(&self) {
        let most = if self.is_tight() { self.bytes().saturating_sub(1) } else { self.most };
        if self.bytes() <= most {
            return;
        }
        let Ok(_alone) = self.clearing.try_lock() else { return };
        let files: Vec<Arc<CachedFile>> = lock(&self.files).iter().filter_map(Weak::upgrade).collect();
        let here = |(nth, file): (usize, &Arc<CachedFile>)| {
            file.parts_here().into_iter().map(move |(used, part)| (used, nth, part))
        };
        let mut parts: Vec<(u64, usize, usize)> = files.iter().enumerate().flat_map(here).collect();
        parts.sort_unstable();
        for (_, nth, part) in parts {
            if self.bytes() <= most / 8 * 7 {
                return;
            }
            files.get(nth).into_iter().for_each(|file| file.drop_part(part));
        }
    }
}

impl Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("folder", &self.folder)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Parts of a file in a row that are being fetched. When it is dropped they are not any more, however that ended.
pub(crate) struct Run {
    file: Arc<CachedFile>,
    parts: Range<usize>,
}

impl Run {
    /// These parts, in as few requests as may be.
    pub(crate) fn of(file: &Arc<CachedFile>, parts: &[usize]) -> Vec<Self> {
        let rows = parts.chunk_by(|one, next| one + 1 == *next).flat_map(|row| row.chunks(MOST_IN_A_ROW));
        let range = |row: &[usize]| Some(*row.first()?..*row.last()? + 1);
        rows.filter_map(range).map(|parts| Self { file: Arc::clone(file), parts }).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.file.end(&self.parts);
    }
}

/// What is behind a lock. Every change under one leaves its value whole, so a panic elsewhere has spoilt nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
