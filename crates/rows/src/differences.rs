//! The rows of a table that differ, one after another.

use std::cmp::Ordering;

use crate::btree::{Cell, Node};
use crate::collation::KeyValue;
use crate::comparison::{ColumnPair, Compared, Comparison, TableChange};
use crate::error::Error;
use crate::pages::PageSet;
use crate::payload::{Chain, Payload};
use crate::row::{Row, key};
use crate::rows::Rows;
use crate::schema::Table;
use crate::schema::table::Definition;
use crate::version::Version;

/// What became of a row.
#[derive(Clone, Debug)]
pub enum Difference<'c> {
    /// It is in the newer version alone.
    Inserted(Row<'c>),
    /// It is in the older version alone.
    Deleted(Row<'c>),
    /// It is in both, and values differ.
    Updated {
        /// As it was.
        old: Row<'c>,
        /// As it is.
        new: Row<'c>,
        /// The columns that differ, by their places in [`TableChange::columns`].
        columns: Vec<usize>,
    },
}

/// How many rows differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of the newer version alone.
    pub inserted: u64,
    /// Rows of the older version alone.
    pub deleted: u64,
    /// Rows of both whose values differ.
    pub updated: u64,
}

impl Counts {
    /// Counts one more.
    pub fn add(&mut self, difference: &Difference<'_>) {
        *match difference {
            Difference::Inserted(_) => &mut self.inserted,
            Difference::Deleted(_) => &mut self.deleted,
            Difference::Updated { .. } => &mut self.updated,
        } += 1;
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The rows of a table that differ, in the order of its key. It is an iterator, which ends after an error.
#[derive(Debug)]
pub struct Differences<'c> {
    comparison: &'c Comparison<'c>,
    table: &'c TableChange,
    old: Side<'c>,
    new: Side<'c>,
    is_over: bool,
}

/// The rows of one version.
#[derive(Debug)]
struct Side<'c> {
    version: &'c Version<'c>,
    definition: &'c Definition,
    name: &'c str,
    rows: Rows<'c>,
    has_begun: bool,
    /// The key of the current row, where that is none of the rowid.
    key: Option<Vec<KeyValue>>,
    /// Overflow pages that were compared: each belongs to one row.
    chains: PageSet,
}

