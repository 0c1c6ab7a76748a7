//! What the next version of a store relies on in the archive is read before: by a thread at the start, and by each publication as far
//! as that is not through, before it holds any writer up.

use std::sync::atomic::Ordering;

use asat_archive::Archive;
use asat_core::event::Event;
use asat_core::harm::Finding;
use asat_core::{Problem, StoreName};

use super::{Machine, lock};

impl Machine {
    /// Reads what of the newest version was not read yet, so that the next one relies on nothing that cannot be read.
    ///
    /// # Errors
    /// If the machine refuses, or the daemon stops.
    pub(super) fn read_newest(&self, store: &StoreName) -> Result<(), Problem> {
        let archive = self.archives.of(store)?;
        let lost = archive.read_newest(&|| !self.stopping.load(Ordering::Relaxed))?;
        if lost > 0 {
            let what = format!(
                "{store}: {lost} pages of its newest archived version cannot be read; the next version stores them again"
            );
            self.tell_damage(store, &archive, what);
        } else if archive.is_disturbed() {
            let what = format!(
                "{store}: files of its archive were removed or replaced; what is open of them is saved"
            );
            self.tell_damage(store, &archive, what);
        }
        Ok(())
    }

    /// Has damage recorded and put right.
    fn tell_damage(&self, store: &StoreName, archive: &Archive, what: String) {
        tracing::warn!(store = %store, "{what}");
        let finding = Finding {
            file: archive.folder().display().to_string(),
            what,
            versions: archive.newest().into_iter().collect(),
        };
        if let Some(driver) = self.driver.get() {
            let event =
                Event::Verified { store: store.clone(), whole: false, known: None, findings: vec![finding] };
            let of = store.clone();
            driver.tell(event, move |answer| match answer {
                Ok(_) => {}
                Err(problem) => {
                    tracing::warn!(store = %of, "{of}: what is damaged was not put right: {problem}")
                }
            });
        }
    }

    /// Does so for every store, one after another.
    pub(in crate::daemon) fn read_newest_of_all(&self) {
        for store in self.archives.stores() {
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            if let Err(problem) = self.read_newest(&store) {
                tracing::debug!(store = %store, %problem, "{store}: what its next version relies on is read when it is published");
            }
        }
    }

    /// Takes no version of a store for what the store still has until it is looked at again: damage was found in its archive.
    pub(super) fn distrust(&self, store: &StoreName) {
        self.seen.forget(store);
        lock(&self.witnesses).remove(store);
    }
}
