//! How files are laid out: their two ends, the header and the footer, and numbers, which are little endian if their length is fixed, and
//! LEB128 if small ones are many.
//!
//! The footer says where the parts of the file are and what they hash to, so a file that was cut short or
//! written over is noticed before anything of it is believed.

use std::ops::Range;

use crate::fingerprint::{hash, matches};

/// The format version that this build writes, and the only one that it reads.
pub(crate) const VERSION: u32 = 6;
/// The header's length: magic, format version.
pub(crate) const HEADER_LEN: u64 = 12;
/// The footer's length.
pub(crate) const FOOTER_LEN: u64 = 172;

const HEADER_MAGIC: [u8; 8] = *b"asat-seg";
const FOOTER_MAGIC: [u8; 8] = *b"asat-end";
/// The footer's bytes that its own checksum covers.
const COVERED: usize = 128;

/// The header's bytes.
pub(crate) fn header() -> Vec<u8> {
    [&HEADER_MAGIC[..], &VERSION.to_le_bytes()].concat()
}

/// What a footer records. The parts of a file lie one after another in this order, from the header to the footer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where the frames end, and blocks and descriptions begin.
    pub(crate) frames_end: u64,
    /// Where the directory begins.
    pub(crate) directory_at: u64,
    /// Where the manifest begins.
    pub(crate) manifest_at: u64,
    /// The whole file's length.
    pub(crate) file_len: u64,
    /// BLAKE3 of the directory.
    pub(crate) directory_hash: [u8; 32],
    /// BLAKE3 of the manifest.
    pub(crate) manifest_hash: [u8; 32],
    /// BLAKE3 of every byte before the footer. Nobody makes two files with the same, so it is the file's identity as well.
    pub(crate) body_hash: [u8; 32],
}

/// Why two ends are not those of a file that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is damaged, or no file of an archive.
    Damaged(String),
    /// It has another format version.
    Format(u32),
}

impl Footer {
    /// The directory's place.
    pub(crate) fn directory(&self) -> Range<u64> {
        self.directory_at..self.manifest_at
    }

    /// The manifest's place.
    pub(crate) fn manifest(&self) -> Range<u64> {
        self.manifest_at..self.file_len - FOOTER_LEN
    }

    /// The first bytes of what the directory hashes to: they tell a segment from another one of its number.
    pub(crate) fn identity(&self) -> u64 {
        self.directory_hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// What tells the file from every other one: the hash that the footer has of what it says.
    pub(crate) fn hash(&self) -> [u8; 32] {
        hash(self.encode().get(..COVERED).unwrap_or_default())
    }

    /// The footer's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(172);
        for number in [self.frames_end, self.directory_at, self.manifest_at, self.file_len] {
            bytes.extend(number.to_le_bytes());
        }
        for checksum in [self.directory_hash, self.manifest_hash, self.body_hash] {
            bytes.extend(checksum);
        }
        bytes.extend(hash(&bytes));
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(FOOTER_MAGIC);
        bytes
    }

    /// Reads both ends of a file that is `file_len` bytes long. What it returns fits into the file.
    pub(crate) fn decode(header: &[u8], footer: &[u8], file_len: u64) -> Result<Self, Unfit> {
        check_versions(header, footer)?;
        Self::decode_checked(footer, file_len)
    }

    /// Reads the end of a file that is `file_len` bytes long, without its beginning: that repeats what the end says, and would be one more
    /// request for a file that is somewhere else.
    pub(crate) fn decode_end(footer: &[u8], file_len: u64) -> Result<Self, Unfit> {
        check_versions(&header_of(footer), footer)?;
        Self::decode_checked(footer, file_len)
    }

    fn decode_checked(footer: &[u8], file_len: u64) -> Result<Self, Unfit> {
        let damaged = |what: &str| Unfit::Damaged(what.to_owned());
        let short = || damaged("its footer is too short");
        let covered = footer.get(..COVERED).ok_or_else(short)?;
        let (footer, checksum) = Self::take(Taker(footer)).ok_or_else(short)?;
        if !matches(covered, &checksum) {
            return Err(damaged("its footer does not match the footer's checksum"));
        }
        if footer.file_len != file_len {
            let what = format!("it is {file_len} bytes long, and was written with {}", footer.file_len);
            return Err(Unfit::Damaged(what));
        }
        let places = [HEADER_LEN, footer.frames_end, footer.directory_at, footer.manifest_at];
        let end = footer.manifest_at.checked_add(FOOTER_LEN);
        if places.is_sorted() && end.is_some_and(|end| end <= file_len) {
            Ok(footer)
        } else {
            Err(damaged("the places in its footer contradict each other"))
        }
    }

