//! A script of SQL that makes the older version the newer one.
//!
//! It is run on the older version by a stock client, in one transaction. Foreign keys are not enforced while it runs, and no trigger is
//! fired: there are none from its beginning to its end. Rows are deleted before others are inserted, so that no unique value is there
//! twice. A table whose definition changed is made anew, and the rows that are the same in both versions are copied: those keep to the
//! constraints of the new definition, and its types change none of them. Statistics (`sqlite_stat1`) are not part of it: `ANALYZE` makes
//! them anew.

use std::io::Write;

use crate::collation::Collation;
use crate::comparison::{ColumnPair, Compared, Comparison, TableChange};
use crate::differences::Difference;
use crate::error::Error;
use crate::row::Row;
use crate::schema::table::{Definition, KeyColumn};
use crate::schema::{Object, ObjectKind, Table, TableKind};
use crate::value::{Bytes, Text, Value};
use crate::written::Selection;
use crate::written::json::hex;
use crate::written::objects::Objects;

/// How the name begins that an altered table has until its rows are in the new one.
const BEFORE: &str = "asat_before_";
/// A table that is created and dropped, for SQLite to create `sqlite_sequence`, which nobody else can.
const COUNTED: &str = "asat_counted";

/// Writes the script; nothing if nothing differs.
pub(super) fn write(
    comparison: &Comparison<'_>,
    selection: &Selection,
    out: &mut dyn Write,
) -> Result<u64, Error> {
    let mut script = Script { comparison, selection, out, rows: 0 };
    script.write()?;
    Ok(script.rows)
}

struct Script<'s> {
    comparison: &'s Comparison<'s>,
    selection: &'s Selection,
    out: &'s mut dyn Write,
    rows: u64,
}

