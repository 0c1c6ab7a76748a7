//! The compressing half of a write: a thread that turns changed pages into frames, as differences from those of the
//! version before if that is shorter, and appends them. As far as there are processors, others make frames with it, and go on while it appends.
//!
//! The caller hashes and compares on its own thread and hands over what changed through a bounded channel.
//! Where that is full, the caller waits. Only where somebody waits for the caller, as the store's writers do in a rollback-journal mode,
//! what the thread has no time for yet goes into a [`Spool`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use asat_core::boundary::{self, Forked};

use crate::builder::Builder;
use crate::codec::{Before, Encoder, MOST_DIFFERENCES};
use crate::error::Error;
use crate::fingerprint::PageHash;
use crate::index::{Encoding, Entry, check_of};
use crate::layout::{in_memory, len_of};
use crate::pages::Pages;
use crate::recent::{Batch, RecentPage, RecentPages};
use crate::view::{Page, View};

/// Pages travel in batches of about this many bytes.
const BATCH_BYTES: usize = 512 << 10;
/// So many batches wait in memory at most, and so many are in hand: with the frames made of them, some 12 MiB.
const BATCHES_WAITING: usize = 8;
const BATCHES_IN_HAND: usize = 8;

/// What a version has of changed pages beyond so many bytes is compressed as of a version with very many.
const MANY_BYTES: u64 = 256 << 20;

/// A page that is changed again and again is in memory each time. Of so many differences upon it, one lies upon what the archive gives back,
/// so that few are lost with a frame that cannot be read.
const READ_BACK: usize = 4;

/// So many threads make frames of a batch at most, as long as each has this many pages.
const MOST_WORKERS: usize = 4;
const LEAST_SHARE: usize = 16;

/// Hears from the compressing thread how many pages are stored.
pub type Told = Arc<dyn Fn(u64) + Send + Sync>;

/// The compressing thread and the way to it.
pub(crate) struct Compressor {
    folder: PathBuf,
    batch: Work,
    /// Whether the caller must not wait.
    hurries: bool,
    /// Batches that came before the next one and were not sent yet.
    spool: Option<Spool>,
    sender: SyncSender<Work>,
    thread: JoinHandle<Result<(Builder, RecentPages), Error>>,
    forked: Forked,
}

impl Compressor {
    /// Starts the thread, which appends to `builder` what is new in its version. `before` is the version that the pages differ from. `told` hears after each batch
    /// how many pages are stored. Where it `hurries`, no page waits for those before it.
    pub(crate) fn start(
        builder: Builder,
        before: Option<Arc<View>>,
        told: Option<Told>,
        hurries: bool,
    ) -> Result<Self, Error> {
        let folder = builder.objects.place().to_owned();
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let forked = boundary::fork();
        let thread = std::thread::Builder::new()
            .name("asat-compress".to_owned())
            .spawn(move || forked.run(|| compress(builder, before.as_deref(), &receiver, told.as_deref())))
            .map_err(|error| Error::Misuse(format!("no thread for compressing: {error}")))?;
        Ok(Self { folder, batch: Work::default(), hurries, spool: None, sender, thread, forked })
    }

    /// Hands over a changed page, with what it was before if that is in memory. `false`: the thread has ended, and [`Self::finish`] says why.
    pub(crate) fn page(
        &mut self,
        number: u32,
        page: &[u8],
        hash: PageHash,
        below: Option<RecentPage>,
    ) -> Result<bool, Error> {
        let Work { batch, below: all_below } = &mut self.batch;
        if batch.data.capacity() == 0 {
            batch.data.reserve_exact(BATCH_BYTES + page.len());
        }
        batch.pages.push((number, hash));
        batch.data.extend_from_slice(page);
        if below.is_some() || !all_below.is_empty() {
            all_below.resize(batch.pages.len() - 1, None);
            all_below.push(below);
        }
        if batch.data.len() < BATCH_BYTES {
            return Ok(true);
        }
        let mut batch = std::mem::take(&mut self.batch);
        if self.spool.is_none() {
            batch = match self.sender.try_send(batch) {
                Err(TrySendError::Full(batch)) => batch,
                sent => return Ok(sent.is_ok()),
            };
            self.spool = if self.hurries { Spool::create(&self.folder).ok() } else { None };
        }
        // The caller waits where the disk has no room either.
        let left = match &mut self.spool {
            Some(spool) => spool.push(batch).err(),
            None => Some(batch),
        };
        left.map_or(Ok(true), |batch| Ok(self.drain()? && self.send(batch)))
    }

