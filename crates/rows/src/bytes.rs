//! Numbers as SQLite writes them: big-endian, and varints.

/// Two bytes at a place.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Four bytes at a place.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A varint at the beginning, and how many bytes it has: seven bits a byte, the highest first, and all eight of a ninth
/// (<https://sqlite.org/fileformat2.html#varint>).
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (nth, &byte) in bytes.iter().enumerate().take(8) {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, nth + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

/// A number of a page or of bytes in it, for slices. Every `usize` that Linux runs on holds it.
pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A length, for arithmetic.
pub(crate) fn long(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A length that is known to be short, for slices.
pub(crate) fn short(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_the_format_has_them() {
        let cases: [(&[u8], u64); 8] = [
            (&[0x00], 0),
            (&[0x7f], 127),
            (&[0x81, 0x00], 128),
            (&[0xff, 0x7f], 16_383),
            (&[0x81, 0x80, 0x00], 16_384),
            (&[0x80, 0x05], 5),
            (&[0xff; 9], u64::MAX),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff], 255),
        ];
        for (bytes, value) in cases {
            assert_eq!(varint(bytes), Some((value, bytes.len())), "{bytes:x?}");
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None, "{bytes:x?} is cut off");
        }
    }
}
