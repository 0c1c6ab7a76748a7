//! SQLite's session extension, as far as changesets are applied and turned round with it.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_OK, sqlite3, sqlite3_free};

type Filter = Option<extern "C" fn(*mut c_void, *const c_char) -> c_int>;
type Conflict = extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;

unsafe extern "C" {
    fn sqlite3changeset_apply(
        connection: *mut sqlite3,
        len: c_int,
        changes: *mut c_void,
        filter: Filter,
        conflict: Conflict,
        context: *mut c_void,
    ) -> c_int;
    fn sqlite3changeset_invert(
        len: c_int,
        changes: *const c_void,
        out_len: *mut c_int,
        out: *mut *mut c_void,
    ) -> c_int;
}

/// The error if a row is to be inserted whose key is there (`SQLITE_ABORT`, `SQLITE_CHANGESET_CONFLICT`).
pub const ROW_IS_THERE: &str = "code 4, conflict 3";

/// Applies a changeset; the error is a conflict's kind, or SQLite's code.
pub fn apply(connection: &Connection, changes: &[u8]) -> Result<(), String> {
    extern "C" fn conflict(context: *mut c_void, kind: c_int, _: *mut c_void) -> c_int {
        const ABORT: c_int = 2;
        // SAFETY: it is the place that is given below, which nobody else uses meanwhile.
        unsafe { *context.cast::<c_int>() = kind };
        ABORT
    }
    let mut kind: c_int = 0;
    let len = c_int::try_from(changes.len()).unwrap();
    // SAFETY: all pointers are to what lives until the call returns, and it changes nothing of the changes.
    let code = unsafe {
        let changes = changes.as_ptr().cast_mut().cast();
        sqlite3changeset_apply(
            connection.handle(),
            len,
            changes,
            None,
            conflict,
            ptr::from_mut(&mut kind).cast(),
        )
    };
    if code == SQLITE_OK { Ok(()) } else { Err(format!("code {code}, conflict {kind}")) }
}

/// The changeset that takes another one back.
pub fn invert(changes: &[u8]) -> Vec<u8> {
    let (mut len, mut out) = (0, ptr::null_mut());
    // SAFETY: the function gives memory of that length, which is copied before it is freed.
    unsafe {
        let code = sqlite3changeset_invert(
            c_int::try_from(changes.len()).unwrap(),
            changes.as_ptr().cast(),
            &raw mut len,
            &raw mut out,
        );
        assert_eq!(code, SQLITE_OK);
        let inverted = match usize::try_from(len).unwrap() {
            0 => Vec::new(),
            len => std::slice::from_raw_parts(out.cast::<u8>(), len).to_vec(),
        };
        sqlite3_free(out);
        inverted
    }
}
