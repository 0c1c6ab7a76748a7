//! Whether a store can be cloned, and how quickly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::error::Error;
use crate::apart::apart;
use crate::fiemap;

/// From how many pieces on cloning a file is slow. For each piece the file system writes records of its own, and nobody can
/// read or write the file meanwhile: on XFS this took 1.45 s for 60,000 pieces, so half a second for so many.
pub const MANY_PIECES: u32 = 20_000;

/// Whether clones on this kind of file system are tested, so that they are taken unasked.
#[must_use]
pub fn is_tested(fs: &str) -> bool {
    matches!(fs, "xfs" | "btrfs")
}

/// Looks whether a store's file can be cloned into a folder, which need not be there yet. It is tried with two files that
/// have no names, so that nothing is left of it.
///
/// # Errors
/// Why not, or where that could not be tried.
pub fn probe(store: &Path, folder: &Path) -> Result<(), Error> {
    let (store, folder) = (nearest(store)?, nearest(folder)?);
    let device =
        |path: &Path| fs::metadata(path).map(|found| found.dev()).map_err(Error::io("look at", path));
    if device(&store)? != device(&folder)? {
        let why = format!("the folder {} for clones is on another file system", folder.display());
        return Err(Error::NoClones { path: store, why });
    }
    let folder = if folder.is_dir() { folder } else { folder.parent().unwrap_or(Path::new("/")).to_owned() };
    try_in(&folder).map_err(Error::io("clone a file in", &folder))
}

/// In how many pieces a store's file lies; `None` where the file system cannot tell. Its locks are kept.
///
/// # Errors
/// Where it cannot be read.
pub fn pieces(store: &Path) -> Result<Option<u32>, Error> {
    let counted = apart(|| Ok(fiemap::count(&File::open(store)?)?));
    counted.map_err(Error::io("ask the place of", store))
}

/// The path itself, or the nearest above it that is there.
fn nearest(path: &Path) -> Result<PathBuf, Error> {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    fs::canonicalize(there).map_err(Error::io("find", there))
}

fn try_in(folder: &Path) -> io::Result<()> {
    let unnamed = || {
        let flags = OFlags::TMPFILE.bits().cast_signed();
        OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(folder)
    };
    let (mut one, other) = (unnamed()?, unnamed()?);
    one.write_all(&[1; 4096])?;
    Ok(rustix::fs::ioctl_ficlone(&other, &one)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_cloned_is_told_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("r.db");
        fs::write(&store, "four").unwrap();
        let elsewhere = probe(&store, Path::new("/proc")).unwrap_err();
        assert!(elsewhere.to_string().contains("is on another file system"), "{elsewhere}");
        // What this machine's file system answers is its own; on any of them nothing is left.
        let _ = probe(&store, &folder.path().join("not/yet/there"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_small_file_lies_in_few_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("r.db");
        fs::write(&store, [1; 4096]).unwrap();
        assert!(pieces(&store).unwrap().is_none_or(|pieces| pieces <= 1));
        assert!(pieces(&folder.path().join("none")).is_err());
    }
}
