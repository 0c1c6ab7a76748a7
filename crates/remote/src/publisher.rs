//! The publisher of one store: it puts what its archive has into the bucket, for as long as nobody else does.
//!
//! What keeps two publishers apart is that a manifest's number is given once. A publisher creates number n+1 only upon number n that is its
//! own. If n+1 is there and not its own, somebody has taken over: the publisher is *fenced*, and touches the bucket no more. Whatever
//! the service answers to a creation, or if it does not: what lies under the number then is what counts. Each manifest is unique, and
//! its hash is noted before it is sent, so a publisher recognises its own after an answer that was lost, and after a crash.

use std::collections::BTreeSet;

use asat_archive::{ArchiveFile, Checker, Files};
use asat_core::StoreName;
use jiff::Timestamp;

use crate::bucket::part_bytes;
use crate::error::Error;
use crate::layout::{self, FORMAT};
use crate::manifest::{Holder, Manifest, RemoteFile};
use crate::note::{Head, Note, Notes};
use crate::repository::{Found, History, Repository};

/// From this length on it is asked first whether a file is in the bucket already: it may be, if the publisher was stopped.
const ASK_FIRST_BYTES: u64 = 64 << 20;
/// How often a creation is tried that leaves nothing, before it is an error: some services refuse one of two that come at once, and
/// store neither.
const TRIES: usize = 3;

/// What is published.
pub trait Source {
    /// The archive's files now.
    ///
    /// # Errors
    /// If they cannot be read at this moment.
    fn files(&self) -> Result<Files, asat_archive::Error>;
}

impl Source for asat_archive::Archive {
    fn files(&self) -> Result<Files, asat_archive::Error> {
        Self::files(self)
    }
}

/// The publisher of one store.
pub struct Publisher {
    history: History,
    repository: String,
    holder: Holder,
    notes: Box<dyn Notes>,
    /// Nothing until it was looked what is in the bucket.
    known: Option<Known>,
}

/// What the publisher knows of the bucket.
struct Known {
    note: Note,
    /// Files that the head names, and that the bucket does not have.
    missing: BTreeSet<u64>,
    /// Keys of files that were stored, and that no manifest names yet.
    stored: BTreeSet<String>,
}

impl Known {
    fn head(&self) -> Option<&Manifest> {
        self.note.head.as_ref().map(|head| &head.manifest)
    }
}

impl Publisher {
    /// A publisher of a store to a repository. Nothing is asked of the bucket yet.
    #[must_use]
    pub fn new(repository: &Repository, store: &StoreName, holder: Holder, notes: Box<dyn Notes>) -> Self {
        Self {
            history: repository.history(store),
            repository: repository.id.clone(),
            holder,
            notes,
            known: None,
        }
    }

    /// The newest manifest of its own, as far as it is known.
    #[must_use]
    pub fn head(&self) -> Option<&Manifest> {
        self.known.as_ref()?.head()
    }

    /// Puts into the bucket what it does not have of the archive, and a manifest that says so. Answers the versions that are stored then.
    /// If the bucket has everything, nothing is asked of it.
    ///
    /// # Errors
    /// [`Error::Fenced`] if somebody else publishes the store there; what the service answers. What was stored until then is not stored again.
    pub fn push(&mut self, source: &dyn Source) -> Result<Vec<u64>, Error> {
        let outcome = self.try_push(source);
        if outcome.is_err() {
            // It is not known what came of it: look before the next try.
            self.known = None;
        }
        outcome
    }

    /// Takes the store over from whoever publishes it, if the archive has all that is in the bucket. From then on the other one is fenced.
    ///
    /// # Errors
    /// [`Error::Behind`] if the archive lacks something; [`Error::Fenced`] if somebody else was faster; what the service answers.
    pub fn take_over(&mut self, source: &dyn Source) -> Result<Manifest, Error> {
        let note = self.load()?;
        self.known = None;
        let Some(head) = self.history.head()? else {
            return Err(self.history.missing(1));
        };
        let is_noted = note.head.as_ref().is_some_and(|noted| noted.hash == head.hash);
        if !is_noted {
            self.must_have(source, &head.manifest)?;
        }
        // What was sent before may still arrive under the number that comes now.
        let attempts = if is_noted { note.attempts.clone() } else { Vec::new() };
        let next = Manifest {
            epoch: head.manifest.epoch.saturating_add(1),
            versions: head.manifest.versions,
            newest: head.manifest.newest,
            ..self.manifest(Some(&head), head.manifest.files.clone())
        };
        let mut known = self.as_noted(Note { head: Some(head), is_own: false, attempts, ..note })?;
        self.create(&mut known, next)?;
        let head = known.head().cloned().ok_or_else(|| self.history.missing(1))?;
        self.known = Some(known);
        Ok(head)
    }

