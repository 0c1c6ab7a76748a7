//! Files: what an archive is made of, and stores with their logs.

use std::fs::{self, File};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_archive::Archive;
use asat_archive::outside::{self, Bounds};
use asat_core::{PageSize, Problem};
use asat_host::store::{Limits, PageSink, read_frozen, read_pages};
use rustix::fs::MemfdFlags;

use crate::pieces;

/// The length of a file's header, and of its footer.
const ENDS: (usize, usize) = (12, 172);

pub(crate) fn segment_ends(bytes: &[u8]) {
    let [length, ends] = pieces(bytes);
    let length = length.iter().take(8).fold(0, |length, byte| length << 8 | u64::from(*byte));
    if ends.len() != ENDS.0 + ENDS.1 {
        return;
    }
    let (header, footer) = ends.split_at(ENDS.0);
    if let Some(written) = outside::ends(header, footer, length) {
        // But for the checksum of all the rest, which is made anew.
        assert_eq!(written[..128], footer[..128]);
        assert_eq!(written[160..], footer[160..]);
        let number = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().unwrap());
        let places = [12, number(0), number(8), number(16), length - 172];
        assert!(places.is_sorted() && number(24) == length, "what it says is where is within the file");
    }
}

pub(crate) fn archive_manifest(bytes: &[u8]) {
    if let Some(written) = outside::manifest(bytes) {
        assert_eq!(outside::manifest(&written), Some(written), "what is written is read");
    }
}

pub(crate) fn directory(bytes: &[u8]) {
    let Some((places, directory)) = bytes.split_first_chunk::<8>() else { return };
    let place = |at: usize| u64::from(u32::from_le_bytes(places[at..at + 4].try_into().unwrap()));
    if let Some(written) = outside::directory(directory, place(0), place(4)) {
        assert_eq!(written, directory, "one directory has one spelling");
    }
}

/// Bounds by which the corpus was written: in 16 bytes, number of entries, length of the frames, first and last version, block,
/// logarithm of the page size.
fn bounds(bytes: &[u8; 16]) -> Option<Bounds> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Some(Bounds {
        count: number(0),
        frames_len: u64::from(number(4)),
        versions: (u64::from(bytes[8]), u64::from(bytes[9]) << bytes[10].min(56)),
        block: u32::from(bytes[11]) << bytes[12].min(24),
        page_size: PageSize::new(1_u32.checked_shl(u32::from(bytes[13]))?)?,
    })
}

pub(crate) fn block(bytes: &[u8]) {
    let Some((head, block)) = bytes.split_first_chunk() else { return };
    let Some(bounds) = bounds(head) else { return };
    if let Some(written) = outside::block(block, bounds) {
        assert_eq!(written, block, "one block has one spelling");
    }
}

/// A file in memory with these bytes.
fn file(bytes: &[u8]) -> File {
    let mut file = File::from(rustix::fs::memfd_create("fed", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    file
}

pub(crate) fn segment(bytes: &[u8]) {
    let folder = folder();
    fs::write(folder.path().join("000000000001.segment"), bytes).unwrap();
    if let Ok(entries) = outside::segment(folder.path()) {
        assert!(entries * 11 + ENDS.0 + ENDS.1 <= bytes.len(), "it has no more entries than bytes");
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
    let files: [&[u8]; 3] = pieces(bytes);
    for (number, file) in (1..).zip(files).filter(|(_, file)| !file.is_empty()) {
        fs::write(folder.path().join(format!("{number:012}.segment")), file).unwrap();
    }
    let Ok((archive, _)) = Archive::open(folder.path()) else { return };
    for number in archive.live() {
        let _ = archive.describe(number);
        if let Ok(reader) = archive.read(number) {
            // How long it is, a forged file may say.
            let mut read = Vec::new();
            let len = usize::try_from(reader.len()).unwrap();
            if reader.fingerprint().is_ok() {
                read.resize(len, 0);
                assert_eq!(reader.read_at(0, &mut read).expect("what was read once is read again"), len);
                let mut page = vec![0; reader.meta().page_size.as_usize()];
                if !reader.is_empty() {
                    reader.read_page(1, &mut page).expect("what was read once is read again");
                    assert!(read.starts_with(&page));
                }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Reads the whole corpus of a target.
    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn parts_of_segments_are_given_as_they_are_taken() {
        for bytes in corpus("directory") {
            let (places, directory) = bytes.split_first_chunk::<8>().unwrap();
            let place = |at: usize| u64::from(u32::from_le_bytes(places[at..at + 4].try_into().unwrap()));
            assert!(outside::directory(directory, place(0), place(4)).is_some());
        }
        for bytes in corpus("block") {
            let (head, block) = bytes.split_first_chunk().unwrap();
            assert!(outside::block(block, bounds(head).unwrap()).is_some());
        }
        assert!(corpus("archive_manifest").iter().all(|bytes| outside::manifest(bytes).is_some()));
        for bytes in corpus("segment_ends") {
            let [length, ends] = pieces(&bytes);
            let length = u64::from_be_bytes(length.try_into().unwrap());
            assert!(outside::ends(&ends[..12], &ends[12..], length).is_some());
        }
    }
}
