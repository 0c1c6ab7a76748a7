//! Corrects a single flipped bit in what lies around a layer's frames: header, index, metadata and footer.
//!
//! Each of them has a checksum of 256 bits, so the flip that makes it match is the one that happened, and every flip is
//! tried. The byte is written where it stands: as it was, the layer was of no use, so a crash leaves nothing worse.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::archive::Inner;
use crate::chain::{Layer, lock};
use crate::error::Error;
use crate::fingerprint::hash;
use crate::fold::Pace;
use crate::footer::{FOOTER_LEN, Footer, HEADER_LEN};
use crate::pack::{Ends, Pack, each_piece, read_range};
use crate::suspect::suspects;

/// So many bytes are gone through at most to find the flip, times eight: each byte that may be the one asks for all of what it stands in.
/// That takes twenty seconds or so, and is enough for every byte of 128 KiB, or for every page number in an index of 22,000 pages.
const MOST_TRIED_BYTES: usize = 1 << 34;
/// Those bytes of both ends that the footer's own checksum vouches for, and the checksum. Which of the others is right, only the
/// whole file can tell: they say the format twice.
const SUMMED: Range<usize> = 12..180;

/// What was searched through for one flipped bit, and is none: a hash of all that the search goes by. Nothing is searched twice.
pub(crate) type InVain = Mutex<BTreeSet<[u8; 32]>>;

/// A search, which may be stopped between two bytes.
struct Search<'a> {
    pace: Pace<'a>,
    in_vain: &'a InVain,
}

/// A byte as it was written.
struct Correction {
    offset: u64,
    byte: u8,
}

impl Inner {
    /// Corrects a flipped bit around the frames of a layer; answers its file. `None`: it is not one bit, or the layer is gone
    /// meanwhile. It fails if the pace says to stop.
    pub(crate) fn correct(&self, layer: &Layer, pace: Pace<'_>) -> Result<Option<PathBuf>, Error> {
        let name = layer.name().text();
        let path = self.folder.path().join(&name);
        let file = self.folder.read(&name).map_err(|source| Error::io("open", &path, source))?;
        let mut search = Search { pace, in_vain: &self.in_vain };
        let suspects = |pack: &Pack, index: &[u8]| suspects(&self.folder, &self.layers(), pack, index);
        let Some(Correction { offset, byte }) = find(&path, &file, suspects, &mut search)? else {
            return Ok(None);
        };
        let _upkeep = lock(&self.upkeep);
        // It may have been given up meanwhile, which changes its name, or be gone.
        let now = self.layer(layer.from, layer.number).filter(|now| now.is_same_file(layer));
        let Some(now) = now else { return Ok(None) };
        self.folder.put_byte(&now.name().text(), offset, byte)?;
        Ok(Some(self.folder.path().join(now.name().text())))
    }
}

/// The byte of a file that was written otherwise, where one bit of it accounts for what is wrong around the frames. In an index, the
/// `suspects` are tried first.
fn find(
    path: &Path,
    file: &File,
    suspects: impl FnOnce(&Pack, &[u8]) -> Result<Vec<Range<usize>>, Error>,
    search: &mut Search<'_>,
) -> Result<Option<Correction>, Error> {
    let at = |source| Error::io("read", path, source);
    let ends = Ends::read(path, file)?;
    let footer = match ends.decode(path) {
        Ok(footer) => footer,
        Err(Error::Damaged { .. }) => return find_in_ends(path, file, ends),
        Err(error) => return Err(error),
    };
    let meta_offset = footer.index_offset + footer.index_len;
    let mut meta = read_range(path, file, meta_offset, footer.meta_len)?;
    if hash(&meta) != footer.meta_checksum {
        let all = 0..meta.len();
        return search.flip_back(&mut meta, &[all], footer.meta_checksum, meta_offset);
    }
    let mut index = read_range(path, file, footer.index_offset, footer.index_len)?;
    if hash(&index) == footer.index_checksum {
        return Ok(None);
    }
    let mut places = suspects(&Pack::read_ends(path.to_owned(), file.try_clone().map_err(at)?)?, &index)?;
    places.push(0..index.len());
    search.flip_back(&mut index, &places, footer.index_checksum, footer.index_offset)
}

