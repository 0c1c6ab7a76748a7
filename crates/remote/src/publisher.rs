//! The publisher of one store: it puts what its archive has into the bucket, for as long as nobody else does.
//!
//! What keeps two publishers apart is that a manifest's number is given once. A publisher creates number n+1 only upon number n that is its
//! own. If n+1 is there and not its own, somebody has taken over: the publisher is *fenced*, and touches the bucket no more. Whatever
//! the service answers to a creation, or if it does not: what lies under the number then is what counts. Each manifest is unique, and
//! its hash is noted before it is sent, so a publisher recognises its own after an answer that was lost, and after a crash.
//!
//! What keeps a history from being replaced by another one is that the archive must go on where the newest manifest ends: whatever
//! file it has under a number that the manifest names is that file, and nothing newer is missing. Files are compared by what they are, not by
//! number, as an archive that was put back from a backup gives numbers again.

use std::collections::BTreeSet;

use asat_archive::{ArchiveFile, Checker, Files};
use asat_core::StoreName;
use jiff::Timestamp;

use crate::bucket::part_bytes;
use crate::error::Error;
use crate::layout::FORMAT;
use crate::manifest::{Holder, MOST_BYTES, Manifest, RemoteFile};
use crate::note::{Head, Note, Notes};
use crate::repository::{Found, History, Repository};

/// From this length on it is asked first whether a file is in the bucket already, if it may be: because the publisher was stopped, or an answer
/// was lost.
const ASK_FIRST_BYTES: u64 = 1 << 20;

/// How often a push begins anew.
const ROUNDS: usize = 16;

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
    holder: Holder,
    notes: Box<dyn Notes>,
    /// What is noted, once it was read.
    note: Option<Note>,
    /// Whether all that the newest manifest names was seen in the bucket.
    has_seen_files: bool,
    /// Whether it is known of every file if it was stored: nothing was left open since this process began.
    is_sure: bool,
    /// Files that were stored, and that no manifest names yet.
    stored: Vec<RemoteFile>,
    /// The same of a process before this one. They may be there.
    stored_before: Vec<RemoteFile>,
    /// Encrypted files that the newest manifest names and the bucket has lost: they are stored under other keys.
    lost: BTreeSet<u64>,
    /// The manifest that was sent last, and may be there or not.
    sent: Option<Manifest>,
}

impl Publisher {
    /// A publisher of a store to a repository. Nothing is asked of the bucket yet.
    #[must_use]
    pub fn new(repository: &Repository, store: &StoreName, holder: Holder, notes: Box<dyn Notes>) -> Self {
        Self {
            history: repository.history(store),
            holder,
            notes,
            note: None,
            has_seen_files: false,
            is_sure: false,
            stored: Vec::new(),
            stored_before: Vec::new(),
            lost: BTreeSet::new(),
            sent: None,
        }
    }

    /// The newest manifest of its own, as far as it is known.
    #[must_use]
    pub fn head(&self) -> Option<&Manifest> {
        let note = self.note.as_ref().filter(|note| note.is_own)?;
        note.head.as_ref().map(|head| &head.manifest)
    }

    /// Puts into the bucket what it does not have of the archive, and a manifest that says so. Answers the versions that are stored then.
    /// If the bucket has everything, nothing is asked of it.
    ///
    /// # Errors
    /// [`Error::Fenced`] if somebody else publishes the store there; [`Error::Behind`] if the archive does not go on where the bucket
    /// ends; what the service answers. What was stored until then is not stored again.
    pub fn push(&mut self, source: &dyn Source) -> Result<Vec<u64>, Error> {
        let pushed = self.try_push(source);
        if pushed.is_err() {
            // Before it goes on, the bucket may have been put back from a backup.
            self.is_sure = false;
            self.stored_before.append(&mut self.stored);
        }
        pushed
    }

    fn try_push(&mut self, source: &dyn Source) -> Result<Vec<u64>, Error> {
        // Another manifest of its own may turn out to be there, with what the archive was before; and the archive may change meanwhile.
        for _ in 0..ROUNDS {
            let (note, files) = (self.note()?, source.files()?);
            self.must_go_on(&note, &files)?;
            let is_settled = note.is_own && note.attempts.is_empty() && self.has_seen_files;
            let is_nothing =
                files.files.is_empty() && files.lost_numbers().next().is_none() && note.head.is_none();
            if is_nothing || is_settled && self.names(&note, &files) {
                return Ok(files.versions);
            }
            let note = self.settle(note, source)?;
            self.must_go_on(&note, &files)?;
            must_know_newest(&note, &files)?;
            self.see_files(&note, &files)?;
            if self.names(&note, &files) {
                return Ok(files.versions);
            }
            let next = self.next(&note, &files)?;
            self.create(note, next)?;
        }
        Err(Error::Restless { store: self.history.store.clone() })
    }

