//! Records: the types of their fields, then the fields (<https://sqlite.org/fileformat2.html#record_format>).

use crate::bytes::{long, short, varint};

/// SQLite has no table of more columns (`SQLITE_MAX_COLUMN`, at most); each type is at most nine bytes long.
const MOST_HEADER_BYTES: u64 = 32767 * 9 + 9;

/// The type of a field, and where in the record it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) serial: u64,
    pub(crate) at: u64,
}

impl Field {
    /// How many bytes it has.
    pub(crate) fn len(self) -> u64 {
        match self.serial {
            1..=4 => self.serial,
            5 => 6,
            6 | 7 => 8,
            12.. => (self.serial - 12) / 2,
            _ => 0,
        }
    }
}

/// Finds the fields of a record that begins with these bytes and is `len` long; at most `most` of them. What is wrong with it, else.
pub(crate) fn fields(held: &[u8], len: u64, most: usize) -> Result<Vec<Field>, &'static str> {
    let (header_len, begin) = varint(held).ok_or("a record has no header")?;
    if header_len > len.min(MOST_HEADER_BYTES) || header_len < long(begin) {
        return Err("the header of a record is longer than the record");
    }
    let mut rest = held.get(begin..short(header_len)).ok_or("the header of a record is cut off")?;
    let (mut fields, mut at) = (Vec::new(), header_len);
    while !rest.is_empty() && fields.len() < most {
        let (serial, bytes) = varint(rest).ok_or("the header of a record is cut off")?;
        if matches!(serial, 10 | 11) {
            return Err("a field of a record is of a type that there is not");
        }
        let field = Field { serial, at };
        at =
            at.checked_add(field.len()).filter(|&end| end <= len).ok_or("a field lies outside its record")?;
        fields.push(field);
        rest = rest.get(bytes..).unwrap_or_default();
    }
    Ok(fields)
}

/// The number in a field of one of the types 1 to 6, 8 and 9.
pub(crate) fn integer(serial: u64, bytes: &[u8]) -> i64 {
    match serial {
        8 => 0,
        9 => 1,
        _ => {
            let is_negative = bytes.first().is_some_and(|&byte| byte >= 0x80);
            let start = if is_negative { -1 } else { 0 };
            bytes.iter().fold(start, |value: i64, &byte| value << 8 | i64::from(byte))
        }
    }
}

/// The number in a field of type 7.
pub(crate) fn real(bytes: &[u8]) -> f64 {
    bytes.first_chunk().map_or(0.0, |bytes| f64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_lengths_are_read() {
        assert_eq!(integer(1, &[0xff]), -1);
        assert_eq!(integer(2, &[0x80, 0]), -32768);
        assert_eq!(integer(3, &[0x7f, 0xff, 0xff]), 8_388_607);
        assert_eq!(integer(6, &i64::MIN.to_be_bytes()), i64::MIN);
        assert_eq!((integer(8, &[]), integer(9, &[])), (0, 1));
    }

    #[test]
    fn a_record_that_lies_about_its_lengths_is_refused() {
        assert_eq!(fields(&[2, 9], 2, 9).unwrap(), [Field { serial: 9, at: 2 }]);
        for (held, len) in
            [(&[][..], 0), (&[3, 1], 2), (&[2, 1], 2), (&[2, 10], 2), (&[0], 1), (&[2, 0x80], 9)]
        {
            assert!(fields(held, len, 9).is_err(), "{held:?}");
        }
    }
}
