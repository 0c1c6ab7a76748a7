//! One file in a bucket, of which parts are kept on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};

use asat_archive::{Error as ArchiveError, FileBytes, FileId};
use asat_core::StoreName;
use rustix::fs::FallocateFlags;

use crate::cache::{Cache, PART_BYTES, Run, lock};
use crate::encryption::Keys;
use crate::error::Error;
use crate::files::{self, FilePart};
use crate::manifest::RemoteFile;
use crate::repository::History;

/// A file that is not longer than this is fetched whole.
const SMALL_BYTES: u64 = 1 << 20;
/// So many parts at the end of a longer one are fetched in one request: the footer, the directory and the descriptions of versions lie there, and
/// a reader of one of them reads all.
const END_PARTS: usize = 4;
/// So often a reader looks for its parts. If others take all of the room each time, it reads past the cache.
const TRIES: usize = 3;

/// When each part of a file that is here was used last.
type Uses = BTreeMap<usize, AtomicU64>;

/// A file, and what is here of it.
pub(crate) struct CachedFile {
    own: Weak<Self>,
    cache: Arc<Cache>,
    /// Its key, and how the newest manifest names it.
    place: Mutex<(String, Arc<RemoteFile>)>,
    keys: Arc<Keys>,
    /// How it is called in messages: by the first key that it had.
    name: PathBuf,
    id: FileId,
    /// Where its parts lie, each in its own place.
    file: OnceLock<File>,
    /// Nobody reads while a part is dropped.
    uses: RwLock<Uses>,
    fetching: Mutex<BTreeSet<usize>>,
    fetched: Condvar,
}

