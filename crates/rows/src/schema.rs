//! The schema of a version: its tables, and what else is there (<https://sqlite.org/schematab.html>).

pub(crate) mod affinity;
pub(crate) mod constant;
pub(crate) mod table;
pub(crate) mod tokens;

use crate::error::Error;
use crate::row::Row;
use crate::rows::Rows;
use crate::schema::table::Definition;
use crate::value::Value;
use crate::version::Version;
use crate::walk::Place;

/// What kind of table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// One that somebody made for rows.
    Ordinary,
    /// One in which a virtual table keeps its content.
    Shadow,
    /// One of SQLite's own: `sqlite_sequence`, `sqlite_stat1`.
    Internal,
    /// One whose rows a module makes up.
    Virtual,
}

/// A table of one version.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The text that defines it.
    pub sql: String,
    /// What kind it is.
    pub kind: TableKind,
    /// What its text says; `None` if that is not understood, and for virtual tables.
    pub definition: Option<Definition>,
    /// Of a shadow table, the virtual table that it belongs to.
    pub(crate) owner: Option<String>,
    pub(crate) root: u32,
}

/// An index, a view or a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) name: String,
    /// The table that it belongs to.
    pub(crate) table: String,
    pub(crate) root: u32,
    /// `None` for indexes that stand for a constraint.
    pub(crate) sql: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Index,
    View,
    Trigger,
}

/// All that a version has.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(crate) tables: Vec<Table>,
    pub(crate) objects: Vec<Object>,
}

/// Names behind which modules of SQLite's own keep what, after the name of their table and `_`. Of other modules anything that begins
/// so counts.
const SHADOWS: [(&str, &[&str]); 5] = [
    ("fts5", &["data", "idx", "content", "docsize", "config"]),
    ("fts4", &["content", "segments", "segdir", "docsize", "stat"]),
    ("fts3", &["content", "segments", "segdir", "docsize", "stat"]),
    ("rtree", &["node", "rowid", "parent"]),
    ("geopoly", &["node", "rowid", "parent"]),
];

/// So much text a schema may have in all.
const MOST_SCHEMA_BYTES: usize = 64 << 20;

impl Schema {
    /// Reads the rows at these places of `sqlite_schema`, which are all of them.
    pub(crate) fn read(version: &Version<'_>, places: &[Place]) -> Result<Self, Error> {
        let (mut schema, mut bytes) = (Self::default(), 0);
        let mut rows = Rows::new(version, places, true);
        while rows.advance()? {
            let Some((node, cell)) = rows.current() else { break };
            let row = Row::read(version, Definition::of_schema(), node, cell)?;
            let mut texts = Vec::new();
            for column in [0, 1, 2, 4] {
                let text = text(&row, column)?;
                bytes += text.as_ref().map_or(0, String::len);
                texts.push(text);
            }
            if bytes > MOST_SCHEMA_BYTES {
                return Err(version.damaged(node.number, "the schema's texts are longer than any schema's"));
            }
            let root = match row.value(3)? {
                Value::Integer(root) => u32::try_from(root).unwrap_or(0),
                _ => 0,
            };
            if let [Some(kind), Some(name), Some(table), sql] = texts.as_slice() {
                schema.put(kind, name, table, root, sql.as_deref());
            }
        }
        schema.find_shadows();
        Ok(schema)
    }

    fn put(&mut self, kind: &str, name: &str, table: &str, root: u32, sql: Option<&str>) {
        let object = |kind| {
            let (name, table, sql) = (name.to_owned(), table.to_owned(), sql.map(str::to_owned));
            Object { kind, name, table, root, sql }
        };
        match kind {
            "table" => self.tables.push(Table::new(name, root, sql.unwrap_or_default())),
            "index" => self.objects.push(object(ObjectKind::Index)),
            "view" => self.objects.push(object(ObjectKind::View)),
            "trigger" => self.objects.push(object(ObjectKind::Trigger)),
            _ => {}
        }
    }

    /// Marks the tables in which virtual tables keep their content.
    fn find_shadows(&mut self) {
        let is_virtual = |table: &&Table| table.kind == TableKind::Virtual;
        let owners: Vec<(String, Option<&[&str]>)> = self
            .tables
            .iter()
            .filter(is_virtual)
            .map(|table| (table.name.clone(), suffixes(&table.sql)))
            .collect();
        for table in self.tables.iter_mut().filter(|table| table.kind == TableKind::Ordinary) {
            let owns = |(owner, suffixes): &&(String, Option<&[&str]>)| {
                let start = table.name.get(..owner.len()).filter(|start| start.eq_ignore_ascii_case(owner));
                let rest = start.and_then(|_| table.name.get(owner.len()..)?.strip_prefix('_'));
                rest.is_some_and(|rest| {
                    suffixes.is_none_or(|all| all.iter().any(|one| one.eq_ignore_ascii_case(rest)))
                })
            };
            if let Some((owner, _)) = owners.iter().find(owns) {
                table.kind = TableKind::Shadow;
                table.owner = Some(owner.clone());
            }
        }
    }

    /// A table by its name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn objects(&self, kind: ObjectKind) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }
}

/// The names that the module of a virtual table uses; `None` for one that is not known.
fn suffixes(sql: &str) -> Option<&'static [&'static str]> {
    let tokens = tokens::tokens(sql)?;
    let using = tokens.iter().position(|token| token.is_word("using"))?;
    let module = tokens.get(using + 1)?.name().to_ascii_lowercase();
    let module = if module.starts_with("rtree") { "rtree" } else { &module };
    SHADOWS.into_iter().find(|(name, _)| *name == module).map(|(_, suffixes)| suffixes)
}

impl Table {
    fn new(name: &str, root: u32, sql: &str) -> Self {
        let kind = match () {
            () if root == 0 => TableKind::Virtual,
            () if name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_")) => {
                TableKind::Internal
            }
            () => TableKind::Ordinary,
        };
        let definition = if kind == TableKind::Virtual { None } else { Definition::parse(sql) };
        Self { name: name.to_owned(), sql: sql.to_owned(), kind, definition, owner: None, root }
    }

    /// The table with its definition, if that is understood.
    pub(crate) fn understood(&self) -> Option<(&Self, &Definition)> {
        Some((self, self.definition.as_ref()?))
    }

    /// The text of a part of its definition.
    pub(crate) fn text(&self, range: std::ops::Range<usize>) -> &str {
        self.sql.get(range).unwrap_or_default()
    }
}

/// A text of the schema; `None` for NULL.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, Error> {
    let Value::Text(text) = row.value(column)? else { return Ok(None) };
    let mut whole = String::new();
    text.parts(&mut |part| {
        whole.push_str(part);
        Ok(())
    })?;
    Ok(Some(whole))
}
