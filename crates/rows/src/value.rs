//! Values of columns.

use std::borrow::Cow;

use crate::collation::KeyValue;
use crate::error::Error;
use crate::payload::Payload;
use crate::version::{Encoding, Version};

/// A value of a column. Long texts and blobs are not in memory: they are read by parts.
#[derive(Clone, Debug)]
pub enum Value<'r> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(Text<'r>),
    /// A blob.
    Blob(Bytes<'r>),
}

impl Value<'_> {
    /// The value as one of a key, if it is in memory.
    pub(crate) fn as_key(&self) -> Option<KeyValue> {
        Some(match self {
            Self::Null => KeyValue::Null,
            Self::Integer(number) => KeyValue::Integer(*number),
            Self::Real(number) => KeyValue::Real(*number),
            Self::Text(text) => KeyValue::Text(text.stored.held()?.to_vec()),
            Self::Blob(bytes) => KeyValue::Blob(bytes.held()?.to_vec()),
        })
    }

    /// Whether two values are the same: of the same type, with the same content.
    ///
    /// # Errors
    /// Where a long one cannot be read.
    pub fn is_same(&self, other: &Self) -> Result<bool, Error> {
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Integer(one), Self::Integer(other)) => one == other,
            (Self::Real(one), Self::Real(other)) => one.total_cmp(other).is_eq() || one == other,
            (Self::Text(one), Self::Text(other)) if one.encoding == other.encoding => {
                one.stored.is_same(&other.stored)?
            }
            (Self::Text(one), Self::Text(other)) => one.plain() == other.plain() && one.plain().is_some(),
            (Self::Blob(one), Self::Blob(other)) => one.is_same(other)?,
            _ => false,
        })
    }
}

/// A text, as it is stored.
#[derive(Clone, Debug)]
pub struct Text<'r> {
    /// Its bytes.
    pub stored: Bytes<'r>,
    /// What they mean.
    pub encoding: Encoding,
}

impl<'r> Text<'r> {
    /// The text, if it is in memory and well-formed.
    #[must_use]
    pub fn plain(&self) -> Option<Cow<'r, str>> {
        decoded(self.stored.held()?, self.encoding)
    }

    /// Whether it is what its encoding allows.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_well_formed(&self) -> Result<bool, Error> {
        if self.stored.held().is_some() {
            return Ok(self.plain().is_some());
        }
        let (mut rest, mut is_well_formed) = (Vec::new(), true);
        self.stored.parts(&mut |part| {
            rest.extend_from_slice(part);
            let whole = whole_characters(&rest, self.encoding);
            is_well_formed &= decoded(rest.get(..whole).unwrap_or_default(), self.encoding).is_some();
            rest.drain(..whole);
            Ok(())
        })?;
        Ok(is_well_formed && rest.is_empty())
    }

    /// Gives the text by parts, each of whole characters. What is not well-formed becomes U+FFFD.
    ///
    /// # Errors
    /// Where it cannot be read, and what `give` fails with.
    pub fn parts(&self, give: &mut dyn FnMut(&str) -> Result<(), Error>) -> Result<(), Error> {
        let mut rest = Vec::new();
        self.stored.parts(&mut |part| {
            rest.extend_from_slice(part);
            let whole = whole_characters(&rest, self.encoding);
            let text = self.lossy(rest.get(..whole).unwrap_or_default());
            rest.drain(..whole);
            give(&text)
        })?;
        if rest.is_empty() { Ok(()) } else { give(&self.lossy(&rest)) }
    }

    fn lossy(&self, bytes: &[u8]) -> String {
        let units = |read: fn([u8; 2]) -> u16| {
            let (pairs, odd) = bytes.as_chunks();
            let text = String::from_utf16_lossy(&pairs.iter().copied().map(read).collect::<Vec<_>>());
            if odd.is_empty() { text } else { text + "\u{fffd}" }
        };
        match self.encoding {
            Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Utf16Le => units(u16::from_le_bytes),
            Encoding::Utf16Be => units(u16::from_be_bytes),
        }
    }
}

