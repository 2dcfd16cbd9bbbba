//! Locks that stay usable after a thread that held them has panicked.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, poisoned or not.
///
/// For data that is consistent between statements: a thread that panicked while it held the lock
/// then left it consistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
