//! Pages of b-trees, and the cells in them (<https://sqlite.org/fileformat2.html#b_tree_pages>).

use std::ops::Range;

use crate::bytes::{long, short, u16_at, u32_at, varint};
use crate::version::first_byte;

/// SQLite itself follows no more pages from a root to a leaf (`BTCURSOR_MAX_DEPTH`).
pub(crate) const MOST_LEVELS: usize = 20;

/// What a page of a b-tree holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    InteriorIndex,
    InteriorTable,
    LeafIndex,
    LeafTable,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::InteriorIndex => "an interior page of an index",
            Self::InteriorTable => "an interior page of a table",
            Self::LeafIndex => "a leaf of an index",
            Self::LeafTable => "a leaf of a table",
        })
    }
}

impl Kind {
    pub(crate) fn is_leaf(self) -> bool {
        matches!(self, Self::LeafIndex | Self::LeafTable)
    }

    /// Whether rows are found by rowid. In the other kind all cells hold rows, those of interior pages too.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::InteriorTable | Self::LeafTable)
    }
}

/// A page of a b-tree.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    bytes: Vec<u8>,
    usable: usize,
    count: usize,
    /// Where the places of the cells begin.
    places: usize,
    right: u32,
}

/// One cell. Of a cell of [`Kind::InteriorTable`] only the child and the rowid mean anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The child left of it, on interior pages.
    pub(crate) left: u32,
    /// The rowid, in trees of tables.
    pub(crate) rowid: i64,
    /// How long the payload is in all.
    pub(crate) len: u64,
    /// Where on the page it begins.
    pub(crate) local: Range<usize>,
    /// The page where it goes on, or 0.
    pub(crate) overflow: u32,
}

impl Node {
    pub(crate) fn new(number: u32, bytes: Vec<u8>, usable: usize) -> Result<Self, String> {
        let start = first_byte(number);
        let kind = match bytes.get(start) {
            Some(2) => Kind::InteriorIndex,
            Some(5) => Kind::InteriorTable,
            Some(10) => Kind::LeafIndex,
            Some(13) => Kind::LeafTable,
            Some(other) => {
                return Err(format!("its first byte is {other}, and no page of a b-tree has that"));
            }
            None => return Err("it is too short for a page of a b-tree".to_owned()),
        };
        let places = start + if kind.is_leaf() { 8 } else { 12 };
        let count = u16_at(&bytes, start + 3).map_or(0, usize::from);
        let right = if kind.is_leaf() { 0 } else { u32_at(&bytes, start + 8).unwrap_or_default() };
        if places + 2 * count > usable.min(bytes.len()) {
            return Err(format!("it says that it has {count} cells, and there is no room for them"));
        }
        Ok(Self { number, kind, bytes, usable, count, places, right })
    }

    /// How many cells there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of it.
    pub(crate) fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// The child left of a cell, or right of them all.
    pub(crate) fn child(&self, nth: usize) -> Result<u32, String> {
        if nth == self.count {
            return Ok(self.right);
        }
        self.place(nth).and_then(|at| u32_at(self.used(), at)).ok_or_else(|| outside(nth))
    }

    /// All children, from left to right.
    pub(crate) fn children(&self) -> Result<Vec<u32>, String> {
        (0..=self.count).map(|nth| self.child(nth)).collect()
    }

    /// A cell by its place among them.
    pub(crate) fn cell(&self, nth: usize) -> Result<Cell, String> {
        self.place(nth).and_then(|at| self.parse(at)).ok_or_else(|| outside(nth))
    }

    fn used(&self) -> &[u8] {
        self.bytes.get(..self.usable).unwrap_or_default()
    }

    fn place(&self, nth: usize) -> Option<usize> {
        let at = usize::from(u16_at(&self.bytes, self.places + 2 * nth)?);
        (nth < self.count && at >= self.places + 2 * self.count).then_some(at)
    }

    fn parse(&self, at: usize) -> Option<Cell> {
        let (used, mut at) = (self.used(), at);
        let mut left = 0;
        if !self.kind.is_leaf() {
            left = u32_at(used, at)?;
            at += 4;
        }
        let mut len = 0;
        if self.kind != Kind::InteriorTable {
            let (value, bytes) = varint(used.get(at..)?)?;
            (len, at) = (value, at + bytes);
        }
        let mut rowid = 0;
        if self.kind.is_table() {
            let (value, bytes) = varint(used.get(at..)?)?;
            (rowid, at) = (value.cast_signed(), at + bytes);
        }
        let here = if self.kind == Kind::InteriorTable { 0 } else { self.local_len(len) };
        let local = at..at + here;
        used.get(local.clone())?;
        let overflow = if long(here) < len { u32_at(used, local.end)? } else { 0 };
        Some(Cell { left, rowid, len, local, overflow })
    }

    /// How much of a payload lies on the page itself (<https://sqlite.org/fileformat2.html#b_tree_pages>, "X", "M" and "K").
    fn local_len(&self, len: u64) -> usize {
        let usable = self.usable;
        let most = if self.kind.is_table() { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
        if len <= long(most) {
            return short(len);
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let whole = least + short((len - long(least)) % long(usable - 4));
        if whole <= most { whole } else { least }
    }
}

fn outside(nth: usize) -> String {
    format!("cell {nth} does not lie within it")
}
