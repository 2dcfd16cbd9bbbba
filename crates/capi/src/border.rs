//! The border to C: no panic crosses it, and no handle is used in another process.

use crate::error::ErrorObject;
use crate::foreign::invalid;
use futures_util::FutureExt;
use hither::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function. Stores its error for the caller, or NULL, and returns
/// `failed` if there is one.
///
/// After a panic, values that the body changed may be inconsistent. All of them are behind locks of
/// the library, which recover from that.
pub(crate) fn guarded<T>(
    error: Option<&mut *mut ErrorObject>,
    failed: T,
    body: impl FnOnce() -> Result<T, Error>,
) -> T {
    let done = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => done.map_err(|cause| ErrorObject::new(&cause)),
        Err(panic) => Err(ErrorObject::of_panic(&*panic)),
    };
    let (value, cause) = match done {
        Ok(value) => (value, None),
        Err(cause) => (failed, Some(cause)),
    };
    if let Some(place) = error {
        *place = ErrorObject::hand_over(cause);
    }
    value
}

/// As [`guarded`], for a future that runs on a thread of the library.
pub(crate) async fn guarded_future<T>(
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, ErrorObject> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(done) => done.map_err(|cause| ErrorObject::new(&cause)),
        Err(panic) => Err(ErrorObject::of_panic(&*panic)),
    }
}

/// Frees a handle. A panic while it is freed is not reported.
pub(crate) fn free<T>(handle: Option<Box<T>>) {
    guarded(None, (), || {
        drop(handle);
        Ok(())
    });
}

/// A value that is valid only in the process that made it.
///
/// `fork` copies memory but no threads: in the child, a client has no threads, and a lock that one
/// of them held is never released. So the child does not touch the value, not even to drop it.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    process: u32,
    value: Option<T>,
}

impl<T> PerProcess<T> {
    /// A value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// The value.
    pub(crate) fn get(&self) -> Result<&T, Error> {
        let value = self.value.as_ref().filter(|_| self.process == std::process::id());
        value.ok_or_else(|| {
            invalid(format!(
                "the handle belongs to process {}, which forked: make a client after fork",
                self.process
            ))
        })
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
