//! What a worker may take of the machine.

use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, setrlimit};

/// The address space of a worker. SQLite maps 32 KiB for each 4096 frames of a WAL.
const ADDRESSES: u64 = 2 << 30;
/// What SQLite may take of a store's worker for schemas, queries and pages, after which it says that memory is short.
pub(super) const HEAP: u64 = 256 << 20;

/// Sets the bounds; SQLite may take so many bytes of memory. One that the machine does not let a process set for itself is left as it was: SQLite's own bound holds in any case.
///
/// # Errors
/// Where SQLite does not take its bound.
pub(crate) fn set(heap: u64) -> rusqlite::Result<()> {
    for (resource, most) in [(Resource::As, ADDRESSES.max(2 * heap)), (Resource::Core, 0)] {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let _ = rustix::thread::set_no_new_privs(true);
    let connection = Connection::open_in_memory()?;
    let bound: i64 =
        connection.query_row(&format!("PRAGMA hard_heap_limit = {heap}"), [], |row| row.get(0))?;
    debug_assert!(u64::try_from(bound) == Ok(heap));
    Ok(())
}
