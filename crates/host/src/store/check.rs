//! Asking a store what the configuration asks: queries that only read, in the transaction that a cut reads.
//!
//! A query comes from whoever writes the configuration, and may be wrong. So nothing but reading is allowed to it, it is
//! ended after its deadline, and only the first rows of its answer are looked at. Views may be used, with functions that can
//! do no harm; triggers are never run, since nothing is written.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::boundary;
use asat_core::check::{Check, CheckResult, Rows, Test, Value};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement};

use super::error::Error;

/// After how many of SQLite's operations it is looked whether the deadline has passed: some microseconds.
const OPERATIONS: i32 = 1000;
/// The longest value that a query may make or read, in bytes.
const LONGEST_VALUE: i32 = 64 << 20;
/// The memory for pages while queries run, as a number of KiB: they come back to pages, as a scan does not.
const CACHE_KIB: i32 = 16 << 10;

/// What is asked of a store before it is read.
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    /// The checks, in the order in which they are made.
    pub checks: &'a [Check],
    /// Ends them all.
    pub cancel: &'a Arc<AtomicBool>,
}

/// Until when there is time for a query.
#[derive(Clone, Copy)]
pub(super) struct Until {
    pub(super) end: Instant,
    /// What is said where it ends the query.
    pub(super) bound: Duration,
}

/// Makes all checks in the transaction of a connection. Writers that wait for it wait no longer than `held` says: since when
/// they do, and how long they may.
pub(super) fn examine(
    connection: &mut Connection,
    path: &Path,
    checks: &Checks<'_>,
    held: Option<(Instant, Duration)>,
) -> Result<Vec<CheckResult>, Error> {
    let mut results = Vec::new();
    for check in checks.checks {
        let began = Instant::now();
        let failed = |what| Error::Check { path: path.to_owned(), check: check.name.clone(), what };
        let answer = ask(connection, path, check, checks.cancel, held)?;
        let found = answer.and_then(|rows| check.judge(&rows)).map_err(failed)?;
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        results.push(CheckResult { name: check.name.clone(), passed: true, found, took_us });
        boundary::pass("checks: made");
    }
    Ok(results)
}

/// Asks what a check asks. The inner error says why there is no answer, where that is the query's fault or the content's.
fn ask(
    connection: &mut Connection,
    path: &Path,
    check: &Check,
    cancel: &Arc<AtomicBool>,
    held: Option<(Instant, Duration)>,
) -> Result<Result<Rows, String>, Error> {
    let now = Instant::now();
    let own = Until { end: now + check.deadline, bound: check.deadline };
    let hold = held.map(|(since, bound)| Until { end: since + bound, bound });
    let is_held = hold.is_some_and(|hold| hold.end < own.end);
    let until = hold.filter(|_| is_held).unwrap_or(own);
    let is_query = matches!(check.test, Test::Query { .. } | Test::Marker { .. });
    match query(connection, path, check.sql(), is_query, until, cancel)? {
        Answer::Rows(rows) => Ok(Ok(rows)),
        Answer::Refused(why) => Ok(Err(why)),
        Answer::TooLate if is_held => {
            let held = now.elapsed();
            Err(Error::CheckHeld {
                path: path.to_owned(),
                check: check.name.clone(),
                bound: until.bound,
                held,
            })
        }
        Answer::TooLate => Ok(Err(format!("it did not end within {} ms", until.bound.as_millis()))),
    }
}

/// What came of a query.
pub(super) enum Answer {
    Rows(Rows),
    /// It is none that may be asked, or SQLite cannot answer it, for this reason.
    Refused(String),
    TooLate,
}

/// Asks a query; with `only_reads` it is one of the configuration, which may do nothing else.
pub(super) fn query(
    connection: &mut Connection,
    path: &Path,
    sql: &str,
    only_reads: bool,
    until: Until,
    cancel: &Arc<AtomicBool>,
) -> Result<Answer, Error> {
    let failed = |error: rusqlite::Error| Error::from_sqlite("check", path, &error);
    let before = confine(connection, only_reads).map_err(failed)?;
    let asked = Arc::clone(cancel);
    let is_over = move || asked.load(Ordering::Relaxed) || Instant::now() >= until.end;
    connection.progress_handler(OPERATIONS, Some(is_over)).map_err(failed)?;
    let answer = first_rows(connection, sql, only_reads);
    release(connection, before).map_err(failed)?;
    match answer {
        Ok(rows) => Ok(Answer::Rows(rows)),
        Err(Refusal::Other(why)) => Ok(Answer::Refused(why)),
        Err(Refusal::Sqlite(error)) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if cancel.load(Ordering::Relaxed) => {
                Err(Error::Stopping { path: path.to_owned() })
            }
            Some(ErrorCode::OperationInterrupted) => Ok(Answer::TooLate),
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen,
            ) => Err(failed(error)),
            _ => Ok(Answer::Refused(explain(error))),
        },
    }
}

