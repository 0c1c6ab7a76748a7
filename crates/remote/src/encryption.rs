//! Files in a bucket can be encrypted in age's format: a publisher has recipients alone, and cannot read what it has stored.
//!
//! An encrypted file is its *envelope* (age's header, and 16 bytes of which the key of all that follows is made) and chunks of 64 KiB, each with
//! 16 bytes that show whether it was changed. Manifests have the envelopes, so that any part of a file is read by one request.
//!
//! The format is described at <https://age-encryption.org/v1>.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use age::stream::{StreamReader, StreamWriter};
use age::{Decryptor, Encryptor, IdentityFile, x25519};
use asat_archive::Error as ArchiveError;
use serde::{Deserialize, Serialize};

use crate::bucket::part_bytes;
use crate::cache::lock;
use crate::layout;

/// So much is encrypted at once.
const CHUNK: u64 = 64 << 10;
/// So much of a piece is handed to age at once, in bytes.
const AT_ONCE: usize = 1 << 20;
/// What each chunk has besides.
const TAG: u64 = 16;
/// How long what the key is made of is, in bytes.
const NONCE: usize = 16;
/// No header is longer: it is part of manifests.
const MOST_HEADER_BYTES: usize = 16 << 10;
/// So many may be able to read a repository.
const MOST_RECIPIENTS: usize = 20;

/// Whether a text has an identity in it, which must not be repeated.
#[must_use]
pub fn is_secret(text: &str) -> bool {
    text.to_uppercase().contains("SECRET-KEY")
}

/// Who can read what is stored.
#[derive(Clone)]
pub struct Recipients(Vec<x25519::Recipient>);

impl Recipients {
    /// Reads recipients as age writes them: `age1…`.
    ///
    /// # Errors
    /// If there is none, there are too many, or one is no recipient.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        if texts.is_empty() || texts.len() > MOST_RECIPIENTS {
            return Err(format!("there are {} recipients, and 1 to {MOST_RECIPIENTS} may be", texts.len()));
        }
        let parse = |text: &String| {
            if is_secret(text) {
                // It is not repeated.
                return Err(
                    "an identity stands where its recipient should: age-keygen -y shows that".to_owned()
                );
            }
            text.parse().map_err(|what| format!("{text:?} is no recipient of age (age1…): {what}"))
        };
        Ok(Self(texts.iter().map(parse).collect::<Result<_, _>>()?))
    }

    /// As they are written, in order.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    }

    /// Encrypts a file of this length that comes in pieces. Answers its envelope, and the parts in which it is stored.
    pub(crate) fn encrypt<'a>(
        &self,
        bytes: u64,
        pieces: impl Iterator<Item = Result<Vec<u8>, ArchiveError>> + 'a,
    ) -> io::Result<(Envelope, impl Iterator<Item = Result<Vec<u8>, ArchiveError>> + 'a)> {
        let recipients = self.0.iter().map(|recipient| recipient as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
        let written = Written::default();
        let writer = encryptor.wrap_output(written.clone())?;
        let first = written.take();
        let envelope = Envelope::of(&first).ok_or(io::ErrorKind::InvalidData)?;
        let part = usize::try_from(part_bytes(envelope.stored_bytes(bytes))).unwrap_or(usize::MAX);
        let piece = VecDeque::new();
        Ok((envelope, Encrypted { pieces, piece, writer: Some(writer), written, ready: first, part }))
    }
}

impl Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts()).finish()
    }
}

/// What reads what is stored.
pub struct Identities(Vec<Box<dyn age::Identity + Send + Sync>>);