impl<'c> Differences<'c> {
    pub(crate) fn new(comparison: &'c Comparison<'c>, table: &'c TableChange) -> Result<Self, Error> {
        if let Compared::Not(why) = &table.compared {
            return Err(Error::NotComparable { table: table.name.clone(), why: why.clone() });
        }
        // Of a table that only one version has, the other has no rows.
        let empty = Definition::nothing();
        let definition =
            |table: &'c Option<Table>| table.as_ref().and_then(|table| table.definition.as_ref());
        let (old, new) = (definition(&table.old).unwrap_or(empty), definition(&table.new).unwrap_or(empty));
        let side = |version, places, definition: &'c Definition| {
            let (name, chains) = (table.name.as_str(), PageSet::new(0));
            let rows = Rows::new(version, places, !definition.without_rowid);
            Side { version, definition, name, rows, has_begun: false, key: None, chains }
        };
        let old = side(comparison.old, table.places.old.as_slice(), old);
        let new = side(comparison.new, table.places.new.as_slice(), new);
        Ok(Self { comparison, table, old, new, is_over: false })
    }

    /// Counts all that are left.
    ///
    /// # Errors
    /// Where a page cannot be read, or is damaged.
    pub fn count(self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        for difference in self {
            counts.add(&difference?);
        }
        Ok(counts)
    }

    fn find(&mut self) -> Result<Option<Difference<'c>>, Error> {
        self.old.begin()?;
        self.new.begin()?;
        loop {
            match self.order()? {
                None => return Ok(None),
                Some(Ordering::Less) => return self.old.take().map(|row| row.map(Difference::Deleted)),
                Some(Ordering::Greater) => return self.new.take().map(|row| row.map(Difference::Inserted)),
                Some(Ordering::Equal) => {
                    if let Some(difference) = self.compare()? {
                        return Ok(Some(difference));
                    }
                }
            }
        }
    }

    /// Whose row comes first; `None` at the end.
    fn order(&mut self) -> Result<Option<Ordering>, Error> {
        let (Some((old_node, old)), Some((new_node, new))) =
            (self.old.rows.current(), self.new.rows.current())
        else {
            let is_at_end = (self.old.rows.current().is_none(), self.new.rows.current().is_none());
            return Ok(match is_at_end {
                (true, true) => None,
                (false, _) => Some(Ordering::Less),
                (true, false) => Some(Ordering::Greater),
            });
        };
        if self.table.compared == Compared::Replaced {
            return Ok(Some(Ordering::Less));
        }
        if !self.new.definition.without_rowid {
            return Ok(Some(old.rowid.cmp(&new.rowid)));
        }
        if is_held_same(old_node, old, new_node, new) && old.overflow == 0 {
            return Ok(Some(Ordering::Equal));
        }
        let (old, new) = (self.old.key()?, self.new.key()?);
        Ok(Some(self.new.compare_keys(&old, &new)))
    }

    /// Compares two rows that have one place in the order, and goes on behind them.
    fn compare(&mut self) -> Result<Option<Difference<'c>>, Error> {
        let is_same = self.table.is_laid_out_alike() && self.is_same_record()?;
        if is_same {
            self.old.rows.advance()?;
            self.new.rows.advance()?;
            (self.old.key, self.new.key) = (None, None);
            return Ok(None);
        }
        // Keys that only the collation takes for the same are two: the old row goes, and the new one comes next.
        if self.new.definition.without_rowid && self.old.key()? != self.new.key()? {
            return self.old.take().map(|row| row.map(Difference::Deleted));
        }
        let (Some(old), Some(new)) = (self.old.take()?, self.new.take()?) else { return Ok(None) };
        let mut columns = Vec::new();
        for (place, pair) in self.table.columns.iter().enumerate() {
            if is_different(&old, &new, pair)? {
                columns.push(place);
            }
        }
        Ok((!columns.is_empty()).then_some(Difference::Updated { old, new, columns }))
    }

    /// Whether the records of the current rows have the same bytes.
    fn is_same_record(&mut self) -> Result<bool, Error> {
        let (Some((old_node, old)), Some((new_node, new))) =
            (self.old.rows.current(), self.new.rows.current())
        else {
            return Ok(false);
        };
        if !is_held_same(old_node, old, new_node, new) {
            return Ok(false);
        }
        if old.overflow == 0 && new.overflow == 0 {
            return Ok(true);
        }
        if self.comparison.chains_are_same && old.overflow == new.overflow {
            return Ok(true);
        }
        let mut old_chain = Chain::of(self.old.version, old_node.number, old)?;
        let mut new_chain = Chain::of(self.new.version, new_node.number, new)?;
        while old_chain.next_page() != 0 {
            let (old_page, new_page) = (old_chain.next_page(), new_chain.next_page());
            enter(&mut self.old.chains, self.old.version, old_page)?;
            enter(&mut self.new.chains, self.new.version, new_page)?;
            if old_page == new_page && self.comparison.is_same_page(old_page) {
                old_chain.next()?;
                new_chain.follow(&old_chain);
            } else if old_chain.next()? != new_chain.next()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Notes that a page is one of a chain, which it may be once.
fn enter(chains: &mut PageSet, version: &Version<'_>, page: u32) -> Result<(), Error> {
    if chains.is_for_none() {
        *chains = PageSet::new(version.page_count());
    }
    if page == 0 || page > version.page_count() || chains.insert(page) {
        Ok(())
    } else {
        Err(version.damaged(page, "it belongs to two records"))
    }
}

/// Whether what lies on the pages of the cells is the same.
fn is_held_same(old_node: &Node, old: &Cell, new_node: &Node, new: &Cell) -> bool {
    old.len == new.len && old_node.slice(&old.local) == new_node.slice(&new.local)
}

/// Whether a column of two rows differs. One that was added is the same while it has its default; one that was dropped is not compared.
pub(crate) fn is_different(old: &Row<'_>, new: &Row<'_>, pair: &ColumnPair) -> Result<bool, Error> {
    let Some(new_place) = pair.new else { return Ok(false) };
    let value = new.value(new_place)?;
    let is_same = match pair.old {
        Some(old_place) => value.is_same(&old.value(old_place)?)?,
        None => {
            let column = new.definition().columns.get(new_place);
            match column.and_then(|column| column.default.as_ref()) {
                Some(default) => value.is_same(&default.value())?,
                None => false,
            }
        }
    };
    Ok(!is_same)
}

impl<'c> Iterator for Differences<'c> {
    type Item = Result<Difference<'c>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let found = self.find().transpose();
        self.is_over = !matches!(found, Some(Ok(_)));
        found
    }
}

impl<'c> Side<'c> {
    fn begin(&mut self) -> Result<(), Error> {
        if !self.has_begun {
            self.has_begun = true;
            self.rows.advance()?;
        }
        Ok(())
    }

    /// The current row, and goes on.
    fn take(&mut self) -> Result<Option<Row<'c>>, Error> {
        let Some((node, cell)) = self.rows.current() else { return Ok(None) };
        let row = Row::read(self.version, self.definition, node, cell)?;
        self.rows.advance()?;
        self.key = None;
        Ok(Some(row))
    }

    /// The key of the current row.
    fn key(&mut self) -> Result<Vec<KeyValue>, Error> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        let Some((node, cell)) = self.rows.current() else { return Ok(Vec::new()) };
        let key = read_key(self.version, self.definition, self.name, node, cell)?;
        self.key = Some(key.clone());
        Ok(key)
    }

    fn compare_keys(&self, old: &[KeyValue], new: &[KeyValue]) -> Ordering {
        compare_keys(self.version, self.definition, old, new)
    }
}

/// The key of a row of a table without rowid.
pub(crate) fn read_key(
    version: &Version<'_>,
    definition: &Definition,
    table: &str,
    node: &Node,
    cell: &Cell,
) -> Result<Vec<KeyValue>, Error> {
    let damaged = |what| version.damaged(node.number, what);
    let count = definition.key.len();
    let mut found = key(node.slice(&cell.local), cell.len, count).map_err(damaged)?;
    if found.is_none() {
        found = key(&Payload::read(version, node, cell)?.held, cell.len, count).map_err(damaged)?;
    }
    let too_long =
        || Error::NotComparable { table: table.to_owned(), why: "a key is longer than 1 MiB".to_owned() };
    found.ok_or_else(too_long)
}

/// Which of two keys comes first.
pub(crate) fn compare_keys(
    version: &Version<'_>,
    definition: &Definition,
    one: &[KeyValue],
    other: &[KeyValue],
) -> Ordering {
    for (part, (one, other)) in definition.key.iter().zip(one.iter().zip(other)) {
        let Ok(collation) = part.collation else { continue };
        let order = one.compare(other, collation, version.encoding());
        let is_reversed = part.descending && version.header.knows_descending;
        let order = if is_reversed { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
