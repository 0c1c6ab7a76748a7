//! Goes through the rows of one version at given places, in the order of keys.

use std::ops::Range;

use crate::btree::{Cell, Node};
use crate::bytes::index;
use crate::error::Error;
use crate::version::Version;
use crate::walk::Place;

/// Of so many pages the source is told at once that they are read soon, and so many before they are.
const EXPECTED: usize = 64;

/// So many interior pages are kept, as many as lie above a leaf: their rows come between those of leaves.
const KEPT: usize = crate::btree::MOST_LEVELS;

/// A cursor.
#[derive(Debug)]
pub(crate) struct Rows<'v> {
    version: &'v Version<'v>,
    places: &'v [Place],
    is_table: bool,
    next_place: usize,
    /// The page of the current row, and the cells of it that come next.
    node: Option<Node>,
    cells: Range<usize>,
    cell: Option<Cell>,
    /// Interior pages that were read last.
    interiors: Vec<Node>,
}

impl<'v> Rows<'v> {
    pub(crate) fn new(version: &'v Version<'v>, places: &'v [Place], is_table: bool) -> Self {
        let (node, cell, interiors) = (None, None, Vec::new());
        Self { version, places, is_table, next_place: 0, node, cells: 0..0, cell, interiors }
    }

    /// The current row.
    pub(crate) fn current(&self) -> Option<(&Node, &Cell)> {
        self.node.as_ref().zip(self.cell.as_ref())
    }

    /// Goes to the next row; answers whether there is one.
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        let before = self.cell.take().filter(|_| self.is_table).map(|cell| cell.rowid);
        let nth = loop {
            if let Some(nth) = self.cells.next() {
                break nth;
            }
            let Some(&place) = self.places.get(self.next_place) else {
                self.node = None;
                return Ok(false);
            };
            self.expect();
            self.go_to(place)?;
            self.next_place += 1;
        };
        let Some(node) = &self.node else { return Ok(false) };
        let cell = node.cell(nth).map_err(|what| self.version.damaged(node.number, what))?;
        if before.is_some_and(|before| before >= cell.rowid) {
            let what = format!("rowid {} does not come before {}", before.unwrap_or_default(), cell.rowid);
            return Err(self.version.damaged(node.number, what));
        }
        self.cell = Some(cell);
        Ok(true)
    }

    /// Tells the source what comes next while it reads what was told before.
    fn expect(&self) {
        if self.next_place.is_multiple_of(EXPECTED) {
            let (skip, take) = if self.next_place == 0 { (0, 2 * EXPECTED) } else { (EXPECTED, EXPECTED) };
            let places = self.places.iter().skip(self.next_place + skip).take(take);
            let leaves = places.filter(|place| place.cell.is_none());
            self.version.expect(&leaves.map(|place| place.page).collect::<Vec<_>>());
        }
    }

    fn go_to(&mut self, place: Place) -> Result<(), Error> {
        if let Some(before) = self.node.take().filter(|node| !node.kind.is_leaf()) {
            self.keep(before);
        }
        let kept = self.interiors.iter().position(|node| node.number == place.page);
        let node = match kept {
            Some(at) => self.interiors.swap_remove(at),
            None => self.version.node(place.page, place.from)?,
        };
        if node.kind.is_table() != self.is_table || node.kind.is_leaf() != place.cell.is_none() {
            let what = format!("it is {}, and its tree has none there", node.kind);
            return Err(self.version.damaged(place.page, what));
        }
        self.cells = match place.cell {
            Some(nth) => index(u32::from(nth))..index(u32::from(nth) + 1),
            None => 0..node.len(),
        };
        self.node = Some(node);
        Ok(())
    }

    fn keep(&mut self, node: Node) {
        if self.interiors.len() == KEPT {
            self.interiors.remove(0);
        }
        self.interiors.push(node);
    }
}
