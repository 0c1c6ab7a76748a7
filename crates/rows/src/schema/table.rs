//! What `CREATE TABLE` says of a table (<https://sqlite.org/lang_createtable.html>), as far as its rows depend on it.

use std::ops::Range;

use crate::collation::Collation;
use crate::schema::affinity::Affinity;
use crate::schema::constant::{Constant, constant};
use crate::schema::tokens::{Kind, Token, tokens};

/// A table's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its columns, in their order.
    pub columns: Vec<Column>,
    /// Whether its rows are found by the primary key alone (`WITHOUT ROWID`).
    pub without_rowid: bool,
    /// The column that is the rowid (`INTEGER PRIMARY KEY`).
    pub rowid_alias: Option<usize>,
    /// The declared primary key.
    pub key: Vec<KeyColumn>,
    /// Columns of `UNIQUE` constraints.
    pub(crate) unique: Vec<usize>,
    /// Where in the text the name is, and where another column would be put in.
    pub(crate) name_at: Range<usize>,
    pub(crate) columns_end: usize,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values become.
    pub affinity: Affinity,
    /// Whether its values are computed from others.
    pub generated: Option<Generated>,
    /// Where the text is that defines it, and what of it follows the name.
    pub(crate) defined_at: Range<usize>,
    pub(crate) rest_at: Range<usize>,
    /// The field of the record that has it.
    pub(crate) field: Option<usize>,
    /// What it is in rows that are older than it; `None` if nobody can tell.
    pub(crate) default: Option<Constant>,
    /// The name of its collation.
    pub(crate) collation: String,
}

/// How a generated column comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// It is computed when it is read, and stored nowhere.
    Virtual,
    /// It is stored as others are.
    Stored,
}

/// A column of the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its place among the columns.
    pub column: usize,
    /// By what it is ordered. `Err` has the name of one that is not SQLite's own.
    pub collation: Result<Collation, String>,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Definition {
    /// Reads the text of a `CREATE TABLE`; `None` if it is not understood.
    pub(crate) fn parse(sql: &str) -> Option<Self> {
        Parser::new(&tokens(sql)?).table()
    }

    /// That of a table without columns.
    pub(crate) fn nothing() -> &'static Self {
        static NOTHING: Definition = Definition {
            columns: Vec::new(),
            without_rowid: false,
            rowid_alias: None,
            key: Vec::new(),
            unique: Vec::new(),
            name_at: 0..0,
            columns_end: 0,
        };
        &NOTHING
    }

    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Gives each column that is stored its field: in a table without rowid the key comes first.
    fn number_fields(&mut self) {
        let mut order: Vec<usize> = Vec::new();
        if self.without_rowid {
            order.extend(self.key.iter().map(|part| part.column));
        }
        let is_stored = |column: &&usize| {
            self.columns.get(**column).is_some_and(|c| c.generated != Some(Generated::Virtual))
        };
        let places: Vec<usize> = (0..self.columns.len()).collect();
        let rest: Vec<usize> =
            places.iter().filter(is_stored).filter(|column| !order.contains(column)).copied().collect();
        order.extend(rest);
        for (field, place) in order.into_iter().enumerate() {
            if let Some(column) = self.columns.get_mut(place) {
                // A column that is twice in the key, in different order, is read from where it is first.
                column.field.get_or_insert(field);
            }
        }
    }
}

/// A declared key or unique constraint, before the columns are all known.
struct Constraint {
    is_primary: bool,
    /// Whether it stands at a column, which is a little different.
    at_column: bool,
    parts: Vec<Part>,
}

struct Part {
    name: String,
    collation: Option<String>,
    descending: bool,
}

struct Parser<'t, 's> {
    tokens: &'t [Token<'s>],
    at: usize,
    columns: Vec<Column>,
    types: Vec<String>,
    constraints: Vec<Constraint>,
    is_strict: bool,
}