impl Identities {
    /// Reads a file as `age-keygen` writes it.
    ///
    /// # Errors
    /// If it cannot be read, everybody may read it, or it has no identity.
    pub fn read(path: &Path) -> Result<Self, String> {
        if is_secret(&path.to_string_lossy()) {
            return Err("an identity stands where the name of its file should".to_owned());
        }
        let failed = |what: String| format!("{} cannot be used: {what}", path.display());
        let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(failed("everybody on this machine may use it; type chmod o= for it".to_owned()));
        }
        // What age says of a line that it does not understand may repeat it.
        let unreadable =
            || failed("it has something else than identities of age (AGE-SECRET-KEY-…)".to_owned());
        let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let identities =
            IdentityFile::from_buffer(text.as_slice()).ok().and_then(|file| file.into_identities().ok());
        let identities = identities.ok_or_else(unreadable)?;
        if identities.is_empty() {
            Err(failed("it has no identity".to_owned()))
        } else {
            Ok(Self(identities))
        }
    }

    /// Decrypts a part of a file, of which these are the chunks that have it. Answers what is wrong with them, if they are not what was stored.
    ///
    /// # Errors
    /// If the file is of other recipients.
    pub(crate) fn decrypt(
        &self,
        envelope: &Envelope,
        range: Range<u64>,
        chunks: &[u8],
    ) -> Result<Result<Vec<u8>, String>, String> {
        let first = range.start / CHUNK * CHUNK;
        let chunks_at = envelope.stored_range(&range, u64::MAX).start;
        let mut reader = self.open(Sparse { envelope: envelope.bytes(), chunks, chunks_at, at: 0 })?;
        let mut bytes = vec![0; usize::try_from(range.end.saturating_sub(first)).unwrap_or(0)];
        // If the beginning of a chunk is sought first, age looks at the end of the file too, which is not here.
        let mut read = || {
            reader.seek(SeekFrom::Start(first + 1))?;
            reader.seek(SeekFrom::Start(first))?;
            reader.read_exact(&mut bytes)
        };
        let read = read().map_err(not_whole);
        let skipped = usize::try_from(range.start - first).unwrap_or(0).min(bytes.len());
        Ok(read.map(|()| bytes.split_off(skipped)))
    }

    /// Begins to decrypt a file that comes in pieces, of which the envelope is known.
    pub(crate) fn decrypter(&self, envelope: &Envelope) -> Result<Decrypter, String> {
        let (fed, bytes) = (Fed::default(), envelope.bytes());
        lock(&fed).bytes.extend(&bytes);
        let reader = self.open(Reading(Arc::clone(&fed)))?;
        Ok(Decrypter { reader, fed, envelope: bytes.into(), buffer: vec![0; 64 << 10] })
    }

    fn open<R: Read>(&self, from: R) -> Result<StreamReader<R>, String> {
        let decryptor = Decryptor::new(from).map_err(|error| error.to_string())?;
        let identities = self.0.iter().map(|identity| &**identity as &dyn age::Identity);
        decryptor.decrypt(identities).map_err(|_| "none of the identities is of its recipients".to_owned())
    }
}

impl Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} identities", self.0.len())
    }
}

/// What of a repository's encryption is known on this machine.
#[derive(Debug, Default)]
pub struct Keys {
    /// Who can read what is stored; nothing if that is not encrypted.
    pub recipients: Option<Recipients>,
    /// What reads it here.
    pub identities: Option<Identities>,
}

/// What an encrypted file begins with. No two files have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The header: who can read it.
    pub header: String,
    /// What the key of the rest is made of, as 32 hexadecimal digits.
    pub nonce: String,
}

impl Envelope {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (header, nonce) = bytes.split_at_checked(bytes.len().checked_sub(NONCE)?)?;
        Some(Self { header: String::from_utf8(header.to_vec()).ok()?, nonce: layout::hex(nonce) })
    }

    /// Whether it can be one.
    pub(crate) fn fits(&self) -> bool {
        // A parser finds the header's end in it, even if it is forged.
        let (lines, is_end) = (self.header.lines(), |line: &str| line.starts_with("--- "));
        self.header.len() <= MOST_HEADER_BYTES
            && self.header.is_ascii()
            && self.header.ends_with('\n')
            && lines.clone().filter(|line| is_end(line)).count() == 1
            && lines.last().is_some_and(|line| is_end(line) && line.len() == "--- ".len() + 43)
            && self.nonce.len() == 2 * NONCE
            && self.nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// As it is stored.
    fn bytes(&self) -> Vec<u8> {
        let nonce = layout::from_hex(&format!("{}{}", self.nonce, "0".repeat(2 * NONCE))).unwrap_or_default();
        [self.header.as_bytes(), nonce.get(..NONCE).unwrap_or_default()].concat()
    }

    /// What it hashes to: a part of the file's key, so that no key is used for two contents.
    pub(crate) fn digits(&self) -> String {
        layout::hash(&self.bytes()).get(..16).unwrap_or_default().to_owned()
    }

    /// How long a file of this length is when it is stored.
    pub(crate) fn stored_bytes(&self, bytes: u64) -> u64 {
        self.stored_range(&(0..bytes), bytes).end
    }

    /// Where the chunks are stored that have a part of a file of this length.
    pub(crate) fn stored_range(&self, range: &Range<u64>, bytes: u64) -> Range<u64> {
        let envelope = u64::try_from(self.header.len() + NONCE).unwrap_or(u64::MAX);
        let at = |chunk: u64| envelope.saturating_add(chunk.saturating_mul(CHUNK + TAG));
        let last = bytes.div_ceil(CHUNK).max(1);
        let end = at(last).min(envelope.saturating_add(bytes).saturating_add(last.saturating_mul(TAG)));
        at(range.start / CHUNK)..at(range.end.div_ceil(CHUNK).max(1)).min(end)
    }
}

