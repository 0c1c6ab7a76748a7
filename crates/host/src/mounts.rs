//! Snapshots mounted read-only, and of each one file shown to readers.
//!
//! ```text
//! <root>/report@12/report.db       what readers open: the store's file in the snapshot, alone in its folder
//! <root>/.snapshots/report@12/     the whole file system of the snapshot; mode 0700, nobody else looks there
//! ```
//!
//! Readers get one file and not the volume: the rest of it is none of their business, and a `-wal` beside the
//! store may hold commits that came after the cut, which SQLite would read whatever the database's header says.
//! The file keeps the owner and the mode that it had, and the mode of the root folder says who gets that far.
//! It is made as 0750; one that is there already keeps its mode.
//!
//! How the mounts spread to other mount namespaces is left as the folder above has it. On a usual host that is
//! "shared": services in namespaces of their own see what is shown, and, which matters more, lose it again as it
//! is hidden. A private mount would be copied into each new namespace and keep the snapshot's device in use for
//! as long as that lives. For the same reason the flags of the snapshot's mount are all that makes the shown file
//! read-only: a bind mount takes them over in every namespace, where a later remount would change only this one.
//!
//! What is mounted survives a crash of this process, and [`Mounts::survey`] finds it again.

mod device;
mod disk;
mod error;
mod layout;
mod options;
pub(crate) mod rollback;
mod table;
mod trim;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use asat_core::VersionId;

pub use device::in_use;
pub use error::Error;
pub(crate) use error::SUPPORTED;
pub use options::Log;
pub use rollback::into_rollback_mode;
pub use trim::trim;

use layout::{Layout, Place};
use table::Table;

/// Whether snapshots of a kind of file system can be mounted.
#[must_use]
pub fn is_supported(fs: &str) -> bool {
    options::of_snapshot(fs, Log::Empty).is_ok()
}

/// Who may look into the root folder, where it is made here.
const ROOT_MODE: u32 = 0o750;
/// The folders of versions let everybody through: the root folder decides.
const FOLDER_MODE: u32 = 0o755;
const PRIVATE_MODE: u32 = 0o700;

/// The folder of the mounted versions. Calls for different versions may run at the same time; those for one
/// version must come one after another, and none may run beside [`Mounts::survey`].
#[derive(Clone, Debug)]
pub struct Mounts {
    layout: Layout,
}

/// A version of which something is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The version.
    pub id: VersionId,
    /// The device of its snapshot, major and minor.
    pub device: (u32, u32),
    /// Whether its file is shown to readers.
    pub shown: bool,
}