/// How many of the bytes are whole characters, or will never become one.
fn whole_characters(bytes: &[u8], encoding: Encoding) -> usize {
    let len = bytes.len();
    let even = len - len % 2;
    let high = match encoding {
        Encoding::Utf8 => {
            // The last character may be cut off: at most three bytes of it are there.
            let begins = |back: &usize| bytes.get(len - back).is_some_and(|byte| byte & 0xc0 != 0x80);
            return match (1..=len.min(3)).find(begins) {
                Some(back) => match str::from_utf8(bytes.get(len - back..).unwrap_or_default()) {
                    Err(error) if error.error_len().is_none() => len - back,
                    _ => len,
                },
                None => len,
            };
        }
        Encoding::Utf16Le => bytes.get(even.wrapping_sub(1)),
        Encoding::Utf16Be => bytes.get(even.wrapping_sub(2)),
    };
    // A high surrogate at the end waits for the low one.
    if high.is_some_and(|byte| byte & 0xfc == 0xd8) { even - 2 } else { even }
}

/// Bytes as a text; `None` if they are not well-formed.
fn decoded(bytes: &[u8], encoding: Encoding) -> Option<Cow<'_, str>> {
    match encoding {
        Encoding::Utf8 => str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Encoding::Utf16Le => utf16(bytes, u16::from_le_bytes),
        Encoding::Utf16Be => utf16(bytes, u16::from_be_bytes),
    }
}

fn utf16<'r>(bytes: &[u8], read: fn([u8; 2]) -> u16) -> Option<Cow<'r, str>> {
    let (pairs, odd) = bytes.as_chunks();
    let units: Vec<u16> = pairs.iter().copied().map(read).collect();
    odd.is_empty().then(|| String::from_utf16(&units).ok().map(Cow::Owned)).flatten()
}

/// Bytes in memory, or in the pages of a version.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'r> {
    pub(crate) source: Source<'r>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'r> {
    Held(&'r [u8]),
    Far { version: &'r Version<'r>, payload: &'r Payload, at: u64, len: u64 },
}

impl<'r> Bytes<'r> {
    pub(crate) fn of(held: &'r [u8]) -> Self {
        Self { source: Source::Held(held) }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self.source {
            Source::Held(bytes) => crate::bytes::long(bytes.len()),
            Source::Far { len, .. } => len,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are in memory: those that lie in the first mebibyte of their row are.
    #[must_use]
    pub fn held(&self) -> Option<&'r [u8]> {
        match self.source {
            Source::Held(bytes) => Some(bytes),
            Source::Far { .. } => None,
        }
    }

    /// Gives the bytes by parts.
    ///
    /// # Errors
    /// Where they cannot be read, and what `give` fails with.
    pub fn parts(&self, give: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        match self.source {
            Source::Held(bytes) => give(bytes),
            Source::Far { version, payload, at, len } => {
                let mut windows = payload.windows(version, at, len);
                loop {
                    match windows.next()?.as_slice() {
                        [] => return Ok(()),
                        window => give(window)?,
                    }
                }
            }
        }
    }

    fn is_same(&self, other: &Self) -> Result<bool, Error> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match (self.source, other.source) {
            (Source::Held(one), Source::Held(other)) => Ok(one == other),
            (Source::Held(held), _) => other.is_all_of(held),
            (_, Source::Held(held)) => self.is_all_of(held),
            (
                Source::Far { version, payload, at, len },
                Source::Far { version: other_version, payload: other, at: other_at, .. },
            ) => {
                let mut one = payload.windows(version, at, len);
                let mut other = other.windows(other_version, other_at, len);
                loop {
                    let window = one.next()?;
                    if window != other.next()? || window.is_empty() {
                        return Ok(window.is_empty());
                    }
                }
            }
        }
    }

    /// Whether these bytes are the same as those in memory.
    fn is_all_of(&self, held: &[u8]) -> Result<bool, Error> {
        let (mut rest, mut is_same) = (held, true);
        self.parts(&mut |part| {
            match rest.strip_prefix(part) {
                Some(after) => rest = after,
                None => is_same = false,
            }
            Ok(())
        })?;
        Ok(is_same)
    }
}
