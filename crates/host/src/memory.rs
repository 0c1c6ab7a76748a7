//! Where the process has its memory from.
#![allow(unsafe_code)]

#[cfg(target_env = "gnu")]
use nix::libc;

/// Has all threads take their memory from one place. The C library would give each of a dozen threads one of its own, and keep in each what the thread has
/// needed at most: with 10,000 versions, a seventh of all memory. Small pieces are still kept for each thread, so hardly any thread waits for another.
/// It is called before there are others.
pub fn use_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number that is read when a thread allocates for the first time, and there is no other thread.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
