//! SQLite's session extension: the changes between two files, as it finds them by joining whole tables.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use asat_core::Problem;
use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_OK, sqlite3, sqlite3_free};

use super::failed;

/// `SQLITE_SESSION_OBJCONFIG_…` are not needed: the table has a primary key.
enum Session {}

unsafe extern "C" {
    fn sqlite3session_create(
        connection: *mut sqlite3,
        name: *const c_char,
        session: *mut *mut Session,
    ) -> c_int;
    fn sqlite3session_attach(session: *mut Session, table: *const c_char) -> c_int;
    fn sqlite3session_diff(
        session: *mut Session,
        from: *const c_char,
        table: *const c_char,
        message: *mut *mut c_char,
    ) -> c_int;
    fn sqlite3session_changeset(session: *mut Session, len: *mut c_int, changes: *mut *mut c_void) -> c_int;
    fn sqlite3session_delete(session: *mut Session);
}

/// Makes the changeset of a table from the older file to the newer one; answers how many bytes it has.
pub(super) fn diff(old: &Path, new: &Path, table: &str) -> Result<u64, Problem> {
    let cannot = |error: rusqlite::Error| failed("use the session extension", error);
    let connection = Connection::open(new).map_err(cannot)?;
    connection.execute("attach ?1 as old", [old.display().to_string()]).map_err(cannot)?;
    let [main, from, table] = ["main", "old", table].map(|name| CString::new(name).unwrap_or_default());
    let mut session = ptr::null_mut();
    let (mut len, mut changes) = (0, ptr::null_mut());
    // SAFETY: the connection and the names live until the calls return; what is given is freed once, and the session before its connection.
    let code = unsafe {
        let mut code = sqlite3session_create(connection.handle(), main.as_ptr(), &raw mut session);
        if code == SQLITE_OK {
            code = sqlite3session_attach(session, table.as_ptr());
        }
        if code == SQLITE_OK {
            code = sqlite3session_diff(session, from.as_ptr(), table.as_ptr(), ptr::null_mut());
        }
        if code == SQLITE_OK {
            code = sqlite3session_changeset(session, &raw mut len, &raw mut changes);
        }
        sqlite3_free(changes);
        sqlite3session_delete(session);
        code
    };
    match code {
        SQLITE_OK => Ok(u64::try_from(len).unwrap_or(0)),
        code => Err(failed("compare by the session extension", format!("code {code}"))),
    }
}
