//! A machine that publishes: an archive, a note, and a publisher that may be ended at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use asat_archive::{Archive, Cut};
use asat_core::{PageSize, StoreName};
use asat_remote::{Error, Holder, Note, NoteFile, Notes, Publisher, Repository};
use tempfile::TempDir;

use crate::model::Dice;

/// How long an archive may be open elsewhere.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn store() -> StoreName {
    "report".parse().unwrap()
}

/// The machine.
pub(crate) struct Machine {
    pub(crate) name: String,
    folder: TempDir,
    pub(crate) archive: Archive,
    publisher: Option<Publisher>,
    /// The versions that live here, and what each has.
    pub(crate) versions: BTreeMap<u64, u64>,
    /// What was given up here, and what it had.
    pub(crate) retired: BTreeMap<u64, u64>,
    /// What was lost here by an accident, and what it had.
    pub(crate) lost: BTreeMap<u64, u64>,
    /// What the archive was when it was backed up last.
    backup: Option<TempDir>,
    dice: Arc<Dice>,
    /// Of a thousand notes that are written, before so many and after so many the machine stops.
    stops: u64,
}

/// What happens to a machine's disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Accident {
    /// The newest file of the archive is gone.
    Gone,
    /// It is damaged.
    Damaged,
    /// The archive is put back from a backup.
    PutBack,
    /// The same, and the note of today stays.
    PutBackBeside,
    /// The archive is begun anew.
    Anew,
}

/// Notes on a machine that may stop before or after it has written one.
struct Fragile {
    file: NoteFile,
    dice: Arc<Dice>,
    stops: u64,
}

impl Notes for Fragile {
    fn load(&self) -> Result<Option<Note>, Error> {
        self.file.load()
    }

    fn save(&self, note: &Note) -> Result<(), Error> {
        let stops = || if self.dice.per_mille(self.stops) { Err(Error::Stopped) } else { Ok(()) };
        stops()?;
        self.file.save(note)?;
        stops()
    }
}

impl Machine {
    /// A machine whose archive is what is in the folder.
    pub(crate) fn new(name: &str, folder: TempDir, dice: &Arc<Dice>) -> Self {
        let archive = archive_at(&folder.path().join("archive")).unwrap();
        let dice = Arc::clone(dice);
        let (versions, retired, lost) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (name, publisher, backup) = (name.to_owned(), None, None);
        Self { name, folder, archive, publisher, versions, retired, lost, backup, dice, stops: 30 }
    }

    /// A machine that never stops by itself.
    pub(crate) fn steady(name: &str, folder: TempDir) -> Self {
        let dice = Arc::new(Dice::new(name.bytes().map(u64::from).sum()));
        let machine = Self { stops: 0, ..Self::new(name, folder, &dice) };
        Self { versions: contents(&machine.archive), ..machine }
    }

    /// A folder in memory, if there is one.
    pub(crate) fn folder() -> TempDir {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
    }

    /// Another machine that has the same files, the note among them.
    pub(crate) fn copy(&self, name: &str) -> Self {
        let folder = Self::folder();
        copy_all(self.folder.path(), folder.path());
        let copy = Self::new(name, folder, &self.dice);
        let (versions, retired, lost) = (self.versions.clone(), self.retired.clone(), self.lost.clone());
        Self { versions, retired, lost, stops: self.stops, ..copy }
    }

    /// Publishes a version here.
    pub(crate) fn publish(&mut self, content: u64) {
        // A catalogue knows what was given, whatever becomes of the archive.
        let known = self.retired.keys().chain(self.lost.keys()).max().copied().unwrap_or(0);
        let number = (known + 1..).find(|number| self.archive.ends_below(*number)).unwrap();
        write(&self.archive, number, content);
        self.versions.insert(number, content);
    }

    /// Gives up a version here.
    pub(crate) fn retire(&mut self, number: u64) {
        self.archive.retire(number).unwrap();
        let content = self.versions.remove(&number).unwrap();
        self.retired.insert(number, content);
    }

    /// Puts what is here into the bucket; answers what is stored then.
    pub(crate) fn push(&mut self, repository: &Repository) -> Result<BTreeMap<u64, u64>, Error> {
        let archive = self.archive.clone();
        let stored = self.publisher(repository).push(&archive)?;
        Ok(stored.into_iter().map(|number| (number, self.versions[&number])).collect())
    }

    /// The number of the newest manifest that is this machine's, as far as it knows.
    pub(crate) fn head(&self) -> u64 {
        self.publisher.as_ref().and_then(Publisher::head).map_or(0, |head| head.number)
    }

    pub(crate) fn take_over(&mut self, repository: &Repository) -> Result<(), Error> {
        let archive = self.archive.clone();
        self.publisher(repository).take_over(&archive).map(drop)
    }

