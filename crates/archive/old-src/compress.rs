//! The compressing half of a write: a thread that turns changed pages into frames, as differences from those of the
//! version before where that is shorter. It shares each batch with others, as far as there are processors.
//!
//! The caller hashes and compares on its own thread and hands over what changed through a bounded channel.
//! What the thread has no time for yet waits in a [`Spool`], so that a slow compressor keeps neither the caller
//! nor the store's writers waiting, and does not fill the memory.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use asat_core::PageSize;
use asat_core::boundary::{self, Forked};

use crate::archive::Inner;
use crate::chain::lock;
use crate::codec::{Encoder, MOST_DIFFERENCES, SHORT_FRAME_BYTES};
use crate::error::Error;
use crate::fingerprint::{PageHash, SIDE_BY_SIDE, hash_pages};
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::packer::Packer;
use crate::pages::{PageMap, nth_of};
use crate::past::Past;
use crate::spool::{Batch, Spool};

/// Pages travel in batches of about this many bytes.
const BATCH_BYTES: usize = 512 << 10;
/// So many batches wait in memory at most; with those in hand at either end about 9 MiB are in flight.
const BATCHES_WAITING: usize = 16;

/// So many threads make frames of a batch at most, as long as each has this many pages.
const MOST_HANDS: usize = 4;
const LEAST_SHARE: usize = 16;

/// Hears from the compressing thread how many pages are stored.
pub type Told = Arc<dyn Fn(u64) + Send + Sync>;

/// The compressing thread and the way to it.
pub(crate) struct Press {
    folder: PathBuf,
    batch: Batch,
    /// Batches that came before the next one and were not sent yet.
    spool: Option<Spool>,
    sender: SyncSender<Batch>,
    thread: JoinHandle<Result<Packer, Error>>,
    forked: Forked,
}

impl Press {
    /// Starts the thread, which appends to `packer`. `before` is the version that the pages differ from. `told` hears after each batch
    /// how many pages are stored.
    pub(crate) fn start(
        packer: Packer,
        page_size: PageSize,
        before: Option<(Arc<Inner>, u64)>,
        told: Option<Told>,
    ) -> Result<Self, Error> {
        let folder = packer.folder().to_owned();
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let forked = boundary::fork();
        let thread = std::thread::Builder::new()
            .name("asat-compress".to_owned())
            .spawn(move || forked.run(|| press(packer, page_size, before, &receiver, told.as_deref())))
            .map_err(|error| Error::Misuse(format!("no thread for compressing: {error}")))?;
        Ok(Self { folder, batch: Batch::default(), spool: None, sender, thread, forked })
    }

    /// Hands over a changed page. `false`: the thread has ended, and [`Self::finish`] says why.
    pub(crate) fn page(&mut self, number: u32, page: &[u8], hash: PageHash) -> io::Result<bool> {
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
        self.forked.wait();
        let ended_early = |_| Err(Error::Misuse("the compressing thread ended early".to_owned()));
        let packer = self.thread.join().unwrap_or_else(ended_early)?;
        drained.map_err(|source| Error::io("read back what waited in", &self.folder, source))?;
        Ok(packer)
    }

    /// Ends the thread and removes the file.
    pub(crate) fn abandon(self) {
        drop(self.sender);
        self.forked.wait();
        let _ = self.thread.join();
    }
}

fn press(
    mut packer: Packer,
    page_size: PageSize,
    before: Option<(Arc<Inner>, u64)>,
    batches: &Receiver<Batch>,
    told: Option<&(dyn Fn(u64) + Send + Sync)>,
) -> Result<Packer, Error> {
    // Where the version before cannot be found whole, neither can the pages that the new one has in common with it.
    let map = match &before {
        Some((archive, number)) => Some(archive.resolve(*number)?.map),
        None => None,
    };
    let mut past = match &before {
        Some((archive, _)) => {
            let layers = lock(&archive.chain).writing.clone().unwrap_or_default();
            Some(Past::of(archive, &layers, page_size.as_usize())?)
        }
        None => None,
    };
    let page_len = page_size.as_usize();
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_HANDS);
    let mut hands = (0..count).map(|_| Hand::new(page_len)).collect::<Result<Vec<_>, _>>()?;
    let mut stored = 0;
    while let Some(batch) = next_batch(batches) {
        let share = batch.pages.len().div_ceil(count).max(LEAST_SHARE);
        let data = batch.data.chunks(share * page_len);
        let mut shares = batch.pages.chunks(share).zip(data).zip(&mut hands);
        let first = shares.next();
        std::thread::scope(|scope| {
            for ((pages, data), hand) in shares {
                let before = map.as_ref();
                scope.spawn(move || hand.encode(pages, data, before));
            }
            if let Some(((pages, data), hand)) = first {
                hand.encode(pages, data, map.as_ref());
            }
        });
        for hand in &mut hands {
            hand.deliver(&mut packer, past.as_mut())?;
        }
        stored += u64::try_from(batch.pages.len()).unwrap_or(u64::MAX);
        if let Some(told) = told {
            told(stored);
        }
    }
    Ok(packer)
}

