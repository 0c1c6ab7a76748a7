//! Units: quantities that must not be mixed up, and the ranges in which they make sense.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The size of a database page in bytes: a power of two from 512 to 65536
/// (SQLite file format, section 1.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct PageSize(u32);

impl PageSize {
    /// Takes a size in bytes; `None` where SQLite has no such page size.
    #[must_use]
    pub fn new(bytes: u32) -> Option<Self> {
        ((512..=65536).contains(&bytes) && bytes.is_power_of_two()).then_some(Self(bytes))
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// The size in bytes, for slices.
    #[must_use]
    pub fn as_usize(self) -> usize {
        // 65536 fits every `usize` that Linux runs on.
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl TryFrom<u32> for PageSize {
    type Error = String;
    fn try_from(bytes: u32) -> Result<Self, String> {
        Self::new(bytes)
            .ok_or_else(|| format!("{bytes} is not a page size: a power of two from 512 to 65536"))
    }
}

impl From<PageSize> for u32 {
    fn from(size: PageSize) -> Self {
        size.0
    }
}

/// The content fingerprint of a version: BLAKE3 over its page size, its page count and the BLAKE3 of each page in order. Equal
/// contents have equal fingerprints on every machine, and nobody can make two contents that have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// What a written fingerprint begins with: the algorithm.
    pub const ALGORITHM: &str = "blake3:";

    /// A fingerprint for models, which tell contents apart by numbers.
    #[must_use]
    pub fn of_model(content: u128) -> Self {
        let mut bytes = [0; 32];
        bytes[16..].copy_from_slice(&content.to_be_bytes());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALGORITHM)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_fingerprint =
            || format!("a fingerprint is {}, and 64 lower-case hexadecimal digits", Self::ALGORITHM);
        let digits = text.strip_prefix(Self::ALGORITHM).filter(|digits| digits.len() == 64);
        let (pairs, _) = digits.ok_or_else(no_fingerprint)?.as_bytes().as_chunks();
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)
                .zip(digit(*low))
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(no_fingerprint)?;
        }
        Ok(Self(bytes))
    }
}

/// What a lower-case hexadecimal digit stands for.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_those_of_sqlite() {
        let taken: Vec<u32> = (0..=70_000).filter(|&bytes| PageSize::new(bytes).is_some()).collect();
        assert_eq!(taken, [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]);
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_written_and_says_how_it_was_made() {
        for value in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef] {
            let fingerprint = Fingerprint::of_model(value);
            assert_eq!(Fingerprint::try_from(fingerprint.to_string()), Ok(fingerprint));
        }
        let (written, digits) = (Fingerprint::of_model(0xab).to_string(), "0".repeat(62));
        assert_eq!(written, format!("blake3:{digits}ab"));
        for text in [
            String::new(),
            "0".repeat(32),
            format!("{digits}ab"),
            format!("blake3:{digits}a"),
            format!("blake3:{digits}AB"),
            format!("blake3:{digits}+b"),
            format!("blake3:{digits}abc"),
            format!("xxh3:{digits}ab"),
            format!("BLAKE3:{digits}ab"),
        ] {
            assert!(Fingerprint::try_from(text.clone()).is_err(), "{text:?}");
        }
    }
}