    /// Takes the store over from the machine that publishes it, if the archive has all that is in the bucket. From then on the other one is fenced.
    ///
    /// # Errors
    /// [`Error::Behind`] if the archive lacks something; [`Error::Fenced`] if somebody else was faster; what the service answers.
    pub fn take_over(&mut self, source: &dyn Source) -> Result<Manifest, Error> {
        let mut note = self.note()?;
        if let Found::Manifest(sent) = self.find_sent(&note)?
            && note.attempts.contains(&sent.hash)
        {
            note = self.noted_as_sent(note, *sent)?;
        }
        let head = self.history.head()?.ok_or_else(|| self.history.missing(1))?;
        let is_noted = note.head.as_ref().is_some_and(|noted| noted.hash == head.hash);
        if is_noted {
            self.must_go_on(&note, &source.files()?)?;
        } else {
            self.must_have(source, &head.manifest)?;
        }
        let next = Manifest {
            epoch: head.manifest.epoch.saturating_add(1),
            versions: head.manifest.versions,
            newest: head.manifest.newest,
            ..self.manifest(Some(&head), head.manifest.files.clone())
        };
        // What was sent before may still arrive under the number that comes now.
        let attempts = if is_noted { note.attempts.clone() } else { Vec::new() };
        let is_own = is_noted && note.is_own;
        self.doubt();
        let note = self.create(Note { head: Some(head), is_own, attempts, ..note }, next)?;
        note.head.map(|head| head.manifest).ok_or_else(|| self.history.missing(1))
    }

    /// Compares the archive with the newest manifest, as far as both know the same files. If they do not fit, the archive may look as if they
    /// did once more was written: so that is noted, and from then on it must have everything that is in the bucket.
    ///
    /// # Errors
    /// [`Error::Behind`] if the archive does not go on where that ends.
    fn must_go_on(&mut self, note: &Note, files: &Files) -> Result<(), Error> {
        let Some(Head { manifest: head, .. }) = &note.head else { return Ok(()) };
        let Some(unfit) = unfit(head, files) else { return Ok(()) };
        let behind = self.behind(head, unfit);
        self.noted(Note { head: None, is_own: false, attempts: Vec::new(), ..note.clone() })?;
        Err(behind)
    }

    /// Finds out what of the bucket is this publisher's, and whether its newest manifest is there.
    ///
    /// # Errors
    /// [`Error::Fenced`] if the newest one is another's.
    fn settle(&mut self, note: Note, source: &dyn Source) -> Result<Note, Error> {
        let note = match self.find_sent(&note)? {
            Found::Manifest(there) if note.attempts.contains(&there.hash) => {
                self.noted_as_sent(note, *there)?
            }
            Found::Manifest(there) => return Err(self.fenced_by(note, *there, source)),
            Found::Pruned | Found::Nothing => note,
        };
        let note = match &note.head {
            Some(_) => note,
            None => match self.history.head()? {
                None => return Ok(note),
                // It has arrived since it was looked for.
                Some(newest) if note.attempts.contains(&newest.hash) => self.noted_as_sent(note, newest)?,
                Some(newest) => return Err(self.fenced_by(note, newest, source)),
            },
        };
        let Some(head) = &note.head else { return Ok(note) };
        let is_own = note.is_own && head.manifest.holder.host == self.holder.host;
        let is_there = match self.history.find(head.manifest.number) {
            Ok(Found::Manifest(there)) => there.hash == head.hash,
            Ok(Found::Nothing) => {
                self.doubt();
                is_own && self.create_again(head)?
            }
            Ok(Found::Pruned) => false,
            // The next one takes its place.
            Err(Error::Damaged { .. }) => true,
            Err(error) => return Err(error),
        };
        if is_there && is_own {
            if !self.has_seen_files
                && let Found::Manifest(next) = self.history.find(head.manifest.number + 1)?
                && !note.attempts.contains(&next.hash)
            {
                return Err(self.fenced_by(note, *next, source));
            }
            return Ok(note);
        }
        match self.history.head()? {
            Some(newest) => Err(self.fenced_by(note, newest, source)),
            None => Err(self.history.missing(head.manifest.number)),
        }
    }

    /// Nothing is taken to be in the bucket any more that was there.
    fn doubt(&mut self) {
        self.has_seen_files = false;
        self.stored_before.append(&mut self.stored);
    }

