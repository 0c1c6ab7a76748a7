//! The WAL and the wal-index of a store that is open, as files.
//!
//! They are read by `read` and not through memory, so that nobody who cuts them short ends this process. SQLite's locks are on
//! the wal-index, and a process loses them when it closes any descriptor of that: so the descriptors live for as long as the store is open.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use asat_core::PageSize;
use asat_core::track::Gap;
use rustix::fs::OFlags;
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use super::super::file::StoreFile;
use super::super::wal::{self, BACKFILLED, Chain, FRAME_HEADER, Frame, INDEX, Index, WAL_HEADER};

/// How often the wal-index is read while somebody writes it meanwhile, and after how many times that one is waited for: it may have no processor.
const ATTEMPTS: u32 = 100;
const AT_ONCE: u32 = 50;
const BETWEEN: Duration = Duration::from_micros(200);
/// So many frames are read at once.
const TOGETHER: usize = 32;
/// A process that has the wal-index open has a lock on this byte of it (`UNIX_SHM_DMS` in SQLite).
const USERS: u64 = 128;

/// Why no more frames were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The last one that was asked for is there.
    Last,
    /// A whole frame comes next that belongs to something older.
    Other,
    /// The file ends there, or within a frame.
    OfFile,
}

/// The files, with which ones they are.
pub(super) struct Files {
    wal: File,
    index: File,
    /// The size of the database's pages.
    page_size: PageSize,
}

impl Files {
    /// Opens the files beside a store that SQLite has open.
    pub(super) fn open(file: &StoreFile, page_size: PageSize) -> io::Result<Self> {
        let open = |suffix| open(&file.beside(suffix));
        Ok(Self { wal: open("-wal")?, index: open("-shm")?, page_size })
    }

    /// Whether these are still the files that have the names.
    pub(super) fn are_beside(&self, file: &StoreFile) -> bool {
        let is = |opened: &File, suffix| {
            let beside = file.sidecar(suffix).ok().flatten();
            let opened = opened.metadata().ok();
            let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
            opened.map(identity) == beside.map(identity)
        };
        is(&self.wal, "-wal") && is(&self.index, "-shm")
    }

    /// What the wal-index says; nothing if somebody writes it all the time.
    pub(super) fn index(&self) -> io::Result<Option<Index>> {
        let mut bytes = [0; INDEX];
        for attempt in 0..ATTEMPTS {
            // In the order of `wal::read_words`.
            let (header, rest) = bytes.split_at_mut(BACKFILLED);
            self.index.read_exact_at(rest, BACKFILLED as u64)?;
            self.index.read_exact_at(header, 0)?;
            if let Some(index) = Index::read(&bytes, self.page_size) {
                return Ok(Some(index));
            }
            if attempt < AT_ONCE { std::hint::spin_loop() } else { std::thread::sleep(BETWEEN) }
        }
        Ok(None)
    }

    /// Whether another process has the store open.
    pub(super) fn has_others(&self) -> io::Result<bool> {
        let lock = Flock {
            start: USERS,
            length: 1,
            pid: None,
            typ: FlockType::WriteLock,
            offset_type: FlockOffsetType::Set,
        };
        Ok(fcntl_getlk(&self.index, &lock)?.is_some())
    }

    /// The start of the WAL that the wal-index is of.
    pub(super) fn begin(&self, index: &Index) -> Result<Chain, Gap> {
        let mut header = [0; WAL_HEADER];
        self.wal.read_exact_at(&mut header, 0).map_err(|_| Gap::Unread)?;
        Chain::begin(&header, index).ok_or(Gap::Broken)
    }

    /// Whether the frame that ends at the chain's place is still in the WAL.
    pub(super) fn has(&self, chain: &Chain, index: &Index) -> bool {
        let mut header = [0; FRAME_HEADER];
        let Some(before) = chain.place.frame.checked_sub(1) else { return false };
        let at = wal::offset_after(index.page_size, before);
        self.wal.read_exact_at(&mut header, at).is_ok() && wal::ends_at(&header, &chain.place)
    }

    /// How long the WAL's file is, in bytes.
    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.wal.metadata()?.len())
    }

    /// Takes frames one after another, up to this one or to the first that does not belong there; answers why it ended.
    pub(super) fn take(
        &self,
        chain: &mut Chain,
        index: &Index,
        last: u32,
        mut noted: impl FnMut(Frame),
    ) -> io::Result<End> {
        let length = wal::frame_length(index.page_size);
        let mut buffer = vec![0; length * TOGETHER];
        while chain.place.frame < last {
            let wanted = usize::try_from(last - chain.place.frame).unwrap_or(TOGETHER).min(TOGETHER);
            let buffer = buffer.get_mut(..wanted * length).unwrap_or_default();
            let read = read_most(&self.wal, buffer, wal::offset_after(index.page_size, chain.place.frame))?;
            let frames = buffer.get(..read).unwrap_or_default().chunks_exact(length);
            if frames.len() == 0 {
                return Ok(End::OfFile);
            }
            for frame in frames {
                match chain.take(frame) {
                    Some(frame) => noted(frame),
                    None => return Ok(End::Other),
                }
            }
        }
        Ok(End::Last)
    }
}

/// Opens a plain file, and waits for nobody.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Reads as much as there is.
fn read_most(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
