//! A file in memory as a source of pages, which counts what is read of it.

use std::cell::Cell;
use std::path::Path;

use asat_core::PageSize;
use asat_rows::{Pages, SourceError};

pub struct Memory {
    pub bytes: Vec<u8>,
    page_size: PageSize,
    pub reads: Cell<u64>,
}

impl Memory {
    pub fn open(path: &Path) -> Self {
        Self::of(std::fs::read(path).unwrap())
    }

    pub fn of(bytes: Vec<u8>) -> Self {
        let stated = bytes.get(16..18).map_or(4096, |size| u32::from(u16::from_be_bytes([size[0], size[1]])));
        let page_size = PageSize::new(if stated == 1 { 65536 } else { stated }).unwrap();
        Self { bytes, page_size, reads: Cell::new(0) }
    }
}

impl Pages for Memory {
    fn page_size(&self) -> PageSize {
        self.page_size
    }

    fn page_count(&self) -> u32 {
        u32::try_from(self.bytes.len() / self.page_size.as_usize()).unwrap()
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), SourceError> {
        self.reads.set(self.reads.get() + 1);
        let start = (usize::try_from(number)? - 1) * page.len();
        page.copy_from_slice(self.bytes.get(start..start + page.len()).ok_or("beyond the end")?);
        Ok(())
    }
}

/// The pages that differ, as the archive knows them.
pub fn changed(old: &Memory, new: &Memory) -> Vec<u32> {
    let page_len = old.page_size.as_usize();
    let pairs = old.bytes.chunks(page_len).zip(new.bytes.chunks(page_len));
    (1..).zip(pairs).filter(|(_, (old, new))| old != new).map(|(number, _)| number).collect()
}