    /// Sends a batch once there is room for it; answers whether the thread takes more.
    fn send(&self, mut batch: Work) -> bool {
        loop {
            batch = match self.sender.try_send(batch) {
                Err(TrySendError::Full(batch)) if boundary::blocked("archive: room for a batch") => batch,
                Err(TrySendError::Full(batch)) => return self.sender.send(batch).is_ok(),
                sent => return sent.is_ok(),
            };
        }
    }

    /// Sends what waits on disk; answers whether the thread takes more.
    fn drain(&mut self) -> Result<bool, Error> {
        let Some(spool) = self.spool.take() else { return Ok(true) };
        let mut taken = true;
        let drained = spool.drain(|batch| {
            taken = self.send(batch);
            taken
        });
        drained.map_err(|source| Error::io("read back what waited in", &self.folder, source))?;
        Ok(taken)
    }

    /// Waits until everything handed over is in the file. Answers also what is kept of it in memory.
    pub(crate) fn finish(mut self) -> Result<(Builder, RecentPages), Error> {
        let drained = self.drain();
        if drained.is_ok() {
            // Where the thread has ended early the sending fails, and joining says why.
            let mut last = std::mem::take(&mut self.batch);
            last.batch.data.shrink_to_fit();
            self.send(last);
        }
        drop(self.sender);
        self.forked.wait();
        let ended_early = |_| Err(Error::Misuse("the compressing thread ended early".to_owned()));
        let made = self.thread.join().unwrap_or_else(ended_early)?;
        drained.map(|_| made)
    }

    /// Ends the thread and removes the file.
    pub(crate) fn abandon(self) {
        drop(self.sender);
        self.forked.wait();
        let _ = self.thread.join();
    }
}

fn compress(
    mut builder: Builder,
    before: Option<&View>,
    batches: &Receiver<Work>,
    told: Option<&(dyn Fn(u64) + Send + Sync)>,
) -> Result<(Builder, RecentPages), Error> {
    let (page_len, version) = (builder.directory.page_size.as_usize(), builder.directory.first);
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
    let queue = Queue::default();
    std::thread::scope(|scope| {
        let mut own = Worker::new(page_len, version)?;
        let _end = EndAtDrop(&queue);
        let (mut in_hand, mut others, mut came) = (VecDeque::new(), 1..count, 0);
        let mut kept = RecentPages::default();
        loop {
            while in_hand.len() < BATCHES_IN_HAND
                && let Some(Work { batch, below }) = next_batch(batches, in_hand.is_empty())
            {
                came += len_of(&batch.data);
                let batch = Arc::new(batch);
                // What a large version begins with is as good as any other part of it: the next one hardly changes just that.
                if came > MANY_BYTES {
                    kept = RecentPages::default();
                } else {
                    kept.add(&batch);
                }
                in_hand.push_back(queue.push(&batch, below, count, came > MANY_BYTES));
                if queue.has_several() && others.next().is_some() {
                    let work =
                        || Worker::new(page_len, version).map(|mut worker| worker.work(&queue, before));
                    // Without memory or threads for others, this one does everything.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, work);
                }
            }
            let Some(shares) = in_hand.pop_front() else { break };
            for share in shares {
                own.until_made(&share, &queue, before)?.append(&mut builder)?;
            }
            if let Some(told) = told {
                told(builder.count);
            }
        }
        Ok((builder, kept))
    })
}

