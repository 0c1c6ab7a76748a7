//! A writer that never pauses, past every cache.

#![allow(unreachable_pub)]

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// What it writes at once.
pub const BLOCK: u64 = 1 << 20;
/// What a device must have of what is written to it directly.
const ALIGNMENT: usize = 4096;

/// It writes one block after another, on a thread of its own.
pub struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    blocks: AtomicU64,
    stop: AtomicBool,
    /// Microseconds.
    longest: AtomicU64,
}

impl Writer {
    /// Writes the first blocks of a device or a file over and over, so many rounds or until it is stopped.
    pub fn start(device: &Path, blocks: u64, rounds: u64) -> Self {
        Self::at_pace(device, blocks, rounds, Duration::ZERO)
    }

    /// The same with a block each `pace`.
    pub fn at_pace(device: &Path, blocks: u64, rounds: u64, pace: Duration) -> Self {
        let mut options = OpenOptions::new();
        let file =
            options.write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(device).unwrap();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let length = usize::try_from(BLOCK).unwrap();
            let bytes = vec![b'n'; length + ALIGNMENT];
            let begin = bytes.as_ptr().align_offset(ALIGNMENT);
            for block in (0..rounds).flat_map(|_| 0..blocks) {
                if theirs.stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(pace);
                let began = Instant::now();
                file.write_all_at(&bytes[begin..begin + length], block * BLOCK).unwrap();
                let took = u64::try_from(began.elapsed().as_micros()).unwrap();
                theirs.longest.fetch_max(took, Ordering::Relaxed);
                theirs.blocks.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { shared, thread }
    }

    /// How many blocks it has written.
    pub fn count(&self) -> u64 {
        self.shared.blocks.load(Ordering::Relaxed)
    }

    /// The longest that it waited for a block.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.shared.longest.load(Ordering::Relaxed))
    }

    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Looks for a while whether it stands still. A block that had reached the disk before may be counted late.
    pub fn expect_waiting(&self, what: &str) {
        let before = self.count();
        std::thread::sleep(Duration::from_millis(300));
        assert!(self.count() <= before + 1, "{what}: {before} became {}", self.count());
    }

    /// Waits until it goes on; answers after how long.
    pub fn expect_writing(&self, what: &str) -> Duration {
        let (began, before) = (Instant::now(), self.count());
        while self.count() < before + 5 {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: it does not go on");
            std::thread::sleep(Duration::from_millis(1));
        }
        began.elapsed()
    }

    pub fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.join();
    }

    /// Waits until it has written everything.
    pub fn join(self) {
        self.thread.join().unwrap();
    }
}