impl<'t, 's> Parser<'t, 's> {
    fn new(tokens: &'t [Token<'s>]) -> Self {
        let mut options = tokens.iter().rev().take_while(|token| !token.is_sign(")"));
        let is_strict = options.any(|token| token.is_word("strict"));
        Self { tokens, at: 0, columns: Vec::new(), types: Vec::new(), constraints: Vec::new(), is_strict }
    }

    fn table(mut self) -> Option<Definition> {
        self.word("create")?;
        let _ = self.any(&["temp", "temporary"]);
        self.word("table")?;
        if self.word("if").is_some() {
            self.word("not")?;
            self.word("exists")?;
        }
        let mut name = self.next()?;
        if self.sign(".").is_some() {
            name = self.next()?;
        }
        let name_at = name.range.clone();
        self.sign("(")?;
        while !self.is_at_constraint() {
            self.column()?;
            if self.sign(",").is_none() {
                break;
            }
        }
        let columns_end = self.columns.last()?.defined_at.end;
        while self.sign(")").is_none() {
            self.table_constraint()?;
        }
        let mut without_rowid = false;
        while let Some(token) = self.next() {
            without_rowid |= token.is_word("rowid");
        }
        self.definition(name_at, columns_end, without_rowid)
    }

    fn definition(
        self,
        name_at: Range<usize>,
        columns_end: usize,
        without_rowid: bool,
    ) -> Option<Definition> {
        let (key, unique, rowid_alias) = (Vec::new(), Vec::new(), None);
        let columns = self.columns;
        let mut table = Definition { columns, without_rowid, rowid_alias, key, unique, name_at, columns_end };
        for constraint in &self.constraints {
            let columns: Option<Vec<usize>> =
                constraint.parts.iter().map(|part| table.column(&part.name)).collect();
            let columns = columns?;
            if constraint.is_primary {
                table.key = table.key_of(&constraint.parts, &columns);
                table.rowid_alias = match (columns.as_slice(), constraint.parts.as_slice()) {
                    ([only], [part]) if !without_rowid => {
                        // `INTEGER PRIMARY KEY DESC` at a column is no alias, by an old mistake that is kept.
                        let is_odd = constraint.at_column && part.descending;
                        let is_integer =
                            self.types.get(*only).is_some_and(|t| t.eq_ignore_ascii_case("integer"));
                        (is_integer && !is_odd).then_some(*only)
                    }
                    _ => None,
                };
            }
            if !constraint.is_primary || (table.rowid_alias.is_none() && !without_rowid) {
                table.unique.extend(columns);
            }
        }
        table.number_fields();
        (!without_rowid || !table.key.is_empty()).then_some(table)
    }

    /// Whether a constraint of the table follows, and no column.
    fn is_at_constraint(&self) -> bool {
        let words = ["constraint", "primary", "unique", "check", "foreign"];
        self.peek().is_some_and(|token| words.iter().any(|word| token.is_word(word)))
    }

    fn column(&mut self) -> Option<()> {
        let name = self.next()?;
        if name.kind == Kind::Sign || name.kind == Kind::Number {
            return None;
        }
        let column = name.name().into_owned();
        let declared = self.declared_type();
        let is_any = self.is_strict && declared.eq_ignore_ascii_case("any");
        let affinity = if is_any { Affinity::Blob } else { Affinity::of(&declared) };
        self.types.push(declared);
        self.columns.push(Column {
            name: column.clone(),
            affinity,
            generated: None,
            defined_at: name.range.clone(),
            rest_at: name.range.end..name.range.end,
            field: None,
            default: Some(Constant::Null),
            collation: "BINARY".to_owned(),
        });
        while self.peek().is_some_and(|token| !token.is_sign(",") && !token.is_sign(")"))
            && !self.is_at_table_key()
        {
            self.column_constraint(&column, affinity)?;
        }
        let end = self.tokens.get(self.at.checked_sub(1)?)?.range.end;
        let this = self.columns.last_mut()?;
        (this.defined_at.end, this.rest_at.end) = (end, end);
        Some(())
    }

    /// Whether what follows can only be of the table: SQLite takes its constraints without a comma before them, too.
    fn is_at_table_key(&self) -> bool {
        let follows = |words: [&str; 2]| {
            let (first, second) = (self.tokens.get(self.at), self.tokens.get(self.at + 1));
            first.is_some_and(|t| t.is_word(words[0])) && second.is_some_and(|t| t.is_word(words[1]))
        };
        follows(["foreign", "key"])
    }

    /// The words of a type, with one space between them; what is in brackets behind them counts for nothing.
    fn declared_type(&mut self) -> String {
        let ends = [
            "constraint",
            "primary",
            "not",
            "null",
            "unique",
            "check",
            "default",
            "collate",
            "references",
            "generated",
            "as",
            "foreign",
        ];
        let mut words: Vec<String> = Vec::new();
        while let Some(token) = self.peek() {
            let is_word = matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text)
                && !ends.iter().any(|end| token.is_word(end));
            if !is_word {
                break;
            }
            words.push(token.name().into_owned());
            self.at += 1;
        }
        if !words.is_empty() {
            // SQLite looks for parts of words in the brackets too.
            let inside = self.group().unwrap_or_default();
            let texts = inside.iter().map(|token| token.text);
            words.extend((!inside.is_empty()).then(|| texts.collect::<String>()));
        }
        words.join(" ")
    }

    fn column_constraint(&mut self, name: &str, affinity: Affinity) -> Option<()> {
        let token = self.next()?;
        let this = || Part { name: name.to_owned(), collation: None, descending: false };
        if token.is_word("constraint") {
            self.next()?;
        } else if token.is_word("primary") {
            self.word("key")?;
            let descending = self.any(&["asc", "desc"]).is_some_and(|token| token.is_word("desc"));
            let part = Part { descending, ..this() };
            self.constraints.push(Constraint { is_primary: true, at_column: true, parts: vec![part] });
        } else if token.is_word("unique") {
            self.constraints.push(Constraint { is_primary: false, at_column: true, parts: vec![this()] });
        } else if token.is_word("default") {
            let value = self.default_value()?;
            self.columns.last_mut()?.default = constant(value, affinity);
        } else if token.is_word("collate") {
            self.columns.last_mut()?.collation = self.next()?.name().into_owned();
        } else if token.is_word("references") {
            self.reference()?;
        } else if token.is_word("as") {
            self.group()?;
            let stored = self.any(&["stored", "virtual"]).is_some_and(|token| token.is_word("stored"));
            let generated = if stored { Generated::Stored } else { Generated::Virtual };
            self.columns.last_mut()?.generated = Some(generated);
        } else if token.is_sign("(") {
            self.at -= 1;
            self.group()?;
        }
        Some(())
    }

    /// The tokens of a default: a value in brackets, a value with a sign, or a name.
    fn default_value(&mut self) -> Option<&'t [Token<'s>]> {
        let begin = self.at;
        if self.peek()?.is_sign("(") {
            self.group()?;
        } else {
            while self.sign("-").is_some() || self.sign("+").is_some() {}
            self.next()?;
        }
        self.tokens.get(begin..self.at)
    }

    /// What follows `REFERENCES`: its words mean something else elsewhere.
    fn reference(&mut self) -> Option<()> {
        self.next()?;
        let _ = self.group();
        loop {
            if self.word("on").is_some() {
                self.any(&["delete", "update"])?;
                if self.any(&["set", "no"]).is_some() {
                    self.any(&["null", "default", "action"])?;
                } else {
                    self.any(&["cascade", "restrict"])?;
                }
            } else if self.word("match").is_some() {
                self.next()?;
            } else if self.follows_deferrable() {
                let _ = self.word("not");
                self.word("deferrable")?;
                if self.word("initially").is_some() {
                    self.next()?;
                }
            } else {
                return Some(());
            }
        }
    }

    fn follows_deferrable(&self) -> bool {
        let after = self.at + usize::from(self.peek().is_some_and(|token| token.is_word("not")));
        self.tokens.get(after).is_some_and(|token| token.is_word("deferrable"))
    }

    fn table_constraint(&mut self) -> Option<()> {
        let token = self.next()?;
        if token.is_word("primary") || token.is_word("unique") {
            let is_primary = token.is_word("primary");
            if is_primary {
                self.word("key")?;
            }
            let parts = parts(self.group()?)?;
            self.constraints.push(Constraint { is_primary, at_column: false, parts });
        } else if token.is_word("references") {
            self.reference()?;
        } else if token.is_word("constraint") {
            self.next()?;
        } else if token.is_sign("(") {
            self.at -= 1;
            self.group()?;
        }
        Some(())
    }

    fn peek(&self) -> Option<&'t Token<'s>> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&'t Token<'s>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    fn word(&mut self, word: &str) -> Option<&'t Token<'s>> {
        self.any(&[word])
    }

    fn any(&mut self, words: &[&str]) -> Option<&'t Token<'s>> {
        let token = self.peek().filter(|token| words.iter().any(|word| token.is_word(word)))?;
        self.at += 1;
        Some(token)
    }

    fn sign(&mut self, sign: &str) -> Option<&'t Token<'s>> {
        let token = self.peek().filter(|token| token.is_sign(sign))?;
        self.at += 1;
        Some(token)
    }

    /// What is in brackets, if they follow.
    fn group(&mut self) -> Option<&'t [Token<'s>]> {
        self.sign("(")?;
        let (begin, mut depth) = (self.at, 1_usize);
        while depth > 0 {
            let token = self.next()?;
            depth = depth + usize::from(token.is_sign("(")) - usize::from(token.is_sign(")"));
        }
        self.tokens.get(begin..self.at - 1)
    }
}

