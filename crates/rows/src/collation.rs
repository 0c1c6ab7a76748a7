//! The order of keys (<https://sqlite.org/datatype3.html#sort_order>).

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::version::Encoding;

/// By what texts are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// By their bytes, as they are stored.
    Binary,
    /// Letters of ASCII count as small ones.
    NoCase,
    /// Spaces at the end do not count.
    RTrim,
}

impl Collation {
    /// One of SQLite's own by its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match () {
            () if is("binary") => Some(Self::Binary),
            () if is("nocase") => Some(Self::NoCase),
            () if is("rtrim") => Some(Self::RTrim),
            () => None,
        }
    }

    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Binary => "BINARY",
            Self::NoCase => "NOCASE",
            Self::RTrim => "RTRIM",
        }
    }

    fn compare(self, one: &[u8], other: &[u8], encoding: Encoding) -> Ordering {
        match self {
            Self::Binary => one.cmp(other),
            Self::NoCase => no_case(&utf8(one, encoding), &utf8(other, encoding)),
            Self::RTrim => trimmed(&utf8(one, encoding)).cmp(trimmed(&utf8(other, encoding))),
        }
    }
}

/// SQLite's own collations but `BINARY` are defined for UTF-8 alone.
fn utf8(stored: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    let read = match encoding {
        Encoding::Utf8 => return Cow::Borrowed(stored),
        Encoding::Utf16Le => u16::from_le_bytes,
        Encoding::Utf16Be => u16::from_be_bytes,
    };
    let units: Vec<u16> = stored.as_chunks().0.iter().copied().map(read).collect();
    Cow::Owned(String::from_utf16_lossy(&units).into_bytes())
}

/// As `sqlite3_strnicmp` compares: up to the end of the shorter one, or up to a NUL in both; then the shorter one comes first.
fn no_case(one: &[u8], other: &[u8]) -> Ordering {
    for (one_byte, other_byte) in one.iter().zip(other) {
        match one_byte.to_ascii_lowercase().cmp(&other_byte.to_ascii_lowercase()) {
            Ordering::Equal if *one_byte == 0 => break,
            Ordering::Equal => {}
            differs => return differs,
        }
    }
    one.len().cmp(&other.len())
}

fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// A value of a key, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyValue {
    /// NULL, which comes first.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// A text, in the encoding of the store.
    Text(Vec<u8>),
    /// A blob, which comes last.
    Blob(Vec<u8>),
}

impl KeyValue {
    /// Which of two comes first.
    pub(crate) fn compare(&self, other: &Self, collation: Collation, encoding: Encoding) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            (Self::Real(one), Self::Real(other)) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
            (Self::Integer(one), Self::Real(other)) => integer_with_real(*one, *other),
            (Self::Real(one), Self::Integer(other)) => integer_with_real(*other, *one).reverse(),
            (Self::Text(one), Self::Text(other)) => collation.compare(one, other, encoding),
            (Self::Blob(one), Self::Blob(other)) => one.cmp(other),
            _ => self.class().cmp(&other.class()),
        }
    }

    fn class(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Integer(_) | Self::Real(_) => 1,
            Self::Text(_) => 2,
            Self::Blob(_) => 3,
        }
    }
}

/// Compares without losing digits, as `sqlite3IntFloatCompare` does.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is in range, or exact")]
fn integer_with_real(integer: i64, real: f64) -> Ordering {
    if real < -9_223_372_036_854_775_808.0 {
        Ordering::Greater
    } else if real >= 9_223_372_036_854_775_808.0 {
        Ordering::Less
    } else {
        let by_whole = integer.cmp(&(real as i64));
        by_whole.then_with(|| (integer as f64).partial_cmp(&real).unwrap_or(Ordering::Equal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_without_losing_digits() {
        assert_eq!(integer_with_real(i64::MAX, 9_223_372_036_854_775_807.0), Ordering::Less);
        assert_eq!(integer_with_real(9_007_199_254_740_993, 9_007_199_254_740_992.0), Ordering::Greater);
        assert_eq!(integer_with_real(-1, -1.5), Ordering::Greater);
        assert_eq!(integer_with_real(3, 3.0), Ordering::Equal);
    }

    #[test]
    fn texts_are_compared_as_sqlite_compares_them() {
        let order = |collation: Collation, one: &str, other: &str| {
            collation.compare(one.as_bytes(), other.as_bytes(), Encoding::Utf8)
        };
        assert_eq!(order(Collation::NoCase, "aB", "Ab"), Ordering::Equal);
        assert_eq!(order(Collation::NoCase, "a_", "aB"), Ordering::Less);
        assert_eq!(order(Collation::NoCase, "a\0b", "a\0c"), Ordering::Equal);
        assert_eq!(order(Collation::NoCase, "Ä", "ä"), Ordering::Less);
        assert_eq!(order(Collation::RTrim, "a  ", "a"), Ordering::Equal);
        assert_eq!(order(Collation::Binary, "a ", "a"), Ordering::Greater);
    }
}
