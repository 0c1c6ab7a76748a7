//! A file is read page by page where it is the state by itself, in whatever length SQLite left it.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use asat_core::Code;
use asat_host::clones::Unchanged;
use asat_host::store::{read_changed, read_frozen};

use crate::common::{Collector, make_store};

/// What is read of a file by its changes, where nothing is known to be the same.
fn read(path: &Path, of: &Collector) -> Result<Vec<u8>, Code> {
    let mut sink = Collector::default();
    let never = AtomicBool::new(false);
    let read = read_changed(path, of.announced.unwrap(), &Unchanged::default(), &never, &mut sink);
    read.map_err(|failed| asat_core::Problem::from(failed.error).code).map(|()| sink.bytes)
}

#[test]
fn all_pages_are_read_if_the_file_is_longer_or_lacks_a_part_of_its_last_page_and_none_if_it_lacks_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for journal in ["delete", "wal"] {
        drop(make_store(&path, journal, 500));
        let mut whole = Collector::default();
        read_frozen(&path, false, &AtomicBool::new(false), &mut whole).unwrap();
        assert!(read(&path, &whole).as_ref() == Ok(&whole.bytes), "{journal}");
        let file = File::options().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        // As `SQLITE_FCNTL_CHUNK_SIZE` leaves it.
        for more in [1, 4096, 1 << 20] {
            file.set_len(length + more).unwrap();
            assert!(read(&path, &whole).as_ref() == Ok(&whole.bytes), "{journal}, {more} bytes more");
        }
        for less in [1, 4095] {
            file.set_len(length - less).unwrap();
            let mut padded = whole.bytes.clone();
            let end = padded.len() - usize::try_from(less).unwrap();
            padded[end..].fill(0);
            assert!(read(&path, &whole).as_ref() == Ok(&padded), "{journal}, {less} bytes less");
        }
        file.set_len(length - 4096).unwrap();
        assert_eq!(read(&path, &whole).err(), Some(Code::StoreUnreadable), "{journal}, a page less");
        std::fs::remove_file(&path).unwrap();
    }
}
