//! The paths below the root folder, made and read in one place. What is not spelled exactly as here is somebody
//! else's.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use asat_core::VersionId;

use crate::copies::naming;

/// The folder of the whole file systems. No store's name begins with a dot.
const SNAPSHOTS: &str = ".snapshots";

/// The root folder, and where everything is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    root: PathBuf,
}

/// What belongs at a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The file system of a version's snapshot.
    Snapshot(VersionId),
    /// The one file that readers see.
    Shown(VersionId),
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the whole file systems.
    pub(super) fn snapshots(&self) -> PathBuf {
        self.root.join(SNAPSHOTS)
    }

    /// Where a snapshot's file system is mounted.
    pub(super) fn inside(&self, id: &VersionId) -> PathBuf {
        self.snapshots().join(id.to_string())
    }

    /// The folder in which the shown file is alone.
    pub(super) fn folder(&self, id: &VersionId) -> PathBuf {
        self.root.join(id.to_string())
    }

    /// The shown file.
    pub(super) fn path(&self, id: &VersionId) -> PathBuf {
        self.folder(id).join(naming::file_name(id))
    }

    /// What belongs at a mount point; `None` where it is none of ours.
    pub(super) fn place(&self, mount_point: &Path) -> Option<Place> {
        let below = mount_point.strip_prefix(&self.root).ok()?;
        let (first, second) = (below.parent()?, below.file_name()?);
        if first == Path::new(SNAPSHOTS) {
            return version(second).map(Place::Snapshot);
        }
        let id = version(first.as_os_str())?;
        (second == OsStr::new(&naming::file_name(&id))).then_some(Place::Shown(id))
    }

    /// The versions among the names in one of the two folders.
    pub(super) fn versions_in(&self, names: &[OsString]) -> Vec<VersionId> {
        names.iter().filter_map(|name| version(name)).collect()
    }
}

/// A path from the root of a file system, such that it can be joined to where that is mounted.
pub(super) fn relative(inside: &Path) -> &Path {
    inside.strip_prefix("/").unwrap_or(inside)
}

fn version(name: &OsStr) -> Option<VersionId> {
    name.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_made() {
        let layout = Layout::new("/run/asat/mnt".into());
        for id in ["report@12", "r.tmp@1", "a.b-c_d@18446744073709551615"] {
            let id: VersionId = id.parse().unwrap();
            assert_eq!(layout.place(&layout.inside(&id)), Some(Place::Snapshot(id.clone())));
            assert_eq!(layout.place(&layout.path(&id)), Some(Place::Shown(id)));
        }
        for foreign in [
            "/run/asat/mnt",
            "/run/asat/mnt/.snapshots",
            "/run/asat/mnt/.snapshots/report",
            "/run/asat/mnt/.snapshots/report@12/sub",
            "/run/asat/mnt/.snapshots/report@012",
            "/run/asat/mnt/report@12",
            "/run/asat/mnt/report@12/other.db",
            "/run/asat/mnt/report@12/report.db/x",
            "/run/asat/mnt/sub/report@12/report.db",
            "/run/asat/mnt2/report@12/report.db",
            "/",
        ] {
            assert_eq!(layout.place(Path::new(foreign)), None, "{foreign}");
        }
    }

    #[test]
    fn paths_are_those_that_are_documented() {
        let (layout, id) = (Layout::new("/m".into()), "report@12".parse().unwrap());
        assert_eq!(layout.path(&id), Path::new("/m/report@12/report.db"));
        assert_eq!(layout.inside(&id), Path::new("/m/.snapshots/report@12"));
        assert_eq!(relative(Path::new("/srv/report.db")), Path::new("srv/report.db"));
    }
}