    /// Creates its newest manifest anew, which the bucket has lost, as when it was put back from a backup. Answers whether it is there then.
    fn create_again(&self, head: &Head) -> Result<bool, Error> {
        let (bytes, _) = head.manifest.encode();
        Ok(self.history.bucket.create_surely(&head.manifest.key(), &bytes)? == bytes)
    }

    /// What is under the number of the manifest that was sent, if one was and it is not known what came of it.
    fn find_sent(&self, note: &Note) -> Result<Found, Error> {
        if note.attempts.is_empty() {
            return Ok(Found::Nothing);
        }
        self.history.find(note.head.as_ref().map_or(0, |head| head.manifest.number) + 1)
    }

    /// Looks whether the bucket has all that its newest manifest names, and stores again what it has lost.
    ///
    /// # Errors
    /// [`Error::Missing`] if the archive does not have that either, and needs it.
    fn see_files(&mut self, note: &Note, files: &Files) -> Result<(), Error> {
        let named = note.head.iter().flat_map(|head| &head.manifest.files);
        for named in named.filter(|_| !self.has_seen_files) {
            if self.history.has_file(named)? {
                continue;
            }
            match files.files.iter().find(|file| file.id == named.id()) {
                Some(_) if named.age.is_some() || self.history.is_encrypted() => {
                    _ = self.lost.insert(named.file);
                }
                Some(file) => _ = self.store(file, named.clone())?,
                None if files.lost_numbers().any(|lost| lost == named.file) => {
                    return Err(Error::missing(self.history.bucket.url(), &named.key(&self.history.store)));
                }
                // The archive needs it no more.
                None => {}
            }
        }
        self.has_seen_files = true;
        Ok(())
    }

    /// Whether there is nothing to do.
    fn names(&self, note: &Note, files: &Files) -> bool {
        self.lost.is_empty() && names_all(note, files)
    }

    /// Has all files in the bucket, and answers the manifest that names them.
    fn next(&mut self, note: &Note, files: &Files) -> Result<Manifest, Error> {
        let head = note.head.as_ref();
        let lost = self.lost.clone();
        let named_before = |number: u64| {
            head.filter(|_| !lost.contains(&number)).and_then(|head| head.manifest.file(number))
        };
        let newest = head.map_or(0, |head| head.manifest.newest_file());
        let comes_again =
            files.files.iter().any(|file| file.id.number <= newest && named_before(file.id.number).is_none());
        // A file that was named no more may be about to be deleted under the key that it had.
        let epoch = head.map_or(1, |head| head.manifest.epoch).saturating_add(u64::from(comes_again));
        let mut named = Vec::new();
        for file in needed(files, head) {
            named.push(match named_before(file.id.number) {
                Some(there) => there.clone(),
                None => self.place(file, epoch, file.id.number > newest)?,
            });
        }
        for number in files.lost_numbers() {
            // What the bucket has of it is as good as ever.
            match named_before(number) {
                Some(there) => named.push(there.clone()),
                // Of a file that was written last and cannot be read, nothing is known that is needed.
                None if files.unread.contains(&number) => {}
                None => return Err(Error::Unreadable { store: self.history.store.clone(), file: number }),
            }
        }
        named.sort_by_key(|file| file.file);
        let versions = u64::try_from(files.versions.len()).unwrap_or(u64::MAX);
        let next = self.manifest(head, named);
        Ok(Manifest { epoch, versions, newest: files.versions.last().copied(), ..next })
    }

    /// Has a file in the bucket that no manifest names, and answers how one names it.
    fn place(&mut self, file: &ArchiveFile, epoch: u64, is_new: bool) -> Result<RemoteFile, Error> {
        let is_it = |known: &&RemoteFile| known.epoch == epoch && known.id() == file.id;
        if let Some(known) = self.stored.iter().find(is_it) {
            return Ok(known.clone());
        }
        let plain = RemoteFile::new(epoch, &file.id);
        let is_long = file.id.bytes >= ASK_FIRST_BYTES;
        let may_be_there = match self.stored_before.iter().find(is_it) {
            None if self.history.is_encrypted() => None,
            None => Some(&plain).filter(|_| is_new && is_long && !self.is_sure),
            known => known,
        };
        let named = match may_be_there {
            Some(named) if self.history.has_file(named)? => named.clone(),
            _ => self.store(file, plain)?,
        };
        self.stored.push(named.clone());
        if is_long && named.age.is_some() {
            let note = self.note()?;
            self.noted(note)?;
        }
        Ok(named)
    }