/// Refuses a query of which it can be known without the store that it is none which only reads.
///
/// # Errors
/// What is wrong with it.
pub fn check_query(sql: &str) -> Result<(), String> {
    if sql.contains('\0') {
        return Err("it has a nul character, after which nothing would be read".to_owned());
    }
    let word = first_word(sql);
    if !["select", "with", "values"].contains(&word.as_str()) {
        return Err(format!("it begins with {word:?}, and should be a SELECT"));
    }
    let failed = |error: rusqlite::Error| error.to_string();
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    confine(&mut connection, true).map_err(failed)?;
    match prepare(&connection, sql) {
        Ok(_) => Ok(()),
        Err(Refusal::Other(why)) => Err(why),
        Err(Refusal::Sqlite(error)) => {
            let why = explain(error);
            // What is not there here may be there in the store.
            let is_unknown = why.contains("no such ") || why.contains("unable to resolve");
            if is_unknown { Ok(()) } else { Err(why) }
        }
    }
}

/// The first word of a query, in small letters, after spaces and comments.
fn first_word(sql: &str) -> String {
    let mut rest = sql.trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map(|(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map(|(_, after)| after)
        } else {
            let word = rest.chars().take_while(|c| c.is_ascii_alphabetic()).take(20);
            return word.map(|c| c.to_ascii_lowercase()).collect();
        };
        rest = after.unwrap_or_default().trim_start();
    }
}

/// What a connection was like before it was confined.
struct Before {
    cache: i32,
    longest: i32,
    views: bool,
}

/// Lets a connection do nothing but read, and gives it what reading takes.
fn confine(connection: &mut Connection, only_reads: bool) -> rusqlite::Result<Before> {
    let cache = connection.query_row("PRAGMA cache_size", [], |row| row.get(0))?;
    connection.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB}"))?;
    let views = connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, true)?;
    let longest = connection.limit(Limit::SQLITE_LIMIT_LENGTH)?;
    if only_reads {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
        connection.authorizer(Some(authorize))?;
    }
    Ok(Before { cache, longest, views })
}

fn release(connection: &mut Connection, before: Before) -> rusqlite::Result<()> {
    connection.progress_handler(0, None::<fn() -> bool>)?;
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, before.longest)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, before.views)?;
    connection.execute_batch(&format!("PRAGMA cache_size = {}", before.cache))
}

/// Allows what reading takes, and nothing else: no other database, no transaction, no setting.
#[allow(clippy::needless_pass_by_value, reason = "SQLite's wrapper passes it so")]
pub(crate) fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Deny
        }
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive
        // Full-text tables ask this of themselves.
        | AuthAction::Pragma { pragma_name: "data_version", pragma_value: None } => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// Why there is no answer.
pub(crate) enum Refusal {
    Sqlite(rusqlite::Error),
    Other(String),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Prepares a query; refuses one that does not only read.
pub(crate) fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<Statement<'a>, Refusal> {
    let statement = connection.prepare(sql)?;
    match statement.readonly() && statement.column_count() > 0 {
        true => Ok(statement),
        false => Err(Refusal::Other("it is not a query that only reads".to_owned())),
    }
}

fn first_rows(connection: &Connection, sql: &str, only_reads: bool) -> Result<Rows, Refusal> {
    let mut statement = if only_reads { prepare(connection, sql)? } else { connection.prepare(sql)? };
    let columns = statement.column_count();
    let mut answer = statement.query([])?;
    let mut rows = Rows::default();
    while let Some(row) = answer.next()? {
        if rows.first.len() == Rows::MOST {
            rows.more = true;
            break;
        }
        let values = (0..columns).map(|column| Ok(value(row.get_ref(column)?)));
        rows.first.push(values.collect::<rusqlite::Result<_>>()?);
    }
    Ok(rows)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => {
            // A character has four bytes at most, and one that is cut is not among those that are looked at.
            let looked_at = text.get(..4 * (Value::MOST_CHARS + 2)).unwrap_or(text);
            Value::text(&String::from_utf8_lossy(looked_at))
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.len()),
    }
}

/// SQLite's own words, without the query.
pub(crate) fn explain(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::MultipleStatement => "it is more than one statement".to_owned(),
        error if error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied) => {
            "it does something else than reading (not authorized)".to_owned()
        }
        rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg)) => msg,
        other => other.to_string(),
    }
}
