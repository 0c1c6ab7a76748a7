//! The compressing half of a write: one thread that turns changed pages into frames.
//!
//! The caller hashes and compares on its own thread and hands over what changed through a bounded channel, so
//! that a slow disk holds the caller back instead of filling the memory.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use asat_core::PageSize;

use crate::error::Error;
use crate::packer::Packer;

/// Level 1 is within a few per cent of level 3 on database pages, and faster (docs/archive-format.md).
const LEVEL: i32 = 1;
/// Pages travel in batches of about this many bytes.
const BATCH_BYTES: usize = 512 << 10;
/// So many batches wait at most; with those in hand at either end about 9 MiB are in flight.
const BATCHES_WAITING: usize = 16;

/// Changed pages on their way to the compressing thread.
#[derive(Default)]
struct Batch {
    pages: Vec<(u32, u128)>,
    data: Vec<u8>,
}

/// The compressing thread and the way to it.
pub(crate) struct Press {
    batch: Batch,
    sender: SyncSender<Batch>,
    thread: JoinHandle<Result<Packer, Error>>,
}

impl Press {
    /// Starts the thread, which appends to `packer`.
    pub(crate) fn start(packer: Packer, page_size: PageSize) -> Result<Self, Error> {
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let thread = std::thread::Builder::new()
            .name("asat-compress".to_owned())
            .spawn(move || press(packer, page_size, &receiver))
            .map_err(|error| Error::Misuse(format!("no thread for compressing: {error}")))?;
        Ok(Self { batch: Batch::default(), sender, thread })
    }

    /// Hands over a changed page. `false`: the thread has ended, and [`Self::finish`] says why.
    #[must_use]
    pub(crate) fn page(&mut self, number: u32, page: &[u8], hash: u128) -> bool {
        if self.batch.data.capacity() == 0 {
            self.batch.data.reserve_exact(BATCH_BYTES + page.len());
        }
        self.batch.pages.push((number, hash));
        self.batch.data.extend_from_slice(page);
        self.batch.data.len() < BATCH_BYTES || self.sender.send(std::mem::take(&mut self.batch)).is_ok()
    }

    /// Waits until everything handed over is in the file.
    pub(crate) fn finish(self) -> Result<Packer, Error> {
        // Where the thread has ended early the sending fails, and joining says why.
        let _ = self.sender.send(self.batch);
        drop(self.sender);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Misuse("the compressing thread ended early".to_owned())))
    }

    /// Ends the thread and removes the file.
    pub(crate) fn abandon(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

fn press(mut packer: Packer, page_size: PageSize, batches: &Receiver<Batch>) -> Result<Packer, Error> {
    let unusable = |error: std::io::Error| Error::Misuse(format!("zstd cannot be set up: {error}"));
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).map_err(unusable)?;
    // A frame must be shorter than the page, or the page is stored as it is.
    let mut frame = vec![0; page_size.as_usize() - 1];
    for batch in batches {
        for (&(number, hash), page) in batch.pages.iter().zip(batch.data.chunks_exact(page_size.as_usize())) {
            let compressed = compressor.compress_to_buffer(page, frame.as_mut_slice()).ok();
            match compressed.and_then(|len| frame.get(..len)) {
                Some(frame) => packer.frame(number, frame, false, hash)?,
                None => packer.frame(number, page, true, hash)?,
            }
        }
    }
    Ok(packer)
}
