//! The arguments of what compares versions.

use std::path::PathBuf;
use std::time::Duration;

use asat_core::StoreName;
use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::cli::typed::{Wanted, duration};
use crate::cli::when::day_ends;

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// The two versions, the older one first: report@11 report@12, report@latest, report@TAG; one alone is compared with the one before it.
    /// With --as-of twice, the store; it may be left out if there is only one
    #[arg(num_args = 0..=2, value_name = "VERSION|STORE")]
    pub(in crate::cli) versions: Vec<Wanted>,
    /// Instead of a version, the newest one cut at or before this time; a day alone means its end. Beside a version that is named, the
    /// older of the two comes first
    #[arg(long, value_name = "TIME", value_parser = day_ends, allow_hyphen_values = true)]
    pub(in crate::cli) as_of: Vec<Timestamp>,
    /// Show the rows that differ, and not only how many
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) rows: bool,
    /// Print it for a program: how many rows, or the rows in a format of others
    #[arg(long, value_enum)]
    pub(in crate::cli) format: Option<DiffFormat>,
    /// Only this table
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) table: Option<String>,
    /// Take rows for the same by these columns, separated by commas, and not by the table's key
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "table")]
    pub(in crate::cli) by: Vec<String>,
    /// Shadow tables of virtual tables, and SQLite's own, too
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// At most this many rows
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::cli) limit: Option<u64>,
}

/// In which format what differs is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum DiffFormat {
    /// How many rows differ in which table
    Summary,
    /// A JSON object a row, one on each line
    Jsonl,
    /// A script that makes the older version the newer one
    Sql,
    /// Comma-separated values
    Csv,
    /// A changeset of SQLite's session extension
    Changeset,
    /// A page for a browser
    Html,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct HistoryArgs {
    /// The store
    pub(in crate::cli) store: StoreName,
    /// The table
    pub(in crate::cli) table: String,
    /// The row's key; of several columns as JSON: '["EUR", 7]'. Without it, each state of each row is shown
    #[arg(allow_hyphen_values = true)]
    pub(in crate::cli) key: Option<String>,
    /// Only changes of this column
    #[arg(long, value_name = "NAME", requires = "key")]
    pub(in crate::cli) column: Option<String>,
    /// At most this many changes, the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) limit: u32,
    /// All of them
    #[arg(long, short, conflicts_with = "limit")]
    pub(in crate::cli) all: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SqlArgs {
    /// The query; - or nothing reads it from standard input
    pub(in crate::cli) query: Option<String>,
    /// A file with the query
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// How to print the rows; without it, a table on a terminal, and csv elsewhere
    #[arg(long, value_enum)]
    pub(in crate::cli) format: Option<SqlFormat>,
    /// At most this many rows
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::cli) limit: Option<u64>,
    /// End the query after this time, for example 30s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) time: Option<Duration>,
}

/// How the rows of a query are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum SqlFormat {
    /// A table for people
    Table,
    /// One JSON array of objects
    Json,
    /// A JSON object a row, one on each line
    Jsonl,
    /// Comma-separated values
    Csv,
    /// A table in Markdown
    Markdown,
}
