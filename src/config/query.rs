//! The section of queries: how much they may take.

use std::time::Duration;

use asat_core::Problem;

use super::raw;
use super::validate::{duration, size, wrong};

/// How much queries over versions may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryConfig {
    /// So many rows are answered at most, and so many may have changed.
    pub max_rows: u64,
    /// A query is ended after this time.
    pub max_time: Duration,
    /// SQLite may take so much memory for one of them.
    pub max_memory_bytes: u64,
    /// The tables of what changed that one of them names, and its temporary files, may take so much of the disk.
    pub max_disk_bytes: u64,
    /// So many are answered at once.
    pub at_once: usize,
}

/// With less memory than this, SQLite cannot open a large schema.
const LEAST_MEMORY: u64 = 16 << 20;

pub(super) fn validate(raw: &raw::Query) -> Result<QueryConfig, Problem> {
    let max_memory_bytes =
        raw.max_memory.as_deref().map(|text| size("query.max_memory", text)).transpose()?;
    let max_disk_bytes = raw.max_disk.as_deref().map(|text| size("query.max_disk", text)).transpose()?;
    if max_memory_bytes.is_some_and(|bytes| bytes < LEAST_MEMORY) {
        let what = "is less than 16 MiB, which SQLite needs for itself".to_owned();
        return Err(wrong("query.max_memory", what, "write for example \"256 MiB\""));
    }
    for (key, is_zero) in
        [("query.max_rows", raw.max_rows == Some(0)), ("query.at_once", raw.at_once == Some(0))]
    {
        if is_zero {
            return Err(wrong(key, "is 0, which allows nothing".to_owned(), "write 1 at least"));
        }
    }
    Ok(QueryConfig {
        max_rows: raw.max_rows.unwrap_or(1_000_000),
        max_time: raw
            .max_time
            .as_deref()
            .map_or(Ok(Duration::from_secs(60)), |text| duration("query.max_time", text))?,
        max_memory_bytes: max_memory_bytes.unwrap_or(256 << 20),
        max_disk_bytes: max_disk_bytes.unwrap_or(1 << 30),
        at_once: raw.at_once.unwrap_or(4),
    })
}
