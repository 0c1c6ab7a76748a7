//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use asat_core::boundary;

/// Locks what no panic can leave half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => wait_for(mutex),
    }
}

#[cold]
fn wait_for<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    while boundary::blocked("archive: lock") {
        if let Ok(guard) = mutex.try_lock() {
            boundary::step("archive: locked");
            return guard;
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
