//! Changed pages that wait on disk until the compressing thread has time for them.
//!
//! The store's read transaction lasts until the last page is handed over, and in a rollback-journal mode
//! writers wait for its end. Compressing is much slower than reading, so what does not fit into the channel
//! goes into an unnamed file then: the hold lasts as long as reading takes, and not as long as compressing. Where
//! nobody waits it would only take longer, by what is written to the disk and read back.
//! A crash leaves nothing of the file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::fingerprint::PageHash;

/// Changed pages on their way to the compressing thread: numbers and hashes, and the pages one after another.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pages: Vec<(u32, PageHash)>,
    pub(crate) data: Vec<u8>,
}

/// Batches in a file, first in, first out.
pub(crate) struct Spool {
    file: BufWriter<File>,
    waiting: usize,
}

impl Spool {
    /// An empty one, in an unnamed file in `folder`.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(folder)?);
        Ok(Self { file, waiting: 0 })
    }

    /// Takes a batch. Where that fails, the spool must not be pushed to again, and holds what it held before.
    pub(crate) fn push(&mut self, batch: &Batch) -> io::Result<()> {
        for length in [batch.pages.len(), batch.data.len()] {
            self.file.write_all(&u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes())?;
        }
        for (number, hash) in &batch.pages {
            self.file.write_all(&number.to_le_bytes())?;
            self.file.write_all(hash)?;
        }
        self.file.write_all(&batch.data)?;
        // A batch counts once it is in the file: a full disk must not show later, when it would be lost.
        self.file.flush()?;
        self.waiting += 1;
        Ok(())
    }

    /// Gives every batch to `take`, in order, until that says that it takes no more.
    pub(crate) fn drain(self, mut take: impl FnMut(Batch) -> bool) -> io::Result<()> {
        let (mut file, _) = self.file.into_parts();
        file.seek(SeekFrom::Start(0))?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        for _ in 0..self.waiting {
            if !take(read(&mut file)?) {
                break;
            }
        }
        Ok(())
    }
}

fn read(file: &mut BufReader<File>) -> io::Result<Batch> {
    let (pages, bytes) = (length(file)?, length(file)?);
    let mut batch = Batch { pages: Vec::with_capacity(pages), data: vec![0; bytes] };
    let (mut number, mut hash) = ([0; 4], [0; 32]);
    for _ in 0..pages {
        file.read_exact(&mut number)?;
        file.read_exact(&mut hash)?;
        batch.pages.push((u32::from_le_bytes(number), hash));
    }
    file.read_exact(&mut batch.data)?;
    Ok(batch)
}

fn length(file: &mut BufReader<File>) -> io::Result<usize> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    usize::try_from(u64::from_le_bytes(bytes)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(folder.path()).unwrap();
        let batch = |n: u32| Batch {
            pages: (0..n).map(|page| (page, [u8::try_from(page).unwrap(); 32])).collect(),
            data: vec![u8::try_from(n).unwrap(); 600 * usize::try_from(n).unwrap()],
        };
        for n in [3, 0, 200, 1] {
            spool.push(&batch(n)).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        let mut out = Vec::new();
        let take = |batch: Batch| {
            out.push(batch);
            out.len() < 3
        };
        spool.drain(take).unwrap();
        for (out, n) in out.iter().zip([3, 0, 200]) {
            assert_eq!((&out.pages, &out.data), (&batch(n).pages, &batch(n).data));
        }
        assert_eq!(out.len(), 3, "no more is given than is taken");
    }
}