/// The next batch, which is waited for if it must be; `None` if there is none yet, or none comes any more.
fn next_batch(batches: &Receiver<Work>, must_wait: bool) -> Option<Work> {
    loop {
        match batches.try_recv() {
            Ok(batch) => return Some(batch),
            Err(TryRecvError::Empty) if !must_wait => return None,
            Err(TryRecvError::Empty) if boundary::blocked("archive: a batch of pages") => {}
            Err(TryRecvError::Empty) => return batches.recv().ok(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}

/// A part of a batch that one worker makes frames of.
struct Share {
    batch: Arc<Batch>,
    pages: Range<usize>,
    /// What those pages were before, if that is in memory.
    below: Vec<Option<RecentPage>>,
    /// Whether its version has very many.
    of_many: bool,
    made: Sender<Made>,
}

/// Shares that no worker has taken yet.
#[derive(Default)]
struct Queue {
    shares: Mutex<Shares>,
    changed: Condvar,
}

#[derive(Default)]
struct Shares {
    waiting: VecDeque<Share>,
    has_ended: bool,
}

impl Queue {
    /// Has workers make frames of a batch, of which each takes a share; answers what they will be, in order.
    fn push(
        &self,
        batch: &Arc<Batch>,
        below: Vec<Option<RecentPage>>,
        workers: usize,
        of_many: bool,
    ) -> Vec<Receiver<Made>> {
        let (count, mut below) = (batch.pages.len(), below.into_iter());
        let size = count.div_ceil(workers).max(LEAST_SHARE);
        let mut shares = self.shares();
        let share = |start: usize| {
            let (made, share) = channel();
            let (batch, pages) = (Arc::clone(batch), start..(start + size).min(count));
            let below = below.by_ref().take(pages.len()).collect();
            shares.waiting.push_back(Share { batch, pages, below, of_many, made });
            self.changed.notify_one();
            share
        };
        (0..count).step_by(size).map(share).collect()
    }

    fn has_several(&self) -> bool {
        self.shares().waiting.len() > 1
    }

    fn take(&self) -> Option<Share> {
        self.shares().waiting.pop_front()
    }

    /// Waits for a share; `None` if none comes any more.
    fn wait(&self) -> Option<Share> {
        let none_yet = |shares: &mut Shares| shares.waiting.is_empty() && !shares.has_ended;
        let shares = self.changed.wait_while(self.shares(), none_yet);
        shares.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }

    /// No scheduler has a say in who gets it: workers do nothing that others could see.
    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has workers end, whatever came of what they did.
struct EndAtDrop<'a>(&'a Queue);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        *self.0.shares() = Shares { has_ended: true, ..Shares::default() };
        self.0.changed.notify_all();
    }
}

/// What turning pages into frames takes.
struct Worker {
    encoder: Encoder,
    reader: Pages,
    page_len: usize,
    version: u64,
    /// Some pages of the version before, which were read.
    before: Vec<u8>,
}

/// The frames of a share.
#[derive(Default)]
struct Made {
    entries: Vec<Entry>,
    /// The bytes of all frames.
    bytes: Vec<u8>,
}

impl Worker {
    fn new(page_len: usize, version: u64) -> Result<Self, Error> {
        let (encoder, reader) = (Encoder::new(page_len, None)?, Pages::new()?);
        Ok(Self { encoder, reader, page_len, version, before: Vec::new() })
    }

    /// Makes frames until there is nothing to make any more.
    fn work(&mut self, queue: &Queue, before: Option<&View>) {
        while let Some(share) = queue.wait() {
            self.make(&share, before);
        }
    }

    /// Makes frames until those of this share are made, too.
    fn until_made(
        &mut self,
        share: &Receiver<Made>,
        queue: &Queue,
        before: Option<&View>,
    ) -> Result<Made, Error> {
        let ended = || Error::Misuse("a compressing thread ended early".to_owned());
        loop {
            match share.try_recv() {
                Err(TryRecvError::Empty) => {}
                made => return made.map_err(|_| ended()),
            }
            let Some(next) = queue.take() else { return share.recv().map_err(|_| ended()) };
            self.make(&next, before);
        }
    }

    fn make(&mut self, share: &Share, before: Option<&View>) {
        let Share { batch, pages: Range { start, end }, below, of_many, made } = share;
        self.encoder.has_many = *of_many;
        let pages = batch.pages.get(*start..*end).unwrap_or_default();
        let data = batch.data.get(start * self.page_len..end * self.page_len).unwrap_or_default();
        // Nobody waits for it if appending failed.
        let _ = made.send(self.encode(pages, data, below, before));
    }

    fn encode(
        &mut self,
        pages: &[(u32, PageHash)],
        data: &[u8],
        below: &[Option<RecentPage>],
        before: Option<&View>,
    ) -> Made {
        let mut made = Made::default();
        let bases = self.read(before, pages, below);
        let contents = data.chunks_exact(self.page_len);
        for (place, ((&(page, hash), content), base)) in pages.iter().zip(contents).zip(bases).enumerate() {
            let upon = base.and_then(|Base { read, depth, whole_bytes, .. }| {
                let page = match read {
                    Some(nth) => self.before.chunks_exact(self.page_len).nth(nth)?,
                    None => below.get(place)?.as_ref()?.bytes(),
                };
                Some(Before { page, depth, whole_bytes })
            });
            let (encoding, frame) = self.encoder.encode(content, upon);
            let base = base.filter(|_| encoding == Encoding::Difference).map_or(0, |base| base.since);
            let (version, len) = (self.version, u32::try_from(frame.len()).unwrap_or(u32::MAX));
            made.entries.push(Entry {
                page,
                version,
                encoding,
                base,
                offset: 0,
                len,
                check: check_of(&hash),
            });
            made.bytes.extend_from_slice(frame);
        }
        made
    }

    /// Reads what some pages were and is not in memory, all together, so that a disk has many to read at once. Answers what a difference may
    /// lie upon, or nothing of a page that is to be stored whole: it is new, cannot be read, or is as many differences already.
    fn read(
        &mut self,
        before: Option<&View>,
        pages: &[(u32, PageHash)],
        below: &[Option<RecentPage>],
    ) -> Vec<Option<Base>> {
        let none = || vec![None; pages.len()];
        let Some(view) = before else { return none() };
        let nth = |(number, _): &(u32, PageHash)| usize::try_from(number.saturating_sub(1)).ok();
        // New ones come last.
        let there = pages.iter().filter_map(nth).take_while(|&nth| nth < view.page_count);
        let Ok(places) = view.pages(there, false) else { return none() };
        let is_due = |page: Page<'_>| page.frames.len().is_multiple_of(READ_BACK);
        let is_read = |place: usize| {
            below.get(place).is_none_or(Option::is_none) || places.get(place).is_some_and(is_due)
        };
        let to_read = places.chosen(is_read);
        self.before.resize(to_read.len() * self.page_len, 0);
        if self.reader.read_placed(view, &to_read, &mut self.before, false).is_err() {
            return none();
        }
        let mut nth_read = 0..;
        let base_of = |place| {
            let read = if is_read(place) { nth_read.next() } else { None };
            let page =
                places.get(place).filter(|_| read.is_none_or(|nth| !self.reader.lost.contains(&nth)))?;
            let depth = u32::try_from(page.frames.len().checked_sub(1)?).ok()?;
            let whole_bytes = page.frames.last().map_or(0, |frame| in_memory(frame.len().into()));
            let base = Base { read, depth, whole_bytes, since: page.since };
            Some(base).filter(|_| depth < MOST_DIFFERENCES)
        };
        (0..pages.len()).map(base_of).collect()
    }
}

impl Made {
    fn append(self, builder: &mut Builder) -> Result<(), Error> {
        let mut rest = self.bytes.as_slice();
        for entry in self.entries {
            let (frame, after) = rest.split_at(in_memory(entry.len.into()).min(rest.len()));
            builder.add(entry, frame)?;
            rest = after;
        }
        Ok(())
    }
}

/// What a difference may lie upon.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// Where it is among the pages that were read, if it was not in memory.
    read: Option<usize>,
    /// As how many differences it is stored.
    depth: u32,
    /// How long the frame is that holds it whole.
    whole_bytes: usize,
    /// The version at which the page became this.
    since: u64,
}