impl Script<'_> {
    fn put(&mut self, text: &str) -> Result<(), Error> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    fn write(&mut self) -> Result<(), Error> {
        let comparison = self.comparison;
        let differs = |table: &&TableChange| table.is_schema_changed() || table.may_differ();
        let tables: Vec<&TableChange> =
            comparison.tables().iter().filter(differs).filter(|table| self.is_written(table)).collect();
        let objects = Objects::of(comparison, self.selection, &tables);
        let numbers = self.numbers();
        if tables.is_empty() && objects.is_empty() && numbers.is_empty() {
            return Ok(());
        }
        self.put("PRAGMA foreign_keys=OFF;\nPRAGMA legacy_alter_table=ON;\nBEGIN;\n")?;
        for object in objects.dropped {
            self.put(&format!("DROP {} IF EXISTS {};\n", word(object.kind), name(&object.name)))?;
        }
        for table in &tables {
            self.define(table)?;
        }
        for table in &tables {
            self.rows(table)?;
        }
        self.sequences(&tables)?;
        for object in objects.created {
            let sql = object.sql.as_deref().unwrap_or_default();
            self.put(&format!("{sql};\n"))?;
        }
        self.put(&format!("{numbers}COMMIT;\n"))
    }

    /// Sets the numbers that an application keeps in the header, where they differ.
    fn numbers(&self) -> String {
        if self.selection.table.is_some() {
            return String::new();
        }
        let (old, new) = (&self.comparison.old.header, &self.comparison.new.header);
        let set = |name: &str, old: i32, new: i32| {
            if old == new { String::new() } else { format!("PRAGMA {name}={new};\n") }
        };
        set("user_version", old.user_version, new.user_version)
            + &set("application_id", old.application_id, new.application_id)
    }

    /// Whether a table is written. Without its shadow tables a virtual table would not be what it is.
    fn is_written(&self, table: &TableChange) -> bool {
        match &self.selection.table {
            Some(_) => self.selection.has(table),
            None => table.kind != TableKind::Internal,
        }
    }

    /// Drops, creates, renames or alters a table.
    fn define(&mut self, table: &TableChange) -> Result<(), Error> {
        if !table.is_schema_changed() || self.belongs_to_virtual(table) {
            return Ok(());
        }
        match (&table.old, &table.new) {
            (Some(old), None) => self.put(&format!("DROP TABLE {};\n", name(&old.name))),
            (None, Some(new)) => self.put(&format!("{};\n", new.sql)),
            (Some(old), Some(new)) if table.kind == TableKind::Virtual => {
                self.put(&format!("DROP TABLE {};\n{};\n", name(&old.name), new.sql))
            }
            (Some(old), Some(new)) if is_renamed_alone(table) => {
                self.put(&format!("ALTER TABLE {} RENAME TO {};\n", name(&old.name), name(&new.name)))
            }
            (Some(old), Some(new)) => self.alter(table, old, new),
            (None, None) => Ok(()),
        }
    }

    /// Whether a table is created and dropped together with a virtual one.
    fn belongs_to_virtual(&self, table: &TableChange) -> bool {
        table.kind == TableKind::Shadow && self.virtual_changes(table)
    }

    /// Whether the virtual table that a shadow table is of is made anew, or goes.
    fn virtual_changes(&self, table: &TableChange) -> bool {
        let owner = table.table().and_then(|table| table.owner.as_ref());
        owner.is_some_and(|owner| {
            let is_it = |other: &&TableChange| {
                other.kind == TableKind::Virtual && other.name.eq_ignore_ascii_case(owner)
            };
            self.comparison.tables().iter().find(is_it).is_some_and(TableChange::is_schema_changed)
        })
    }

    /// Makes a table anew, with the rows that are the same in both versions.
    fn alter(&mut self, table: &TableChange, old: &Table, new: &Table) -> Result<(), Error> {
        let before = self.unused(&format!("{BEFORE}{}", old.name));
        let (before_name, new_name) = (name(&before), name(&new.name));
        self.put(&format!("ALTER TABLE {} RENAME TO {before_name};\n{};\n", name(&old.name), new.sql))?;
        let definitions = old.definition.as_ref().zip(new.definition.as_ref());
        if let (Some((old_definition, new_definition)), true) = (definitions, is_copied(table)) {
            let comparison = self.comparison;
            for difference in comparison.rows(table)? {
                if let Difference::Deleted(row) | Difference::Updated { old: row, .. } = difference? {
                    self.delete(&before, &row)?;
                }
            }
            let columns = copied(table, old_definition, new_definition)?;
            let (from, into): (Vec<String>, Vec<String>) = columns.into_iter().unzip();
            let (from, into) = (from.join(","), into.join(","));
            self.put(&format!("INSERT INTO {new_name}({into}) SELECT {from} FROM {before_name};\n"))?;
        }
        self.put(&format!("DROP TABLE {before_name};\n"))
    }

    /// A name that no table has in either version.
    fn unused(&self, name: &str) -> String {
        let mut unused = name.to_owned();
        while self.comparison.table(&unused).is_ok() {
            unused.push('_');
        }
        unused
    }

    /// Has the rows of a table be those of the newer version.
    fn rows(&mut self, table: &TableChange) -> Result<(), Error> {
        let (Some(new), true) = (&table.new, table.kind != TableKind::Virtual) else { return Ok(()) };
        let comparison = self.comparison;
        if self.virtual_changes(table) {
            // What the module has put in as it was created goes.
            self.put(&format!("DELETE FROM {};\n", name(&new.name)))?;
            let all = comparison.as_created(table)?;
            return self.insert(&all, new);
        }
        if !table.may_differ() {
            return Ok(());
        }
        let is_anew = table.compared == Compared::Replaced;
        if is_anew && !table.is_schema_changed() {
            self.put(&format!("DELETE FROM {};\n", name(&new.name)))?;
        }
        if is_copied(table) {
            return self.insert_after(table, new, true);
        }
        if !is_anew && table.old.is_some() {
            let definition = new.definition.as_ref().unwrap_or(Definition::nothing());
            let is_unique = self.has_unique(new, definition);
            for difference in comparison.rows(table)? {
                match difference? {
                    Difference::Deleted(row) => self.delete(&new.name, &row)?,
                    Difference::Updated { old, .. } if is_unique => self.delete(&new.name, &old)?,
                    Difference::Updated { new: row, columns, .. } => {
                        self.update(table, new, &row, &columns)?
                    }
                    Difference::Inserted(_) => {}
                }
            }
            return self.insert_after(table, new, is_unique);
        }
        self.insert(table, new)
    }

    /// Whether another column than the key has to be unique, so that rows could be in each other's way.
    fn has_unique(&self, table: &Table, definition: &Definition) -> bool {
        let is_on = |object: &&Object| {
            let sql = object.sql.as_deref().unwrap_or_default().to_ascii_lowercase();
            object.kind == ObjectKind::Index
                && object.table.eq_ignore_ascii_case(&table.name)
                && sql.trim_start().starts_with("create unique")
        };
        let has_own_key =
            !definition.without_rowid && !definition.key.is_empty() && definition.rowid_alias.is_none();
        let schemas = [&self.comparison.old_schema, &self.comparison.new_schema];
        has_own_key
            || !definition.unique.is_empty()
            || schemas.into_iter().any(|schema| schema.objects.iter().any(|object| is_on(&object)))
    }

    fn insert(&mut self, table: &TableChange, new: &Table) -> Result<(), Error> {
        self.insert_after(table, new, false)
    }

    /// Inserts the rows that are new; also those that were deleted because they changed.
    fn insert_after(&mut self, table: &TableChange, new: &Table, updated_too: bool) -> Result<(), Error> {
        for difference in self.comparison.rows(table)? {
            match difference? {
                Difference::Inserted(row) => self.insert_row(new, &row)?,
                Difference::Updated { new: row, .. } if updated_too => self.insert_row(new, &row)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn insert_row(&mut self, table: &Table, row: &Row<'_>) -> Result<(), Error> {
        self.rows += 1;
        let definition = row.definition();
        let columns = definition.columns.iter().enumerate().filter(|(_, column)| column.generated.is_none());
        let places: Vec<usize> = columns.map(|(place, _)| place).collect();
        let mut names: Vec<String> = places
            .iter()
            .filter_map(|place| definition.columns.get(*place))
            .map(|column| name(&column.name))
            .collect();
        let rowid = row.rowid().filter(|_| definition.rowid_alias.is_none()).zip(rowid_name(definition));
        names.extend(rowid.iter().map(|(_, name)| name.clone()));
        self.put(&format!("INSERT INTO {}({}) VALUES(", name(&table.name), names.join(",")))?;
        for (nth, place) in places.iter().enumerate() {
            self.put(if nth == 0 { "" } else { "," })?;
            write_value(&row.value(*place)?, self.out)?;
        }
        if let Some((rowid, _)) = rowid {
            self.put(&format!("{}{rowid}", if places.is_empty() { "" } else { "," }))?;
        }
        self.put(");\n")
    }

    fn delete(&mut self, table: &str, row: &Row<'_>) -> Result<(), Error> {
        self.rows += 1;
        self.put(&format!("DELETE FROM {}", name(table)))?;
        self.only(table, row)
    }

    fn update(
        &mut self,
        change: &TableChange,
        table: &Table,
        row: &Row<'_>,
        columns: &[usize],
    ) -> Result<(), Error> {
        self.rows += 1;
        let mut before = format!("UPDATE {} SET ", name(&table.name));
        for pair in columns.iter().filter_map(|place| change.columns.get(*place)) {
            let column =
                pair.new.and_then(|new| row.definition().columns.get(new).map(|column| (new, column)));
            let Some((place, column)) = column.filter(|(_, column)| column.generated.is_none()) else {
                continue;
            };
            self.put(&format!("{before}{}=", name(&column.name)))?;
            write_value(&row.value(place)?, self.out)?;
            ",".clone_into(&mut before);
        }
        if before == "," { self.only(&table.name, row) } else { Ok(()) }
    }

    /// Says which row is meant, and ends the statement.
    fn only(&mut self, table: &str, row: &Row<'_>) -> Result<(), Error> {
        let definition = row.definition();
        if let Some(rowid) = row.rowid() {
            let name = rowid_column(definition).ok_or_else(|| nameless(table))?;
            return self.put(&format!(" WHERE {name}={rowid};\n"));
        }
        for (nth, part) in definition.key.iter().enumerate() {
            let column =
                definition.columns.get(part.column).map(|column| name(&column.name)).unwrap_or_default();
            self.put(&format!("{}{column}=", if nth == 0 { " WHERE " } else { " AND " }))?;
            write_value(&row.value(part.column)?, self.out)?;
            self.put(&collated(definition, part))?;
        }
        self.put(";\n")
    }

    /// The numbers that `AUTOINCREMENT` goes on with, all of them: rows that were inserted have changed them.
    fn sequences(&mut self, tables: &[&TableChange]) -> Result<(), Error> {
        let comparison = self.comparison;
        let is_it = |table: &&TableChange| table.name.eq_ignore_ascii_case("sqlite_sequence");
        let Some(sequences) = comparison.tables().iter().find(is_it) else { return Ok(()) };
        let (Some(new), None) = (&sequences.new, &self.selection.table) else { return Ok(()) };
        if tables.is_empty() && !sequences.may_differ() {
            return Ok(());
        }
        if sequences.old.is_none() {
            let table = name(&self.unused(COUNTED));
            self.put(&format!(
                "CREATE TABLE {table}(id INTEGER PRIMARY KEY AUTOINCREMENT);\nDROP TABLE {table};\n"
            ))?;
        }
        self.put("DELETE FROM sqlite_sequence;\n")?;
        self.insert(&comparison.as_created(sequences)?, new)
    }
}

/// Whether nothing but the name of a table is another.
fn is_renamed_alone(table: &TableChange) -> bool {
    let (Some(old), Some(new), Some(_)) = (&table.old, &table.new, &table.renamed_from) else { return false };
    let rest = |table: &Table| {
        let definition = table.definition.as_ref()?;
        Some(table.sql.get(definition.name_at.end..)?.trim().to_owned())
    };
    rest(old).is_some() && rest(old) == rest(new)
}

/// Whether a table is made anew, and the rows that are the same in both versions are copied.
fn is_copied(table: &TableChange) -> bool {
    let is_in_both = table.old.is_some() && table.new.is_some() && table.kind != TableKind::Virtual;
    is_in_both
        && table.is_schema_changed()
        && !is_renamed_alone(table)
        && table.compared != Compared::Replaced
}

/// What is copied of such a table: the name of each column in the older version, with that in the newer one. Rows are known by their rowids,
/// whatever the column is called that has them in one version or the other.
fn copied(table: &TableChange, old: &Definition, new: &Definition) -> Result<Vec<(String, String)>, Error> {
    let of_pair = |pair: &ColumnPair| {
        let from = pair.old.and_then(|place| old.columns.get(place))?;
        let into =
            pair.new.filter(|_| pair.new != new.rowid_alias).and_then(|place| new.columns.get(place))?;
        into.generated.is_none().then(|| (name(&from.name), name(&into.name)))
    };
    let mut columns: Vec<(String, String)> = table.columns.iter().filter_map(of_pair).collect();
    match (rowid_column(old), rowid_column(new)) {
        (Some(from), Some(into)) => columns.push((from, into)),
        (None, Some(_)) if !old.without_rowid => return Err(nameless(&table.name)),
        _ => {}
    }
    if columns.is_empty() { Err(nameless(&table.name)) } else { Ok(columns) }
}

fn nameless(table: &str) -> Error {
    let why = "its columns have all the names that its rowid could have".to_owned();
    Error::NotComparable { table: table.to_owned(), why }
}

/// The collation of a part of the key, if it is not that of the column: by that of the column, other rows could be meant, too.
fn collated(definition: &Definition, part: &KeyColumn) -> String {
    let of_column =
        definition.columns.get(part.column).and_then(|column| Collation::named(&column.collation));
    match part.collation {
        Ok(collation) if of_column != Some(collation) => format!(" COLLATE {}", collation.name()),
        _ => String::new(),
    }
}

/// By what name the rowid of a table can be given, if it has one: that of a column, or else one that no column has.
fn rowid_column(definition: &Definition) -> Option<String> {
    let alias = definition.rowid_alias.and_then(|alias| definition.columns.get(alias));
    alias.map(|column| name(&column.name)).or_else(|| rowid_name(definition))
}

fn word(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Index => "INDEX",
        ObjectKind::View => "VIEW",
        ObjectKind::Trigger => "TRIGGER",
    }
}

/// A name by which the rowid of a table can be given, if it has a rowid that is none of its columns.
fn rowid_name(definition: &Definition) -> Option<String> {
    if definition.without_rowid || definition.rowid_alias.is_some() {
        return None;
    }
    let free = ["rowid", "_rowid_", "oid"].into_iter().find(|name| definition.column(name).is_none());
    free.map(str::to_owned)
}

/// A name in quotes.
fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Writes a value as a literal.
fn write_value(value: &Value<'_>, out: &mut dyn Write) -> Result<(), Error> {
    match value {
        Value::Null => Ok(out.write_all(b"NULL")?),
        Value::Integer(number) => Ok(write!(out, "{number}")?),
        Value::Real(number) if number.is_infinite() => {
            Ok(out.write_all(if *number > 0.0 { b"9e999" } else { b"-9e999" })?)
        }
        Value::Real(number) => Ok(write!(out, "{number:?}")?),
        Value::Text(text) => write_text(text, out),
        Value::Blob(bytes) => write_blob(bytes, out),
    }
}

fn write_blob(bytes: &Bytes<'_>, out: &mut dyn Write) -> Result<(), Error> {
    out.write_all(b"X'")?;
    bytes.parts(&mut |part| Ok(out.write_all(&hex(part))?))?;
    Ok(out.write_all(b"'")?)
}

/// A text is written as such if a client reads it so: it would stop at a NUL, and change what is not well-formed.
fn write_text(text: &Text<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut is_plain = text.is_well_formed()?;
    text.parts(&mut |part| {
        is_plain &= !part.contains('\0');
        Ok(())
    })?;
    if !is_plain {
        out.write_all(b"CAST(")?;
        write_blob(&text.stored, out)?;
        return Ok(out.write_all(b" AS TEXT)")?);
    }
    out.write_all(b"'")?;
    text.parts(&mut |part| Ok(out.write_all(part.replace('\'', "''").as_bytes())?))?;
    Ok(out.write_all(b"'")?)
}
