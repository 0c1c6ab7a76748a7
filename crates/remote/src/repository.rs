//! The repository, and the histories of stores in it.

use std::sync::Arc;

use asat_core::StoreName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::bucket::{Bucket, Entry};
use crate::encryption::{Identities, Keys, Recipients};
use crate::error::Error;
use crate::layout::{self, FORMAT, REPOSITORY};
use crate::manifest::{MOST_BYTES, Manifest, PRUNED, Unreadable};
use crate::note::Head;
use crate::probe;

/// So many objects are listed to find the newest manifest: others may have put theirs before it.
const LISTED: usize = 16;
/// So many manifests are looked at one after another, before a listing is shorter.
const LOOKED_AT: u64 = 8;
/// No marker is longer.
const MOST_MARKER_BYTES: usize = 4096;

/// A place in a bucket that was made for histories.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The bucket.
    pub bucket: Arc<dyn Bucket>,
    /// What tells it from another one that is made in the same place.
    pub id: String,
    /// Its encryption.
    pub keys: Arc<Keys>,
}

/// What the marker says.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    format: u64,
    id: String,
    /// To whom everything is encrypted, if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recipients: Vec<String>,
}

impl Repository {
    /// Makes a repository, unless there is one; what is stored in it is encrypted if there are recipients. The service is tried first.
    /// Answers whether it was made.
    ///
    /// # Errors
    /// If the service cannot be used for it, or does not answer; [`Error::OtherRecipients`] if there is one for others.
    pub fn init(bucket: Arc<dyn Bucket>, recipients: Option<&Recipients>) -> Result<(Self, bool), Error> {
        match Self::open(Arc::clone(&bucket)) {
            Err(Error::NoRepository { .. }) => {}
            found => return found?.encrypted_to(recipients).map(|found| (found, false)),
        }
        probe::probe(&*bucket)?;
        let texts = recipients.map(Recipients::texts).unwrap_or_default();
        let marker = Marker { format: FORMAT, id: Uuid::now_v7().to_string(), recipients: texts };
        let text = serde_json::to_vec(&marker).unwrap_or_default();
        // Somebody else may have made it at the same moment.
        bucket.create_surely(REPOSITORY, &text)?;
        let repository = Self::open(bucket)?.encrypted_to(recipients)?;
        let is_made = repository.id == marker.id;
        Ok((repository, is_made))
    }

    /// Opens the repository.
    ///
    /// # Errors
    /// [`Error::NoRepository`]; if it is of another format or damaged; what the service answers.
    pub fn open(bucket: Arc<dyn Bucket>) -> Result<Self, Error> {
        let url = bucket.url().to_owned();
        let Some(text) = bucket.read_small(REPOSITORY, MOST_MARKER_BYTES)? else {
            return Err(Error::NoRepository { url });
        };
        let damaged = |error: serde_json::Error| Error::damaged(&url, REPOSITORY, error.to_string());
        let value: Value = serde_json::from_slice(&text).map_err(damaged)?;
        if let Some(found) = value.get("format").and_then(Value::as_u64).filter(|found| *found != FORMAT) {
            return Err(Error::Format { key: REPOSITORY.to_owned(), url, found });
        }
        let Marker { id, recipients, .. } = serde_json::from_value(value).map_err(damaged)?;
        let recipients = match recipients.as_slice() {
            [] => None,
            texts => Some(Recipients::parse(texts).map_err(|what| Error::damaged(&url, REPOSITORY, what))?),
        };
        Ok(Self { bucket, id, keys: Arc::new(Keys { recipients, identities: None }) })
    }

    /// The same, if it is encrypted to these recipients, or to nobody. Who publishes to it knows them from elsewhere: somebody who
    /// can write to the bucket must not be able to add one.
    ///
    /// # Errors
    /// [`Error::OtherRecipients`] if it is not.
    pub fn encrypted_to(self, recipients: Option<&Recipients>) -> Result<Self, Error> {
        let of = |recipients: Option<&Recipients>| recipients.map(Recipients::texts).unwrap_or_default();
        let (found, expected) = (of(self.keys.recipients.as_ref()), of(recipients));
        if found == expected {
            return Ok(self);
        }
        Err(Error::OtherRecipients { url: self.bucket.url().to_owned(), found, expected })
    }