/// Changed pages on their way to the compressing thread.
#[derive(Debug, Default)]
struct Work {
    batch: Batch,
    /// What each was before if that is in memory; empty if that is so of none.
    below: Vec<Option<RecentPage>>,
}

/// Batches that wait on disk until the thread has time for them, first in, first out.
///
/// The store's read transaction lasts until the last page is handed over, and in a rollback-journal mode
/// writers wait for its end. Compressing is much slower than reading, so what does not fit into the channel
/// goes into an unnamed file then: the hold lasts as long as reading takes, and not as long as compressing. If
/// nobody waits it would only take longer, by what is written to the disk and read back.
/// A crash leaves nothing of the file.
struct Spool {
    file: File,
    /// What each has besides the pages, and how many bytes these have in the file.
    waiting: VecDeque<(Work, usize)>,
}

impl Spool {
    /// An empty one, with an unnamed file in `folder`.
    fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, waiting: VecDeque::new() })
    }

    /// Takes a batch, or gives it back where that fails: then the spool must not be pushed to again, and holds what it held before.
    fn push(&mut self, mut work: Work) -> Result<(), Work> {
        // A batch counts once it is in the file: a full disk must not show later, when it would be lost.
        if self.file.write_all(&work.batch.data).is_err() {
            return Err(work);
        }
        let len = std::mem::take(&mut work.batch.data).len();
        self.waiting.push_back((work, len));
        Ok(())
    }

    /// Gives every batch to `take`, in order, until that says that it takes no more.
    fn drain(mut self, mut take: impl FnMut(Work) -> bool) -> io::Result<()> {
        self.file.rewind()?;
        for (mut work, len) in self.waiting {
            work.batch.data = vec![0; len];
            self.file.read_exact(&mut work.batch.data)?;
            if !take(work) {
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
            pages: (0..n).map(|page| (page, [u8::try_from(page).unwrap(); 32])).collect(),
            data: vec![u8::try_from(n).unwrap(); 600 * usize::try_from(n).unwrap()],
        };
        let work = |n: u32| Work { batch: batch(n), below: vec![None; usize::try_from(n).unwrap()] };
        for n in [3, 0, 200, 1] {
            assert!(spool.push(work(n)).is_ok());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        let mut out = Vec::new();
        let take = |work: Work| {
            out.push(work);
            out.len() < 3
        };
        spool.drain(take).unwrap();
        for (out, n) in out.iter().zip([3, 0, 200]) {
            assert_eq!((&out.batch.pages, &out.batch.data), (&batch(n).pages, &batch(n).data));
            assert_eq!(out.below.len(), out.batch.pages.len());
        }
        assert_eq!(out.len(), 3, "no more is given than is taken");
    }
}
