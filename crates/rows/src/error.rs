//! What can go wrong, told with the version and the page concerned and what to do about it.

use std::io;

use asat_core::{Code, Problem};

use crate::pages::SourceError;

/// An error in comparing or reading rows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source did not give a page.
    #[error("page {page} of {version} cannot be read: {source}")]
    Source {
        /// The version's name.
        version: String,
        /// The page's number, from 1.
        page: u32,
        /// What the source says.
        source: SourceError,
    },
    /// A page is not what SQLite would have written.
    #[error("page {page} of {version} is damaged: {what}")]
    Damaged {
        /// The version's name.
        version: String,
        /// The page's number, from 1.
        page: u32,
        /// What is wrong with it.
        what: String,
    },
    /// There is no table of that name in either version.
    #[error("there is no table {name}")]
    NoSuchTable {
        /// The name that was asked for.
        name: String,
    },
    /// The table is of a kind whose rows cannot be read here, or its definition is not understood.
    #[error("the rows of the table {table} cannot be read: {why}")]
    NotComparable {
        /// The table's name.
        table: String,
        /// What keeps from reading it.
        why: String,
    },
    /// What was given is no key of the table.
    #[error("no key of the table {table}: {why}")]
    Key {
        /// The table's name.
        table: String,
        /// What is wrong with it.
        why: String,
    },
    /// What was found could not be written.
    #[error("what differs cannot be written: {0}")]
    Write(#[from] io::Error),
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Source { .. } => "verify the archive, which says what of it is damaged",
            Self::Damaged { .. } => {
                "run PRAGMA integrity_check on a copy of this version: the store itself was damaged when it was published"
            }
            Self::NoSuchTable { .. } => {
                "asat diff without --table names the tables that differ, and asat sql \"select name from STORE@latest.sqlite_schema\" all"
            }
            Self::NotComparable { .. } => "open both versions with SQLite, and compare the table there",
            Self::Key { .. } => "write the value of the key; several columns as a JSON array: [\"EUR\", 7]",
            Self::Write(_) => "",
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Source { .. } | Error::Damaged { .. } => Code::Damaged,
            Error::NoSuchTable { .. } | Error::NotComparable { .. } | Error::Key { .. } => Code::Invalid,
            Error::Write(_) => Code::Internal,
        };
        let hint = error.hint();
        Self::new(code, error.to_string(), hint)
    }
}
