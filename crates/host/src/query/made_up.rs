//! Tables that no version has: what changed between versions, and each state of each row.
//!
//! They are made in a file of the query's [`Workspace`], and hold so many rows at most.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use asat_core::{Code, Problem};
use asat_rows::{Comparison, Difference, Encoding, Generated, Row, Text, Value, write_key};
use rusqlite::limits::Limit;
use rusqlite::types::Value as Stored;
use rusqlite::{Connection, params_from_iter};

use super::Workspace;

const PAGE_BYTES: u64 = 4096;
/// A value of more bytes is not in these tables.
const LONGEST_VALUE: u64 = 16 << 20;

/// The tables.
pub struct MadeUp {
    path: PathBuf,
    connection: Connection,
    rows: u64,
    most_rows: u64,
    /// The columns of each table.
    columns: BTreeMap<String, Columns>,
}

/// A version as the tables name it.
#[derive(Clone, Debug)]
pub struct CutVersion {
    /// Its number.
    pub number: u64,
    /// When it was cut.
    pub cut_at: String,
}

/// A column of these tables, as SQLite compares names: without regard to the case of ASCII's letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    /// One that each of them has.
    Own(&'static str),
    /// One of the version's table, with what is put before its name.
    Of(&'static str, String),
}

impl Column {
    fn of(side: &'static str, name: &str) -> Self {
        Self::Of(side, name.to_ascii_lowercase())
    }
}

/// The names of a table's columns.
#[derive(Default)]
struct Columns {
    names: BTreeMap<Column, String>,
    taken: BTreeSet<String>,
}

impl Columns {
    /// The name of a column, if it has none yet. A name that another column has already is lengthened: nothing of a table is left out.
    fn add(&mut self, column: &Column, name: &str) -> Option<&str> {
        if self.names.contains_key(column) {
            return None;
        }
        let mut name = match column {
            Column::Own(own) => (*own).to_owned(),
            Column::Of(side, _) => format!("{side}{name}"),
        };
        while !self.taken.insert(name.to_ascii_lowercase()) {
            name.push('_');
        }
        Some(self.names.entry(column.clone()).or_insert(name))
    }
}

/// A column with its name as the version has it, and its value.
struct Field {
    column: Column,
    name: String,
    value: Stored,
}

impl Field {
    fn own(name: &'static str, value: Stored) -> Self {
        Self { column: Column::Own(name), name: String::new(), value }
    }
}

const OF_DIFF: [&str; 3] = ["from_version", "to_version", "op"];
const OF_HISTORY: [&str; 4] = ["valid_from", "valid_to", "valid_from_at", "valid_to_at"];

impl MadeUp {
    /// An empty file in the workspace, which may take what is left there. Its texts have the encoding of the store, as SQLite reads
    /// databases of one encoding at a time.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(workspace: &Workspace, most_rows: u64, encoding: Encoding) -> Result<Self, Problem> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = workspace.path().join(format!("changes-{}.db", NEXT.fetch_add(1, Ordering::Relaxed)));
        let most_pages = (workspace.left()? / PAGE_BYTES).clamp(1, u32::MAX.into());
        let connection = Connection::open(&path).map_err(|error| failed(&error))?;
        let begin = format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = {PAGE_BYTES}; PRAGMA max_page_count = {most_pages};
             PRAGMA encoding = '{}';
             CREATE TABLE open_row(name TEXT, key BLOB, id INTEGER, PRIMARY KEY(name, key)) WITHOUT ROWID; BEGIN",
            encoding.name()
        );
        connection.execute_batch(&begin).map_err(|error| failed(&error))?;
        Ok(Self { path, connection, rows: 0, most_rows, columns: Default::default() })
    }

    /// Ends writing.
    ///
    /// # Errors
    /// If there is no room.
    pub fn finish(&self) -> Result<(), Problem> {
        self.connection.execute_batch("DROP TABLE open_row; COMMIT").map_err(|error| failed(&error))
    }

    /// Where the tables are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty table, with the columns that it has in any case.
    ///
    /// # Errors
    /// If there is no room.
    pub fn begin_diff(&mut self, table: &str, columns: &[String]) -> Result<(), Problem> {
        self.begin(&format!("diff_{table}"), &OF_DIFF, &["from_", "to_"], columns)
    }

    /// The same for the states of rows.
    ///
    /// # Errors
    /// If there is no room.
    pub fn begin_history(&mut self, table: &str, columns: &[String]) -> Result<(), Problem> {
        self.begin(&format!("history_{table}"), &OF_HISTORY, &[""], columns)
    }

    fn begin(
        &mut self,
        name: &str,
        own: &[&'static str],
        sides: &[&'static str],
        columns: &[String],
    ) -> Result<(), Problem> {
        let (mut known, mut list) = (Columns::default(), Vec::new());
        for own in own {
            list.extend(known.add(&Column::Own(own), "").map(quoted));
        }
        for column in columns {
            for side in sides {
                list.extend(known.add(&Column::of(side, column), column).map(quoted));
            }
        }
        self.check_width(name, list.len())?;
        self.columns.insert(name.to_owned(), known);
        let create = format!("CREATE TABLE {}({})", quoted(name), list.join(", "));
        self.connection.execute_batch(&create).map_err(|error| failed(&error))
    }

    /// Adds what differs in a table between two versions.
    ///
    /// # Errors
    /// If rows cannot be read, or there are too many.
    pub fn add_diff(
        &mut self,
        comparison: &Comparison<'_>,
        table: &str,
        from: u64,
        to: u64,
    ) -> Result<(), Problem> {
        let Ok(change) = comparison.table(table) else { return Ok(()) };
        let name = format!("diff_{table}");
        for difference in comparison.rows(change)? {
            let difference = difference?;
            let (op, old, new) = match &difference {
                Difference::Inserted(row) => ("insert", None, Some(row)),
                Difference::Deleted(row) => ("delete", Some(row), None),
                Difference::Updated { old, new, .. } => ("update", Some(old), Some(new)),
            };
            let mut fields = vec![
                Field::own("from_version", number(from)),
                Field::own("to_version", number(to)),
                Field::own("op", Stored::Text(op.to_owned())),
            ];
            for (side, row) in [("from_", old), ("to_", new)] {
                let Some(row) = row else { continue };
                fields.extend(values(side, row)?);
            }
            self.insert(&name, fields)?;
        }
        Ok(())
    }

    /// Goes on with the states of a table's rows: `comparison` leads to the version of this moment.
    ///
    /// # Errors
    /// If rows cannot be read, or there are too many.
    pub fn add_history(
        &mut self,
        comparison: &Comparison<'_>,
        table: &str,
        at: &CutVersion,
    ) -> Result<(), Problem> {
        let name = format!("history_{table}");
        let is_called = |own: &str| own.eq_ignore_ascii_case(table);
        let change = comparison
            .tables()
            .iter()
            .find(|change| is_called(&change.name) || change.renamed_from.as_deref().is_some_and(is_called));
        let Some(change) = change else { return Ok(()) };
        if change.new.is_none() || !is_called(&change.name) {
            return self.close_all(&name, at);
        }
        if change.renamed_from.is_some() {
            let created = comparison.as_created(change)?;
            for difference in comparison.rows(&created)? {
                self.change(&name, difference?, at)?;
            }
            return Ok(());
        }
        for difference in comparison.rows(change)? {
            self.change(&name, difference?, at)?;
        }
        Ok(())
    }

    fn change(&mut self, name: &str, difference: Difference<'_>, at: &CutVersion) -> Result<(), Problem> {
        match &difference {
            Difference::Inserted(row) => self.open(name, row, at),
            Difference::Deleted(row) => self.close(name, row, at),
            Difference::Updated { old, new, .. } => {
                self.close(name, old, at)?;
                self.open(name, new, at)
            }
        }
    }

    fn open(&mut self, name: &str, row: &Row<'_>, at: &CutVersion) -> Result<(), Problem> {
        let mut fields = vec![
            Field::own("valid_from", number(at.number)),
            Field::own("valid_from_at", Stored::Text(at.cut_at.clone())),
        ];
        fields.extend(values("", row)?);
        let id = self.insert(name, fields)?;
        let open = "INSERT OR REPLACE INTO open_row(name, key, id) VALUES (?1, ?2, ?3)";
        let values = (name, key(row)?, id);
        self.connection
            .prepare_cached(open)
            .and_then(|mut open| open.execute(values))
            .map(drop)
            .map_err(|error| failed(&error))
    }

    fn close(&mut self, name: &str, row: &Row<'_>, at: &CutVersion) -> Result<(), Problem> {
        let close = "DELETE FROM open_row WHERE name = ?1 AND key = ?2 RETURNING id";
        let key = key(row)?;
        let id: rusqlite::Result<i64> = self
            .connection
            .prepare_cached(close)
            .and_then(|mut close| close.query_row((name, key), |row| row.get(0)));
        match id {
            Ok(id) => self.end(name, "rowid = ?3", Some(id), at),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }

    fn close_all(&mut self, name: &str, at: &CutVersion) -> Result<(), Problem> {
        self.end(name, "valid_to IS NULL AND ?3 IS NULL", None, at)?;
        let closed = self.connection.execute("DELETE FROM open_row WHERE name = ?1", [name]);
        closed.map(drop).map_err(|error| failed(&error))
    }

    fn end(&self, name: &str, which: &str, id: Option<i64>, at: &CutVersion) -> Result<(), Problem> {
        let sql = format!("UPDATE {} SET valid_to = ?1, valid_to_at = ?2 WHERE {which}", quoted(name));
        let ended = self.connection.prepare_cached(&sql);
        let ended = ended.and_then(|mut end| end.execute((number(at.number), &at.cut_at, id)));
        ended.map(drop).map_err(|error| failed(&error))
    }

    /// Refuses a table with more columns than SQLite takes.
    fn check_width(&self, name: &str, columns: usize) -> Result<(), Problem> {
        let most = self.connection.limit(Limit::SQLITE_LIMIT_COLUMN).map_err(|error| failed(&error))?;
        if usize::try_from(most).is_ok_and(|most| columns <= most) {
            return Ok(());
        }
        let what = format!("{name} would have {columns} columns, and SQLite takes {most} at most");
        Err(Problem::new(
            Code::Invalid,
            what,
            "compare the versions with asat diff, or ask for one row with asat history",
        ))
    }

    /// Inserts a row, for which columns are added that no version had before.
    fn insert(&mut self, name: &str, fields: Vec<Field>) -> Result<i64, Problem> {
        self.rows += 1;
        if self.rows > self.most_rows {
            let what = format!(
                "what changed has more than {} rows, which is all that a query may ask for",
                self.most_rows
            );
            let hint = "name two versions, as in report@11..12.diff_valuation, or raise query.max_rows";
            return Err(Problem::new(Code::Invalid, what, hint));
        }
        let mut known = self.columns.remove(name).unwrap_or_default();
        let width = known.names.len();
        let added: Vec<String> =
            fields.iter().filter_map(|field| known.add(&field.column, &field.name).map(quoted)).collect();
        self.check_width(name, width + added.len())?;
        for column in added {
            let add = format!("ALTER TABLE {} ADD COLUMN {column}", quoted(name));
            self.connection.execute_batch(&add).map_err(|error| failed(&error))?;
        }
        let names: Vec<String> = fields
            .iter()
            .filter_map(|field| known.names.get(&field.column))
            .map(|name| quoted(name))
            .collect();
        self.columns.insert(name.to_owned(), known);
        let places = vec!["?"; names.len()].join(", ");
        let insert = format!("INSERT INTO {}({}) VALUES ({places})", quoted(name), names.join(", "));
        let mut insert = self.connection.prepare_cached(&insert).map_err(|error| failed(&error))?;
        insert
            .insert(params_from_iter(fields.into_iter().map(|field| field.value)))
            .map_err(|error| failed(&error))
    }
}

/// The values of a row by their columns, without those that are computed when they are read.
fn values(side: &'static str, row: &Row<'_>) -> Result<Vec<Field>, Problem> {
    let columns = row.definition().columns.iter().enumerate();
    let stored = columns.filter(|(_, column)| column.generated != Some(Generated::Virtual));
    let field = |name: &str, value| Field { column: Column::of(side, name), name: name.to_owned(), value };
    stored.map(|(place, column)| Ok(field(&column.name, value(&row.value(place)?)?))).collect()
}

fn value(value: &Value<'_>) -> Result<Stored, Problem> {
    Ok(match value {
        Value::Null => Stored::Null,
        Value::Integer(number) => Stored::Integer(*number),
        Value::Real(number) => Stored::Real(*number),
        Value::Text(Text { stored, .. }) if stored.len() > LONGEST_VALUE => {
            return Err(too_long(stored.len()));
        }
        Value::Text(text) => {
            let mut whole = String::new();
            text.parts(&mut |part| {
                whole.push_str(part);
                Ok(())
            })?;
            Stored::Text(whole)
        }
        Value::Blob(bytes) if bytes.len() > LONGEST_VALUE => return Err(too_long(bytes.len())),
        Value::Blob(bytes) => {
            let mut whole = Vec::new();
            bytes.parts(&mut |part| {
                whole.extend_from_slice(part);
                Ok(())
            })?;
            Stored::Blob(whole)
        }
    })
}

fn too_long(len: u64) -> Problem {
    let what = format!(
        "a value of {len} bytes has changed, and a query of what changed reads {LONGEST_VALUE} at most"
    );
    Problem::new(Code::Invalid, what, "compare the versions with asat diff")
}

/// The key of a row, by which its states belong together.
fn key(row: &Row<'_>) -> Result<Vec<u8>, Problem> {
    let mut key = Vec::new();
    write_key(row, &mut key)?;
    Ok(key)
}

fn number(number: u64) -> Stored {
    Stored::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn failed(error: &rusqlite::Error) -> Problem {
    let (code, hint) = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => {
            (Code::Invalid, "name two versions, compare them with asat diff, or raise query.max_disk")
        }
        _ => (Code::Internal, "read the daemon's log"),
    };
    Problem::new(code, format!("the tables of what changed cannot be made: {error}"), hint)
}
