//! Damaged files: whatever is in a page, it is read, or refused with the page that is to blame.

use asat_rows::{Comparison, Difference, Error, Row, Value, Version};

use crate::common::dice::Dice;
use crate::common::history::History;
use crate::common::source::{Memory, changed};

/// How often a file of a history is damaged.
const ROUNDS: u64 = 12;

/// Reads all that differs, with every value; answers how many rows that were.
fn read_all(old: &Memory, new: &Memory, pages: &[u32]) -> Result<u64, Error> {
    let (before, now) = (Version::open("old", old)?, Version::open("new", new)?);
    let comparison = Comparison::new(&before, &now, pages.iter().copied())?;
    let mut rows = 0;
    for table in comparison.tables() {
        let differences = match comparison.rows(table) {
            Err(Error::NotComparable { .. }) => continue,
            differences => differences?,
        };
        for difference in differences {
            rows += 1;
            match difference? {
                Difference::Inserted(row) | Difference::Deleted(row) => read(&row)?,
                Difference::Updated { old, new, .. } => (read(&old)?, read(&new)?).1,
            }
        }
    }
    Ok(rows)
}

fn read(row: &Row<'_>) -> Result<(), Error> {
    for column in 0..row.definition().columns.len() {
        match row.value(column)? {
            Value::Text(text) => text.parts(&mut |_| Ok(()))?,
            Value::Blob(bytes) => bytes.parts(&mut |_| Ok(()))?,
            Value::Null | Value::Integer(_) | Value::Real(_) => {}
        }
    }
    Ok(())
}

/// Damages a file: bytes are set to anything, or one page gets the content of another, or a number in a page leads elsewhere.
fn damage(file: &mut Memory, page_len: usize, dice: &mut Dice) {
    let bytes = &mut file.bytes;
    let len = bytes.len() as u64;
    let at = |dice: &mut Dice, len: u64| usize::try_from(dice.below(len)).unwrap();
    match dice.below(4) {
        // The first bytes of a page say most of it.
        0 => {
            let page = at(dice, len) / page_len * page_len;
            let within = at(dice, 16);
            bytes[page + within] = u8::try_from(dice.below(256)).unwrap();
        }
        1 => {
            for _ in 0..=dice.below(30) {
                let place = at(dice, len);
                bytes[place] = u8::try_from(dice.below(256)).unwrap();
            }
        }
        2 => {
            let (from, to) = (at(dice, len) / page_len * page_len, at(dice, len) / page_len * page_len);
            bytes.copy_within(from..from + page_len, to);
        }
        _ => {
            let place = at(dice, len - 4);
            let number = u32::try_from(dice.below(len / page_len as u64 + 2)).unwrap();
            bytes[place..place + 4].copy_from_slice(&number.to_be_bytes());
        }
    }
}

#[test]
fn a_damaged_file_is_read_or_refused() {
    let (mut read, mut refused) = (0, 0);
    for seed in 0..80 {
        let history = History::new(seed);
        let mut dice = Dice::new(seed);
        let (old, new) = (Memory::open(&history.old), Memory::open(&history.new));
        for _ in 0..ROUNDS {
            let (mut old, mut new) = (Memory::of(old.bytes.clone()), Memory::of(new.bytes.clone()));
            let file = if dice.percent(50) { &mut old } else { &mut new };
            let page_len = usize::from(u16::from_be_bytes([file.bytes[16], file.bytes[17]]));
            damage(file, if page_len == 1 { 65536 } else { page_len }, &mut dice);
            let pages = changed(&old, &new);
            match read_all(&old, &new, &pages) {
                Ok(_) => read += 1,
                Err(Error::Damaged { page, what, .. }) => {
                    assert!(page > 0 && !what.is_empty(), "seed {seed}");
                    refused += 1;
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}

#[test]
fn a_file_that_ends_early_is_refused() {
    let history = History::new(1);
    let whole = Memory::open(&history.old);
    let page_len = usize::from(u16::from_be_bytes([whole.bytes[16], whole.bytes[17]])).max(512);
    let pages = whole.bytes.len() / page_len;
    let empty = Memory::of(Vec::new());
    for kept in [1, 2, pages / 2, pages - 1] {
        let cut = Memory::of(whole.bytes[..kept * page_len].to_vec());
        let found = read_all(&empty, &cut, &[]);
        assert!(matches!(found, Err(Error::Damaged { .. })), "{kept} of {pages} pages: {found:?}");
    }
}
