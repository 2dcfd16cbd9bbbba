//! Locks under names of our own, so that a model checker can put its own in their place.
//!
//! Built with `--cfg shuttle`, the unit tests of what uses this module run in schedules that shuttle chooses.

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Takes a lock. What it guards is whole between calls, so a thread that died with it in hand has spoilt nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
