//! Corrects a single flipped bit in what lies around a layer's frames: header, index, metadata and footer.
//!
//! Each of them has a checksum of 128 bits, so the flip that makes it match is the one that happened, and every flip is
//! tried. The byte is written where it stands: as it was, the layer was of no use, so a crash leaves nothing worse.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use twox_hash::xxhash3_128::Hasher;

use crate::archive::Inner;
use crate::chain::{Layer, lock};
use crate::codec::Decoder;
use crate::error::Error;
use crate::fingerprint::page_hash;
use crate::footer::{FOOTER_LEN, Footer, HEADER_LEN};
use crate::pack::{Ends, Pack, each_piece, read_range};

/// In nothing longer is every flip tried: the time grows with the square of the length, and is ten seconds or so at this one, which is
/// an index of 13,800 pages. In a longer index, those are tried that are near to where its entries do not agree with the frames.
const MOST_TRIED_BYTES: usize = 256 << 10;
/// How far before the place at which an index does not agree with the frames the flip may be: differences agree with anything.
const BEFORE_TROUBLE: usize = 512;
/// An entry is not longer.
const ENTRY_MOST_BYTES: usize = 26;
/// Those bytes of both ends that the footer's own checksum vouches for, and the checksum. Which of the others is right, only the
/// whole file can tell: they say the format twice.
const SUMMED: Range<usize> = 12..116;

/// A byte as it was written.
struct Correction {
    offset: u64,
    byte: u8,
}

impl Inner {
    /// Corrects a flipped bit around the frames of a layer; answers its file. `None`: it is not one bit, or the layer is gone
    /// meanwhile.
    pub(crate) fn correct(&self, layer: &Layer) -> Result<Option<PathBuf>, Error> {
        let name = layer.name().text();
        let path = self.folder.path().join(&name);
        let file = self.folder.read(&name).map_err(|source| Error::io("open", &path, source))?;
        let Some(Correction { offset, byte }) = find(&path, &file)? else { return Ok(None) };
        let _upkeep = lock(&self.upkeep);
        // It may have been given up meanwhile, which changes its name, or be gone.
        let Some(now) = self.layer(layer.from, layer.number) else { return Ok(None) };
        self.folder.put_byte(&now.name().text(), offset, byte)?;
        Ok(Some(self.folder.path().join(now.name().text())))
    }
}

/// The byte of a file that was written otherwise, where one bit of it accounts for what is wrong around the frames.
fn find(path: &Path, file: &File) -> Result<Option<Correction>, Error> {
    let at = |source| Error::io("read", path, source);
    let ends = Ends::read(path, file)?;
    let footer = match ends.decode(path) {
        Ok(footer) => footer,
        Err(Error::Damaged { .. }) => return find_in_ends(path, file, ends),
        Err(error) => return Err(error),
    };
    let meta_offset = footer.index_offset + footer.index_len;
    let mut meta = read_range(path, file, meta_offset, footer.meta_len)?;
    if Hasher::oneshot(&meta) != footer.meta_checksum {
        let places = 0..tries(meta.len());
        return Ok(flip_back(&mut meta, places, footer.meta_checksum, meta_offset));
    }
    let mut index = read_range(path, file, footer.index_offset, footer.index_len)?;
    if Hasher::oneshot(&index) == footer.index_checksum {
        return Ok(None);
    }
    let pack = Pack::read_ends(path.to_owned(), file.try_clone().map_err(at)?)?;
    let (near, all) = (near_trouble(&pack, index.clone())?, 0..tries(index.len()));
    let mut try_in = |places| flip_back(&mut index, places, footer.index_checksum, footer.index_offset);
    Ok(try_in(near).or_else(|| try_in(all)))
}

/// In how many of so many bytes flips may be tried: in all, or else in none.
fn tries(len: usize) -> usize {
    if len <= MOST_TRIED_BYTES { len } else { 0 }
}

/// Where in an index the flip may be because of which it does not agree with the frames that hold whole pages.
fn near_trouble(pack: &Pack, index: Vec<u8>) -> Result<Range<usize>, Error> {
    let mut decoder = Decoder::new()?;
    let (mut frame, mut page) = (Vec::new(), vec![0; pack.meta().page_size.as_usize()]);
    let trouble = pack.index_of(index).trouble(|entry| {
        frame.resize(usize::try_from(entry.len).unwrap_or(usize::MAX), 0);
        !entry.encoding.is_whole()
            || (pack.read_at(entry.offset, &mut frame).is_ok()
                && decoder.decode(entry.encoding, &frame, &mut page)
                && page_hash(&page) == entry.hash)
    });
    Ok(trouble.map_or(0..0, |at| at.saturating_sub(BEFORE_TROUBLE)..at + ENTRY_MOST_BYTES))
}

/// The byte at one of these places that makes bytes, which stand at this offset, match their checksum with a bit flipped.
fn flip_back(bytes: &mut [u8], places: Range<usize>, checksum: u128, offset: u64) -> Option<Correction> {
    for nth in places.start..places.end.min(bytes.len()) {
        for bit in 0..8 {
            *bytes.get_mut(nth)? ^= 1 << bit;
            if Hasher::oneshot(bytes) == checksum {
                let byte = bytes.get(nth).copied()?;
                return Some(Correction { offset: offset + u64::try_from(nth).ok()?, byte });
            }
            *bytes.get_mut(nth)? ^= 1 << bit;
        }
    }
    None
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
    let mut sum = Hasher::new();
    sum.write(ends.header());
    let body = HEADER_LEN..footer.file_len - FOOTER_LEN;
    each_piece(path, file, body, |piece| {
        sum.write(piece);
        Ok(())
    })?;
    Ok(sum.finish_128() == footer.body_checksum)
}
