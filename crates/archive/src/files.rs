//! The archive's files at one moment, for those who keep copies of them elsewhere.
//!
//! A file never changes, and its footer commits to each of its bytes: what the footer hashes to names the content, and shows of a copy
//! whether it is whole.

use std::ops::Range;
use std::sync::Arc;

use crate::archive::Archive;
use crate::error::{Error, unless_refused};
use crate::folder::name_of;
use crate::layout::{FOOTER_LEN, Footer, HEADER_LEN, Unfit, in_memory};
use crate::manifest::SegmentRef;
use crate::objects::Object;
use crate::segment::Ends;
use crate::state::State;

/// What a file of an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// Its number, which no other file of the archive ever has.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What the first 128 bytes of its footer hash to, by BLAKE3. They have the hash of everything before them.
    pub hash: [u8; 32],
}

impl FileId {
    /// Its name in the archive's folder.
    #[must_use]
    pub fn name(&self) -> String {
        name_of(self.number)
    }
}

/// A file that is open: it can be read to its end, whatever becomes of the archive meanwhile.
#[derive(Clone, Debug)]
pub struct ArchiveFile {
    /// What it is.
    pub id: FileId,
    object: Arc<dyn Object>,
}

impl ArchiveFile {
    /// Reads a part of it. What was read is checked only when all of it was, by a [`Checker`].
    ///
    /// # Errors
    /// If the machine refuses, or the file was cut short.
    pub fn read(&self, part: Range<u64>) -> Result<Vec<u8>, Error> {
        self.object.read_range(part)
    }

    /// The error that says what is wrong with it.
    #[must_use]
    pub fn damaged(&self, what: String) -> Error {
        self.object.damaged(what)
    }
}

/// All that an archive consists of at one moment.
#[derive(Debug, Default)]
pub struct Files {
    /// The versions that can be read, oldest first.
    pub versions: Vec<u64>,
    /// The files, in the order of their numbers. The manifest in the last one names the others.
    pub files: Vec<ArchiveFile>,
    /// The numbers of files that the archive needs and that cannot be opened, or are other ones than were meant.
    pub lost: Vec<u64>,
    /// The numbers of files that were written last and cannot be read: the archive is what it was before them.
    pub unread: Vec<u64>,
    /// The number of the newest file, if it only repeats what the one before says: it lets the archive delete what was merged, and a copy of
    /// the archive is whole without it.
    pub repeats: Option<u64>,
}

impl Files {
    /// The numbers of all files that cannot be read.
    pub fn lost_numbers(&self) -> impl Iterator<Item = u64> {
        self.lost.iter().chain(&self.unread).copied()
    }
}

impl Archive {
    /// The number of its newest file, which changes whenever anything of it does; 0 if it has none.
    #[must_use]
    pub fn newest_file(&self) -> u64 {
        self.inner.state().manifest.number
    }

    /// The files of which the archive consists now. An archive to which nothing was ever written has none.
    ///
    /// # Errors
    /// What the machine refuses at this moment. What is lost is no error.
    pub fn files(&self) -> Result<Files, Error> {
        loop {
            let state = self.inner.state();
            let mut numbers: Vec<u64> = state.manifest.files().filter(|number| *number > 0).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let unread = state.manifest.unread.keys().copied().collect();
            let mut files = Files { unread, ..Files::default() };
            for number in numbers {
                match Ends::open(&*state.objects, number) {
                    Ok(ends) if is_meant(&ends, number, &state)? => files.files.push(ends.into_file(number)),
                    Ok(_) => files.lost.push(number),
                    Err(error) if error.is_loss() => files.lost.push(number),
                    Err(error) => return Err(error),
                }
            }
            files.repeats = self.inner.repeats(&state)?;
            files.lost.retain(|lost| Some(*lost) != files.repeats);
            files.versions = state.live_from(0).iter().map(|version| version.number).collect();
            // A file may have been deleted since because another state has followed.
            let has_all = files.lost.is_empty() && state.is_open();
            if has_all || Arc::ptr_eq(&state, &self.inner.state()) {
                return Ok(files);
            }
        }
    }
}

/// Whether a file is the one of this number that a state names: another one may have been put in its place.
fn is_meant(ends: &Ends, number: u64, state: &State) -> Result<bool, Error> {
    if number == state.manifest.number {
        // What was taken in since stands in no file yet.
        return Ok(unless_refused(ends.manifest())?.is_ok_and(|manifest| manifest.number == number));
    }
    if let Some(records) = state.manifest.records.iter().find(|records| records.file == number) {
        return records.is(ends);
    }
    let named = state.manifest.segments.iter().find(|segment| segment.file == number);
    Ok(named.is_some_and(|segment| ends.is(segment)))
}

impl Ends {
    /// Whether it is this segment.
    fn is(&self, segment: &SegmentRef) -> bool {
        let footer = self.footer();
        footer.identity() == segment.identity && footer.manifest_at == segment.bytes
    }

    /// The file itself.
    fn into_file(self, number: u64) -> ArchiveFile {
        let (object, footer) = self.into_parts();
        ArchiveFile { id: FileId { number, bytes: object.len(), hash: footer.hash() }, object }
    }
}

/// Compares the bytes of a file, as they pass by in order, with what the file is.
#[derive(Debug)]
pub struct Checker {
    id: FileId,
    seen: u64,
    body: blake3::Hasher,
    header: Vec<u8>,
    footer: Vec<u8>,
}

impl Checker {
    /// Begins with the first byte of the file.
    #[must_use]
    pub fn new(id: FileId) -> Self {
        Self { id, seen: 0, body: blake3::Hasher::new(), header: Vec::new(), footer: Vec::new() }
    }

    /// Takes what follows.
    pub fn update(&mut self, bytes: &[u8]) {
        let left = self.id.bytes.saturating_sub(FOOTER_LEN).saturating_sub(self.seen);
        let (body, footer) = bytes.split_at(in_memory(left).min(bytes.len()));
        self.body.update(body);
        let missing = in_memory(HEADER_LEN).saturating_sub(self.header.len());
        self.header.extend(body.iter().take(missing));
        // What is more than a footer does not fit, however much it is.
        self.footer.extend(footer.iter().take(in_memory(FOOTER_LEN + 1).saturating_sub(self.footer.len())));
        self.seen = self.seen.saturating_add(crate::layout::len_of(bytes));
    }

    /// Whether so many bytes have passed as the file has.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.seen >= self.id.bytes
    }

    /// Says whether what has passed is the file.
    ///
    /// # Errors
    /// What is wrong, as a sentence whose subject is the file.
    pub fn check(&self) -> Result<(), String> {
        if self.seen != self.id.bytes {
            return Err(format!("it has {} bytes, and {} were written", self.seen, self.id.bytes));
        }
        let footer =
            Footer::decode(&self.header, &self.footer, self.id.bytes).map_err(|unfit| match unfit {
                Unfit::Damaged(what) => what,
                Unfit::Format(found) => format!("it is of format version {found}"),
            })?;
        if footer.hash() != self.id.hash {
            return Err("it is another file than the one that was meant".to_owned());
        }
        if *self.body.finalize().as_bytes() != footer.body_hash {
            return Err("its bytes do not have the hash that its footer says".to_owned());
        }
        Ok(())
    }
}
