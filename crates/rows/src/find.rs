//! One row by its key: from the root of a tree to a leaf.

use std::cmp::Ordering;

use crate::btree::{Cell, MOST_LEVELS, Node};
use crate::collation::KeyValue;
use crate::differences::{compare_keys, read_key};
use crate::error::Error;
use crate::key::Key;
use crate::payload::Payload;
use crate::row::{Row, key};
use crate::schema::table::Definition;
use crate::schema::{ObjectKind, Schema, Table};
use crate::version::Version;
use crate::walk::Tree;

impl Version<'_> {
    /// Reads which tables there are.
    ///
    /// # Errors
    /// If a page cannot be read, or is damaged.
    pub fn schema(&self) -> Result<Schema, Error> {
        let mut tree = Tree::new(self);
        if self.page_count() > 0 {
            let shape = tree.shape(1)?;
            tree.list(1, 1, shape)?;
        }
        Schema::read(self, &tree.places)
    }

    /// Finds a row by its key. Pages on the way to it are read, and no others.
    ///
    /// # Errors
    /// If the rows of the table cannot be read, or a page on the way is damaged.
    pub fn find<'r>(
        &'r self,
        schema: &Schema,
        table: &'r Table,
        key: &Key,
    ) -> Result<Option<Row<'r>>, Error> {
        let Some(definition) = &table.definition else {
            let why = "it is virtual, or its definition is not understood".to_owned();
            return Err(Error::NotComparable { table: table.name.clone(), why });
        };
        let row = |(node, cell): (Node, Cell)| Row::read(self, definition, &node, &cell);
        match key {
            Key::Rowid(rowid) => self.at_rowid(table.root, *rowid)?.map(row).transpose(),
            Key::Columns(values) => {
                if let Some(name) = definition.key.iter().find_map(|part| part.collation.as_ref().err()) {
                    let why = format!("its key is ordered by {name}, which is not SQLite's own");
                    return Err(Error::NotComparable { table: table.name.clone(), why });
                }
                if definition.without_rowid {
                    return self.at_key(table, definition, table.root, values)?.map(row).transpose();
                }
                self.by_index(schema, table, definition, values)
            }
        }
    }

    /// The cell of a rowid.
    fn at_rowid(&self, root: u32, rowid: i64) -> Result<Option<(Node, Cell)>, Error> {
        self.descend(root, true, |node, cell| {
            // On interior pages, a cell has the greatest rowid left of it.
            let order = cell.rowid.cmp(&rowid);
            Ok(if order.is_eq() && !node.kind.is_leaf() { Ordering::Greater } else { order })
        })
    }

    /// The cell of a key in a tree that is ordered by it.
    fn at_key(
        &self,
        table: &Table,
        definition: &Definition,
        root: u32,
        wanted: &[KeyValue],
    ) -> Result<Option<(Node, Cell)>, Error> {
        self.descend(root, false, |node, cell| {
            let found = read_key(self, definition, &table.name, node, cell)?;
            Ok(compare_keys(self, definition, &found, wanted))
        })
    }

    /// A row of a table with rowids, by the index that stands for its primary key. Which of several indexes that is does not stand in
    /// the schema: each is asked, and what it leads to is looked at.
    fn by_index<'r>(
        &'r self,
        schema: &Schema,
        table: &'r Table,
        definition: &'r Definition,
        wanted: &[KeyValue],
    ) -> Result<Option<Row<'r>>, Error> {
        let stands_for_constraint = |index: &&crate::schema::Object| {
            index.sql.is_none() && index.table.eq_ignore_ascii_case(&table.name)
        };
        for index in schema.objects(ObjectKind::Index).filter(stands_for_constraint) {
            let Some((node, cell)) = self.at_key(table, definition, index.root, wanted)? else { continue };
            let Some(rowid) = self.rowid_in(definition.key.len(), &node, &cell)? else { continue };
            let Some((node, cell)) = self.at_rowid(table.root, rowid)? else { continue };
            let row = Row::read(self, definition, &node, &cell)?;
            if self.has_key(&row, wanted)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The rowid behind the columns of an index.
    fn rowid_in(&self, columns: usize, node: &Node, cell: &Cell) -> Result<Option<i64>, Error> {
        let payload = Payload::read(self, node, cell)?;
        let values =
            key(&payload.held, cell.len, columns + 1).map_err(|what| self.damaged(node.number, what))?;
        Ok(match values.as_deref().and_then(<[KeyValue]>::last) {
            Some(KeyValue::Integer(rowid)) if values.as_ref().is_some_and(|all| all.len() == columns + 1) => {
                Some(*rowid)
            }
            _ => None,
        })
    }

    /// Whether the columns of a row's primary key have these values.
    fn has_key(&self, row: &Row<'_>, wanted: &[KeyValue]) -> Result<bool, Error> {
        let mut found = Vec::new();
        for part in &row.definition().key {
            found.push(row.value(part.column)?.as_key());
        }
        let found: Option<Vec<KeyValue>> = found.into_iter().collect();
        Ok(found.is_some_and(|found| compare_keys(self, row.definition(), &found, wanted).is_eq()))
    }

    /// Goes from a root to the cell that `order` finds equal: it says how a cell lies to what is wanted.
    fn descend(
        &self,
        root: u32,
        is_table: bool,
        order: impl Fn(&Node, &Cell) -> Result<Ordering, Error>,
    ) -> Result<Option<(Node, Cell)>, Error> {
        let (mut page, mut from) = (root, 1);
        for _ in 0..MOST_LEVELS {
            let node = self.node(page, from)?;
            if node.kind.is_table() != is_table {
                return Err(self.damaged(page, format!("it is {}, and its tree has none there", node.kind)));
            }
            let told = |result: Result<_, String>| result.map_err(|what| self.damaged(node.number, what));
            // The first cell that does not come before what is wanted, by halves.
            let (mut least, mut most) = (0, node.len());
            while least < most {
                let middle = least + (most - least) / 2;
                let cell = node.cell(middle).map_err(|what| self.damaged(node.number, what))?;
                match order(&node, &cell)? {
                    Ordering::Less => least = middle + 1,
                    Ordering::Equal => return Ok(Some((node, cell))),
                    Ordering::Greater => most = middle,
                }
            }
            if node.kind.is_leaf() {
                return Ok(None);
            }
            (from, page) = (page, told(node.child(least))?);
        }
        Err(self.damaged(root, format!("more than {MOST_LEVELS} levels lie below it")))
    }
}
