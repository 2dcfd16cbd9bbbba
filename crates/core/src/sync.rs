//! Locks that stay usable after a thread that held them has panicked.
//!
//! In this crate the mutex is imported from here: with `--cfg shuttle` its unit tests run in
//! schedules that shuttle chooses, which takes shuttle's own mutex.

#[cfg(not(all(test, shuttle)))]
pub use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, shuttle))]
pub use shuttle::sync::{Mutex, MutexGuard};

/// Locks a mutex, poisoned or not.
///
/// For data that is whole between statements: a thread that panicked while it held the lock has
/// then left nothing half done.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
