//! Scratch files: what is needed on disk for a moment, and by nobody else.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};

/// A file that is removed when this goes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes an empty file of this name in the folder, readable for this process's user only, in place of an older
    /// one.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn create(folder: &Path, name: &str) -> Result<(Self, File), Problem> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder).map_err(|e| failed("make", folder, &e))?;
        let path = folder.join(name);
        remove(&path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(|error| failed("make", &path, &error))?;
        Ok((Self { path }, file))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder with what a crash has left in it. Nothing may be in use.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn clean(folder: &Path) -> Result<(), Problem> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", folder, &error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays goes at the next start.
        let _ = remove(&self.path);
    }
}

fn remove(path: &Path) -> Result<(), Problem> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn failed(doing: &str, path: &Path, error: &io::Error) -> Problem {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let code = if full { Code::StorageFull } else { Code::Internal };
    let hint = if full { "free space on the disk of the state folder" } else { "look at the state folder" };
    Problem::new(code, format!("cannot {doing} {}: {error}", path.display()), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_goes_with_its_value_and_leftovers_go_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("scratch");
        Scratch::clean(&root).unwrap();
        let (scratch, _) = Scratch::create(&root, "report@1").unwrap();
        assert!(scratch.path().exists());
        drop(scratch);
        assert!(!root.join("report@1").exists());
        fs::write(root.join("report@1"), "left by a crash").unwrap();
        let (_scratch, file) = Scratch::create(&root, "report@1").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        Scratch::clean(&root).unwrap();
        assert!(!root.exists());
    }
}