    /// The same, read with these identities.
    #[must_use]
    pub fn read_with(self, identities: Option<Identities>) -> Self {
        let keys = Keys { recipients: self.keys.recipients.clone(), identities };
        Self { keys: Arc::new(keys), ..self }
    }

    /// Sees that what is stored can be read here, as far as can be known before.
    ///
    /// # Errors
    /// [`Error::Encrypted`] if it is encrypted and there are no identities.
    pub fn must_be_readable(&self) -> Result<(), Error> {
        match (&self.keys.recipients, &self.keys.identities) {
            (Some(_), None) => Err(Error::encrypted(self.bucket.url(), "there is no identity here")),
            _ => Ok(()),
        }
    }

    /// To whom what is stored is encrypted, if it is.
    #[must_use]
    pub fn recipients(&self) -> Option<&Recipients> {
        self.keys.recipients.as_ref()
    }

    /// Tries whether the service keeps two publishers apart.
    ///
    /// # Errors
    /// [`Error::Unconditional`], or what the service answers.
    pub fn probe(&self) -> Result<(), Error> {
        probe::probe(&*self.bucket)
    }

    /// A store's history.
    #[must_use]
    pub fn history(&self, store: &StoreName) -> History {
        let (bucket, keys) = (Arc::clone(&self.bucket), Arc::clone(&self.keys));
        History { repository: self.id.clone(), bucket, store: store.clone(), keys }
    }

    /// The stores that have a history, and folders beside these that somebody has given such a name.
    ///
    /// # Errors
    /// What the service answers.
    pub fn stores(&self) -> Result<Vec<StoreName>, Error> {
        // Others may have put there what is no store's.
        let folders = self.bucket.folders(layout::STORES)?;
        Ok(folders.iter().filter_map(|name| name.parse().ok()).collect())
    }
}

/// What is stored under a manifest's number.
#[derive(Debug)]
pub(crate) enum Found {
    /// A manifest.
    Manifest(Box<Head>),
    /// One that was pruned.
    Pruned,
    /// Nothing.
    Nothing,
}

/// A store's history in a bucket.
#[derive(Clone, Debug)]
pub struct History {
    /// The identity of the repository that it is in.
    pub(crate) repository: String,
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) store: StoreName,
    pub(crate) keys: Arc<Keys>,
}

impl History {
    /// The newest manifest; nothing if the store has no history there.
    ///
    /// # Errors
    /// If it is damaged or of another format; what the service answers.
    pub fn newest(&self) -> Result<Option<Manifest>, Error> {
        Ok(self.head()?.map(|head| head.manifest))
    }

    /// Whether the store has a manifest, be it one that cannot be read.
    ///
    /// # Errors
    /// What the service answers.
    pub fn has_any(&self) -> Result<bool, Error> {
        let listed = self.bucket.list(&layout::manifests(&self.store), None, LISTED)?;
        let is_one = |entry: &Entry| layout::number_of_manifest(&self.store, &entry.key).is_some();
        Ok(listed.iter().any(is_one) || self.bucket.look(&layout::manifest(&self.store, 1))?.is_some())
    }

    /// The manifest of this number.
    ///
    /// # Errors
    /// As [`Self::newest`]; [`Error::Missing`] if there is none.
    pub fn manifest(&self, number: u64) -> Result<Manifest, Error> {
        self.head_of(number).map(|head| head.manifest)
    }

    /// The same, with its hash.
    pub(crate) fn head_of(&self, number: u64) -> Result<Head, Error> {
        match self.find(number)? {
            Found::Manifest(head) => Ok(*head),
            Found::Pruned | Found::Nothing => Err(self.missing(number)),
        }
    }

    /// The newest manifest. A listing says where to begin, and may be old: from there on it is asked by number.
    pub(crate) fn head(&self) -> Result<Option<Head>, Error> {
        let number = self.listed()?;
        self.head_from(number.unwrap_or(0))
    }

    /// The number of the newest manifest that a listing has.
    fn listed(&self) -> Result<Option<u64>, Error> {
        // Somebody may have put other objects there.
        let listed = self.bucket.list(&layout::manifests(&self.store), None, LISTED)?;
        Ok(listed.iter().find_map(|entry| layout::number_of_manifest(&self.store, &entry.key)))
    }

