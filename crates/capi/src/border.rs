//! The boundary to C: no panic crosses it, and no handle is used in another process.

use crate::error::ErrorObject;
use crate::foreign::invalid;
use futures_util::FutureExt;
use hither::{Error, PerProcess};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function. Stores its error, or NULL, for the caller, and returns
/// `failed` after an error.
///
/// After a panic, values that the body changed may be inconsistent. All of them are protected by
/// locks of the library, which recover from that.
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

/// Awaits a future that runs on a thread of the library, with the error handling of [`guarded`].
pub(crate) async fn guarded_future<T>(
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, ErrorObject> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(done) => done.map_err(|cause| ErrorObject::new(&cause)),
        Err(panic) => Err(ErrorObject::of_panic(&*panic)),
    }
}

/// Frees a handle. A panic in its destructor is not reported.
pub(crate) fn free<T>(handle: Option<Box<T>>) {
    guarded(None, (), || {
        drop(handle);
        Ok(())
    });
}

/// The value of a handle; an error in a child of the process that created it.
pub(crate) fn own<T>(value: &PerProcess<T>) -> Result<&T, Error> {
    value.get().ok_or_else(|| {
        invalid(format!(
            "the handle belongs to process {}, which forked: make a client after fork",
            value.process()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Kind, hither_error_kind};

    #[test]
    fn a_panic_is_an_internal_error() {
        let mut error = std::ptr::null_mut();
        assert_eq!(guarded(Some(&mut error), -1, || panic!("a defect")), -1);
        assert!(!error.is_null());
        assert_eq!(guarded(Some(&mut error), -1, || Ok(1)), 1);
        assert!(error.is_null());
        let failed: Result<(), _> =
            guarded_future(async { panic!("a defect") }).now_or_never().unwrap();
        assert_eq!(hither_error_kind(failed.err().as_ref()), Kind::Internal);
    }
}
