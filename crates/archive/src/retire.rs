//! Gives versions up. Later versions may need pages of one: what nobody needs any more is given back by a merge.

use std::sync::atomic::Ordering;

use asat_core::boundary;

use crate::archive::Archive;
use crate::error::Error;
use crate::lock::lock;

/// What giving up a version did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// It was live, and is no more.
    Retired {
        /// What this gave back on disk.
        freed_bytes: u64,
        /// Whether [`Archive::compact`] would give back more.
        worth_compacting: bool,
    },
    /// No such version is live.
    AlreadyGone,
}

impl Archive {
    /// Gives up a version. Those who read it at the moment read on.
    pub fn retire(&self, number: u64) -> Result<Retired, Error> {
        let archive = &*self.inner;
        boundary::step("archive: give up a version");
        if !archive.state().may_have(number) {
            return Ok(Retired::AlreadyGone);
        }
        let before = self.bytes();
        let (mut is_newest, mut is_written_upon) = (false, false);
        let committed = archive.commit_manifest(|state, manifest| {
            let below = state.newest_beside(number).unwrap_or(0);
            // What cannot be read may lie upon it.
            is_newest = below < number && manifest.unread.values().all(|up_to| *up_to < number);
            is_written_upon = is_newest && *lock(&archive.writing);
            manifest.retire(number);
            if is_newest {
                // What is between and was not given up may be in a file that cannot be read.
                let above = manifest.retired.iter().filter(|range| range.1 > below);
                let above = above.map(|(first, last)| ((*first).max(below + 1), *last));
                manifest.voided.retain(|range| range.0 <= below);
                manifest.voided.extend(above);
                manifest.segments.retain(|segment| segment.first <= below);
            }
            manifest.forget();
            state.may_have(number) && !is_written_upon
        })?;
        if is_written_upon {
            let what = "a version is being written on top of this one";
            return Err(Error::Busy { folder: archive.objects.place().to_owned(), what });
        }
        if committed.is_none() {
            return Ok(Retired::AlreadyGone);
        }
        archive.has_garbage.store(true, Ordering::Relaxed);
        let mut head = lock(&archive.head);
        *head = head.take().filter(|head| head.number != number);
        drop(head);
        if is_newest {
            archive.let_go()?;
        }
        let freed_bytes = before.saturating_sub(self.bytes());
        Ok(Retired::Retired { freed_bytes, worth_compacting: freed_bytes == 0 })
    }
}
