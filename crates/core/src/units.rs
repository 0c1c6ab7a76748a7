//! Units: quantities that must not be mixed up, and the ranges in which they make sense.

use std::fmt;

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

/// The content fingerprint of a version: XXH3-128 over its page size, its page count and the XXH3-128 of each
/// page in order. Equal contents have equal fingerprints on every machine. It finds damage and change; it is
/// no defence against somebody who crafts a collision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(pub u128);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(&text, 16) {
            Ok(value) if hex => Ok(Self(value)),
            _ => Err("a fingerprint is 32 hexadecimal digits".to_owned()),
        }
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
    fn a_fingerprint_is_read_as_it_is_written() {
        for value in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef] {
            let fingerprint = Fingerprint(value);
            assert_eq!(Fingerprint::try_from(fingerprint.to_string()), Ok(fingerprint));
        }
        for text in ["", "0", &"0".repeat(31), &"g".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert!(Fingerprint::try_from((*text).to_owned()).is_err(), "{text:?}");
        }
    }
}
