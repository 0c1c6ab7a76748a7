//! Follows the history of a store that another asat publishes: manifest by manifest, without writing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use asat_archive::{Archive, FileBytes};
use asat_core::StoreName;

use crate::cache::Cache;
use crate::cached::CachedFile;
use crate::error::Error;
use crate::layout;
use crate::manifest::Manifest;
use crate::note::{Head, Note, Notes};
use crate::repository::{History, Repository};

/// A store of a repository, followed.
pub struct Follower {
    history: History,
    cache: Arc<Cache>,
    /// Where it is noted to which manifest it has come, so that after a start it goes on from there or not at all.
    notes: Option<Box<dyn Notes>>,
    /// The newest manifest that the archive has come to.
    head: Option<Head>,
    archive: Archive,
    /// The files of the manifest that it has come to or has tried to come to last, by their hashes.
    files: BTreeMap<String, Arc<CachedFile>>,
}

impl Follower {
    /// Begins with nothing: the service is not asked yet.
    #[must_use]
    pub fn new(repository: &Repository, store: &StoreName, cache: &Arc<Cache>) -> Self {
        let history = repository.history(store);
        let place = format!("{}/{}", history.bucket.url(), layout::files(store));
        let archive = Archive::elsewhere(&PathBuf::from(place.trim_end_matches('/')));
        Self { history, cache: Arc::clone(cache), notes: None, head: None, archive, files: BTreeMap::new() }
    }

    /// The same, if it is noted to which manifest it has come.
    #[must_use]
    pub fn noted_in(self, notes: Box<dyn Notes>) -> Self {
        Self { notes: Some(notes), ..self }
    }

    /// Notes that all of the manifest to which it has come is recorded.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub fn note(&self) -> Result<(), Error> {
        let note = || Note {
            repository: self.history.repository.clone(),
            head: self.head.clone(),
            ..Note::default()
        };
        self.notes.as_ref().map_or(Ok(()), |notes| notes.save(&note()))
    }

    /// Where the store's history is, as messages say it.
    #[must_use]
    pub fn place(&self) -> PathBuf {
        PathBuf::from(format!("{}/{}{}", self.history.bucket.url(), layout::STORES, self.history.store))
    }

    /// The archive, read from the bucket through the cache.
    #[must_use]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The manifest that it has come to.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.head.as_ref().map(|head| &head.manifest)
    }

    /// Goes on to the newest manifest; answers whether there was a newer one. If there is none, this is one small request. Versions that are
    /// to be kept can be read on, although they are given up.
    ///
    /// # Errors
    /// What the service answers; if something is missing or damaged; [`Error::Missing`] if what comes next does not follow upon what is known,
    /// and [`Error::Replaced`] if it is another repository. It is where it was then.
    pub fn follow(&mut self, keep: &BTreeSet<u64>) -> Result<bool, Error> {
        let newest = match &self.head {
            Some(head) => self.history.head_after(head)?,
            None => self.first()?,
        };
        let Some(newest) = newest else { return Ok(false) };
        self.go_on_to(newest, keep)?;
        Ok(true)
    }

    /// The manifest to begin with: the newest one, which follows upon what is noted.
    fn first(&self) -> Result<Option<Head>, Error> {
        let noted = self.notes.as_ref().map(|notes| notes.load()).transpose()?.flatten();
        let Some(Note { repository, head: Some(head), .. }) = noted else { return self.history.head() };
        if repository != self.history.repository {
            return Err(Error::Replaced {
                url: self.history.bucket.url().to_owned(),
                store: self.history.store.clone(),
                expected: repository,
                found: self.history.repository.clone(),
            });
        }
        if let Some(newest) = self.history.head_after(&head)? {
            return Ok(Some(newest));
        }
        self.history.must_be_there(&head)?;
        Ok(Some(head))
    }

    /// Looks whether the history is still the one that was followed, and goes on from there. A manifest once created stays, be it pruned: if one is
    /// not there, the bucket was emptied, made anew, or put back from a backup.
    ///
    /// # Errors
    /// [`Error::Missing`] if it is not; what the service answers.
    pub fn look_back(&self) -> Result<(), Error> {
        let Some(head) = &self.head else { return Ok(()) };
        self.history.must_be_there(head)?;
        self.history.must_have_next(head)
    }

    fn go_on_to(&mut self, head: Head, keep: &BTreeSet<u64>) -> Result<(), Error> {
        let mut files = BTreeMap::new();
        for named in &head.manifest.files {
            let known = self.files.get(&named.hash).filter(|known| known.id() == named.id());
            let file = known.map_or_else(|| self.cache.file(&self.history, named), Arc::clone);
            file.lie_as(&self.history.store, named);
            files.insert(named.hash.clone(), file);
        }
        let named = head.manifest.files.iter().filter_map(|named| files.get(&named.hash));
        let all: Vec<Arc<dyn FileBytes>> = named.map(|file| Arc::clone(file) as Arc<dyn FileBytes>).collect();
        // If it fails, the next try has what was fetched.
        self.files = files;
        self.archive.advance(&all, keep)?;
        self.head = Some(head);
        Ok(())
    }
}
