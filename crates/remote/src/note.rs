//! What a publisher knows of its own manifests. It is noted on its machine, so that it recognises them after a start.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use uuid::Uuid;

use crate::error::Error;
use crate::manifest::{Manifest, RemoteFile};

/// What a publisher has created of a store's history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The repository's identity.
    pub repository: String,
    /// The newest manifest of which its archive has everything.
    pub head: Option<Head>,
    /// Whether it has created that one. Else it may take over from there, and publishes nothing before.
    pub is_own: bool,
    /// Hashes of manifests that it has sent, or was about to send, under the next number. It is not known whether one is there.
    pub attempts: Vec<String>,
    /// Encrypted files that it has stored, and that no manifest names yet: encrypted once more, they would have other keys.
    #[serde(default)]
    pub stored: Vec<RemoteFile>,
}

/// A manifest with its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The manifest.
    pub manifest: Manifest,
    /// What its first line hashes to.
    pub hash: String,
}

/// Where notes of one store are kept.
pub trait Notes: Send {
    /// The note, if there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(&self) -> Result<Option<Note>, Error>;
    /// Keeps the note in the place of the one before, durably.
    ///
    /// # Errors
    /// If it cannot be written. The one before is there then, or this one.
    fn save(&self, note: &Note) -> Result<(), Error>;
}

/// A file that is being written into an archive's folder, under such a name as the archive's own have: if the machine stops before it has
/// another one, the next opening removes it.
pub(crate) fn unfinished(folder: &Path) -> io::Result<NamedTempFile> {
    let number = Uuid::now_v7().as_u64_pair().1;
    tempfile::Builder::new().prefix(&format!("{number:020}")).suffix(".tmp").rand_bytes(0).tempfile_in(folder)
}

/// A note in a file.
#[derive(Clone, Debug)]
pub struct NoteFile(pub PathBuf);

impl Notes for NoteFile {
    fn load(&self) -> Result<Option<Note>, Error> {
        let text = match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Error::local("read", &self.0))?,
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Error::local("understand", &self.0)(error.into()))
    }

    fn save(&self, note: &Note) -> Result<(), Error> {
        let folder =
            self.0.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || {
            fs::create_dir_all(folder)?;
            let mut file = unfinished(folder)?;
            file.write_all(&serde_json::to_vec(note)?)?;
            file.as_file().sync_all()?;
            file.persist(&self.0)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(Error::local("write", &self.0))
    }
}

#[cfg(test)]
mod tests {
    use asat_archive::Archive;

    use super::*;

    #[test]
    fn what_a_kill_leaves_half_written_is_removed_when_the_archive_is_opened_next() {
        let folder = tempfile::tempdir().unwrap();
        let left = unfinished(folder.path()).unwrap().into_temp_path().keep().unwrap();
        let (_, opened) = Archive::open(folder.path()).unwrap();
        assert_eq!(opened.removed, [left.file_name().unwrap().to_str().unwrap()]);
        assert!(opened.foreign.is_empty() && !left.exists());
    }
}
