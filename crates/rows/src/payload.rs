//! The bytes of a record: some on the page of its cell, the rest on a chain of overflow pages
//! (<https://sqlite.org/fileformat2.html#cell_payload_overflow_pages>).

use crate::btree::{Cell, Node};
use crate::bytes::{long, short, u32_at};
use crate::error::Error;
use crate::version::Version;

/// So much of a record is kept in memory. What lies behind is read by parts when somebody asks for it.
pub(crate) const HELD_BYTES: usize = 1 << 20;

/// Where a record lies.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    /// The page of its cell.
    page: u32,
    pub(crate) len: u64,
    /// What of it is in memory: from its beginning, all that lies on the page of the cell, and up to [`HELD_BYTES`].
    pub(crate) held: Vec<u8>,
    /// Where the chain goes on behind what is held.
    rest: Link,
}

/// A place in a chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The page that leads to it.
    from: u32,
    /// The next page, or 0.
    next: u32,
    /// How many bytes of the payload are left.
    left: u64,
}

impl Payload {
    /// Reads a record's beginning.
    pub(crate) fn read<'v>(version: &'v Version<'v>, node: &Node, cell: &Cell) -> Result<Self, Error> {
        let mut held = node.slice(&cell.local).to_vec();
        let mut chain = Chain::of(version, node.number, cell)?;
        while held.len() < HELD_BYTES
            && let Some(part) = chain.next()?
        {
            held.extend_from_slice(part);
        }
        Ok(Self { page: node.number, len: cell.len, held, rest: chain.link })
    }

    /// Bytes of it, if they are in memory.
    pub(crate) fn slice(&self, at: u64, len: u64) -> Option<&[u8]> {
        self.held.get(short(at)..short(at.checked_add(len)?))
    }

    /// How many bytes are in memory.
    pub(crate) fn held_len(&self) -> u64 {
        long(self.held.len())
    }

    /// What is in memory from a place on.
    pub(crate) fn slice_from(&self, at: u64) -> &[u8] {
        self.held.get(short(at)..).unwrap_or_default()
    }

    /// Reads bytes of it, a window of a fixed length after another.
    pub(crate) fn windows<'v>(&'v self, version: &'v Version<'v>, at: u64, len: u64) -> Windows<'v> {
        let held = self.held.get(short(at)..).unwrap_or_default();
        let skip = at.saturating_sub(long(self.held.len()));
        Windows { held, chain: Chain::at(version, self.rest), skip, left: len, window: Vec::new() }
    }

    pub(crate) fn damaged(&self, version: &Version<'_>, what: impl Into<String>) -> Error {
        version.damaged(self.page, what)
    }
}

/// So long is a window.
const WINDOW_BYTES: usize = 64 << 10;

/// Bytes of a payload.
pub(crate) struct Windows<'v> {
    held: &'v [u8],
    chain: Chain<'v>,
    /// How much is to be left out of what comes next in the chain.
    skip: u64,
    left: u64,
    /// What is read already of the next window.
    window: Vec<u8>,
}

impl Windows<'_> {
    /// The next bytes; none at the end.
    pub(crate) fn next(&mut self) -> Result<Vec<u8>, Error> {
        let wanted = short(self.left).min(WINDOW_BYTES);
        let (now, later) = self.held.split_at(self.held.len().min(wanted));
        self.window.extend_from_slice(now);
        self.held = later;
        while self.window.len() < wanted
            && let Some(part) = self.chain.next()?
        {
            let skipped = short(self.skip).min(part.len());
            self.skip -= long(skipped);
            self.window.extend_from_slice(part.get(skipped..).unwrap_or_default());
        }
        let later = self.window.split_off(self.window.len().min(wanted));
        let window = std::mem::replace(&mut self.window, later);
        self.left -= long(window.len());
        Ok(window)
    }
}

/// Reads the overflow pages of a payload, one after another. It ends, whatever the pages say: the payload is no longer than the file.
pub(crate) struct Chain<'v> {
    version: &'v Version<'v>,
    link: Link,
    page: Vec<u8>,
}

impl<'v> Chain<'v> {
    /// The chain of a cell.
    pub(crate) fn of(version: &'v Version<'v>, page: u32, cell: &Cell) -> Result<Self, Error> {
        let left = cell.len - long(cell.local.len());
        let most = u64::from(version.page_count()) * long(version.header.on_overflow_page());
        if left > most {
            let what = format!("it has a record of {} bytes, which is more than the file has", cell.len);
            return Err(version.damaged(page, what));
        }
        Ok(Self::at(version, Link { from: page, next: cell.overflow, left }))
    }

    fn at(version: &'v Version<'v>, link: Link) -> Self {
        Self { version, link, page: Vec::new() }
    }

    /// The page that is read next; 0 if the payload has no more.
    pub(crate) fn next_page(&self) -> u32 {
        if self.link.left > 0 { self.link.next } else { 0 }
    }

    /// The next part of the payload, or `None` at its end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        let Link { from, next, left } = self.link;
        if left == 0 {
            return Ok(None);
        }
        if next == 0 {
            return Err(self.version.damaged(from, format!("a record ends {left} bytes too early")));
        }
        self.page = self.version.page(next, from)?;
        let len = left.min(long(self.version.header.on_overflow_page()));
        let after = u32_at(&self.page, 0).unwrap_or_default();
        self.link = Link { from: next, next: after, left: left - len };
        Ok(self.page.get(4..4 + short(len)))
    }

    /// Goes on behind the page that another chain has read in its place, if both have the same number and content.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.link = other.link;
    }
}
