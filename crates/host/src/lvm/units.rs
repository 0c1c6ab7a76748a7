//! Units of the block layer, each a type of its own.
//!
//! LVM speaks of bytes and extents, the kernel of sectors; a number that lost its unit on the way makes a
//! snapshot 512 times too small. Arithmetic is checked: an answer that does not fit is `None`, never a
//! wrapped number.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A number of 512-byte sectors: the kernel's unit, whatever the disk's own sector size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sectors(pub u64);

/// A number of extents, of the size that their volume group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extents(pub u64);

/// Hundredths of a percent, as LVM writes percentages: `29.65` is 2965.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u32);

const SECTOR: u64 = 512;

impl Bytes {
    /// The sum, where it fits.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// How many whole extents hold this many bytes.
    #[must_use]
    pub fn to_extents(self, extent_size: Self) -> Option<Extents> {
        (extent_size.0 > 0).then(|| Extents(self.0.div_ceil(extent_size.0)))
    }

    /// How many whole sectors hold this many bytes.
    #[must_use]
    pub fn to_sectors(self) -> Sectors {
        Sectors(self.0.div_ceil(SECTOR))
    }
}

impl Sectors {
    /// The same in bytes, where that fits.
    #[must_use]
    pub fn to_bytes(self) -> Option<Bytes> {
        self.0.checked_mul(SECTOR).map(Bytes)
    }

    /// What is left of this many after `used`; nothing where more was used.
    #[must_use]
    pub fn less(self, used: Self) -> Self {
        Self(self.0.saturating_sub(used.0))
    }
}

impl Extents {
    /// The same in bytes, where that fits.
    #[must_use]
    pub fn to_bytes(self, extent_size: Bytes) -> Option<Bytes> {
        self.0.checked_mul(extent_size.0).map(Bytes)
    }
}

impl Percent {
    /// Reads `29.65`, with no sign and exactly two decimals. LVM writes up to 100.00.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, hundredths) = text.split_once('.')?;
        let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !plain(hundredths) || hundredths.len() != 2 {
            return None;
        }
        let whole: u32 = whole.parse().ok()?;
        let hundredths: u32 = hundredths.parse().ok()?;
        let value = whole.checked_mul(100)?.checked_add(hundredths)?;
        (value <= 10_000).then_some(Self(value))
    }

    /// The same in whole per cent, rounded up.
    #[must_use]
    pub fn rounded_up(self) -> u64 {
        u64::from(self.0.div_ceil(100))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

impl fmt::Display for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} extents", self.0)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} %", self.0 / 100, self.0 % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_upwards_and_never_wrap() {
        let extent = Bytes(4 << 20);
        assert_eq!(Bytes(1).to_extents(extent), Some(Extents(1)));
        assert_eq!(Bytes(8 << 20).to_extents(extent), Some(Extents(2)));
        assert_eq!(Bytes(u64::MAX).to_extents(Bytes(1)), Some(Extents(u64::MAX)));
        assert_eq!(Bytes(1).to_extents(Bytes(0)), None);
        assert_eq!(Bytes(513).to_sectors(), Sectors(2));
        assert_eq!(Sectors(u64::MAX).to_bytes(), None);
        assert_eq!(Extents(u64::MAX).to_bytes(extent), None);
        assert_eq!(Extents(17).to_bytes(extent), Some(Bytes(68 << 20)));
        assert_eq!(Bytes(u64::MAX).plus(Bytes(1)), None);
        assert_eq!(Sectors(16).less(Sectors(20)), Sectors(0));
    }

    #[test]
    fn percentages_are_exact() {
        for (text, value) in [("0.00", 0), ("29.65", 2965), ("100.00", 10_000), ("00.01", 1)] {
            assert_eq!(Percent::parse(text), Some(Percent(value)), "{text}");
        }
        let hostile = [
            "",
            ".",
            "1",
            "1.",
            ".50",
            "1.5",
            "1.500",
            "-1.00",
            "+1.00",
            "100.01",
            "99999999999.00",
            "1,00",
            "nan",
            "1.00%",
            " 1.00",
            "1.0\u{0660}",
        ];
        for text in hostile {
            assert_eq!(Percent::parse(text), None, "{text:?}");
        }
        assert_eq!(Percent(2905).to_string(), "29.05 %");
    }
}