    fn try_push(&mut self, source: &dyn Source) -> Result<Vec<u64>, Error> {
        let mut known = match self.known.take() {
            Some(known) => known,
            None => self.look(source)?,
        };
        // Another manifest of its own may turn out to be there, with what the archive was before.
        loop {
            let Files { versions, files, lost } = source.files()?;
            let newest = files.last().map_or(0, |file| file.id.number);
            self.put_back(&mut known, &files)?;
            if newest == 0 || known.head().is_some_and(|head| head.newest_file() >= newest) {
                self.known = Some(known);
                return Ok(versions);
            }
            let epoch = known.head().map_or(1, |head| head.epoch);
            let mut named = Vec::new();
            for file in &files {
                named.push(self.place(&mut known, file, epoch)?);
            }
            for (number, error) in lost {
                // What the bucket has of it is as good as ever.
                let there = known.head().and_then(|head| head.file(number)).cloned();
                named.push(there.ok_or(error)?);
            }
            named.sort_by_key(|file| file.file);
            let next = Manifest {
                versions: u64::try_from(versions.len()).unwrap_or(u64::MAX),
                newest: versions.last().copied(),
                ..self.manifest(known.note.head.as_ref(), named)
            };
            self.create(&mut known, next)?;
        }
    }

    /// Looks what is in the bucket, and whether that is this publisher's.
    fn look(&self, source: &dyn Source) -> Result<Known, Error> {
        let note = self.load()?;
        let Some(noted) = &note.head else {
            return self.look_first(note, source);
        };
        let number = noted.manifest.number;
        let next = self.history.find(number + 1)?;
        let Found::Manifest(next) = next else {
            return match next {
                // It was pruned, so there are newer ones.
                Found::Pruned => Err(self.fenced_by_newest(number + 1)),
                _ if note.is_own => self.as_noted(note),
                _ => Err(self.fenced(&noted.manifest)),
            };
        };
        if !note.attempts.contains(&next.hash) {
            return Err(self.fenced(&next.manifest));
        }
        let note = Note { head: Some(*next), is_own: true, attempts: Vec::new(), ..note };
        self.notes.save(&note)?;
        // There may be one more only if somebody has taken over.
        self.must_be_newest(number + 1)?;
        self.as_noted(note)
    }

    /// The same, if nothing of the bucket is noted here.
    fn look_first(&self, note: Note, source: &dyn Source) -> Result<Known, Error> {
        let Some(head) = self.history.head()? else { return self.as_noted(note) };
        if head.manifest.number == 1 && note.attempts.contains(&head.hash) {
            let note = Note { head: Some(head), is_own: true, attempts: Vec::new(), ..note };
            self.notes.save(&note)?;
            return self.as_noted(note);
        }
        // What is the same here now can be taken over later, whatever becomes of the archive until then.
        if self.must_have(source, &head.manifest).is_ok() {
            self.notes.save(&Note {
                head: Some(head.clone()),
                is_own: false,
                attempts: Vec::new(),
                ..note
            })?;
        }
        Err(self.fenced(&head.manifest))
    }

    /// What is known of the bucket if its newest manifest is the noted one. It may have lost files since.
    fn as_noted(&self, note: Note) -> Result<Known, Error> {
        let mut known = Known { note, missing: BTreeSet::new(), stored: BTreeSet::new() };
        let Some(head) = known.head() else { return Ok(known) };
        let there = self.history.bucket.list_all(&layout::files(&self.history.store))?;
        let is_there = |file: &RemoteFile| {
            let key = file.key(&self.history.store);
            there
                .binary_search_by(|entry| entry.key.cmp(&key))
                .is_ok_and(|place| there.get(place).is_some_and(|entry| entry.bytes == file.bytes))
        };
        known.missing = head.files.iter().filter(|file| !is_there(file)).map(|file| file.file).collect();
        Ok(known)
    }

    /// Stores files again that the head names and the bucket has lost, as far as the archive has them.
    fn put_back(&self, known: &mut Known, files: &[ArchiveFile]) -> Result<(), Error> {
        let Some(head) = known.head() else { return Ok(()) };
        let lost = files.iter().filter(|file| known.missing.contains(&file.id.number));
        let lost: Vec<_> = lost.filter_map(|file| Some((file, head.file(file.id.number)?.clone()))).collect();
        for (file, named) in lost {
            if named.id() == file.id {
                self.store(file, &named.key(&self.history.store))?;
            }
            known.missing.remove(&file.id.number);
        }
        Ok(())
    }

    /// Has a file in the bucket, and answers how a manifest names it.
    fn place(&self, known: &mut Known, file: &ArchiveFile, epoch: u64) -> Result<RemoteFile, Error> {
        let head = known.head();
        if let Some(there) =
            head.and_then(|head| head.file(file.id.number)).filter(|there| there.id() == file.id)
        {
            return Ok(there.clone());
        }
        let named = RemoteFile::new(epoch, &file.id);
        let key = named.key(&self.history.store);
        // What is not above the head's newest file is not spared by pruning before a manifest names it.
        let may_be_there =
            file.id.bytes >= ASK_FIRST_BYTES && head.is_none_or(|head| file.id.number > head.newest_file());
        let is_there = known.stored.contains(&key)
            || may_be_there
                && self.history.bucket.look(&key)?.is_some_and(|there| there.bytes == file.id.bytes);
        if !is_there {
            self.store(file, &key)?;
        }
        known.stored.insert(key);
        Ok(named)
    }

