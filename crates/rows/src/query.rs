//! Which versions a query names.
//!
//! In front of a table, `report@12`, `report@latest` or `"report@month-end"` stands for a version of the store `report`, and `report` alone for
//! its newest one. `report@11..12.diff_sale` has the rows of the table `sale` that differ between two versions, `report.diff_sale` those
//! between all neighbours, and `report.history_sale` each state of each row. SQLite knows none of these names: they are written so that it
//! takes each for the name of an attached database.

use std::collections::{BTreeMap, BTreeSet};

use crate::schema::tokens::{Kind, Token, token};

/// A query, as SQLite is asked it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The query with the names of databases in quotes.
    pub sql: String,
    /// What it names, by the name of the database.
    pub named: BTreeMap<String, Named>,
}

/// What a query names in front of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The store.
    pub store: String,
    /// Of it.
    pub moment: Moment,
    /// The tables behind it.
    pub tables: BTreeSet<String>,
}

/// A moment, or the time between some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A version: a number, a tag or `latest`.
    At(String),
    /// What changed between two versions.
    Between(String, String),
    /// All versions.
    All,
}

/// What the tables begin with that are made up.
pub const MADE_UP: [&str; 2] = ["diff_", "history_"];

/// Reads a query. `stores` are the stores that there are.
///
/// # Errors
/// If a quote or a comment does not end, or it cannot be told which store is meant.
pub fn read(sql: &str, stores: &[String]) -> Result<Query, String> {
    let only = |names: &BTreeSet<&String>| match names.iter().collect::<Vec<_>>().as_slice() {
        [store] => Some((**store).clone()),
        _ => None,
    };
    let first = Reader::new(sql, stores, OnlyStore::Unknown).read()?;
    let named = only(&first.named.values().map(|named| &named.store).collect());
    let default = named.or_else(|| only(&stores.iter().collect()));
    let meant = default.clone().map_or(OnlyStore::None, OnlyStore::Store);
    let mut query = Reader::new(sql, stores, meant).read()?;
    if let (true, Some(store)) = (query.named.is_empty(), default) {
        // Tables are looked for in all databases: in a query that names none, in the newest version of the only store.
        let named =
            Named { store: store.clone(), moment: Moment::At("latest".to_owned()), tables: BTreeSet::new() };
        query.named.insert(store, named);
    }
    Ok(query)
}

/// The store of tables that are made up, if none is named in front of them.
enum OnlyStore {
    /// It is not known yet, and they are left as they are.
    Unknown,
    None,
    Store(String),
}

struct Reader<'s> {
    sql: &'s str,
    stores: &'s [String],
    default: OnlyStore,
    query: Query,
    at: usize,
    /// The last word, in small letters, or the last sign.
    before: String,
}

impl<'s> Reader<'s> {
    fn new(sql: &'s str, stores: &'s [String], default: OnlyStore) -> Self {
        Self { sql, stores, default, query: Query::default(), at: 0, before: String::new() }
    }

    fn rest(&self) -> &'s str {
        self.sql.get(self.at..).unwrap_or_default()
    }

    fn read(mut self) -> Result<Query, String> {
        while !self.rest().is_empty() {
            let (kind, len) =
                token(self.rest()).ok_or_else(|| "a quote or a comment does not end".to_owned())?;
            let text = self.rest().get(..len).unwrap_or_default();
            match kind {
                Some(Kind::Word) => self.word(text)?,
                Some(Kind::Quoted) => self.quoted(text),
                _ => self.copy(text),
            }
            if kind.is_some() {
                self.before = text.to_ascii_lowercase();
            }
        }
        Ok(self.query)
    }

    fn copy(&mut self, text: &str) {
        self.query.sql.push_str(text);
        self.at += text.len();
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        let after = self.rest().get(word.len()..).unwrap_or_default();
        if let Some(reference) = after.strip_prefix('@').and_then(reference) {
            self.at += word.len() + 1 + reference.len();
            self.name(word, reference);
            return Ok(());
        }
        let is_behind_dot = self.before == ".";
        let is_store = || self.stores.iter().any(|store| store == word);
        if !is_behind_dot && let Some(table) = behind_dot(after).filter(|_| is_store()) {
            self.at += word.len();
            match is_made_up(&table) {
                true => self.name(word, ".."),
                false => self.put(word, word, Moment::At("latest".to_owned())),
            }
            return Ok(());
        }
        let is_table = matches!(self.before.as_str(), "from" | "join" | ",") && behind_dot(after).is_none();
        if is_table && is_made_up(word) && self.before != "," {
            let store = match &self.default {
                OnlyStore::Store(store) => store.clone(),
                OnlyStore::None => {
                    return Err(format!("{word} may be of several stores; write STORE.{word}"));
                }
                OnlyStore::Unknown => {
                    self.copy(word);
                    return Ok(());
                }
            };
            self.query.sql.push_str(&in_quotes(&format!("{store}@..")));
            self.query.sql.push('.');
            self.remember(format!("{store}@.."), &store, Moment::All, Some(word.to_owned()));
        }
        self.copy(word);
        Ok(())
    }

    fn quoted(&mut self, text: &str) {
        let name = Token { kind: Kind::Quoted, text, range: 0..0 }.name().into_owned();
        let after = self.rest().get(text.len()..).unwrap_or_default();
        match name.split_once('@').filter(|_| self.before != "." && behind_dot(after).is_some()) {
            Some((store, reference)) => {
                self.at += text.len();
                self.name(store, reference);
            }
            None => self.copy(text),
        }
    }

    /// Writes the database of what is named so.
    fn name(&mut self, store: &str, reference: &str) {
        let moment = match reference.split_once("..") {
            Some(("", "")) => Moment::All,
            Some((from, to)) => Moment::Between(from.to_owned(), to.to_owned()),
            None => Moment::At(reference.to_owned()),
        };
        self.put(&format!("{store}@{reference}"), store, moment);
    }

    fn put(&mut self, schema: &str, store: &str, moment: Moment) {
        self.query.sql.push_str(&in_quotes(schema));
        self.remember(schema.to_owned(), store, moment, behind_dot(self.rest()));
    }

    fn remember(&mut self, schema: String, store: &str, moment: Moment, table: Option<String>) {
        let new = || Named { store: store.to_owned(), moment, tables: BTreeSet::new() };
        self.query.named.entry(schema).or_insert_with(new).tables.extend(table);
    }
}

