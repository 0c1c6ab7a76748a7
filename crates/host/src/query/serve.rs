//! The process that answers a query.

use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::json;

use super::limits::Limits;
use super::{Asked, Attached, Said};
use crate::store::check::{Refusal, authorize, explain, prepare};
use crate::worker::Identity;

/// The longest value that a query may make or read, in bytes.
const LONGEST_VALUE: i32 = 64 << 20;
/// The memory for pages, in KiB, and as much for sorting before a temporary file is written; no more than a quarter of all that there is.
const CACHE_KIB: u64 = 32 << 10;
/// What only tells of tables.
const PRAGMAS: [&str; 6] =
    ["table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"];

/// Answers one query: it is read as JSON, and the answer is written a line at a time.
///
/// # Errors
/// If nobody takes the answer.
pub fn serve(mut input: impl Read, output: impl Write) -> io::Result<()> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    let mut out = BufWriter::with_capacity(64 << 10, output);
    let end = match serde_json::from_slice::<Asked>(&text) {
        Ok(asked) => match answer(&asked, &mut out) {
            Ok(end) => end,
            Err(Failure::Output(error)) => return Err(error),
            Err(Failure::Said(said)) => said,
            Err(Failure::Sqlite(error)) => failed(error),
        },
        Err(error) => Said::Failed(format!("the query cannot be read: {error}")),
    };
    say(&mut out, &end)?;
    out.flush()
}

enum Failure {
    Output(io::Error),
    Sqlite(rusqlite::Error),
    Said(Said),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Sqlite(error) => Self::Sqlite(error),
            Refusal::Other(why) => Self::Said(Said::Refused(why)),
        }
    }
}

/// What is said of an error: most are the query's fault.
fn failed(error: rusqlite::Error) -> Said {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Said::Failed("the disk of the state folder is full".to_owned()),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase,
        ) => Said::Failed(error.to_string()),
        _ => Said::Refused(explain(error)),
    }
}

fn say(out: &mut impl Write, said: &Said) -> io::Result<()> {
    serde_json::to_writer(&mut *out, said)?;
    out.write_all(b"\n")
}

fn answer(asked: &Asked, out: &mut impl Write) -> Result<Said, Failure> {
    let limits = Limits::begin(&asked.bounds)?;
    let mut connection = open(asked)?;
    if let Err(error) = become_nobody() {
        return Ok(Said::Failed(format!("its process cannot give up root's rights: {error}")));
    }
    if let Err(error) = limits.watch(&mut connection) {
        return Ok(Said::Failed(format!("its process cannot be bounded: {error}")));
    }
    match rows(connection, asked, out) {
        Err(Failure::Sqlite(error)) => limits.reached(&error).ok_or(Failure::Sqlite(error)),
        answered => answered,
    }
}

fn rows(mut connection: Connection, asked: &Asked, out: &mut impl Write) -> Result<Said, Failure> {
    connection.authorizer(Some(only_reads))?;
    if asked.sql.contains('\0') {
        let why = "it has a nul character, after which nothing would be read".to_owned();
        return Ok(Said::Refused(why));
    }
    let mut statement = prepare(&connection, &asked.sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let count = columns.len();
    let mut answer = statement.query([])?;
    let mut rows = 0;
    // The first row may take its time, and may not come: then the query is refused, and not broken off.
    let mut next = answer.next()?;
    say(out, &Said::Columns(columns))?;
    while let Some(row) = next {
        if rows == asked.bounds.rows {
            return Ok(Said::End { rows, more: true });
        }
        write_row(row, count, out)?;
        rows += 1;
        next = answer.next()?;
    }
    Ok(Said::End { rows, more: false })
}

/// A connection on which a query can name the databases. Nothing can be written to any of them.
fn open(asked: &Asked) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(":memory:", flags)?;
    if let Some(encoding) = encoding(asked)? {
        connection.execute_batch(&format!("PRAGMA encoding = '{encoding}'"))?;
    }
    let cache_kib = CACHE_KIB.min(asked.bounds.memory_bytes / 4 / 1024);
    connection.execute_batch(&format!("PRAGMA cache_size = -{cache_kib}"))?;
    for Attached { name, path } in &asked.attached {
        connection.execute("ATTACH ?1 AS ?2", [uri(path), name.clone()])?;
    }
    connection.execute_batch("PRAGMA query_only = ON")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    Ok(connection)
}

/// The encoding of the texts, which all databases of a connection share: that of the first one in which there is anything.
fn encoding(asked: &Asked) -> rusqlite::Result<Option<String>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    for Attached { path, .. } in &asked.attached {
        let database = Connection::open_with_flags(uri(path), flags)?;
        if database.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0))? > 0 {
            return database.query_row("PRAGMA encoding", [], |row| row.get(0)).map(Some);
        }
    }
    Ok(None)
}

/// Gives up what root may do, once all files are open: what is in them is their owners' word.
fn become_nobody() -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Identity::nobody().assume()
}

/// A file that never changes, as SQLite is told of it (<https://sqlite.org/uri.html>).
fn uri(path: &Path) -> String {
    let byte = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let path: String = path.as_os_str().as_bytes().iter().map(byte).collect();
    format!("file:{path}?mode=ro&immutable=1")
}

/// Allows what reading takes, and what tells of tables.
#[allow(clippy::needless_pass_by_value, reason = "SQLite's wrapper passes it so")]
fn only_reads(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Pragma { pragma_name, .. } if PRAGMAS.contains(&pragma_name) => Authorization::Allow,
        _ => authorize(context),
    }
}

fn write_row(row: &rusqlite::Row<'_>, count: usize, out: &mut impl Write) -> Result<(), Failure> {
    for column in 0..count {
        out.write_all(if column == 0 { b"[" } else { b"," })?;
        write_value(row.get_ref(column)?, out)?;
    }
    Ok(out.write_all(b"]\n")?)
}

/// Writes a value as the rows of differences have it.
fn write_value(value: ValueRef<'_>, out: &mut impl Write) -> io::Result<()> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Integer(number) => write!(out, "{number}"),
        ValueRef::Real(number) if number.is_finite() => write!(out, "{number:?}"),
        ValueRef::Real(number) => write!(out, "{}", json!({ "real": number.to_string() })),
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => Ok(serde_json::to_writer(out, text)?),
            Err(_) => write!(out, "{}", json!({ "text_hex": hex(text) })),
        },
        ValueRef::Blob(bytes) => write!(out, "{}", json!({ "hex": hex(bytes) })),
    }
}