    /// Backs up the archive.
    pub(crate) fn back_up(&mut self) {
        let folder = Self::folder();
        copy_all(&Self::archive_folder(&self.folder), folder.path());
        self.backup = Some(folder);
    }

    /// Something happens to the disk while the machine is off.
    pub(crate) fn suffer(&mut self, accident: Accident) {
        self.publisher = None;
        let archive = Self::archive_folder(&self.folder);
        // What is there is closed first.
        self.archive = archive_at(&self.folder.path().join("nothing")).unwrap();
        let mut files: Vec<PathBuf> =
            fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|kind| kind == "segment"));
        files.sort();
        match (accident, files.last()) {
            (Accident::Gone, Some(newest)) => fs::remove_file(newest).unwrap(),
            (Accident::Damaged, Some(newest)) if files.len() > 1 => {
                let mut bytes = fs::read(newest).unwrap();
                let place = bytes.len() - 100;
                bytes[place] ^= 1;
                fs::write(newest, bytes).unwrap();
            }
            (Accident::PutBack | Accident::PutBackBeside, _) if let Some(backup) = &self.backup => {
                let note = fs::read(self.note());
                fs::remove_dir_all(&archive).unwrap();
                fs::create_dir(&archive).unwrap();
                copy_all(backup.path(), &archive);
                if let (Accident::PutBackBeside, Ok(note)) = (accident, note) {
                    fs::write(self.note(), note).unwrap();
                }
            }
            (Accident::Anew, _) => fs::remove_dir_all(&archive).unwrap(),
            _ => {}
        }
        self.archive = archive_at(&archive).unwrap_or_else(|_| {
            // None of its files can be read.
            fs::remove_dir_all(&archive).unwrap();
            archive_at(&archive).unwrap()
        });
        let there = contents(&self.archive);
        let gone = self.versions.iter().filter(|(number, content)| there.get(number) != Some(content));
        self.lost.extend(gone.map(|(number, content)| (*number, *content)));
        self.versions = there;
    }

    /// Ends the publisher without a word.
    pub(crate) fn kill(&mut self) {
        self.publisher = None;
    }

    fn publisher(&mut self, repository: &Repository) -> &mut Publisher {
        let holder = Holder { host: self.name.clone(), process: self.dice.below(u64::MAX).to_string() };
        let file = NoteFile(self.note());
        let notes = Fragile { file, dice: Arc::clone(&self.dice), stops: self.stops };
        self.publisher.get_or_insert_with(|| Publisher::new(repository, &store(), holder, Box::new(notes)))
    }

    /// Where the publisher's note is.
    pub(crate) fn note(&self) -> PathBuf {
        Self::archive_folder(&self.folder).join(asat_archive::REMOTE_NOTE)
    }

    /// A file of the archive.
    pub(crate) fn file(&self, number: u64) -> PathBuf {
        Self::archive_folder(&self.folder).join(format!("{number:012}.segment"))
    }

    pub(crate) fn archive_folder(folder: &TempDir) -> PathBuf {
        folder.path().join("archive")
    }
}

/// Opens an archive. A process that another test starts at this moment has whatever is open here, its lock too, until it runs its program.
pub(crate) fn archive_at(folder: &Path) -> Result<Archive, asat_archive::Error> {
    let begin = Instant::now();
    loop {
        match Archive::open(folder) {
            Err(asat_archive::Error::Busy { .. }) if begin.elapsed() < PATIENCE => std::thread::yield_now(),
            found => return found.map(|(archive, _)| archive),
        }
    }
}

/// Two pages of which the second says what content it is.
pub(crate) fn write(archive: &Archive, number: u64, content: u64) {
    let page_size = PageSize::new(512).unwrap();
    let mut writer = archive.begin(number, page_size, 2).unwrap();
    writer.page(1, &[7; 512]).unwrap();
    let mut page = [0; 512];
    page[..8].copy_from_slice(&content.to_le_bytes());
    writer.page(2, &page).unwrap();
    let cut_at = "2026-11-19T17:00:00Z".parse().unwrap();
    let cut =
        Cut { store: store(), cut_at, wal: true, note: serde_json::Value::Null, even_if_unchanged: true };
    writer.finish(cut).unwrap();
}

/// What content each version has.
pub(crate) fn contents(archive: &Archive) -> BTreeMap<u64, u64> {
    let content = |number: u64| {
        let reader = archive.read(number).unwrap();
        let mut bytes = [0; 8];
        reader.read_at(512, &mut bytes).unwrap();
        assert_eq!(reader.fingerprint().unwrap(), reader.meta().fingerprint);
        (number, u64::from_le_bytes(bytes))
    };
    archive.live().into_iter().map(content).collect()
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