/// A moment behind `@`, if a dot and a table follow.
fn reference(after: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let len = |text: &str| text.find(|c| !is_part(c)).unwrap_or(text.len());
    let mut end = len(after);
    if let Some(second) = after.get(end..)?.strip_prefix("..") {
        end += 2 + len(second);
    }
    (end > 0).then_some(())?;
    behind_dot(after.get(end..)?)?;
    after.get(..end)
}

/// The name behind a dot.
fn behind_dot(after: &str) -> Option<String> {
    let name = after.trim_start().strip_prefix('.')?.trim_start();
    match token(name)? {
        (Some(kind @ (Kind::Word | Kind::Quoted)), len) => {
            Some(Token { kind, text: name.get(..len)?, range: 0..0 }.name().into_owned())
        }
        _ => None,
    }
}

fn is_made_up(table: &str) -> bool {
    MADE_UP.iter().any(|start| table.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start)))
}

fn in_quotes(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sql: &str) -> (String, Vec<String>) {
        let stores = ["report".to_owned(), "ledger".to_owned()];
        let query = read(sql, &stores).unwrap();
        let named = query.named.iter().map(|(schema, named)| {
            let tables: Vec<&str> = named.tables.iter().map(String::as_str).collect();
            format!("{schema} {} {:?} {}", named.store, named.moment, tables.join(","))
        });
        (query.sql, named.collect())
    }

    #[test]
    fn versions_are_named_in_front_of_tables() {
        let cases = [
            (
                "select a.id from report@12.sale a join \"report@month-end\".sale b using (id) where a.id > 1.5",
                "select a.id from \"report@12\".sale a join \"report@month-end\".sale b using (id) where a.id > 1.5",
                vec!["report@12 report At(\"12\") sale", "report@month-end report At(\"month-end\") sale"],
            ),
            (
                "select report@12.sale.id from report@12.sale, [report@latest] . \"sale\"",
                "select \"report@12\".sale.id from \"report@12\".sale, \"report@latest\" . \"sale\"",
                vec!["report@12 report At(\"12\") sale", "report@latest report At(\"latest\") sale"],
            ),
            (
                "select * from report@11..12.diff_sale join report.history_sale join ledger.entry e",
                "select * from \"report@11..12\".diff_sale join \"report@..\".history_sale join \"ledger\".entry e",
                vec![
                    "ledger ledger At(\"latest\") entry",
                    "report@.. report All history_sale",
                    "report@11..12 report Between(\"11\", \"12\") diff_sale",
                ],
            ),
            (
                "select op from diff_sale, report@3.sale where diff_sale.op = 'report@9.x' -- ledger@1.x\n/* ledger.x */",
                "select op from \"report@..\".diff_sale, \"report@3\".sale where diff_sale.op = 'report@9.x' -- ledger@1.x\n/* ledger.x */",
                vec!["report@.. report All diff_sale", "report@3 report At(\"3\") sale"],
            ),
            // An alias of the name of a store, a bound variable, and what is behind a dot are left alone.
            ("select x.report, @12.5, \"a@b\" from t", "select x.report, @12.5, \"a@b\" from t", vec![]),
        ];
        for (sql, expected, named) in cases {
            assert_eq!(
                parts(sql),
                (expected.to_owned(), named.iter().map(|text| (*text).to_owned()).collect()),
                "{sql}"
            );
        }
    }

    #[test]
    fn without_a_name_the_only_store_is_meant() {
        let stores = ["report".to_owned()];
        let query = read("select count(*) from sale", &stores).unwrap();
        assert_eq!(query.named["report"].moment, Moment::At("latest".to_owned()));
        let query = read("select * from history_sale", &stores).unwrap();
        assert_eq!((query.named.len(), query.sql.as_str()), (1, "select * from \"report@..\".history_sale"));
        assert!(read("select 'open", &stores).is_err());
    }
}
