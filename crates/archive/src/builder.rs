//! Writes a segment: frames as they come, then blocks, descriptions and the directory; at last the manifest, which says that the
//! segment counts, and the footer.

use std::sync::Arc;

use asat_core::PageSize;

use crate::codec::{Dictionary, Encoder};
use crate::error::Error;
use crate::fingerprint::hash;
use crate::index::{
    BlockBuilder, BlockRef, DESCRIBED_TOGETHER, Directory, Encoding, Entry, PartRef, VersionRef, block_of,
    check_of,
};
use crate::layout::{FOOTER_LEN, Footer, HEADER_LEN, header, len_of};
use crate::manifest::{Description, Manifest, SegmentRef};
use crate::objects::{Draft, Objects};
use crate::records::identity;

/// Bytes gathered before they are hashed and written.
const BUFFER_BYTES: usize = 1 << 20;
/// From this length on, what is there is made durable before anybody waits for the manifest.
const SETTLED_BYTES: u64 = 1 << 20;

/// A file that is being written.
struct Sheet {
    draft: Box<dyn Draft>,
    buffer: Vec<u8>,
    body: blake3::Hasher,
    written: u64,
}

impl Sheet {
    fn new(objects: &dyn Objects) -> Result<Self, Error> {
        let draft = objects.draft()?;
        let mut sheet = Self { draft, buffer: Vec::new(), body: blake3::Hasher::new(), written: 0 };
        sheet.append(&header())?;
        Ok(sheet)
    }

    /// How many bytes were appended so far.
    fn len(&self) -> u64 {
        self.written + len_of(&self.buffer)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Appends a part that the directory names.
    fn append_part(&mut self, bytes: &[u8]) -> Result<PartRef, Error> {
        self.append(bytes)?;
        Ok(PartRef::of(bytes))
    }

    /// Ends what lies before the manifest, with a directory if it is a segment.
    fn seal(mut self, frames_end: u64, directory: &[u8]) -> Result<Sealed, Error> {
        let directory_at = self.len();
        self.append(directory)?;
        self.flush()?;
        if self.written >= SETTLED_BYTES {
            self.draft.settle()?;
        }
        let directory_hash = hash(directory);
        let footer = Footer { frames_end, directory_at, directory_hash, ..Footer::default() };
        Ok(Sealed { sheet: self, footer, segment: None, records: None })
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.draft.append(&self.buffer)?;
        self.body.update(&self.buffer);
        self.written += len_of(&self.buffer);
        self.buffer.clear();
        Ok(())
    }
}

/// A segment that is being written. Dropped, it leaves nothing.
pub(crate) struct Builder {
    pub(crate) objects: Arc<dyn Objects>,
    sheet: Sheet,
    /// What is known of it so far. No entry may be of a version below its first.
    pub(crate) directory: Directory,
    /// Whether an entry lies upon a version below the first.
    pub(crate) needs_below: bool,
    block: Option<BlockBuilder>,
    blocks_bytes: Vec<u8>,
    /// How many entries there are.
    pub(crate) count: u64,
    /// What frames of whole pages are made with.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// Whether one was.
    needs_dictionary: bool,
}

impl Builder {
    /// Begins a segment of versions from `first` on.
    pub(crate) fn new(objects: &Arc<dyn Objects>, page_size: PageSize, first: u64) -> Result<Self, Error> {
        Ok(Self {
            sheet: Sheet::new(&**objects)?,
            objects: Arc::clone(objects),
            directory: Directory::new(page_size, first),
            needs_below: false,
            block: None,
            blocks_bytes: Vec::new(),
            count: 0,
            dictionary: None,
            needs_dictionary: false,
        })
    }

    /// How many bytes were appended so far.
    pub(crate) fn len(&self) -> u64 {
        self.sheet.len() + len_of(&self.blocks_bytes)
    }

    /// Begins a band: what follows is in the order of pages anew.
    pub(crate) fn begin_band(&mut self) {
        self.end_block();
        self.directory.bands.push(Vec::new());
    }

    /// Appends the next entry of a band, in the order of pages and of versions, with its frame.
    pub(crate) fn add(&mut self, mut entry: Entry, frame: &[u8]) -> Result<(), Error> {
        entry.len =
            u32::try_from(frame.len()).map_err(|_| Error::Misuse("a frame above 4 GiB".to_owned()))?;
        entry.offset = self.sheet.len();
        let number = block_of(entry.page);
        if self.block.as_ref().is_none_or(|block| block.place.block != number) {
            self.end_block();
        }
        self.block.get_or_insert_with(|| BlockBuilder::new(number, self.directory.first)).add(&entry);
        self.count += 1;
        self.needs_dictionary |= entry.encoding == Encoding::Dictionary;
        self.directory.last = self.directory.last.max(entry.version);
        self.needs_below |= entry.encoding == Encoding::Difference && entry.base < self.directory.first;
        self.sheet.append(frame)
    }