impl CachedFile {
    pub(crate) fn new(cache: Arc<Cache>, history: &History, named: &RemoteFile) -> Arc<Self> {
        let (key, id) = (named.key(&history.store), named.id());
        Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            name: PathBuf::from(format!("{}/{key}", cache.bucket.url())),
            cache,
            place: Mutex::new((key, Arc::new(named.clone()))),
            keys: Arc::clone(&history.keys),
            id,
            file: OnceLock::new(),
            uses: RwLock::default(),
            fetching: Mutex::default(),
            fetched: Condvar::new(),
        })
    }

    /// The bytes of parts in a row.
    pub(crate) fn part(&self, parts: &Range<usize>) -> FilePart {
        self.part_of(self.bytes_of(parts))
    }

    fn part_of(&self, range: Range<u64>) -> FilePart {
        let (key, file) = lock(&self.place).clone();
        FilePart { key, file, keys: Arc::clone(&self.keys), range }
    }

    /// Is fetched as it is named here from now on. A file that comes again has been stored again, and what was stored first may be gone.
    pub(crate) fn lie_as(&self, store: &StoreName, named: &RemoteFile) {
        *lock(&self.place) = (named.key(store), Arc::new(named.clone()));
    }

    fn key(&self) -> String {
        lock(&self.place).0.clone()
    }

    /// What is said of it while the service is away.
    pub(crate) fn away(&self, what: &str) -> Error {
        let (url, what) = (self.cache.bucket.url().to_owned(), what.to_owned());
        Error::Service { doing: "read", key: self.key(), url, what }
    }

    /// Begins to fetch those of these parts that are not here and that nobody fetches.
    pub(crate) fn begin(&self, parts: &Range<usize>) -> Vec<Run> {
        let Some(own) = self.own.upgrade() else { return Vec::new() };
        let mut fetching = lock(&self.fetching);
        let uses = self.shared();
        let is_missing = |part: &usize| !uses.contains_key(part) && !fetching.contains(part);
        let missing: Vec<usize> = parts.clone().filter(is_missing).collect();
        fetching.extend(&missing);
        Run::of(&own, &missing)
    }

    /// Takes what was fetched of parts in a row.
    pub(crate) fn put(&self, parts: &Range<usize>, fetched: Option<Vec<u8>>) -> Result<(), Error> {
        let url = self.cache.bucket.url();
        let bytes = fetched.ok_or_else(|| Error::missing(url, &self.key()))?;
        let range = self.bytes_of(parts);
        if u64::try_from(bytes.len()) != Ok(range.end - range.start) {
            let what = format!("it does not have the {} bytes that were stored", self.id.bytes);
            return Err(Error::damaged(url, &self.key(), what));
        }
        let at = |doing| Error::local(doing, self.cache.folder());
        self.file()?.write_all_at(&bytes, range.start).map_err(at("write to the cache in"))?;
        let (mut uses, number) = (self.alone(), self.cache.use_number());
        for part in parts.clone() {
            if uses.insert(part, AtomicU64::new(number)).is_none() {
                self.cache.took(self.bytes_of(&(part..part + 1)));
            }
        }
        Ok(())
    }

    /// Ends the fetching of parts, however it ended.
    pub(crate) fn end(&self, parts: &Range<usize>) {
        lock(&self.fetching).retain(|part| !parts.contains(part));
        self.fetched.notify_all();
    }

    /// Waits until nobody fetches any of these parts.
    pub(crate) fn wait_for(&self, parts: &Range<usize>) {
        let mut fetching = lock(&self.fetching);
        while fetching.range(parts.clone()).next().is_some() {
            fetching = self.fetched.wait(fetching).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The parts that are here, each with the number of its last use.
    pub(crate) fn parts_here(&self) -> Vec<(u64, usize)> {
        self.shared().iter().map(|(part, used)| (used.load(Ordering::Relaxed), *part)).collect()
    }

    /// Drops a part.
    pub(crate) fn drop_part(&self, part: usize) {
        let mut uses = self.alone();
        if uses.remove(&part).is_some() {
            let range = self.bytes_of(&(part..part + 1));
            self.cache.gave(range.clone());
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Some(file) = self.file.get() {
                // A file system that cannot do it has the room back when the file is not needed any more.
                let _ = rustix::fs::fallocate(file, flags, range.start, range.end - range.start);
            }
        }
    }

    /// The file in which the parts lie. It has no name, so nothing is left of it after this process.
    fn file(&self) -> Result<&File, Error> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let folder = self.cache.folder();
        let file = tempfile::tempfile_in(folder).map_err(Error::local("create a file in", folder))?;
        Ok(self.file.get_or_init(|| file))
    }

    /// The parts that have these bytes; all parts of a small file.
    fn parts_of(&self, offset: u64, len: u64) -> Range<usize> {
        let place = |part: u64| usize::try_from(part).unwrap_or(usize::MAX);
        if self.id.bytes <= SMALL_BYTES {
            return 0..place(self.id.bytes.div_ceil(PART_BYTES));
        }
        let count = place(self.id.bytes.div_ceil(PART_BYTES));
        let end = place(offset.saturating_add(len).min(self.id.bytes).div_ceil(PART_BYTES));
        let start = place(offset / PART_BYTES).min(end);
        if end == count { start.min(count.saturating_sub(END_PARTS))..end } else { start..end }
    }

    /// The bytes of parts.
    fn bytes_of(&self, parts: &Range<usize>) -> Range<u64> {
        let at = |part: usize| u64::try_from(part).unwrap_or(u64::MAX).saturating_mul(PART_BYTES);
        at(parts.start)..at(parts.end).min(self.id.bytes)
    }

    /// Fills `buffer` if all of these parts are here; answers whether they are.
    fn read_here(&self, parts: &Range<usize>, offset: u64, buffer: &mut [u8]) -> Result<bool, Error> {
        let uses = self.shared();
        if uses.range(parts.clone()).count() < parts.len() {
            return Ok(false);
        }
        let number = self.cache.use_number();
        uses.range(parts.clone()).for_each(|(_, used)| used.store(number, Ordering::Relaxed));
        let read = self.file()?.read_exact_at(buffer, offset);
        read.map(|()| true).map_err(Error::local("read the cache in", self.cache.folder()))
    }

    fn read_through(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let parts = self.parts_of(offset, len_of(buffer));
        for _ in 0..TRIES {
            match self.read_here(&parts, offset, buffer) {
                Ok(true) => return Ok(()),
                // Without a cache it takes longer, and that is all.
                Err(_) => break,
                Ok(false) => match self.cache.fetch(self, &parts) {
                    Err(Error::Local { .. }) => break,
                    fetched => fetched?,
                },
            }
        }
        let url = self.cache.bucket.url();
        let wanted = self.part_of(offset..offset + len_of(buffer));
        let read = files::read_parts(&*self.cache.bucket, &[wanted]).pop().transpose()?.flatten();
        let bytes = read.ok_or_else(|| Error::missing(url, &self.key()))?;
        if bytes.len() != buffer.len() {
            return Err(Error::damaged(url, &self.key(), "it is shorter than it was stored"));
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn shared(&self) -> RwLockReadGuard<'_, Uses> {
        self.uses.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Uses> {
        self.uses.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileBytes for CachedFile {
    fn id(&self) -> FileId {
        self.id
    }

    fn name(&self) -> &Path {
        &self.name
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.read_through(offset, buffer).map_err(|error| match error {
            Error::Missing { .. } => ArchiveError::Io {
                doing: "read",
                path: self.name.clone(),
                source: io::ErrorKind::NotFound.into(),
            },
            Error::Damaged { what, .. } => ArchiveError::Damaged { path: self.name.clone(), what },
            Error::Stopped => ArchiveError::Stopped,
            Error::Service { what, .. } | Error::Forbidden { what, .. } => {
                ArchiveError::Away { path: self.name.clone(), what }
            }
            other => ArchiveError::Away { path: self.name.clone(), what: other.to_string() },
        })
    }

    fn expect(&self, offset: u64, len: u64) {
        let parts = self.parts_of(offset, len);
        if self.shared().range(parts.clone()).count() < parts.len() {
            self.cache.expect(&self.own, parts);
        }
    }

    fn doubt(&self) {
        self.parts_here().into_iter().for_each(|(_, part)| self.drop_part(part));
    }
}

impl Debug for CachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedFile").field(&self.name).finish()
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        // Their room on the disk is free when the file is closed.
        self.shared().keys().for_each(|part| self.cache.gave(self.bytes_of(&(*part..part + 1))));
    }
}

fn len_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
