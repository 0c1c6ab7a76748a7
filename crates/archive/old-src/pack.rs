//! A pack file opened for reading.
//!
//! Opening reads both ends and the metadata; the index is read when somebody resolves pages through it, the
//! frames when somebody reads pages. The open file outlives its name: whoever holds it reads on undisturbed.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use crate::disk::{Folder, Stamp};
use crate::error::Error;
use crate::fingerprint::matches;
use crate::footer::{FOOTER_LEN, Footer, HEADER_LEN};
use crate::index::Index;
use crate::meta::Meta;
use crate::naming::FileName;

/// What is read at a pack file's end at once, before its length is known of anything there.
const END_BYTES: u64 = 16 << 10;

/// An open pack file whose ends and metadata are valid.
#[derive(Debug)]
pub(crate) struct Pack {
    path: PathBuf,
    file: File,
    footer: Footer,
    meta: Meta,
}

impl Pack {
    /// Opens the layer that covers `from` to `number`, under whichever of its names it has at the moment:
    /// giving up a version renames its file, which must not be in the way of somebody reading.
    pub(crate) fn open(folder: &Folder, from: u64, number: u64) -> Result<Self, Error> {
        let live = FileName::Live { from, number }.text();
        Self::open_either(folder, (from, number), &live, &FileName::Retired { from, number }.text())
    }

    /// The same of a layer whose version was given up: where it has neither name, it is this one that is missed.
    pub(crate) fn open_retired(folder: &Folder, from: u64, number: u64) -> Result<Self, Error> {
        let retired = FileName::Retired { from, number }.text();
        Self::open_either(folder, (from, number), &retired, &FileName::Live { from, number }.text())
    }

    fn open_either(
        folder: &Folder,
        (from, number): (u64, u64),
        expected: &str,
        other: &str,
    ) -> Result<Self, Error> {
        let is_gone = |opened: &io::Result<File>| {
            opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let (mut name, mut opened) = (expected, folder.read(expected));
        if is_gone(&opened) {
            let elsewhere = folder.read(other);
            if !is_gone(&elsewhere) {
                (name, opened) = (other, elsewhere);
            }
        }
        let path = folder.path().join(name);
        let file = opened.map_err(|source| Error::io("open", &path, source))?;
        // Who reads knows better than the system what will be needed next, and says so.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        let pack = Self::read_ends(path, file)?;
        if (pack.meta.covers_from, pack.meta.number) != (from, number) {
            let what = format!("it is the layer of {} to {}", pack.meta.covers_from, pack.meta.number);
            return Err(Error::damaged(&pack.path, what));
        }
        Ok(pack)
    }

    pub(crate) fn read_ends(path: PathBuf, file: File) -> Result<Self, Error> {
        let footer = Ends::read(&path, &file)?.decode(&path)?;
        let json = read_range(&path, &file, footer.index_offset + footer.index_len, footer.meta_len)?;
        if !matches(&json, &footer.meta_checksum) {
            return Err(Error::damaged(&path, "its metadata do not match their checksum"));
        }
        let meta: Meta = serde_json::from_slice(&json)
            .map_err(|error| Error::damaged(&path, format!("its metadata cannot be read: {error}")))?;
        let ordered =
            meta.covers_from <= meta.number && meta.parent.is_none_or(|parent| parent < meta.covers_from);
        if !ordered || footer.entry_count > u64::from(meta.page_count) {
            return Err(Error::damaged(&path, "its metadata contradict each other"));
        }
        Ok(Self { path, file, footer, meta })
    }

    /// What its file is like now.
    pub(crate) fn stamp(&self) -> Result<Stamp, Error> {
        let metadata = self.file.metadata().map_err(|source| Error::io("look at", &self.path, source))?;
        Ok(Stamp::of(&metadata))
    }

    /// The path under which it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the layer says about itself.
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file's length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.footer.file_len
    }

    /// How much of the file is neither frames nor index.
    pub(crate) fn bytes_around(&self) -> u64 {
        HEADER_LEN + self.footer.meta_len + FOOTER_LEN
    }

    /// Where the last frame ends.
    pub(crate) fn frames_end(&self) -> u64 {
        self.footer.index_offset
    }

