//! The files of an archive in a bucket: as they are before they are encrypted, and after they are decrypted.

use std::ops::Range;
use std::sync::Arc;

use asat_archive::Error as ArchiveError;

use crate::bucket::{Bucket, Part};
use crate::encryption::{Identities, Keys};
use crate::error::Error;
use crate::manifest::RemoteFile;
use crate::repository::History;

/// A part of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    /// The key of the file's object.
    pub(crate) key: String,
    /// The file.
    pub(crate) file: Arc<RemoteFile>,
    /// What decrypts it, if it is encrypted.
    pub(crate) keys: Arc<Keys>,
    /// The bytes.
    pub(crate) range: Range<u64>,
}

impl History {
    /// Stores a file that comes in pieces. Answers how a manifest names it.
    pub(crate) fn store_file(
        &self,
        named: RemoteFile,
        mut pieces: impl Iterator<Item = Result<Vec<u8>, ArchiveError>>,
    ) -> Result<RemoteFile, Error> {
        let Some(recipients) = &self.keys.recipients else {
            self.bucket.store(&named.key(&self.store), named.bytes, &mut pieces)?;
            return Ok(named);
        };
        let encrypt = recipients.encrypt(named.bytes, pieces);
        let (envelope, mut parts) =
            encrypt.map_err(|error| Error::encrypted(self.bucket.url(), error.to_string()))?;
        let named = RemoteFile { age: Some(envelope), ..named };
        self.bucket.store(&named.key(&self.store), named.stored_bytes(), &mut parts)?;
        Ok(named)
    }

    /// Whether what is stored is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.keys.recipients.is_some()
    }

    /// Whether the bucket has a file, as far as its length says.
    pub(crate) fn has_file(&self, named: &RemoteFile) -> Result<bool, Error> {
        let there = self.bucket.look(&named.key(&self.store))?;
        Ok(there.is_some_and(|there| there.bytes == named.stored_bytes()))
    }

    /// Reads a file from its beginning to its end; `take` has it in pieces. Answers whether it is there.
    pub(crate) fn read_file(
        &self,
        named: &RemoteFile,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let (key, url) = (named.key(&self.store), self.bucket.url());
        let Some(envelope) = &named.age else { return self.bucket.read(&key, take) };
        let damaged = |what: String| Error::damaged(url, &key, what);
        let decrypter = identities(&self.keys, url)?.decrypter(envelope);
        let mut decrypter = decrypter.map_err(|what| Error::encrypted(url, what))?;
        let is_there = self.bucket.read(&key, &mut |piece| decrypter.piece(piece, &damaged, take))?;
        if is_there {
            decrypter.end(&damaged, take)?;
        }
        Ok(is_there)
    }
}

/// Reads parts of files, as [`Bucket::read_parts`] reads those of objects.
pub(crate) fn read_parts(bucket: &dyn Bucket, parts: &[FilePart]) -> Vec<Result<Option<Vec<u8>>, Error>> {
    let stored = |part: &FilePart| {
        let range = match &part.file.age {
            Some(envelope) => envelope.stored_range(&part.range, part.file.bytes),
            None => part.range.clone(),
        };
        Part { key: part.key.clone(), range }
    };
    let wanted: Vec<Part> = parts.iter().map(stored).collect();
    let read = bucket.read_parts(&wanted).into_iter().zip(parts);
    read.map(|(read, part)| decrypted(bucket.url(), part, read?)).collect()
}

fn decrypted(url: &str, part: &FilePart, read: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
    let (Some(bytes), Some(envelope)) = (&read, &part.file.age) else { return Ok(read) };
    let decrypted = identities(&part.keys, url)?.decrypt(envelope, part.range.clone(), bytes);
    let decrypted = decrypted.map_err(|what| Error::encrypted(url, what))?;
    decrypted.map(Some).map_err(|what| Error::damaged(url, &part.key, what))
}

fn identities<'a>(keys: &'a Keys, url: &str) -> Result<&'a Identities, Error> {
    keys.identities.as_ref().ok_or_else(|| Error::encrypted(url, "there is no identity here"))
}
