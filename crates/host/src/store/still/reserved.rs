//! The moment between two transactions of a writer that never pauses, where SQLite is asked by unsafe code whether somebody writes.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::hint;
use std::ptr;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

/// How long at most one looks for the moment before the lock is asked for all the same. With the pauses between, it takes a
/// fifth of a processor.
const LOOK: Duration = Duration::from_micros(500);

/// Waits a little for the moment at which nobody writes a store in a rollback mode. In WAL mode there is no wait.
///
/// Such a writer lets go of its lock for some microseconds. Asking for the lock itself hits on one of them by chance, and
/// asking all the time would keep the writer from committing, since to ask is to read for a moment. This look takes no lock.
pub(super) fn wait_for_moment(connection: &Connection) {
    let since = Instant::now();
    while is_reserved(connection) && since.elapsed() < LOOK {
        hint::spin_loop();
    }
}

/// Whether a connection, of whatever process, holds the lock of those who write. Where that cannot be told, nobody does.
fn is_reserved(connection: &Connection) -> bool {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    let mut reserved: c_int = 0;
    // SAFETY: the connection is open for as long as it is borrowed, and no other thread uses it: it is not `Sync`. SQLite
    // writes a pointer to its file of the database "main" where it is told, or fails. It is asked what it has methods for.
    // https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlfilepointer, https://www.sqlite.org/c3ref/io_methods.html
    let answer = unsafe {
        let told = ptr::from_mut(&mut file).cast();
        let op = ffi::SQLITE_FCNTL_FILE_POINTER;
        if ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), op, told) != ffi::SQLITE_OK {
            return false;
        }
        let methods = file.as_ref().and_then(|file| file.pMethods.as_ref());
        methods.and_then(|methods| methods.xCheckReservedLock).map(|check| check(file, &raw mut reserved))
    };
    answer == Some(ffi::SQLITE_OK) && reserved != 0
}
