//! The index of the log, which SQLite maps into memory.
//!
//! A file that is mapped may have holes, and where the disk is full the kernel ends a process that writes into one (SIGBUS). SQLite
//! makes sure of one byte in each 4096 of the index (`unixShmMap`): on a file system with smaller blocks the rest of them are holes.
//! So before a part of a file is mapped, its blocks are reserved, and where there are none SQLite hears of it as of any other error.
//!
//! That goes through the one door that SQLite has for it, `xSetSystemCall`: another `mmap` for everything that it opens in this process.
//! Stores are opened in other processes.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3_vfs};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;

/// What SQLite called before; nothing where its file system has no such door.
static SYSTEM: OnceLock<Option<Map>> = OnceLock::new();
const CALL: *const c_char = c"mmap".as_ptr();
/// `PROT_WRITE`, of which Linux has one value everywhere.
const WRITE: c_int = 2;

/// Has SQLite reserve what it maps to be written, from the next mapping on.
pub(crate) fn reserve() {
    SYSTEM.get_or_init(|| {
        // SAFETY: the default file system of SQLite lives as long as the process.
        let vfs = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()).as_mut()? };
        let (get, set) = (vfs.xGetSystemCall?, vfs.xSetSystemCall?);
        let vfs: *mut sqlite3_vfs = vfs;
        // SAFETY: both are the file system's own, asked about a call by its name.
        let before = unsafe { get(vfs, CALL) }?;
        // SAFETY: SQLite documents the call of this name as mmap, and calls it as that.
        let before = unsafe { std::mem::transmute::<unsafe extern "C" fn(), Map>(before) };
        // SAFETY: SQLite calls what it is given as it would call mmap, which it has the parameters and the answer of.
        let ours = unsafe { std::mem::transmute::<Map, unsafe extern "C" fn()>(map) };
        // SAFETY: as for asking. What maps meanwhile finds the one or the other.
        (unsafe { set(vfs, CALL, Some(ours)) } == ffi::SQLITE_OK).then_some(before)
    });
}

/// Reserves a part of a file, and maps it.
unsafe extern "C" fn map(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    const FAILED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);
    #[cfg(test)]
    if tests::fails() {
        return FAILED;
    }
    // It is being set, which is over in a moment.
    let Some(system) = SYSTEM.wait() else { return FAILED };
    if protection & WRITE != 0 {
        // SAFETY: SQLite has the file open until after this.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let (offset, length) = (u64::try_from(offset).unwrap_or(u64::MAX), length as u64);
        match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, offset, length)) {
            // A file system that reserves nothing is used as SQLite uses it.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(_) => return FAILED,
        }
    }
    // SAFETY: it is called with what SQLite gave.
    unsafe { system(at, length, protection, flags, file, offset) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        static FAILS: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether nothing can be mapped on this thread, as on a full disk.
    pub(crate) fn fail(fails: bool) {
        FAILS.set(fails);
    }

    pub(super) fn fails() -> bool {
        FAILS.get()
    }
}
