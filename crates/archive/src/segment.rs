//! A segment that is open for reading: entries and frames of pages, and descriptions of versions.

use std::sync::{Arc, Mutex, OnceLock};

use crate::codec::Dictionary;
use crate::error::Error;
use crate::fingerprint::{hash, matches};
use crate::index::{
    BLOCK_PAGES, BlockRef, DESCRIBED_TOGETHER, Directory, Encoding, Entry, PartRef, check_of,
};
use crate::layout::{FOOTER_LEN, Footer, HEADER_LEN, Unfit, in_memory, len_of};
use crate::lock::lock;
use crate::manifest::{Manifest, Meta, SegmentRef, read_together};
use crate::objects::{Object, Objects};

/// What is read at a file's end at once: of a small one, everything that opening it needs.
pub(crate) const END_BYTES: u64 = 8 << 10;
/// Whole files are read in pieces of this many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// A file of the archive, open, with what its ends say.
#[derive(Debug)]
pub(crate) struct Ends {
    object: Arc<dyn Object>,
    footer: Footer,
    /// What lies at the end of the file, from this place on.
    end: (u64, Vec<u8>),
}

impl Ends {
    /// Opens a file and reads both of its ends.
    pub(crate) fn open(objects: &dyn Objects, number: u64) -> Result<Self, Error> {
        let object = objects.open(number)?;
        let len = object.len();
        if len < HEADER_LEN + FOOTER_LEN {
            return Err(object.damaged(format!("it is {len} bytes long, too short for a segment")));
        }
        let at = len.saturating_sub(END_BYTES);
        let end = object.read_range(at..len)?;
        let footer = end.get(end.len().saturating_sub(in_memory(FOOTER_LEN))..).unwrap_or_default();
        // The header repeats what the end says. Of a file that is somewhere else it is read only if it has to confirm another format.
        let by_end = (!objects.is_near()).then(|| Footer::decode_end(footer, len));
        let footer = match by_end.filter(|found| !matches!(found, Err(Unfit::Format(_)))) {
            Some(found) => found,
            None => Footer::decode(&object.read_range(0..HEADER_LEN)?, footer, len),
        };
        let footer = footer.map_err(|unfit| match unfit {
            Unfit::Damaged(what) => object.damaged(what),
            Unfit::Format(found) => Error::Format { path: object.name().to_owned(), found },
        })?;
        Ok(Self { object, footer, end: (at, end) })
    }

    /// What the archive was when the file was written.
    pub(crate) fn manifest(&self) -> Result<Manifest, Error> {
        let bytes = self.part(self.footer.manifest(), &self.footer.manifest_hash, "its manifest")?;
        let wrong = |why| self.object.damaged(format!("its manifest cannot be read: {why}"));
        Manifest::decode(&bytes).map_err(wrong)
    }

    /// The segment that it is, unless it has only a manifest.
    pub(crate) fn segment(self, number: u64) -> Result<Option<Segment>, Error> {
        if self.footer.directory().is_empty() {
            return Ok(None);
        }
        let bytes = self.part(self.footer.directory(), &self.footer.directory_hash, "its directory")?;
        let rest = self.footer.frames_end..self.footer.directory_at;
        let directory = Directory::decode(&bytes, HEADER_LEN..self.footer.frames_end, rest)
            .ok_or_else(|| self.object.damaged("its directory is malformed"))?;
        let alone = directory.versions.iter().filter(|version| version.stands_alone);
        let alone = alone.map(|version| version.number).collect();
        let (dictionary, described) = (OnceLock::new(), Mutex::default());
        let Self { object, footer, .. } = self;
        Ok(Some(Segment { number, object, footer, directory, alone, dictionary, described }))
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The open file.
    pub(crate) fn object(&self) -> &(dyn Object + 'static) {
        &*self.object
    }

    /// The open file, and its footer.
    pub(crate) fn into_parts(self) -> (Arc<dyn Object>, Footer) {
        (self.object, self.footer)
    }

    /// A part of the file that was compared with its checksum.
    fn part(&self, range: std::ops::Range<u64>, expected: &[u8; 32], what: &str) -> Result<Vec<u8>, Error> {
        let (at, end) = &self.end;
        let start = range.start.checked_sub(*at).map(in_memory);
        let len = in_memory(range.end - range.start);
        let bytes = match start.and_then(|start| end.get(start..start + len)) {
            Some(bytes) => bytes.to_vec(),
            None => self.object.read_range(range)?,
        };
        if matches(&bytes, expected) {
            Ok(bytes)
        } else {
            Err(self.object.damaged(format!("{what} does not match its checksum")))
        }
    }
}

/// A segment.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The number of its file. Of two entries of one page and version, that of the higher number counts.
    pub(crate) number: u64,
    pub(crate) object: Arc<dyn Object>,
    footer: Footer,
    pub(crate) directory: Directory,
    /// Its versions that stand alone, in order.
    pub(crate) alone: Vec<u64>,
    /// Its dictionary, once a page was read that needs it.
    dictionary: OnceLock<Arc<Dictionary>>,
    /// The descriptions that were read last, by their place: who asks for one asks for its neighbours next.
    described: Mutex<(Option<usize>, Vec<Meta>)>,
}

