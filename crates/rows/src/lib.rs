//! The rows that differ between two versions of a SQLite file, at the cost of what changed.
//!
//! The archive knows which pages of two versions differ. From these a [`Comparison`] finds which tables may differ, and where: it reads the
//! schema and the interior pages of tables, and no leaf that is the same in both. [`Comparison::rows`] then reads those leaves that are not,
//! and gives [`Differences`] in the order of the table's key. Indexes are never read for their rows.
//!
//! The crate reads pages by a trait, [`Pages`], and has no effects. What is in the pages is not trusted: a damaged one is an error
//! that names it. The format is that of <https://sqlite.org/fileformat2.html>.

mod btree;
mod bytes;
mod collation;
mod comparison;
mod differences;
mod error;
mod find;
mod grouped;
mod key;
mod overflow;
mod pages;
mod payload;
pub mod query;
mod record;
mod row;
mod rows;
mod schema;
mod value;
mod version;
mod walk;
mod written;

pub use collation::{Collation, KeyValue};
pub use comparison::{ColumnPair, Compared, Comparison, TableChange};
pub use differences::{Counts, Difference, Differences};
pub use error::Error;
pub use key::Key;
pub use pages::{Pages, SourceError};
pub use row::Row;
pub use schema::affinity::Affinity;
pub use schema::table::{Column, Definition, Generated, KeyColumn};
pub use schema::{Schema, Table, TableKind};
pub use value::{Bytes, Text, Value};
pub use version::{Encoding, Version};
pub use written::{Format, Selection, Written, write, write_key, write_row};
