//! What differs between two versions, and the history of a row.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Fields;

/// What differs between two versions, table by table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// The version that counts as the older one. A store's first version has none before it.
    #[serde(default)]
    #[schema(example = "report@11")]
    pub from: Option<String>,
    /// The version that counts as the newer one.
    #[schema(example = "report@12")]
    pub to: String,
    /// The tables that differ. None are listed for a store's first version.
    pub tables: Vec<TableDiff>,
    /// Why the two could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What differs in a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TableDiff {
    /// Its name: that in the newer version, if it is there.
    pub table: String,
    /// Its name in the older version, if it was another.
    #[serde(default)]
    pub renamed_from: Option<String>,
    /// `table`, or `shadow` (of a virtual table), `internal` (one of SQLite's own) or `virtual`.
    pub kind: String,
    /// What happened to its definition, if something did.
    #[serde(default)]
    pub schema: Option<SchemaChange>,
    /// How rows were compared: `changed_pages`, `all_pages` (after VACUUM, for example), `replaced` (the key is another one, so that all rows
    /// count as deleted and inserted) or `not`.
    pub compared: String,
    /// How many rows the newer version alone has.
    pub inserted: u64,
    /// How many rows the older version alone has.
    pub deleted: u64,
    /// How many rows both have with other values.
    pub updated: u64,
    /// Why its rows could not be compared, or counted to the end.
    #[serde(default)]
    pub problem: Option<String>,
}

/// What happened to a table's definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchemaChange {
    /// `created`, `dropped`, `renamed` or `altered`.
    pub change: String,
    /// The statement that made it in the older version.
    #[serde(default)]
    pub before: Option<String>,
    /// The statement that makes it in the newer version.
    #[serde(default)]
    pub after: Option<String>,
    /// The columns that the newer version alone has.
    #[serde(default)]
    pub columns_added: Vec<String>,
    /// The columns that the older version alone has.
    #[serde(default)]
    pub columns_dropped: Vec<String>,
}

/// A part of the history of a row, the newest change first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RowHistory {
    /// The store.
    pub store: String,
    /// The table.
    pub table: String,
    /// The row's key.
    pub key: Fields,
    /// The versions in which it became what it then was.
    pub changes: Vec<RowChange>,
    /// The cursor of the next page, if there is more.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A version in which a row changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RowChange {
    /// The first version that has the row so.
    #[schema(example = "report@12")]
    pub version: String,
    /// The version before it, with which it was compared.
    #[serde(default)]
    pub since: Option<String>,
    /// `insert`, `update` or `delete`. In the oldest version that is kept, a row that is there counts as inserted.
    pub op: String,
    /// When the version was cut.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub cut_at: Option<Timestamp>,
    /// The label of its newest publication.
    #[serde(default)]
    pub label: Option<String>,
    /// Who vouched for it.
    #[serde(default)]
    pub certified_by: Option<String>,
    /// The day that it stands for.
    #[serde(default)]
    #[schema(format = Date)]
    pub business_date: Option<String>,
    /// The columns that changed.
    #[serde(default)]
    pub changed: Vec<String>,
    /// The row before, by column; absent if there was none.
    #[serde(default)]
    pub before: Option<Fields>,
    /// The row after, by column; absent if it is there no more.
    #[serde(default)]
    pub after: Option<Fields>,
}

/// A line of the stream of what differs: a row, a table's definition, or the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiffLine {
    /// The table; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// `insert`, `update` or `delete` of a row, `schema` of a table's definition, `end`, or `problem` if something failed after the
    /// first rows. Then it has the members of a problem.
    pub op: String,
    /// What happened to the definition: `created`, `dropped`, `renamed` or `altered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The row's key by column, or its `rowid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Fields>,
    /// The columns that changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The row before by column, or the statement that made the table.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Side>,
    /// The row after by column, or the statement that makes the table.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Side>,
    /// At the end, how many rows were answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// At the end, where to go on if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What was, or is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Side {
    /// A row.
    Row(Fields),
    /// A statement.
    Sql(String),
}

impl Side {
    /// The row.
    #[must_use]
    pub fn row(&self) -> Option<&Fields> {
        match self {
            Self::Row(fields) => Some(fields),
            Self::Sql(_) => None,
        }
    }
}