    /// Reads the index and checks it against its checksum.
    pub(crate) fn index(&self) -> Result<Index<'_>, Error> {
        let footer = &self.footer;
        let bytes = read_range(&self.path, &self.file, footer.index_offset, footer.index_len)?;
        if !matches(&bytes, &footer.index_checksum) {
            return Err(Error::damaged(&self.path, "its index does not match its checksum"));
        }
        Ok(self.index_of(bytes))
    }

    /// These bytes as the index, whatever they are.
    pub(crate) fn index_of(&self, bytes: Vec<u8>) -> Index<'_> {
        let footer = &self.footer;
        Index {
            path: &self.path,
            bytes,
            count: footer.entry_count,
            first_offset: HEADER_LEN,
            end_offset: footer.index_offset,
            page_size: self.meta.page_size,
            page_count: self.meta.page_count,
            number: self.meta.number,
        }
    }

    /// Reads stored bytes into `buffer`, whose length says how many.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(buffer, offset).map_err(|source| read_error(&self.path, source))
    }

    /// Has the system begin to read what opening a pack file of this length asks for: both ends, and a short index with
    /// the second.
    pub(crate) fn expect_ends(file: &File, file_len: u64) {
        expect(file, 0, HEADER_LEN);
        expect(file, file_len.saturating_sub(END_BYTES), END_BYTES);
    }

    /// Has the system begin to read the index.
    pub(crate) fn expect_index(&self) {
        self.expect(self.footer.index_offset, self.footer.index_len);
    }

    /// Has the system begin to read bytes that are asked for soon. It is advice: where it is not taken, nothing else changes.
    pub(crate) fn expect(&self, offset: u64, len: u64) {
        expect(&self.file, offset, len);
    }

    /// Reads the whole file and compares it with its checksum; `progress` hears of every piece read.
    pub(crate) fn check_bytes(
        &self,
        mut progress: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = blake3::Hasher::new();
        each_piece(&self.path, &self.file, 0..self.footer.file_len - FOOTER_LEN, |piece| {
            state.update(piece);
            progress(u64::try_from(piece.len()).unwrap_or(u64::MAX))
        })?;
        if state.finalize() == self.footer.body_checksum {
            Ok(())
        } else {
            Err(Error::damaged(&self.path, "its bytes do not match the checksum of the whole file"))
        }
    }
}

fn expect(file: &File, offset: u64, len: u64) {
    if let Some(len) = NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, offset, Some(len), Advice::WillNeed);
    }
}

/// The header and the footer of a file, as they are.
pub(crate) struct Ends {
    /// One after the other.
    pub(crate) bytes: [u8; 192],
    pub(crate) file_len: u64,
}

impl Ends {
    pub(crate) fn read(path: &Path, file: &File) -> Result<Self, Error> {
        let at = |source| Error::io("read", path, source);
        let file_len = file.metadata().map_err(at)?.len();
        if file_len < HEADER_LEN + FOOTER_LEN {
            return Err(Error::damaged(path, format!("it is {file_len} bytes long, too short for a pack")));
        }
        let mut bytes = [0; 192];
        let (header, footer) = bytes.split_at_mut(12);
        file.read_exact_at(header, 0).map_err(at)?;
        file.read_exact_at(footer, file_len - FOOTER_LEN).map_err(at)?;
        Ok(Self { bytes, file_len })
    }

    /// The header.
    pub(crate) fn header(&self) -> &[u8] {
        self.bytes.split_at(12).0
    }

    /// What they say.
    pub(crate) fn decode(&self, path: &Path) -> Result<Footer, Error> {
        let (header, footer) = self.bytes.split_at(12);
        Footer::decode(path, header, footer, self.file_len)
    }

    /// Where in the file one of the bytes stands.
    pub(crate) fn offset(&self, nth: usize) -> Option<u64> {
        let nth = u64::try_from(nth).ok()?;
        Some(if nth < HEADER_LEN { nth } else { self.file_len - FOOTER_LEN + (nth - HEADER_LEN) })
    }
}

/// Reads a part of a file piece by piece.
pub(crate) fn each_piece(
    path: &Path,
    file: &File,
    part: Range<u64>,
    mut each: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let len = part.end.saturating_sub(part.start);
    let (mut offset, mut buffer) =
        (part.start, vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(1 << 20)]);
    while offset < part.end {
        let piece = usize::try_from(part.end - offset).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..piece).unwrap_or_default();
        file.read_exact_at(piece, offset).map_err(|source| read_error(path, source))?;
        each(piece)?;
        offset += u64::try_from(piece.len()).unwrap_or(u64::MAX);
    }
    Ok(())
}

/// Reads a range that the footer bounds by the file's length.
pub(crate) fn read_range(path: &Path, file: &File, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    let refused = || Error::io("read", path, io::ErrorKind::OutOfMemory.into());
    let len = usize::try_from(len).map_err(|_| refused())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| refused())?;
    bytes.resize(len, 0);
    file.read_exact_at(&mut bytes, offset).map_err(|source| read_error(path, source))?;
    Ok(bytes)
}

/// A file that ends too early was cut short after it was opened: that is damage, not a refusal.
fn read_error(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(path, "it was cut short while it was read"),
        _ => Error::io("read", path, source),
    }
}
