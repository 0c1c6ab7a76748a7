//! Putting a store's archive back from the bucket: on a machine that has nothing but the repository's URL.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use asat_archive::{Archive, Checker, REMOTE_NOTE};

use crate::error::Error;
use crate::manifest::{Manifest, RemoteFile};
use crate::note::{Note, NoteFile, Notes as _, unfinished};
use crate::repository::History;

/// What was put back.
#[derive(Debug)]
pub struct Restored {
    /// The manifest that it is.
    pub manifest: Manifest,
    /// How many files were there already from a try before.
    pub found: usize,
    /// The versions that can be read.
    pub versions: Vec<u64>,
}

/// Puts an archive back into a folder that does not exist yet: as of the newest manifest, or as of an older one. `tell` hears how many bytes there
/// are, of how many. It is noted beside the archive which manifest it is. What was fetched when it is stopped is there when it is begun again.
///
/// # Errors
/// [`Error::Missing`] and [`Error::Damaged`] if the bucket lacks something; what the service answers, and this machine.
pub fn restore(
    history: &History,
    number: Option<u64>,
    folder: &Path,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Restored, Error> {
    let head = match number {
        Some(number) => history.head_of(number)?,
        None => history.head()?.ok_or_else(|| history.missing(1))?,
    };
    let manifest = head.manifest.clone();
    if fs::symlink_metadata(folder).is_ok() {
        let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(Error::local("put an archive into", folder)(exists));
    }
    // A slash at its end says nothing more.
    let folder: &Path = &folder.components().collect::<PathBuf>();
    let mut unfinished = folder.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    fs::create_dir_all(&unfinished).map_err(Error::local("create", &unfinished))?;
    let all = manifest.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
    let (mut done, mut found) = (0, 0);
    for file in &manifest.files {
        found += usize::from(fetch(history, file, &unfinished, &mut |bytes| tell(done + bytes, all))?);
        done += file.bytes;
    }
    tidy(&unfinished, &manifest).map_err(Error::local("tidy", &unfinished))?;
    // The store can be taken over from here, even if the archive is written to before the bucket is asked again.
    let note = Note { repository: history.repository.clone(), head: Some(head), ..Note::default() };
    NoteFile(unfinished.join(REMOTE_NOTE)).save(&note)?;
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = sync(&unfinished).and_then(|()| fs::rename(&unfinished, folder)).and_then(|()| sync(above));
    written.map_err(Error::local("rename", &unfinished))?;
    let (archive, _) = Archive::open(folder)?;
    let files = archive.files()?;
    if let Some(lost) = files.lost.first() {
        return Err(Error::Unreadable { store: history.store.clone(), file: *lost });
    }
    Ok(Restored { manifest, found, versions: archive.live() })
}

/// Puts a file of an archive back that the archive has lost, or has another one in its place: from the bucket, if a manifest names it. Answers
/// whether that was done.
///
/// # Errors
/// As [`restore`].
pub fn put_back(history: &History, manifest: &Manifest, number: u64, folder: &Path) -> Result<bool, Error> {
    let Some(named) = manifest.file(number) else { return Ok(false) };
    Ok(!fetch(history, named, folder, &mut |_| {})?)
}

/// Removes what the manifest does not name: what a try before has left, perhaps of another manifest.
fn tidy(folder: &Path, manifest: &Manifest) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !manifest.files.iter().any(|file| entry.file_name() == *file.id().name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Fetches a file, unless it is there. Answers whether it was.
fn fetch(
    history: &History,
    named: &RemoteFile,
    folder: &Path,
    tell: &mut dyn FnMut(u64),
) -> Result<bool, Error> {
    let (id, key) = (named.id(), named.key(&history.store));
    let path = folder.join(id.name());
    if is_whole(history, &path, named)? {
        return Ok(true);
    }
    let at = |doing| Error::local(doing, &path);
    let mut file = unfinished(folder).map_err(at("create"))?;
    let (mut checker, mut taken) = (Checker::new(id), 0);
    let is_there = history.read_file(named, &mut |piece| {
        checker.update(piece);
        taken += u64::try_from(piece.len()).unwrap_or(0);
        if taken > id.bytes {
            return Err(Error::damaged(
                history.bucket.url(),
                &key,
                format!("it is longer than {} bytes", id.bytes),
            ));
        }
        tell(taken);
        file.write_all(piece).map_err(at("write"))
    })?;
    if !is_there {
        return Err(Error::missing(history.bucket.url(), &key));
    }
    checker.check().map_err(|what| Error::damaged(history.bucket.url(), &key, what))?;
    file.as_file().sync_all().map_err(at("sync"))?;
    file.persist(&path).map_err(|error| at("rename")(error.error))?;
    Ok(false)
}

/// Whether a file is there as it is named.
fn is_whole(history: &History, path: &Path, named: &RemoteFile) -> Result<bool, Error> {
    let Ok(mut file) = File::open(path) else { return Ok(false) };
    let (mut checker, mut buffer) = (Checker::new(named.id()), vec![0; 1 << 20]);
    loop {
        history.bucket.go_on()?;
        match std::io::Read::read(&mut file, &mut buffer) {
            Ok(0) => return Ok(checker.check().is_ok()),
            Ok(count) => checker.update(buffer.get(..count).unwrap_or_default()),
            Err(_) => return Ok(false),
        }
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
