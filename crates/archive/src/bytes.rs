//! Numbers as they are written: little endian where their length is fixed, LEB128 where small ones are many.

/// Writes a number in groups of seven bits, lowest first, the high bit saying that more follow (LEB128).
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
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

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A slice's length as files count.
pub(crate) fn len_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
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
            put_varint(&mut bytes, value);
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
                put_varint(&mut again, value);
                let end = bytes.len() - taker.0.len();
                prop_assert_eq!(&again, &bytes[end - again.len()..end]);
            }
        }
    }
}
