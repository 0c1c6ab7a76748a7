//! Queries over two versions, beside the same over two plain files.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use asat_core::Problem;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde::Serialize;

use super::super::site::Site;
use super::super::statistics::{Paired, ms_since};
use super::super::{api, differs, failed};
use super::TIMES;

/// What is asked: one that joins, one that sorts, and one that answers many rows. The first column of each is a number.
pub(super) const QUERIES: [(&str, &str); 3] = [
    (
        "joins",
        "select count(*), sum(a.value - b.value) from OLD.position a join NEW.position b using (id) where a.units <> b.units",
    ),
    (
        "sorts",
        "select count(*), sum(a.value - b.value) from OLD.position a join NEW.position b using (id) group by a.account order by 1 desc, 2 limit 10",
    ),
    (
        "answers a million rows",
        "select id, a.currency, b.value from OLD.position a join NEW.position b using (id) where id <= 1000000",
    ),
];

/// What shows how long the leases and the process take, whatever is asked.
const LEAST: (&str, &str) =
    ("reads one row", "select id from OLD.position join NEW.position b using (id) where id = 1");

/// A query as it was measured: over plain files, and over versions.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) what: &'static str,
    pub(super) took: Paired,
}

/// Asks all of them, over the first version and the one of this name, which are in these files, too.
pub(super) async fn run(site: &Site, last: &str, old: &Path, new: &Path) -> Result<Vec<Measured>, Problem> {
    let mut measured = Vec::new();
    for (what, sql) in QUERIES.into_iter().chain([LEAST]) {
        let over_versions = sql.replace("OLD", "report@1").replace("NEW", last);
        let over_files = sql.replace("OLD", "old").replace("NEW", "new");
        let mut pairs = Vec::new();
        for nth in 0..=TIMES {
            // The order alternates: what the first one leaves in the processor's caches helps the second.
            let ((files, without_ms), (versions, with_ms)) = if nth % 2 == 0 {
                let plain = plain(&over_files, old, new)?;
                (plain, ask(site, &over_versions).await?)
            } else {
                let asked = ask(site, &over_versions).await?;
                (plain(&over_files, old, new)?, asked)
            };
            if versions != files {
                return Err(differs(format!(
                    "versions answer {versions:?} (rows, sum), and files {files:?}"
                )));
            }
            // The first one makes the copies.
            if nth > 0 {
                pairs.push((without_ms, with_ms));
            }
        }
        measured.push(Measured { what, took: Paired::of(&pairs) });
    }
    Ok(measured)
}

/// How many rows the answer has and the sum of their first values, and how long it took.
async fn ask(site: &Site, sql: &str) -> Result<((u64, i64), f64), Problem> {
    let (answer, took) = api::query(site, sql).await?;
    let (mut rows, mut sum) = (0, 0);
    for row in api::rows(&answer) {
        rows += 1;
        sum += row?.first().and_then(serde_json::Value::as_i64).unwrap_or_default();
    }
    Ok(((rows, sum), took))
}

/// The same of two plain files, in a process of its own as well: that of the benchmark, which writes the rows as text, too.
fn plain(sql: &str, old: &Path, new: &Path) -> Result<((u64, i64), f64), Problem> {
    let since = Instant::now();
    let answer = answer(sql, old, new).map_err(|error| failed("ask two files", error))?;
    Ok((answer, ms_since(since)))
}

fn answer(sql: &str, old: &Path, new: &Path) -> rusqlite::Result<(u64, i64)> {
    let connection = Connection::open_in_memory()?;
    connection.execute("attach ?1 as old", [old.display().to_string()])?;
    connection.execute("attach ?1 as new", [new.display().to_string()])?;
    connection.execute_batch("pragma cache_size = -32768")?;
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let (mut rows, mut sum, mut text) = (0, 0, String::new());
    let mut answer = statement.query([])?;
    while let Some(row) = answer.next()? {
        rows += 1;
        sum += row.get::<_, i64>(0)?;
        let _ = write!(text, "\n{}", row.get::<_, i64>(0)?);
        for column in 1..columns {
            let _ = match row.get(column)? {
                Value::Null => write!(text, ","),
                Value::Integer(number) => write!(text, ",{number}"),
                Value::Real(number) => write!(text, ",{number:?}"),
                Value::Text(value) => write!(text, ",{value}"),
                Value::Blob(value) => write!(text, ",{value:02x?}"),
            };
        }
    }
    std::hint::black_box(text);
    Ok((rows, sum))
}