    /// The newest manifest after one that is known, or one before it if what follows cannot be read; nothing if the known one is the newest.
    ///
    /// # Errors
    /// [`Error::Missing`] if what is there does not follow upon what is known.
    pub(crate) fn head_after(&self, known: &Head) -> Result<Option<Head>, Error> {
        let (number, mut newest): (_, Option<Head>) = (known.manifest.number, None);
        for next in number + 1..=number + LOOKED_AT {
            let before = newest.as_ref().unwrap_or(known);
            match self.find(next) {
                Ok(Found::Manifest(head)) if head.manifest.previous.as_ref() == Some(&before.hash) => {
                    newest = Some(*head);
                }
                Ok(Found::Manifest(_)) => return Err(self.missing(before.manifest.number)),
                Ok(Found::Nothing) => return Ok(newest),
                Ok(Found::Pruned) => break,
                Err(Error::Damaged { .. } | Error::Format { .. }) if newest.is_some() => return Ok(newest),
                // The next one may have taken its place.
                Err(Error::Damaged { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        // So much was published since that a listing is shorter than looking at each.
        self.must_be_there(known)?;
        Ok(self.head()?.filter(|newest| newest.manifest.number > number))
    }

    /// Sees that the manifest after one is there, if any newer one is.
    pub(crate) fn must_have_next(&self, head: &Head) -> Result<(), Error> {
        let next = head.manifest.number + 1;
        let is_missing = self.listed()? > Some(next) && matches!(self.find(next), Ok(Found::Nothing));
        if is_missing { Err(self.missing(next)) } else { Ok(()) }
    }

    /// Sees that a manifest which was there is there, be it pruned.
    pub(crate) fn must_be_there(&self, head: &Head) -> Result<(), Error> {
        let number = head.manifest.number;
        match self.find(number)? {
            Found::Pruned => Ok(()),
            Found::Manifest(found) if found.hash == head.hash => Ok(()),
            Found::Manifest(_) | Found::Nothing => Err(self.missing(number)),
        }
    }

    /// The same, if it is known that there is one of this number.
    fn head_from(&self, number: u64) -> Result<Option<Head>, Error> {
        let (mut newest, mut number) = (None, number.max(1));
        loop {
            match self.find(number)? {
                Found::Manifest(head) => newest = Some(*head),
                // What is newer is there still.
                Found::Pruned => newest = None,
                Found::Nothing => return Ok(newest),
            }
            number += 1;
        }
    }

    /// What is stored under a number.
    pub(crate) fn find(&self, number: u64) -> Result<Found, Error> {
        let key = layout::manifest(&self.store, number);
        match self.bucket.read_small(&key, MOST_BYTES)? {
            Some(bytes) => self.understand(number, &bytes),
            None => Ok(Found::Nothing),
        }
    }

    /// What an object under a manifest's key says.
    pub(crate) fn understand(&self, number: u64, bytes: &[u8]) -> Result<Found, Error> {
        let (url, key) = (self.bucket.url(), layout::manifest(&self.store, number));
        if bytes == PRUNED {
            return Ok(Found::Pruned);
        }
        match Manifest::decode(&self.store, number, bytes) {
            Ok((manifest, hash)) => Ok(Found::Manifest(Box::new(Head { manifest, hash }))),
            Err(Unreadable::Damaged(what)) => Err(Error::damaged(url, &key, what)),
            Err(Unreadable::Format(found)) => Err(Error::Format { key, url: url.to_owned(), found }),
        }
    }

    /// The manifests as a listing has them, newest first, up to the first one that was pruned.
    pub(crate) fn list(&self) -> Result<Vec<(u64, Entry)>, Error> {
        const AT_ONCE: usize = 1000;
        let (pruned, prefix) = (u64::try_from(PRUNED.len()).unwrap_or(0), layout::manifests(&self.store));
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let entries = self.bucket.list(&prefix, after.as_deref(), AT_ONCE)?;
            let is_last = entries.len() < AT_ONCE;
            after = entries.last().map(|entry| entry.key.clone());
            for entry in entries {
                let Some(number) = layout::number_of_manifest(&self.store, &entry.key) else { continue };
                if entry.bytes == pruned {
                    return Ok(found);
                }
                found.push((number, entry));
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    pub(crate) fn missing(&self, number: u64) -> Error {
        Error::missing(self.bucket.url(), &layout::manifest(&self.store, number))
    }
}
