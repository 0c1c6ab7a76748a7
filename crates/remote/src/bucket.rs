//! What a bucket does: few operations, each of which may fail at any moment.

use std::fmt::Debug;
use std::ops::Range;

use asat_archive::Error as ArchiveError;
use jiff::Timestamp;

use crate::error::Error;
use crate::manifest::MOST_BYTES;

/// The parts of an object that is stored, one after another. All but the last have the same length, which is at most [`PART_BYTES`] or
/// what an object of the length that was said takes. An error ends it, and nothing is stored then.
pub type Parts<'a> = dyn Iterator<Item = Result<Vec<u8>, ArchiveError>> + 'a;

/// An object is stored in parts of this many bytes, if it does not take more than a service takes parts.
const PART_BYTES: u64 = 8 << 20;
/// S3 takes 10,000 parts.
const MOST_PARTS: u64 = 9_000;

/// How long the parts of an object of this length are.
#[must_use]
pub(crate) fn part_bytes(object: u64) -> u64 {
    PART_BYTES.max(object.div_ceil(MOST_PARTS))
}

/// An object as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key, below the repository's place.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was stored, by the service's clock.
    pub modified: Timestamp,
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The object's key.
    pub key: String,
    /// The bytes.
    pub range: Range<u64>,
}

/// A place for objects that are known by their keys. What was stored is seen by everybody at once, by its key.
///
/// An operation that fails may have been done all the same, or be done later: only what is there afterwards tells.
pub trait Bucket: Debug + Send + Sync {
    /// How the place is called in messages.
    fn url(&self) -> &str;
    /// Whether work that needs no service goes on.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it shall not.
    fn go_on(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Creates an object unless one has the key; answers whether it did.
    ///
    /// # Errors
    /// What the service answers, or that it did not.
    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, Error>;
    /// Stores an object of this length, whether one has the key or not.
    ///
    /// # Errors
    /// As [`Self::create`]; and what the parts say.
    fn store(&self, key: &str, bytes: u64, parts: &mut Parts<'_>) -> Result<(), Error>;
    /// Reads an object from its beginning to its end; `take` has it in pieces. Answers whether there is one.
    ///
    /// # Errors
    /// As [`Self::create`]; and what `take` says.
    fn read(&self, key: &str, take: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<bool, Error>;
    /// Reads parts of objects, side by side if the service can. The answers are in the order of the parts: nothing if there is no such object, and
    /// fewer bytes if it ends before.
    fn read_parts(&self, parts: &[Part]) -> Vec<Result<Option<Vec<u8>>, Error>>;
    /// What a listing says of one object, if it is there.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn look(&self, key: &str) -> Result<Option<Entry>, Error>;
    /// The first objects whose keys begin with `prefix`, a path that ends with `/`, in the order of their keys; those after one of them, if it is named.
    /// A listing may be older than what was stored last.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn list(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<Entry>, Error>;
    /// The names of the folders right below `prefix`, a path that ends with `/`: what keys have between it and the next slash. They are in order.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn folders(&self, prefix: &str) -> Result<Vec<String>, Error>;
    /// Deletes an object. That it is not there is no error.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn delete(&self, key: &str) -> Result<(), Error>;
}

/// How often a creation is tried that leaves nothing, before it is an error: some services refuse one of two that come at once, and
/// store neither.
const TRIES: usize = 3;

impl dyn Bucket + '_ {
    /// Creates an object, or finds one there; answers what is there then. Be it that it was created and the answer was lost: what is there
    /// counts.
    pub(crate) fn create_surely(&self, key: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut failed = None;
        for _ in 0..TRIES {
            let created = self.create(key, bytes);
            if matches!(created, Ok(true)) {
                return Ok(bytes.to_vec());
            }
            if let Some(there) = self.read_small(key, MOST_BYTES)? {
                return Ok(there);
            }
            failed = created.err();
        }
        let (key, url, what) =
            (key.to_owned(), self.url().to_owned(), "it is neither created nor there".to_owned());
        Err(failed.unwrap_or(Error::Service { doing: "create", key, url, what }))
    }

    /// Reads an object that is small. One that is longer than `most` is damaged: nobody's memory is filled with it.
    pub(crate) fn read_small(&self, key: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        let found = self.read(key, &mut |piece| {
            bytes.extend_from_slice(piece);
            if bytes.len() > most {
                let what = format!("it is longer than {most} bytes, and is none of asat's");
                return Err(Error::damaged(self.url(), key, what));
            }
            Ok(())
        })?;
        Ok(found.then_some(bytes))
    }

    /// All objects whose keys begin with `prefix`, in order.
    pub(crate) fn list_all(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        const AT_ONCE: usize = 1000;
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let after = all.last().map(|entry| entry.key.clone());
            let more = self.list(prefix, after.as_deref(), AT_ONCE)?;
            let is_end = more.len() < AT_ONCE;
            all.extend(more);
            if is_end {
                return Ok(all);
            }
        }
    }
}