    /// Appends a page as it became at a version, whole.
    pub(crate) fn add_whole(
        &mut self,
        (page, version): (u32, u64),
        content: &[u8],
        encoder: &mut Encoder,
    ) -> Result<(), Error> {
        let (encoding, frame) = encoder.encode(content, None);
        let check = check_of(&hash(content));
        self.add(Entry { page, version, encoding, base: 0, offset: 0, len: 0, check }, frame)
    }

    fn end_block(&mut self) {
        let Some(BlockBuilder { place, bytes, .. }) = self.block.take() else { return };
        let block = BlockRef { part: PartRef::of(&bytes), ..place };
        self.directory.bands.last_mut().into_iter().for_each(|band| band.push(block));
        self.blocks_bytes.extend(bytes);
    }

    /// Ends the segment with these versions, in order; all but the manifest is written then.
    pub(crate) fn seal(mut self, mut versions: Vec<(VersionRef, Description)>) -> Result<Sealed, Error> {
        self.end_block();
        self.directory.bands.retain(|band| !band.is_empty());
        let frames_end = self.sheet.len();
        let dictionary = self.dictionary.take().filter(|_| self.needs_dictionary);
        let append_dictionary = |sheet: &mut Sheet| {
            dictionary.as_ref().map(|dictionary| sheet.append_part(&dictionary.bytes)).transpose()
        };
        let first_copy = append_dictionary(&mut self.sheet)?;
        self.sheet.append(&std::mem::take(&mut self.blocks_bytes))?;
        let bytes = self.sheet.len();
        // A version that is written for the first time took all of this.
        let taken = versions.iter_mut().map(|(version, _)| &mut version.bytes).filter(|taken| **taken == 0);
        taken.for_each(|taken| *taken = bytes);
        for together in versions.chunks(DESCRIBED_TOGETHER) {
            let written = Description::join(together.iter().map(|(_, description)| description))?;
            self.directory.descriptions.push(self.sheet.append_part(&written)?);
        }
        let copies = first_copy.zip(append_dictionary(&mut self.sheet)?);
        self.directory.dictionary = copies.map(|(first, second)| [first, second]);
        self.directory.versions = versions.into_iter().map(|(version, _)| version).collect();
        let newest = self.directory.versions.last().map_or(0, |version| version.number);
        let (first, last) = (self.directory.first, self.directory.last.max(newest));
        self.directory.last = last;
        let mut sealed = self.sheet.seal(frames_end, &self.directory.encode())?;
        let (bytes, identity) = (sealed.sheet.written, sealed.footer.identity());
        sealed.segment = Some(SegmentRef { file: 0, first, last, bytes, identity });
        Ok(sealed)
    }
}

/// A file to which only the manifest is missing. Dropped, it leaves nothing.
pub(crate) struct Sealed {
    sheet: Sheet,
    /// What of the footer is known already.
    footer: Footer,
    segment: Option<SegmentRef>,
    /// How long the records are that it has, and what tells them from others.
    records: Option<(u64, u64)>,
}

impl Sealed {
    /// A file that will have a manifest alone.
    pub(crate) fn empty(objects: &dyn Objects) -> Result<Self, Error> {
        Sheet::new(objects)?.seal(HEADER_LEN, &[])
    }

    /// A file that will have records, as they are written, and a manifest.
    pub(crate) fn records(objects: &dyn Objects, written: &[u8]) -> Result<Self, Error> {
        let mut sheet = Sheet::new(objects)?;
        sheet.append(written)?;
        let frames_end = sheet.len();
        let records = Some((len_of(written), identity(written)));
        Ok(Self { records, ..sheet.seal(frames_end, &[])? })
    }

    /// How long the records are that it has, and what tells them from others, if it has some.
    pub(crate) fn written_records(&self) -> Option<(u64, u64)> {
        self.records
    }

    /// The segment under the number that its file is to have, if it is one.
    pub(crate) fn segment(&self, file: u64) -> Option<SegmentRef> {
        self.segment.clone().map(|segment| SegmentRef { file, ..segment })
    }

    /// Ends the file with the manifest and gives it the manifest's number, durably. After an error it may be there or not.
    pub(crate) fn publish(mut self, manifest: &Manifest) -> Result<(), Error> {
        let manifest_at = self.sheet.written;
        let bytes = manifest.encode();
        self.sheet.append(&bytes)?;
        self.sheet.flush()?;
        let footer = Footer {
            manifest_at,
            file_len: self.sheet.written + FOOTER_LEN,
            manifest_hash: hash(&bytes),
            body_hash: self.sheet.body.finalize().into(),
            ..self.footer
        };
        self.sheet.draft.append(&footer.encode())?;
        self.sheet.draft.create(manifest.number)
    }
}
