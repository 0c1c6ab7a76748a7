//! Changed pages that wait on disk until the compressing thread has time for them.
//!
//! The store's read transaction lasts until the last page is handed over, and in a rollback-journal mode
//! writers wait for its end. Compressing is much slower than reading, so what does not fit into the channel
//! goes into an unnamed file then: the hold lasts as long as reading takes, and not as long as compressing. Where
//! nobody waits it would only take longer, by what is written to the disk and read back.
//! A crash leaves nothing of the file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::index::Check;

/// Changed pages on their way to the compressing thread: numbers and checks, and the pages one after another.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pages: Vec<(u32, Check)>,
    pub(crate) data: Vec<u8>,
}

/// Batches, first in, first out: their pages are in a file.
pub(crate) struct Spool {
    file: File,
    /// The numbers and checks of each, and how many bytes it has in the file.
    waiting: VecDeque<(Vec<(u32, Check)>, usize)>,
}

impl Spool {
    /// An empty one, with an unnamed file in `folder`.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, waiting: VecDeque::new() })
    }

    /// Takes a batch, or gives it back where that fails: then the spool must not be pushed to again, and holds what it held before.
    pub(crate) fn push(&mut self, batch: Batch) -> Result<(), Batch> {
        // A batch counts once it is in the file: a full disk must not show later, when it would be lost.
        if self.file.write_all(&batch.data).is_err() {
            return Err(batch);
        }
        self.waiting.push_back((batch.pages, batch.data.len()));
        Ok(())
    }

    /// Gives every batch to `take`, in order, until that says that it takes no more.
    pub(crate) fn drain(mut self, mut take: impl FnMut(Batch) -> bool) -> io::Result<()> {
        self.file.rewind()?;
        for (pages, len) in self.waiting {
            let mut data = vec![0; len];
            self.file.read_exact(&mut data)?;
            if !take(Batch { pages, data }) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(folder.path()).unwrap();
        let batch = |n: u32| Batch {
            pages: (0..n).map(|page| (page, [u8::try_from(page).unwrap(); 8])).collect(),
            data: vec![u8::try_from(n).unwrap(); 600 * usize::try_from(n).unwrap()],
        };
        for n in [3, 0, 200, 1] {
            assert!(spool.push(batch(n)).is_ok());
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