/// The columns of a key.
fn parts(tokens: &[Token<'_>]) -> Option<Vec<Part>> {
    let part = |tokens: &[Token<'_>]| {
        let (first, rest) = tokens.split_first()?;
        let after = |word: &str| rest.iter().position(|token| token.is_word(word));
        let collation = after("collate").and_then(|at| rest.get(at + 1));
        let collation = collation.map(|token| token.name().into_owned());
        Some(Part { name: first.name().into_owned(), collation, descending: after("desc").is_some() })
    };
    tokens.split(|token| token.is_sign(",")).map(part).collect()
}

impl Definition {
    /// The key as SQLite keeps it: a column that comes again, ordered by the same, counts once.
    fn key_of(&self, parts: &[Part], columns: &[usize]) -> Vec<KeyColumn> {
        let mut key: Vec<KeyColumn> = Vec::new();
        for (part, &column) in parts.iter().zip(columns) {
            let own = self.columns.get(column).map(|column| column.collation.as_str());
            let name = part.collation.as_deref().or(own).unwrap_or("BINARY");
            let collation = Collation::named(name).ok_or_else(|| name.to_owned());
            if !key.iter().any(|other| other.column == column && other.collation == collation) {
                key.push(KeyColumn { column, collation, descending: part.descending });
            }
        }
        key
    }
}