impl Search<'_> {
    /// The byte at one of these places that makes bytes, which stand at this offset, match their checksum with a bit flipped.
    fn flip_back(
        &mut self,
        bytes: &mut [u8],
        places: &[Range<usize>],
        checksum: [u8; 32],
        offset: u64,
    ) -> Result<Option<Correction>, Error> {
        let goes_by = all_of(bytes, places, checksum);
        if lock(self.in_vain).contains(&goes_by) {
            return Ok(None);
        }
        let most = MOST_TRIED_BYTES / bytes.len().max(1);
        let mut tried = vec![false; bytes.len()];
        let mut is_new =
            |&nth: &usize| tried.get_mut(nth).is_some_and(|tried| !std::mem::replace(tried, true));
        for nth in places.iter().cloned().flatten().filter(|nth| is_new(nth)).take(most) {
            if (self.pace)(0).is_break() {
                return Err(Error::Stopped);
            }
            if let Some(byte) = flip_in(bytes, nth, checksum) {
                let offset = u64::try_from(nth).ok().map(|nth| offset + nth);
                return Ok(offset.map(|offset| Correction { offset, byte }));
            }
        }
        lock(self.in_vain).insert(goes_by);
        Ok(None)
    }
}

/// What this byte is with that bit flipped that makes all match their checksum.
fn flip_in(bytes: &mut [u8], nth: usize, checksum: [u8; 32]) -> Option<u8> {
    for bit in 0..8 {
        *bytes.get_mut(nth)? ^= 1 << bit;
        if hash(bytes) == checksum {
            return bytes.get(nth).copied();
        }
        *bytes.get_mut(nth)? ^= 1 << bit;
    }
    None
}

/// A hash of all that a search goes by. Other places are looked at once what lies below a layer is put right.
fn all_of(bytes: &[u8], places: &[Range<usize>], checksum: [u8; 32]) -> [u8; 32] {
    let mut all = blake3::Hasher::new();
    all.update(&checksum).update(&hash(bytes));
    for place in places {
        all.update(&place.start.to_le_bytes()).update(&place.end.to_le_bytes());
    }
    all.finalize().into()
}

/// The same where header and footer cannot be read.
fn find_in_ends(path: &Path, file: &File, mut ends: Ends) -> Result<Option<Correction>, Error> {
    for nth in 0..ends.bytes.len() {
        for bit in 0..8 {
            flip(&mut ends, nth, bit);
            if let Ok(footer) = ends.decode(path)
                && (SUMMED.contains(&nth) || is_as_written(path, file, &ends, &footer)?)
            {
                let byte = ends.bytes.get(nth).copied();
                return Ok(ends.offset(nth).zip(byte).map(|(offset, byte)| Correction { offset, byte }));
            }
            flip(&mut ends, nth, bit);
        }
    }
    Ok(None)
}

fn flip(ends: &mut Ends, nth: usize, bit: u32) {
    if let Some(byte) = ends.bytes.get_mut(nth) {
        *byte ^= 1 << bit;
    }
}

/// Whether a file that begins as these ends do has the checksum that they tell.
fn is_as_written(path: &Path, file: &File, ends: &Ends, footer: &Footer) -> Result<bool, Error> {
    let mut sum = blake3::Hasher::new();
    sum.update(ends.header());
    let body = HEADER_LEN..footer.file_len - FOOTER_LEN;
    each_piece(path, file, body, |piece| {
        sum.update(piece);
        Ok(())
    })?;
    Ok(sum.finalize() == footer.body_checksum)
}
