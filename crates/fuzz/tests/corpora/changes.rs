//! Changes of a few bytes, of the kinds that find something in parsers.

use proptest::prelude::*;
use proptest::sample::Index;

/// Numbers at which parsers go wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// One change, at a place that is a part of the whole.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Flip { at: Index, bit: u8 },
    Set { at: Index, byte: u8 },
    Number { at: Index, number: u64, width: usize, big_endian: bool },
    Insert { at: Index, bytes: Vec<u8> },
    Remove { at: Index, length: usize },
    Repeat { at: Index, length: usize },
    Zero { at: Index, length: usize },
    Truncate { at: Index },
}

/// Which of so many seeds, and what is changed in it.
pub(crate) fn changes(seeds: usize) -> impl Strategy<Value = (usize, Vec<Change>)> {
    let at = any::<Index>;
    let change = prop_oneof![
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip { at, bit }),
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set { at, byte }),
        3 => (at(), prop::sample::select(&NUMBERS[..]), prop::sample::select(vec![2, 4, 8]), any::<bool>())
            .prop_map(|(at, number, width, big_endian)| Change::Number { at, number, width, big_endian }),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        1 => (at(), 1..64_usize).prop_map(|(at, length)| Change::Remove { at, length }),
        1 => (at(), 1..64_usize).prop_map(|(at, length)| Change::Repeat { at, length }),
        1 => (at(), 1..4096_usize).prop_map(|(at, length)| Change::Zero { at, length }),
        1 => at().prop_map(|at| Change::Truncate { at }),
    ];
    (0..seeds, prop::collection::vec(change, 1..6))
}

/// The seed with its changes.
pub(crate) fn apply(seed: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for change in changes {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let end = |at: usize, length: usize| at.saturating_add(length).min(bytes.len());
        match change {
            Change::Flip { at, bit } => *at.get_mut(&mut bytes) ^= 1 << bit,
            Change::Set { at, byte } => *at.get_mut(&mut bytes) = *byte,
            Change::Number { at, number, width, big_endian } => {
                let at = at.index(bytes.len());
                let number = if *big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
                let digits = if *big_endian { &number[8 - width..] } else { &number[..*width] };
                bytes.iter_mut().skip(at).zip(digits).for_each(|(byte, digit)| *byte = *digit);
            }
            Change::Insert { at, bytes: new } => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Remove { at, length } => {
                let at = at.index(bytes.len());
                let end = end(at, *length);
                bytes.drain(at..end);
            }
            Change::Repeat { at, length } => {
                let at = at.index(bytes.len());
                let again = bytes[at..end(at, *length)].to_vec();
                bytes.splice(at..at, again);
            }
            Change::Zero { at, length } => {
                let at = at.index(bytes.len());
                let end = end(at, *length);
                bytes[at..end].fill(0);
            }
            Change::Truncate { at } => {
                let at = at.index(bytes.len());
                bytes.truncate(at);
            }
        }
    }
    bytes
}
