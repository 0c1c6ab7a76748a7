//! Opening a store's file without losing its locks.
//!
//! A process loses the POSIX locks that it has on a file when it closes any descriptor on that. The owner of such locks is,
//! for the kernel, not the process but the table of descriptors (`fl_owner` in `fs/locks.c`), which its threads share. So a
//! thread that has a table of its own may open a store's file and close it, and SQLite's locks stay.
#![allow(unsafe_code)]

use std::io;
use std::thread;

use nix::libc;

/// The first descriptor beside the standard ones.
const FIRST: libc::c_uint = 3;

/// Does something in a thread whose descriptors are its own. It has none at first but the standard ones.
///
/// # Errors
/// Where the kernel gives no thread, or no table of its own (before Linux 5.9).
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let in_a_thread = || {
        // SAFETY: the kernel copies this thread's table without what is closed, and closes nothing in the other threads'
        // table, so no descriptor that anything else owns becomes invalid. This thread ends with the closure below, which
        // was given no descriptor of the old table.
        // The call is made by its number: not every C library has it by name.
        let call = libc::SYS_close_range;
        let closed = unsafe { libc::syscall(call, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
        if closed != 0 {
            return Err(io::Error::last_os_error());
        }
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("apart".to_owned()).spawn_scoped(scope, in_a_thread)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that looks at the store panicked")))
    })
}

#[cfg(test)]
#[path = "../tests/store/own_locks.rs"]
mod own_locks;

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rusqlite::Connection;

    use super::own_locks::own_locks;
    use super::*;
    #[test]
    fn locks_stay_where_a_file_is_opened_apart_and_go_where_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let store = Connection::open(&path).unwrap();
        store.execute_batch("CREATE TABLE t (x); BEGIN IMMEDIATE").unwrap();
        let held = own_locks(&path);
        assert!(!held.is_empty());
        apart(|| File::open(&path).map(drop)).unwrap();
        assert_eq!(own_locks(&path), held);
        // What this is for: without it, they are gone.
        drop(File::open(&path).unwrap());
        assert_eq!(own_locks(&path), [""; 0]);
    }

    #[test]
    fn what_goes_wrong_apart_is_told() {
        let missing = apart(|| File::open("/nowhere/at/all").map(drop)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
