//! Pages that are read before somebody asks for them, by a thread of their own: whoever compares rows does that meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use asat_archive::Reader;

use crate::daemon::machine::lock;

/// So many pages wait to be asked for at most: what was not asked for by then is not needed.
const MOST: usize = 256;
/// So many are handed over together: whoever waits is not woken for each.
const TOGETHER: usize = 16;

/// The thread, and what it has read.
pub(super) struct ReadAhead {
    /// What to read next; gone when the thread is to end.
    wanted: Option<Sender<Vec<u32>>>,
    pages: Arc<Pages>,
    thread: Option<JoinHandle<()>>,
}

/// Pages by their numbers: `None` is still being read.
#[derive(Default)]
struct Pages {
    read: Mutex<HashMap<u32, Option<Vec<u8>>>>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl ReadAhead {
    /// Starts the thread; `None` if the machine gives none.
    pub(super) fn start(reader: Arc<Reader>) -> Option<Self> {
        let (wanted, numbers) = channel::<Vec<u32>>();
        let pages = Arc::<Pages>::default();
        let shared = Arc::clone(&pages);
        let work = move || {
            let shared = Ending(shared);
            for numbers in numbers {
                for some in numbers.chunks(TOGETHER) {
                    if shared.0.is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    shared.0.put(some.iter().map(|number| (*number, read(&reader, *number))));
                }
            }
        };
        let thread = Builder::new().name("read-ahead".to_owned()).spawn(work).ok()?;
        Some(Self { wanted: Some(wanted), pages, thread: Some(thread) })
    }

    /// Has pages read that are asked for soon.
    pub(super) fn expect(&self, numbers: &[u32]) {
        let mut read = lock(&self.pages.read);
        if read.len() > MOST {
            read.retain(|_, page| page.is_none());
        }
        let numbers: Vec<u32> = numbers.iter().copied().filter(|number| !read.contains_key(number)).collect();
        read.extend(numbers.iter().map(|number| (*number, None)));
        drop(read);
        if let Some(wanted) = &self.wanted {
            // If the thread has ended, nobody waits for it.
            let _ = wanted.send(numbers);
        }
    }

    /// A page that was expected, as soon as it is read; `None` if it was not, or could not be read.
    pub(super) fn take(&self, number: u32) -> Option<Vec<u8>> {
        let read = lock(&self.pages.read);
        let is_under_way = |read: &mut HashMap<u32, Option<Vec<u8>>>| {
            matches!(read.get(&number), Some(None)) && !self.pages.is_over.load(Ordering::Relaxed)
        };
        let waited = self.pages.changed.wait_while(read, is_under_way);
        waited.unwrap_or_else(PoisonError::into_inner).remove(&number).flatten()
    }
}

impl Pages {
    fn put(&self, pages: impl Iterator<Item = (u32, Option<Vec<u8>>)>) {
        let pages: Vec<_> = pages.collect();
        let mut read = lock(&self.read);
        for (number, page) in pages {
            match page {
                Some(page) => _ = read.insert(number, Some(page)),
                None => _ = read.remove(&number),
            }
        }
        drop(read);
        self.changed.notify_all();
    }
}

/// Says that nothing more is read, however the thread ends.
struct Ending(Arc<Pages>);

impl Drop for Ending {
    fn drop(&mut self) {
        // Who is about to wait has the lock, and sees it or hears of it.
        let read = lock(&self.0.read);
        self.0.is_over.store(true, Ordering::Relaxed);
        drop(read);
        self.0.changed.notify_all();
    }
}

/// A page. One that cannot be read is read once more by whoever asks for it, and is told why.
fn read(reader: &Reader, number: u32) -> Option<Vec<u8>> {
    let mut page = vec![0; reader.meta().page_size.as_usize()];
    reader.read_page(number, &mut page).is_ok().then_some(page)
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.pages.is_over.store(true, Ordering::Relaxed);
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // It has panicked at worst, and what it has read is thrown away.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_thread_that_has_ended_with_a_panic() {
        let pages = Arc::<Pages>::default();
        let ahead = ReadAhead { wanted: None, pages: Arc::clone(&pages), thread: None };
        ahead.expect(&[7]);
        let thread = std::thread::spawn(move || {
            let _ending = Ending(pages);
            panic!("a page cannot be decoded");
        });
        assert_eq!(ahead.take(7), None);
        assert!(thread.join().is_err());
    }
}