impl Segment {
    /// What a manifest says of it.
    pub(crate) fn reference(&self) -> SegmentRef {
        let Directory { first, last, .. } = self.directory;
        SegmentRef { file: self.number, first, last, bytes: self.bytes(), identity: self.footer.identity() }
    }

    /// How long its file is up to the manifest.
    pub(crate) fn bytes(&self) -> u64 {
        self.footer.manifest_at
    }

    /// The newest version that it has and that is one of these.
    pub(crate) fn newest(&self, is_it: impl Fn(&u64) -> bool) -> Option<u64> {
        self.directory.versions.iter().rev().map(|version| version.number).find(is_it)
    }

    /// The entries of a block: those of each band are in order.
    pub(crate) fn entries(&self, block: u32, mut each: impl FnMut(Entry)) -> Result<(), Error> {
        for block in self.directory.blocks(block) {
            let bytes = self.checked(&block.part, || block_name(block))?;
            let range = (self.directory.first, self.directory.last);
            let decoded = block.decode(&bytes, range, self.directory.page_size, &mut each);
            decoded.ok_or_else(|| self.object.damaged(format!("{} is malformed", block_name(block))))?;
        }
        Ok(())
    }

    /// What its whole pages are compressed with, if it has that.
    pub(crate) fn dictionary(&self) -> Result<Option<&Arc<Dictionary>>, Error> {
        let Some(copies) = &self.directory.dictionary else { return Ok(None) };
        if let Some(known) = self.dictionary.get() {
            return Ok(Some(known));
        }
        let read = |copy: &PartRef| {
            let bytes = self.checked(copy, || "its dictionary".to_owned())?;
            Dictionary::new(bytes).ok_or_else(|| self.object.damaged("its dictionary is none"))
        };
        let [first, second] = copies;
        let dictionary =
            read(first).or_else(|error| if error.is_loss() { read(second) } else { Err(error) })?;
        Ok(Some(self.dictionary.get_or_init(|| Arc::new(dictionary))))
    }

    /// The same, if frames of this encoding need it.
    pub(crate) fn dictionary_for(&self, encoding: Encoding) -> Result<Option<&Dictionary>, Error> {
        if encoding == Encoding::Dictionary { Ok(self.dictionary()?.map(Arc::as_ref)) } else { Ok(None) }
    }

    /// Has the system begin to read a block.
    pub(crate) fn expect_block(&self, block: u32) {
        self.directory.blocks(block).for_each(|block| self.object.expect(block.part.offset, block.part.len));
    }

    /// Has the system begin to read the descriptions of all its versions.
    pub(crate) fn expect_descriptions(&self) {
        let parts = &self.directory.descriptions;
        if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
            self.object.expect(first.offset, last.offset + last.len - first.offset);
        }
    }

    /// What it says about a version.
    pub(crate) fn describe(&self, number: u64) -> Result<Meta, Error> {
        let missing = || self.object.damaged(format!("version {number} is not in it"));
        let nth = self.directory.nth(number).ok_or_else(missing)?;
        let (place, mut known) = (nth / DESCRIBED_TOGETHER, lock(&self.described));
        if known.0 != Some(place) {
            drop(known);
            // They may come out of a bucket, and nobody waits for that who asks for others.
            let read = self.descriptions(place)?;
            known = lock(&self.described);
            *known = (Some(place), read);
        }
        let meta = known.1.get(nth % DESCRIBED_TOGETHER).filter(|meta| meta.number == number);
        meta.cloned()
            .ok_or_else(|| self.object.damaged(format!("it describes another version than {number}")))
    }

    /// The descriptions of the versions that are described together at a place.
    pub(crate) fn descriptions(&self, nth: usize) -> Result<Vec<Meta>, Error> {
        let Some(place) = self.directory.descriptions.get(nth) else { return Ok(Vec::new()) };
        let bytes = self.checked(place, || "a description of versions".to_owned())?;
        let wrong = |why| self.object.damaged(format!("a description of versions cannot be read: {why}"));
        read_together(&bytes).map_err(wrong)
    }

    /// Reads the whole file and compares it with its checksum; `go_on` hears of every piece read.
    pub(crate) fn check_bytes(&self, mut go_on: impl FnMut(u64) -> Result<(), Error>) -> Result<(), Error> {
        let (mut state, mut at) = (blake3::Hasher::new(), 0);
        let end = self.footer.file_len - FOOTER_LEN;
        while at < end {
            let piece = self.object.read_range(at..end.min(at + PIECE_BYTES))?;
            state.update(&piece);
            at += len_of(&piece);
            go_on(len_of(&piece))?;
        }
        if cfg!(fuzzing) || state.finalize() == self.footer.body_hash {
            Ok(())
        } else {
            Err(self.object.damaged("its bytes do not match the checksum of the whole file"))
        }
    }

    /// A part of the file that was compared with its check.
    fn checked(&self, part: &PartRef, what: impl FnOnce() -> String) -> Result<Vec<u8>, Error> {
        let bytes = self.object.read_range(part.offset..part.offset + part.len)?;
        if cfg!(fuzzing) || check_of(&hash(&bytes)) == part.check {
            Ok(bytes)
        } else {
            Err(self.object.damaged(format!("{} does not match its checksum", what())))
        }
    }
}

fn block_name(block: &BlockRef) -> String {
    let first = u64::from(block.block) * u64::from(BLOCK_PAGES) + 1;
    format!("its index from page {first} on")
}
