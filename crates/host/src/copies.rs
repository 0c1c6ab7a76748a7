//! As-at copies: versions as plain files on disk, read-only, in folders that the daemon's group may look into.
//!
//! ```text
//! <root>/report@12/report.db        the copy, mode 0440
//! <root>/report@12.tmp/report.db    one in the making, or one that is being replaced
//! <root>/.identities/report@12      what file the copy is; mode 0700, nobody else looks there
//! ```
//!
//! A copy is never trusted by its name. As it is finished, the identity of its file is recorded: length,
//! inode, and the times of its last change, which the kernel moves whenever anybody writes to the file or
//! changes its permissions. Where the file is not that one any more, or something lies beside it, the copy is
//! made again. Whoever has the old one open keeps reading it.
//!
//! The copies are a cache. Nothing is lost with them, and what a crash leaves half-made goes at the next
//! [`Copies::survey`]. Files that do not have the names above are never touched.

mod disk;
mod error;
pub(crate) mod identity;
pub(crate) mod naming;

use std::fs::File;
use std::path::{Path, PathBuf};

use asat_core::{Problem, VersionId};

pub use error::Error;
use identity::Identity;
use naming::Name;

/// The folder of the as-at copies. Calls for different versions may run at the same time; those for one
/// version must come one after another, and none may run beside [`Copies::survey`].
#[derive(Clone, Debug)]
pub struct Copies {
    root: PathBuf,
}

impl Copies {
    /// The copies in this folder. It is made with the first of them.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where the version's copy is, or would be.
    #[must_use]
    pub fn path(&self, id: &VersionId) -> PathBuf {
        self.folder(id).join(naming::file_name(id))
    }

    /// Has an intact copy of `len` bytes, and returns its size. Where there is none, `fill` writes it into the
    /// file that it gets, from the start; room for it has been set aside.
    ///
    /// # Errors
    /// What `fill` says, or where the copy cannot be made. The space is given back then.
    pub fn make(
        &self,
        id: &VersionId,
        len: u64,
        fill: impl FnOnce(&mut File) -> Result<(), Problem>,
    ) -> Result<u64, Problem> {
        if self.intact(id).is_some_and(|identity| identity.len() == len) {
            return Ok(len);
        }
        self.prepare(id)?;
        match self.write(id, len, fill).and_then(|identity| Ok(self.install(id, &identity)?)) {
            Ok(()) => Ok(len),
            Err(problem) => {
                // The problem is what the caller needs to know; litter is removed at the next start anyway.
                let _ = disk::remove_folder(&self.temporary(id), id);
                Err(problem)
            }
        }
    }

    /// Removes the version's copy. That there is none is no error.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn drop_copy(&self, id: &VersionId) -> Result<(), Error> {
        // Without its identity the copy does not count, however far the removal gets.
        disk::remove_file(&self.identity_path(id))?;
        disk::remove_folder(&self.temporary(id), id)?;
        if disk::remove_folder(&self.folder(id), id)? {
            disk::sync_folder(&self.root)?;
        }
        Ok(())
    }

    /// The versions of which there is an intact copy, in order. What a crash left half-made, and what is no
    /// longer as it was made, is removed.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn survey(&self) -> Result<Vec<VersionId>, Error> {
        let mut intact = Vec::new();
        for name in disk::list(&self.root)? {
            match Name::parse(&name) {
                Some(Name::Copy(id)) if self.intact(&id).is_some() => intact.push(id),
                Some(Name::Copy(id)) => self.drop_copy(&id)?,
                Some(Name::Temporary(id)) => {
                    disk::remove_folder(&self.temporary(&id), &id)?;
                }
                None => {}
            }
        }
        for name in disk::list(&self.identities())? {
            let (Some(Name::Copy(id)) | Some(Name::Temporary(id))) = Name::parse(&name) else { continue };
            if !intact.contains(&id) || matches!(Name::parse(&name), Some(Name::Temporary(_))) {
                disk::remove_file(&self.identities().join(&name))?;
            }
        }
        intact.sort();
        Ok(intact)
    }

    /// The identity of the version's copy, where it is the file that was recorded, alone in its folder.
    fn intact(&self, id: &VersionId) -> Option<Identity> {
        let recorded = Identity::read(&self.identity_path(id))?;
        let found = Identity::of_path(&self.path(id)).ok()?;
        let alone = disk::list(&self.folder(id)).ok()?.len() == 1;
        (found == recorded && alone).then_some(found)
    }

    /// Makes the folders, and removes what an earlier attempt left.
    fn prepare(&self, id: &VersionId) -> Result<(), Error> {
        disk::make_folder(&self.root, 0o750)?;
        disk::make_folder(&self.identities(), 0o700)?;
        let temporary = self.temporary(id);
        disk::remove_folder(&temporary, id)?;
        for path in [&temporary, &self.folder(id)] {
            disk::check_is_folder_or_absent(path)?;
        }
        if disk::exists(&temporary) {
            return Err(Error::InTheWay(temporary));
        }
        disk::make_folder(&temporary, 0o750)
    }

    /// Writes the copy beside its place.
    fn write(
        &self,
        id: &VersionId,
        len: u64,
        fill: impl FnOnce(&mut File) -> Result<(), Problem>,
    ) -> Result<Identity, Problem> {
        let folder = self.temporary(id);
        let path = folder.join(naming::file_name(id));
        let mut file = disk::create(&path, len)?;
        fill(&mut file)?;
        let identity = disk::finish(&file, &path)?;
        if identity.len() != len {
            return Err(Error::Length { path, expected: len, found: identity.len() }.into());
        }
        disk::sync_folder(&folder)?;
        Ok(identity)
    }

    /// Puts the written copy into its place. The identity goes first: with an older copy in place it does not
    /// match, and the older copy does not count.
    fn install(&self, id: &VersionId, identity: &Identity) -> Result<(), Error> {
        let record = self.identity_path(id);
        let draft = self.identities().join(Name::Temporary(id.clone()).text());
        disk::write_small(&draft, &identity.text())?;
        disk::rename(&draft, &record)?;
        disk::sync_folder(&self.identities())?;
        disk::rename_folder(&self.temporary(id), &self.folder(id), id)?;
        disk::sync_folder(&self.root)?;
        // Where an older copy was replaced, it has the temporary name now.
        disk::remove_folder(&self.temporary(id), id).map(|_| ())
    }

    fn folder(&self, id: &VersionId) -> PathBuf {
        self.root.join(Name::Copy(id.clone()).text())
    }

    fn temporary(&self, id: &VersionId) -> PathBuf {
        self.root.join(Name::Temporary(id.clone()).text())
    }

    fn identities(&self) -> PathBuf {
        self.root.join(".identities")
    }

    fn identity_path(&self, id: &VersionId) -> PathBuf {
        self.identities().join(Name::Copy(id.clone()).text())
    }

    /// The folder that holds all copies.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