    /// Takes the fields of a footer, and what they must hash to.
    fn take(mut fields: Taker<'_>) -> Option<(Self, [u8; 32])> {
        let footer = Self {
            frames_end: u64::from_le_bytes(fields.array()?),
            directory_at: u64::from_le_bytes(fields.array()?),
            manifest_at: u64::from_le_bytes(fields.array()?),
            file_len: u64::from_le_bytes(fields.array()?),
            directory_hash: fields.array()?,
            manifest_hash: fields.array()?,
            body_hash: fields.array()?,
        };
        Some((footer, fields.array()?))
    }
}

/// The header of a file that ends like this.
fn header_of(footer: &[u8]) -> Vec<u8> {
    let ending = footer.get(footer.len().saturating_sub(12)..).unwrap_or_default();
    [&HEADER_MAGIC[..], ending.get(..4).unwrap_or_default()].concat()
}

/// Tells a foreign file, a damaged one, and one of another format apart by the bytes that keep their meaning: the first 12 and the last 12.
fn check_versions(header: &[u8], footer: &[u8]) -> Result<(), Unfit> {
    let damaged = |what: &str| Err(Unfit::Damaged(what.to_owned()));
    let mut fields = Taker(header);
    let (magic, written) = (fields.array::<8>(), fields.array().map(u32::from_le_bytes));
    let mut fields = Taker(footer.get(footer.len().saturating_sub(12)..).unwrap_or_default());
    let (repeated, end_magic) = (fields.array().map(u32::from_le_bytes), fields.array::<8>());
    if magic != Some(HEADER_MAGIC) {
        return damaged("it does not begin as a file of an archive does");
    }
    if end_magic != Some(FOOTER_MAGIC) {
        return damaged("it does not end as a file of an archive does: cut short, or overwritten");
    }
    match (written, repeated) {
        (Some(found), Some(again)) if found != again => {
            Err(Unfit::Damaged(format!("it names two format versions, {found} and {again}")))
        }
        (Some(VERSION), _) => Ok(()),
        (Some(found @ 1..), _) => Err(Unfit::Format(found)),
        _ => damaged("its format version does not exist"),
    }
}

/// Writes numbers in groups of seven bits, lowest first, the high bit saying that more follow (LEB128).
pub(crate) fn put_varints(bytes: &mut Vec<u8>, values: impl IntoIterator<Item = u64>) {
    for mut value in values {
        while value >= 0x80 {
            bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        bytes.push(value.to_le_bytes()[0]);
    }
}

/// Takes what was written from the front of a slice. Each step is `None` where there is not enough, or what cannot have been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

impl Taker<'_> {
    /// A number of at most ten groups, in its one spelling.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        if let Some((&byte, rest)) = self.0.split_first()
            && byte < 0x80
        {
            // Most are as short.
            self.0 = rest;
            return Some(u64::from(byte));
        }
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let group = u64::from(byte & 0x7f);
            value |= group.checked_shl(shift).filter(|shifted| shifted >> shift == group)?;
            if byte & 0x80 == 0 {
                // A last group of zero would be a second spelling of the same number.
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    /// The same, where it has to fit.
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// So many bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    /// As many items as the number before them says.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.varint()?).map(|_| item(self)).collect()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A slice's length as files count.
pub(crate) fn len_of<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

/// A length in a file as memory counts: what does not fit is refused where it is asked for.
pub(crate) fn in_memory(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_has_one_spelling(value: u64, tail in prop::collection::vec(any::<u8>(), 0..3)) {
            let mut bytes = Vec::new();
            put_varints(&mut bytes, [value]);
            let written = bytes.len();
            bytes.extend(&tail);
            let mut taker = Taker(&bytes);
            prop_assert_eq!(taker.varint(), Some(value));
            prop_assert_eq!(taker.0, tail.as_slice());
            bytes[written - 1] |= 0x80;
            bytes.insert(written, 0);
            prop_assert_eq!(Taker(&bytes).varint(), None, "a superfluous group");
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
            let mut taker = Taker(&bytes);
            while let Some(value) = taker.varint() {
                let mut again = Vec::new();
                put_varints(&mut again, [value]);
                let end = bytes.len() - taker.0.len();
                prop_assert_eq!(&again, &bytes[end - again.len()..end]);
            }
        }
    }
}