/// Waits for the next batch; `None` where none comes any more.
fn next_batch(batches: &Receiver<Batch>) -> Option<Batch> {
    loop {
        match batches.try_recv() {
            Ok(batch) => return Some(batch),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if boundary::blocked("archive: a batch of pages") => {}
            Err(TryRecvError::Empty) => return batches.recv().ok(),
        }
    }
}

/// What turning pages into frames takes, and the frames made of one share of a batch.
struct Hand {
    encoder: Encoder,
    frames: Frames,
    page_len: usize,
    /// Some pages of the version before, and their hashes.
    before: Vec<u8>,
    hashes: Vec<PageHash>,
    /// Page, hash, encoding and length of each frame made, and their bytes.
    made: Vec<(u32, PageHash, Encoding, usize)>,
    bytes: Vec<u8>,
}

impl Hand {
    fn new(page_len: usize) -> Result<Self, Error> {
        let (encoder, frames) = (Encoder::new(page_len)?, Frames::new()?);
        let (before, hashes, made, bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { encoder, frames, page_len, before, hashes, made, bytes })
    }

    fn encode(&mut self, pages: &[(u32, PageHash)], data: &[u8], before: Option<&PageMap>) {
        let groups = pages.chunks(SIDE_BY_SIDE).zip(data.chunks(SIDE_BY_SIDE * self.page_len));
        for (pages, data) in groups {
            let depths = before.map(|map| self.read(map, pages)).unwrap_or_default();
            let mut depths = depths.into_iter().chain(std::iter::repeat(None));
            let pages = pages.iter().zip(data.chunks_exact(self.page_len));
            for (nth, (&(number, hash), page)) in pages.enumerate() {
                let depth = depths.next().flatten();
                let before = depth.and_then(|_| self.before.chunks_exact(self.page_len).nth(nth));
                let (encoding, frame) = self.encoder.encode_upon(depth.unwrap_or(0), page, before);
                self.made.push((number, hash, encoding, frame.len()));
                self.bytes.extend_from_slice(frame);
            }
        }
    }

    /// Reads what some pages were; answers as how many differences each is stored, or nothing of one that cannot be read. A page
    /// that is to be stored whole, as these are too many, is not read.
    fn read(&mut self, map: &PageMap, pages: &[(u32, PageHash)]) -> Vec<Option<u32>> {
        let Self { frames, before, hashes, page_len, .. } = self;
        before.resize(pages.len() * *page_len, 0);
        let place = |number: u32| nth_of(number).filter(|&nth| nth < map.page_count());
        let mut read = |number: u32, page: &mut [u8]| {
            let nth = place(number)?;
            let depth = Some(map.depth(nth)).filter(|&depth| depth < MOST_DIFFERENCES)?;
            let decoded = frames.decode(map, map.frames_of(nth).copied(), Reading::InOrder, page);
            matches!(decoded, Ok(true)).then_some(depth)
        };
        let places = pages.iter().zip(before.chunks_exact_mut(*page_len));
        let mut depths: Vec<Option<u32>> = places.map(|((number, _), page)| read(*number, page)).collect();
        hashes.clear();
        hash_pages(before, *page_len, hashes);
        for ((depth, (number, _)), hash) in depths.iter_mut().zip(pages).zip(hashes) {
            *depth = depth.filter(|_| place(*number).and_then(|nth| map.hash(nth)) == Some(*hash));
        }
        depths
    }

    /// Appends what was made, but for what an earlier version has: of a short frame, saying so would take as much.
    fn deliver(&mut self, packer: &mut Packer, mut past: Option<&mut Past>) -> Result<(), Error> {
        let mut rest = self.bytes.as_slice();
        for (number, hash, encoding, len) in self.made.drain(..) {
            let (frame, after) = rest.split_at(len.min(rest.len()));
            let past = past.as_mut().filter(|_| len > SHORT_FRAME_BYTES);
            match past.and_then(|past| past.version_with(number, hash)) {
                Some(version) => packer.earlier(number, version, hash)?,
                None => packer.frame(number, (encoding, frame), hash)?,
            }
            rest = after;
        }
        self.bytes.clear();
        Ok(())
    }
}