impl Mounts {
    /// The mounts below this folder. It is made with the first of them.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { layout: Layout::new(root) }
    }

    /// Where readers find the version's file, or would find it.
    #[must_use]
    pub fn path(&self, id: &VersionId) -> PathBuf {
        self.layout.path(id)
    }

    /// Where the file system of the version's snapshot is mounted, or would be.
    #[must_use]
    pub fn inside(&self, id: &VersionId) -> PathBuf {
        self.layout.inside(id)
    }

    /// Where a file of the snapshot's file system is, given its path from the root of that (`/srv/report.db`).
    #[must_use]
    pub fn file(&self, id: &VersionId, inside: &Path) -> PathBuf {
        self.layout.inside(id).join(layout::relative(inside))
    }

    /// The same, where no link is on the way to the file: followed from here, it could lead out of the snapshot, to the
    /// store itself. That there is no such file is no error.
    ///
    /// # Errors
    /// [`Error::NotAFile`]; or where the machine refuses.
    pub fn checked_file(&self, id: &VersionId, inside: &Path) -> Result<PathBuf, Error> {
        match disk::find_beneath(&self.layout.inside(id), inside) {
            Ok(_) | Err(Error::NoSuchFile(_)) => Ok(self.file(id, inside)),
            Err(error) => Err(error),
        }
    }

    /// Mounts the file system of a snapshot where only root may look, read-only, and returns its root folder. `node` is
    /// the snapshot's device node, `device` its major and minor number, and `fs` the kind of file system; `log` says
    /// whether its log is replayed first. Where that device is mounted there already, nothing is done.
    ///
    /// # Errors
    /// [`Error::UnsupportedFs`]; [`Error::NotTheDevice`], where the node leads elsewhere; [`Error::InTheWay`],
    /// where something else is mounted or lies there; or where the machine refuses. Nothing is changed then.
    pub fn mount(
        &self,
        id: &VersionId,
        node: &Path,
        device: (u32, u32),
        fs: &str,
        log: Log,
    ) -> Result<PathBuf, Error> {
        let options = options::of_snapshot(fs, log)?;
        device::check(node, device)?;
        disk::make_root(self.layout.root(), ROOT_MODE)?;
        let real = self.real()?.ok_or_else(|| Error::NotMounted(self.layout.inside(id)))?;
        let (at, answer) = (real.inside(id), self.layout.inside(id));
        if let Some(mount) = Table::read()?.at(&at) {
            return table::check_snapshot(mount, Some(device)).map(|()| answer);
        }
        disk::make_folder(&real.snapshots(), PRIVATE_MODE, |_| true)?;
        disk::make_folder(&at, PRIVATE_MODE, |_| false)?;
        if let Err(error) = disk::mount(node, &at, fs, options) {
            disk::remove_folder(&at)?;
            return Err(error);
        }
        // The node can have become another device's since it was looked at.
        let table = Table::read()?;
        let mount = table.at(&at).ok_or_else(|| Error::NotMounted(at.clone()))?;
        if let Err(error) = table::check_snapshot(mount, Some(device)) {
            disk::detach(&at)?;
            disk::remove_folder(&at)?;
            return Err(error);
        }
        Ok(answer)
    }

    /// Shows a file of the mounted snapshot to readers, given its path from the root of the snapshot's file
    /// system (`/srv/report.db`), and returns where. Where that very file is shown already, nothing is done.
    ///
    /// # Errors
    /// [`Error::NotMounted`]; [`Error::NoSuchFile`]; [`Error::NotAFile`], also where a link is on the way to the
    /// file, which could lead out of the snapshot; [`Error::InTheWay`]; or where the machine refuses.
    pub fn show(&self, id: &VersionId, inside: &Path) -> Result<PathBuf, Error> {
        let unmounted = || Error::NotMounted(self.layout.inside(id));
        let real = self.real()?.ok_or_else(unmounted)?;
        let table = Table::read()?;
        table::check_snapshot(table.at(&real.inside(id)).ok_or_else(unmounted)?, None)?;
        let file = disk::find_beneath(&real.inside(id), inside)?;
        let (path, answer) = (real.path(id), self.layout.path(id));
        if table.at(&path).is_some() {
            let same = disk::is(&path, &file)?;
            return if same {
                Ok(answer)
            } else {
                Err(Error::in_the_way(&path, "another file is mounted there"))
            };
        }
        let folder = real.folder(id);
        disk::make_folder(&folder, FOLDER_MODE, |name| Some(name) == path.file_name())?;
        disk::make_placeholder(&path)?;
        if let Err(error) = disk::bind(&file, &path) {
            disk::remove_shown(&path, &folder)?;
            return Err(error);
        }
        Ok(answer)
    }

    /// Takes the shown file away from new readers. Who has it open reads on. That it is not shown is no error.
    ///
    /// # Errors
    /// [`Error::InTheWay`], where something else is mounted there; or where the machine refuses.
    pub fn hide(&self, id: &VersionId) -> Result<(), Error> {
        let Some(real) = self.real()? else { return Ok(()) };
        let table = Table::read()?;
        let path = real.path(id);
        if let Some(mount) = table.at(&path) {
            table::check_shown(mount, table.at(&real.inside(id)))?;
            disk::detach(&path)?;
        }
        disk::remove_shown(&path, &real.folder(id))
    }

    /// Hides the version's file and unmounts its snapshot. That nothing is mounted is no error.
    ///
    /// Readers that opened the shown file before do not keep this from ending well, but the snapshot's device
    /// stays in use until the last of them closes it, and cannot be removed: see [`in_use`].
    ///
    /// # Errors
    /// [`Error::Busy`], where somebody works below [`Self::inside`]; the file is hidden then.
    /// [`Error::InTheWay`], where something else is mounted there; or where the machine refuses.
    pub fn unmount(&self, id: &VersionId) -> Result<(), Error> {
        self.hide(id)?;
        let Some(real) = self.real()? else { return Ok(()) };
        let at = real.inside(id);
        if let Some(mount) = Table::read()?.at(&at) {
            table::check_snapshot(mount, None)?;
            disk::unmount(&at)?;
        }
        disk::remove_folder(&at)
    }

    /// The versions of which something is mounted, in order. Empty folders that a crash has left are removed;
    /// what is not recognised is left alone.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn survey(&self) -> Result<Vec<Mounted>, Error> {
        let Some(real) = self.real()? else { return Ok(Vec::new()) };
        let found = found_in(&Table::read()?, &real);
        for id in real.versions_in(&disk::list(&real.snapshots())?) {
            if !found.contains_key(&id) {
                disk::remove_folder(&real.inside(&id))?;
            }
        }
        for id in real.versions_in(&disk::list(real.root())?) {
            if !found.get(&id).is_some_and(|mounted| mounted.shown) {
                disk::remove_shown(&real.path(&id), &real.folder(&id))?;
            }
        }
        Ok(found.into_values().collect())
    }

    /// The same with every link in the path of the root folder resolved, as the mount table has it; `None` where
    /// there is no such folder.
    fn real(&self) -> Result<Option<Layout>, Error> {
        Ok(disk::resolve(self.layout.root())?.map(Layout::new))
    }
}

/// What the mount table has of the versions. Of a shown file whose snapshot is not mounted any more, the device is
/// told too: it is in use.
fn found_in(table: &Table, layout: &Layout) -> BTreeMap<VersionId, Mounted> {
    let mut found = BTreeMap::new();
    for mount in table.all() {
        let (id, shown) = match layout.place(&mount.mount_point) {
            Some(Place::Snapshot(id)) if table::check_snapshot(mount, None).is_ok() => (id, false),
            Some(Place::Shown(id)) if table::check_shown(mount, table.at(&layout.inside(&id))).is_ok() => {
                (id, true)
            }
            _ => continue,
        };
        let entry = found.entry(id.clone()).or_insert(Mounted { id, device: mount.device, shown });
        entry.shown |= shown;
    }
    found
}

#[cfg(test)]
mod tests;