/// A file while it is encrypted.
struct Encrypted<I> {
    pieces: I,
    /// What of the last one is not encrypted yet.
    piece: VecDeque<Vec<u8>>,
    /// Until it has the last piece.
    writer: Option<StreamWriter<Written>>,
    written: Written,
    /// What is encrypted, and not handed over yet.
    ready: Vec<u8>,
    /// How long the parts are.
    part: usize,
}

impl<I: Iterator<Item = Result<Vec<u8>, ArchiveError>>> Iterator for Encrypted<I> {
    type Item = Result<Vec<u8>, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.len() < self.part
            && let Some(mut writer) = self.writer.take()
        {
            if self.piece.is_empty() {
                match self.pieces.next() {
                    Some(Ok(piece)) => self.piece.extend(piece.chunks(AT_ONCE).map(<[u8]>::to_vec)),
                    Some(Err(error)) => return Some(Err(error)),
                    None => {}
                }
            }
            let written = match self.piece.pop_front() {
                Some(bytes) => writer.write_all(&bytes).map(|()| self.writer = Some(writer)),
                None => writer.finish().map(drop),
            };
            if let Err(source) = written {
                return Some(Err(ArchiveError::Io { doing: "encrypt", path: "a file".into(), source }));
            }
            self.ready.append(&mut self.written.take());
        }
        let rest = self.ready.split_off(self.part.min(self.ready.len()));
        let mut part = std::mem::replace(&mut self.ready, rest);
        // Several are on their way at once, and none shall take more than it has.
        part.shrink_to_fit();
        (!part.is_empty()).then_some(Ok(part))
    }
}

/// What was written, until it is taken.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file of which the envelope is here, and some of its chunks.
struct Sparse<'a> {
    envelope: Vec<u8>,
    chunks: &'a [u8],
    /// Where they lie in the file.
    chunks_at: u64,
    at: u64,
}

impl Read for Sparse<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let envelope = self.envelope.get(place(self.at)..).filter(|rest| !rest.is_empty());
        let chunks = || self.chunks.get(place(self.at.checked_sub(self.chunks_at)?)..);
        let mut rest = envelope.or_else(chunks).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.at = self.at.saturating_add(u64::try_from(count).unwrap_or(0));
        Ok(count)
    }
}

impl Seek for Sparse<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(_) => None,
        };
        self.at = to.ok_or(io::ErrorKind::Unsupported)?;
        Ok(self.at)
    }
}

/// What of a file has come, and was not read yet.
#[derive(Default)]
struct Come {
    bytes: VecDeque<u8>,
    /// Whether nothing follows.
    is_whole: bool,
}

/// The same, read from one side while it comes from the other.
type Fed = Arc<Mutex<Come>>;

/// Reads what has come.
struct Reading(Fed);

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut come = lock(&self.0);
        match (come.bytes.is_empty(), come.is_whole) {
            (true, false) => Err(io::ErrorKind::WouldBlock.into()),
            _ => come.bytes.read(buffer),
        }
    }
}

/// A file while it is decrypted.
pub(crate) struct Decrypter {
    reader: StreamReader<Reading>,
    fed: Fed,
    /// What of the envelope has not come yet.
    envelope: VecDeque<u8>,
    buffer: Vec<u8>,
}

/// What takes the pieces of a file.
pub(crate) type Take<'a, E> = &'a mut dyn FnMut(&[u8]) -> Result<(), E>;

impl Decrypter {
    /// Takes the next piece; `take` has what is decrypted by then.
    pub(crate) fn piece<E>(
        &mut self,
        piece: &[u8],
        damaged: &dyn Fn(String) -> E,
        take: Take<'_, E>,
    ) -> Result<(), E> {
        let (begun, rest) = piece.split_at(piece.len().min(self.envelope.len()));
        if !self.envelope.drain(..begun.len()).eq(begun.iter().copied()) {
            return Err(damaged("it does not begin as it was stored".to_owned()));
        }
        lock(&self.fed).bytes.extend(rest);
        self.read(damaged, take)
    }

    /// The same, when no piece follows.
    pub(crate) fn end<E>(mut self, damaged: &dyn Fn(String) -> E, take: Take<'_, E>) -> Result<(), E> {
        if !self.envelope.is_empty() {
            return Err(damaged("it ends before its first chunk".to_owned()));
        }
        lock(&self.fed).is_whole = true;
        self.read(damaged, take)
    }

    fn read<E>(&mut self, damaged: &dyn Fn(String) -> E, take: Take<'_, E>) -> Result<(), E> {
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => take(self.buffer.get(..count).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(damaged(not_whole(error))),
            }
        }
    }
}

fn not_whole(error: io::Error) -> String {
    format!("it was changed, or is not whole: {error}")
}