    /// Stores a file. It is checked on the way: what is damaged here does not come into the bucket.
    fn store(&self, file: &ArchiveFile, key: &str) -> Result<(), Error> {
        let (id, piece) = (file.id, part_bytes(file.id.bytes));
        let (mut at, mut checker) = (0, Some(Checker::new(id)));
        let mut parts = std::iter::from_fn(|| {
            if at >= id.bytes {
                return None;
            }
            let end = (at + piece).min(id.bytes);
            let part = file.read(at..end).and_then(|bytes| {
                checker.iter_mut().for_each(|checker| checker.update(&bytes));
                // Whatever is wrong with it is said before its last part goes.
                let found =
                    if end == id.bytes { checker.take().map_or(Ok(()), Checker::finish) } else { Ok(()) };
                found.map(|()| bytes).map_err(|what| file.damaged(what))
            });
            at = if part.is_ok() { end } else { id.bytes };
            Some(part)
        });
        self.history.bucket.store(key, id.bytes, &mut parts)
    }

    /// Creates the next manifest. If another one of this publisher's turns out to be there, that one is the head.
    fn create(&self, known: &mut Known, next: Manifest) -> Result<(), Error> {
        let (bytes, hash) = next.encode();
        known.note.attempts.push(hash.clone());
        self.notes.save(&known.note)?;
        let mut failed = None;
        for _ in 0..TRIES {
            let created = self.history.bucket.create(&next.key(), &bytes);
            let head = match created {
                Ok(true) => Head { manifest: next, hash },
                // Be it that it was created and the answer was lost: what is there counts.
                Ok(false) | Err(_) => match self.history.find(next.number)? {
                    Found::Manifest(there) if known.note.attempts.contains(&there.hash) => *there,
                    Found::Manifest(there) => return Err(self.fenced(&there.manifest)),
                    Found::Pruned => return Err(self.fenced_by_newest(next.number)),
                    Found::Nothing => {
                        failed = created.err();
                        continue;
                    }
                },
            };
            known.note = Note { head: Some(head), is_own: true, attempts: Vec::new(), ..known.note.clone() };
            self.notes.save(&known.note)?;
            known.stored.clear();
            return Ok(());
        }
        let what = "it is neither created nor there".to_owned();
        let (doing, url) = ("create", self.history.bucket.url().to_owned());
        Err(failed.unwrap_or(Error::Service { doing, key: next.key(), url, what }))
    }

    /// The manifest after `head` that names these files.
    fn manifest(&self, head: Option<&Head>, files: Vec<RemoteFile>) -> Manifest {
        Manifest {
            format: FORMAT,
            number: head.map_or(1, |head| head.manifest.number + 1),
            previous: head.map(|head| head.hash.clone()),
            epoch: head.map_or(1, |head| head.manifest.epoch),
            holder: self.holder.clone(),
            written_at: Timestamp::now(),
            store: self.history.store.clone(),
            versions: 0,
            newest: None,
            files,
        }
    }

    /// The note of this store, which must be of this repository.
    fn load(&self) -> Result<Note, Error> {
        let begun = Note { repository: self.repository.clone(), ..Note::default() };
        let note = self.notes.load()?.unwrap_or(begun);
        if note.repository == self.repository {
            return Ok(note);
        }
        Err(Error::Replaced {
            url: self.history.bucket.url().to_owned(),
            store: self.history.store.clone(),
            expected: note.repository,
            found: self.repository.clone(),
        })
    }

    /// Compares the archive with what a manifest names.
    fn must_have(&self, source: &dyn Source, head: &Manifest) -> Result<(), Error> {
        let files = source.files()?.files;
        let has = |named: &&RemoteFile| !files.iter().any(|file| file.id == named.id());
        match head.files.iter().find(has) {
            None => Ok(()),
            Some(missing) => Err(Error::Behind {
                store: self.history.store.clone(),
                url: self.history.bucket.url().to_owned(),
                by: head.holder.clone(),
                file: missing.file,
            }),
        }
    }

    /// That nothing is there above this number.
    fn must_be_newest(&self, number: u64) -> Result<(), Error> {
        match self.history.find(number + 1)? {
            Found::Nothing => Ok(()),
            Found::Manifest(next) => Err(self.fenced(&next.manifest)),
            Found::Pruned => Err(self.fenced_by_newest(number + 1)),
        }
    }

    fn fenced(&self, by: &Manifest) -> Error {
        Error::Fenced {
            store: self.history.store.clone(),
            url: self.history.bucket.url().to_owned(),
            by: by.holder.clone(),
            number: by.number,
        }
    }

    /// Fenced by somebody whose manifest of this number was pruned: the newest one says who.
    fn fenced_by_newest(&self, number: u64) -> Error {
        match self.history.head() {
            Ok(Some(head)) => self.fenced(&head.manifest),
            Ok(None) => self.history.missing(number),
            Err(error) => error,
        }
    }
}
