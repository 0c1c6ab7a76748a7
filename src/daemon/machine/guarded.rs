//! What the guard looks at and wants of publications, beside volumes.

use std::path::Path;

use asat_core::guard::{Advice, FolderSeen, Short};
use asat_core::{Code, Problem, StoreName};
use asat_host::machine;

use super::backend::LvmSnapshots;
use super::{Machine, lock};

impl Machine {
    /// The volumes, which the guard watches.
    pub(in crate::daemon) fn volumes(&self) -> &LvmSnapshots {
        &self.backends.lvm
    }

    /// What is free under the state folder.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub(in crate::daemon) fn folder(&self, state: &Path) -> Result<FolderSeen, Problem> {
        let (free, total) = machine::room(state).map_err(|error| {
            let detail = format!("cannot tell how much room there is at {}: {error}", state.display());
            Problem::new(Code::Internal, detail, "look at the disk, and at the kernel's log")
        })?;
        Ok(FolderSeen { path: state.display().to_string(), free, total, waiting: None })
    }

    /// What the guard wants of publications from now on.
    pub(in crate::daemon) fn advise(&self, Advice { nowhere, volumes }: Advice) {
        *lock(&self.short) = nowhere;
        self.volumes().advise(volumes);
    }

    /// Refuses a publication if the guard says so.
    pub(super) fn check_room(&self, store: &StoreName) -> Result<(), Problem> {
        let short = lock(&self.short);
        // Somebody may have made room since the guard looked.
        let is_short = |short: &&Short| {
            machine::room(Path::new(&short.folder)).is_ok_and(|(free, _)| free < short.least)
        };
        match short.as_ref().filter(is_short) {
            Some(short) => Err(nothing_new(store, &short.why, "free or add space under the state folder")),
            None => Ok(()),
        }
    }
}

/// Why a publication is refused for now, and what makes room.
pub(super) fn nothing_new(store: &StoreName, why: &str, what: &str) -> Problem {
    let detail = format!("nothing new of {store} is kept now: {why}");
    Problem::new(Code::StorageFull, detail, format!("{what}; asat capacity shows what is short"))
}
