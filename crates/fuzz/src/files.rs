//! Files: what an archive is made of, and stores with their logs.

use std::fs::{self, File};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_archive::Archive;
use asat_archive::outside::{self, Bounds};
use asat_core::{PageSize, Problem};
use asat_host::store::{Limits, PageSink, read_frozen, read_pages};
use rustix::fs::MemfdFlags;

use crate::pieces;

/// The length of a pack's header, and of its footer.
const ENDS: (usize, usize) = (12, 180);

pub(crate) fn pack_ends(bytes: &[u8]) {
    let [length, ends] = pieces(bytes);
    let length = length.iter().take(8).fold(0, |length, byte| length << 8 | u64::from(*byte));
    if ends.len() != ENDS.0 + ENDS.1 {
        return;
    }
    let (header, footer) = ends.split_at(ENDS.0);
    if let Ok(written) = outside::ends(header, footer, length) {
        // But for the checksum of all the rest, which is made anew.
        assert_eq!(written[..136], footer[..136]);
        assert_eq!(written[168..], footer[168..]);
        let number = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().unwrap());
        let parts = [number(0), number(8), number(16), 180]
            .iter()
            .try_fold(0_u64, |sum, part| sum.checked_add(*part));
        assert_eq!(parts, Some(length), "what it says is where is within the file");
    }
}

/// Bounds by which the corpus was written: in 16 bytes, number of entries and of pages, place of the frames' end, logarithm of the
/// page size, number of the layer.
fn bounds(bytes: &[u8; 16]) -> Option<Bounds> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Some(Bounds {
        count: u64::from(number(0)),
        page_count: number(4),
        frames: (12, u64::from(number(8))),
        page_size: PageSize::new(1_u32.checked_shl(u32::from(bytes[12]))?)?,
        number: u64::from(bytes[13]) << bytes[14].min(56) | u64::from(bytes[15]),
    })
}

pub(crate) fn index(bytes: &[u8]) {
    let Some((head, index)) = bytes.split_first_chunk() else { return };
    let Some(bounds) = bounds(head) else { return };
    if let Ok(written) = outside::index(index, bounds) {
        assert_eq!(written, index, "one index has one spelling");
    }
}

/// A file in memory with these bytes.
fn file(bytes: &[u8]) -> File {
    let mut file = File::from(rustix::fs::memfd_create("fed", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    file
}

pub(crate) fn pack(bytes: &[u8]) {
    if let Ok((meta, index)) = outside::pack(file(bytes)) {
        assert!(meta.covers_from <= meta.number);
        assert!(index.len() + ENDS.0 + ENDS.1 <= bytes.len(), "it has no more entries than bytes");
    }
}

pub(crate) fn frames(bytes: &[u8]) {
    let [before, frame] = pieces(bytes);
    // A page is as long as the one before it.
    let before = &before[..before.len().min(1 << 16)];
    for is_difference in [false, true] {
        let Some(page) = outside::frame(is_difference, frame, before).unwrap() else { continue };
        assert_eq!(page.len(), before.len());
        if let Some((is_difference, frame)) = outside::framed(&page, before).unwrap() {
            assert_eq!(outside::frame(is_difference, &frame, before).unwrap(), Some(page));
        }
    }
}

/// A folder in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn archive(bytes: &[u8]) {
    let folder = folder();
    let packs: [&[u8]; 3] = pieces(bytes);
    for (name, pack) in ["1.pack", "2.layer", "3.pack"].iter().zip(packs).filter(|(_, pack)| !pack.is_empty())
    {
        fs::write(folder.path().join(name), pack).unwrap();
    }
    let Ok((archive, _)) = Archive::open(folder.path()) else { return };
    for number in archive.live() {
        let _ = archive.describe(number);
        if let Ok(reader) = archive.read(number) {
            let mut read = Vec::new();
            if reader.write_to(&mut read, Path::new("memory")).is_ok() {
                assert_eq!(u64::try_from(read.len()).unwrap(), reader.len());
                let mut page = vec![0; reader.meta().page_size.as_usize()];
                reader.read_page(1, &mut page).expect("what was read once is read again");
                assert!(read.starts_with(&page));
            }
        }
    }
    let _ = archive.verify(None, &mut |_, _| ControlFlow::Continue(()));
    let _ = archive.stats();
}

/// Takes pages, and counts them.
#[derive(Default)]
struct Counting {
    promised: Option<(PageSize, u32)>,
    pages: u32,
}

impl PageSink for Counting {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.promised = Some((page_size, page_count));
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        self.pages += 1;
        assert_eq!(number, self.pages, "pages come in order");
        assert_eq!(page.len(), self.promised.expect("pages come after it was begun").0.as_usize());
        assert!(number > 1 || page[18..20] == [1, 1], "a copy is in rollback mode");
        Ok(())
    }
}

impl Counting {
    /// What was read has all pages that it says, and no more than the files have.
    fn check(&self, main: &[u8], wal: &[u8]) {
        let (page_size, page_count) = self.promised.expect("something was read");
        assert_eq!(self.pages, page_count);
        let most = main.len().div_ceil(page_size.as_usize()) + wal.len() / page_size.as_usize();
        assert!(usize::try_from(page_count).unwrap() <= most, "{page_count} pages in files with {most}");
    }
}

/// A store with what is beside it: read while it may be in use, and in a snapshot, where nothing can be made.
pub(crate) fn store(bytes: &[u8]) {
    let [main, wal, journal] = pieces(bytes);
    let (folder, cancel) = (folder(), AtomicBool::new(false));
    let path = folder.path().join("store.db");
    fs::write(&path, main).unwrap();
    for (name, bytes) in [("store.db-wal", wal), ("store.db-journal", journal)] {
        if !bytes.is_empty() {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
    }
    for with_wal in [false, true] {
        let mut sink = Counting::default();
        if let Ok(read) = read_frozen(&path, with_wal, &cancel, &mut sink) {
            sink.check(main, if with_wal { wal } else { &[] });
            let is_rollback = asat_host::outside::is_rollback(main);
            assert!(with_wal || is_rollback == Some(!read.wal), "{is_rollback:?}, and {read:?}");
        }
        assert_eq!(fs::read(&path).unwrap(), main, "nothing in a snapshot is written");
    }
    let limits = Limits { busy: Duration::from_millis(1), hold: Duration::from_secs(10) };
    let mut sink = Counting::default();
    if read_pages(&path, &limits, &cancel, &mut sink).is_ok() && journal.is_empty() {
        sink.check(main, wal);
    }
}

pub(crate) fn wal_index(bytes: &[u8]) {
    let [wal, index] = pieces(bytes);
    let _ = asat_host::outside::is_commit_under_way(&file(wal), &file(index));
}
