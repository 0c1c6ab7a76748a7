//! The compressing half of a write: one thread that turns changed pages into frames.
//!
//! The caller hashes and compares on its own thread and hands over what changed through a bounded channel.
//! What the thread has no time for yet waits in a [`Spool`], so that a slow compressor keeps neither the caller
//! nor the store's writers waiting, and does not fill the memory.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use asat_core::PageSize;

use crate::error::Error;
use crate::packer::Packer;
use crate::spool::{Batch, Spool};

/// Level 1 is within a few per cent of level 3 on database pages, and faster (docs/archive-format.md).
const LEVEL: i32 = 1;
/// Pages travel in batches of about this many bytes.
const BATCH_BYTES: usize = 512 << 10;
/// So many batches wait in memory at most; with those in hand at either end about 9 MiB are in flight.
const BATCHES_WAITING: usize = 16;

/// The compressing thread and the way to it.
pub(crate) struct Press {
    folder: PathBuf,
    batch: Batch,
    /// Batches that came before the next one and were not sent yet.
    spool: Option<Spool>,
    sender: SyncSender<Batch>,
    thread: JoinHandle<Result<Packer, Error>>,
}

impl Press {
    /// Starts the thread, which appends to `packer`.
    pub(crate) fn start(packer: Packer, page_size: PageSize) -> Result<Self, Error> {
        let folder = packer.folder().to_owned();
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let thread = std::thread::Builder::new()
            .name("asat-compress".to_owned())
            .spawn(move || press(packer, page_size, &receiver))
            .map_err(|error| Error::Misuse(format!("no thread for compressing: {error}")))?;
        Ok(Self { folder, batch: Batch::default(), spool: None, sender, thread })
    }

    /// Hands over a changed page. `false`: the thread has ended, and [`Self::finish`] says why.
    pub(crate) fn page(&mut self, number: u32, page: &[u8], hash: u128) -> io::Result<bool> {
        if self.batch.data.capacity() == 0 {
            self.batch.data.reserve_exact(BATCH_BYTES + page.len());
        }
        self.batch.pages.push((number, hash));
        self.batch.data.extend_from_slice(page);
        if self.batch.data.len() < BATCH_BYTES {
            return Ok(true);
        }
        let batch = std::mem::take(&mut self.batch);
        match self.spool.take() {
            Some(spool) => self.put_aside(Ok(spool), batch),
            None => match self.sender.try_send(batch) {
                Ok(()) => Ok(true),
                Err(TrySendError::Disconnected(_)) => Ok(false),
                Err(TrySendError::Full(batch)) => self.put_aside(Spool::create(&self.folder), batch),
            },
        }
    }

    /// Lets a batch wait on disk, or the caller where the disk has no room.
    fn put_aside(&mut self, spool: io::Result<Spool>, batch: Batch) -> io::Result<bool> {
        match spool {
            Ok(mut spool) => {
                if spool.push(&batch).is_ok() {
                    self.spool = Some(spool);
                    return Ok(true);
                }
                Ok(self.drain(spool)? && self.sender.send(batch).is_ok())
            }
            Err(_) => Ok(self.sender.send(batch).is_ok()),
        }
    }

    /// Sends what waits on disk; answers whether the thread takes more.
    fn drain(&self, spool: Spool) -> io::Result<bool> {
        let mut taken = true;
        spool.drain(|batch| {
            taken = self.sender.send(batch).is_ok();
            taken
        })?;
        Ok(taken)
    }

    /// Waits until everything handed over is in the file.
    pub(crate) fn finish(mut self) -> Result<Packer, Error> {
        let drained = self.spool.take().map_or(Ok(true), |spool| self.drain(spool));
        if drained.is_ok() {
            // Where the thread has ended early the sending fails, and joining says why.
            let _ = self.sender.send(self.batch);
        }
        drop(self.sender);
        let ended_early = |_| Err(Error::Misuse("the compressing thread ended early".to_owned()));
        let packer = self.thread.join().unwrap_or_else(ended_early)?;
        drained.map_err(|source| Error::io("read back what waited in", &self.folder, source))?;
        Ok(packer)
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