    /// Stores a file. It is checked on the way: what is damaged here does not come into the bucket.
    fn store(&self, file: &ArchiveFile, named: RemoteFile) -> Result<RemoteFile, Error> {
        let mut checker = Checker::new(file.id);
        let parts = pieces(file).map(|piece| {
            let piece = piece?;
            checker.update(&piece);
            let checked = if checker.is_at_end() { checker.check() } else { Ok(()) };
            checked.map(|()| piece).map_err(|what| file.damaged(what))
        });
        if file.id.bytes > part_bytes(file.id.bytes) {
            self.check(file)?;
        }
        self.history.store_file(named, parts)
    }

    /// Reads a file before anything of it is stored: of a large one it would be found out too late that it is damaged.
    fn check(&self, file: &ArchiveFile) -> Result<(), Error> {
        let mut checker = Checker::new(file.id);
        for piece in pieces(file) {
            self.history.bucket.go_on()?;
            checker.update(&piece?);
        }
        Ok(checker.check().map_err(|what| file.damaged(what))?)
    }

    /// Creates the next manifest. If another one of this publisher's turns out to be there, that one is the head.
    fn create(&mut self, note: Note, next: Manifest) -> Result<Note, Error> {
        // As long as nothing changes, the same one is sent again.
        let again =
            self.sent.take().filter(|sent| Manifest { written_at: next.written_at, ..sent.clone() } == next);
        let next = again.unwrap_or(next);
        let (bytes, hash) = next.encode();
        if bytes.len() > MOST_BYTES {
            return Err(Error::TooManyFiles { store: self.history.store.clone(), files: next.files.len() });
        }
        self.sent = Some(next.clone());
        let mut note = note;
        if !note.attempts.contains(&hash) {
            note.attempts.push(hash);
        }
        let note = self.noted(note)?;
        let there = self.history.bucket.create_surely(&next.key(), &bytes)?;
        match self.history.understand(next.number, &there)? {
            Found::Manifest(there) if note.attempts.contains(&there.hash) => {
                if there.manifest != next {
                    // One that was sent before has arrived late. It may name what was lost since.
                    self.doubt();
                }
                self.stored.clear();
                self.stored_before.clear();
                self.lost.clear();
                self.is_sure = true;
                self.noted_as_sent(note, *there)
            }
            Found::Manifest(there) => Err(self.fenced(note, &there.manifest)),
            Found::Pruned | Found::Nothing => Err(self.fenced_by_newest(note, next.number)),
        }
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

    /// What is noted of this store, which must be of this repository.
    fn note(&mut self) -> Result<Note, Error> {
        if let Some(note) = &self.note {
            return Ok(note.clone());
        }
        let begun = Note { repository: self.history.repository.clone(), ..Note::default() };
        let note = self.notes.load()?.unwrap_or(begun);
        if note.repository != self.history.repository {
            return Err(Error::Replaced {
                url: self.history.bucket.url().to_owned(),
                store: self.history.store.clone(),
                expected: note.repository,
                found: self.history.repository.clone(),
            });
        }
        self.stored_before.clone_from(&note.stored);
        Ok(self.note.insert(note).clone())
    }

    /// Notes this from now on.
    fn noted(&mut self, note: Note) -> Result<Note, Error> {
        // If it cannot be written, one of the two is there: it is read again.
        self.note = None;
        let stored = self.stored.iter().chain(&self.stored_before).filter(|file| file.age.is_some());
        let note = Note { stored: stored.cloned().collect(), ..note };
        self.notes.save(&note)?;
        Ok(self.note.insert(note).clone())
    }

    /// Notes that a manifest is there which was sent.
    fn noted_as_sent(&mut self, note: Note, sent: Head) -> Result<Note, Error> {
        self.noted(Note { head: Some(sent), is_own: true, attempts: Vec::new(), ..note })
    }

    /// Compares the archive with what a manifest names.
    fn must_have(&self, source: &dyn Source, head: &Manifest) -> Result<(), Error> {
        let files = source.files()?.files;
        let lacks = |named: &&RemoteFile| !files.iter().any(|file| file.id == named.id());
        match head.files.iter().find(lacks) {
            None => Ok(()),
            Some(missing) => Err(self.behind(head, missing.file)),
        }
    }

    fn behind(&self, head: &Manifest, file: u64) -> Error {
        Error::Behind {
            store: self.history.store.clone(),
            url: self.history.bucket.url().to_owned(),
            by: head.holder.clone(),
            file,
        }
    }

    /// That somebody else publishes the store. From here it can be taken over if the archive has everything that is there now, whatever
    /// becomes of it until then: so that is noted.
    fn fenced_by(&mut self, note: Note, newest: Head, source: &dyn Source) -> Error {
        let by = newest.manifest.clone();
        let is_noted = note.head.as_ref().is_some_and(|noted| noted.hash == newest.hash);
        if is_noted || self.must_have(source, &newest.manifest).is_ok() {
            // What was sent before may still arrive.
            let attempts = if is_noted { note.attempts.clone() } else { Vec::new() };
            let note = Note { head: Some(newest), is_own: false, attempts, ..note };
            if let Err(error) = self.noted(note) {
                return error;
            }
            return self.fenced_error(&by);
        }
        if by.holder.host == self.holder.host {
            let newest = by.newest_file();
            return self.behind(&by, newest);
        }
        self.fenced(note, &by)
    }

    /// That somebody else has taken over; nothing is published from here before a person says so.
    fn fenced(&mut self, note: Note, by: &Manifest) -> Error {
        match self.noted(Note { is_own: false, attempts: Vec::new(), ..note }) {
            Ok(_) => self.fenced_error(by),
            Err(error) => error,
        }
    }

    fn fenced_error(&self, by: &Manifest) -> Error {
        Error::Fenced {
            store: self.history.store.clone(),
            url: self.history.bucket.url().to_owned(),
            by: by.holder.clone(),
            number: by.number,
        }
    }

    /// The same, by somebody whose manifest of this number was pruned: the newest one says who.
    fn fenced_by_newest(&mut self, note: Note, number: u64) -> Error {
        match self.history.head() {
            Ok(Some(head)) => self.fenced(note, &head.manifest),
            Ok(None) => self.history.missing(number),
            Err(error) => error,
        }
    }
}

/// If the archive's newest file was stored and cannot be read here, the archive is what it was before: nobody can say what of that is in the bucket.
fn must_know_newest(note: &Note, files: &Files) -> Result<(), Error> {
    let Some(Head { manifest: head, .. }) = &note.head else { return Ok(()) };
    let newest = files.files.last().map_or(0, |file| file.id.number);
    let unknown = head.files.last().filter(|named| named.file > newest);
    unknown.map_or(Ok(()), |file| Err(Error::Unread { store: head.store.clone(), file: file.file }))
}

/// The first file of a manifest that an archive has another one of, or that is newer than all that it has.
fn unfit(head: &Manifest, files: &Files) -> Option<u64> {
    let known = |number: u64| files.files.iter().find(|file| file.id.number == number);
    let cannot_be_read = |number: u64| files.lost_numbers().any(|lost| lost == number);
    let another = head.files.iter().find(|named| known(named.file).is_some_and(|file| file.id != named.id()));
    let newest = files.files.last().map_or(0, |file| file.id.number);
    // It may be there and unreadable: then the archive is what it was before, and knows of it.
    let newer = head.files.iter().find(|named| named.file > newest && !cannot_be_read(named.file));
    another.or(newer).map(|file| file.file)
}

/// Whether the newest manifest names what the archive consists of. What cannot be read here is as good there as ever.
fn names_all(note: &Note, files: &Files) -> bool {
    let Some(Head { manifest: head, .. }) = &note.head else { return false };
    let is_named = |file: &&ArchiveFile| head.file(file.id.number).is_some_and(|named| named.id() == file.id);
    let needed: Vec<&ArchiveFile> = needed(files, note.head.as_ref()).collect();
    let lost = files.lost_numbers().filter(|lost| head.file(*lost).is_some()).count();
    needed.iter().all(is_named)
        && files.lost.iter().all(|lost| head.file(*lost).is_some())
        && needed.len() + lost == head.files.len()
}

/// The files that the bucket is to have: without the newest one if it only repeats what is said before, unless it is there.
fn needed<'a>(files: &'a Files, head: Option<&Head>) -> impl Iterator<Item = &'a ArchiveFile> {
    let spare = files.repeats.filter(|number| head.is_none_or(|head| head.manifest.file(*number).is_none()));
    files.files.iter().filter(move |file| Some(file.id.number) != spare)
}

/// A file in pieces as they are stored. After one that cannot be read, nothing follows.
fn pieces(file: &ArchiveFile) -> impl Iterator<Item = Result<Vec<u8>, asat_archive::Error>> {
    let (bytes, piece) = (file.id.bytes, part_bytes(file.id.bytes));
    let mut at = 0;
    std::iter::from_fn(move || {
        let end = (at + piece).min(bytes);
        let read = (at < bytes).then(|| file.read(at..end))?;
        at = if read.is_ok() { end } else { bytes };
        Some(read)
    })
}
