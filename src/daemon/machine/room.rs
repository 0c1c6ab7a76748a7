//! Room for what is written to an archive.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use asat_core::StoreName;

use super::Machine;

impl Machine {
    /// Does what writes to a store's archive. Where that fails because the disk `is_full`, gives back what versions took
    /// that were given up, and does it once more if that was something. Compaction goes on in the background, so
    /// somebody who has just given a version up to make room would otherwise be too early.
    pub(super) fn with_room<T, E>(
        &self,
        store: &StoreName,
        is_full: impl Fn(&E) -> bool,
        work: impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        let bytes = || self.archives.bytes(store);
        let before = bytes();
        match work() {
            Err(error) if is_full(&error) => {
                self.compact_at_once(store);
                if bytes() < before { work() } else { Err(error) }
            }
            done => done,
        }
    }

    /// Compacts as fast as can be, after a compaction that is under way.
    fn compact_at_once(&self, store: &StoreName) {
        let Ok(archive) = self.archives.of(store) else { return };
        let _hurried = self.precedence.hurry();
        let compacted = archive.compact(&mut |_| match self.stopping.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        match compacted {
            Ok(compacted) => {
                tracing::info!(%store, freed_bytes = compacted.freed_bytes, "{store}: compacted for room")
            }
            Err(error) => tracing::warn!(%store, %error, "{store}: could not compact for room"),
        }
    }
}
