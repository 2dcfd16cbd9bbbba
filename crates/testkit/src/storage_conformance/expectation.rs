//! Expected results of operations.
#![expect(clippy::panic, reason = "a check fails by panicking")]

use hither_core::error::{ErrorKind, Result};
use std::fmt::Debug;

/// The value of an operation that must succeed.
pub(super) fn good<T>(result: Result<T>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

/// Panics unless an operation fails with an error of this kind.
pub(super) fn fails<T: Debug>(result: Result<T>, kind: ErrorKind, what: &str) {
    match result {
        Err(error) => assert_eq!(error.kind(), kind, "{what}: {error:?}"),
        Ok(done) => panic!("{what}: expected {kind:?}, got {done:?}"),
    }
}
