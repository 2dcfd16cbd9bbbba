//! Conditional requests (`If-Match`, `If-None-Match` and the others) for methods that change files.

use crate::backend::path::NamespacePath;
use crate::backend::{BackendError, BackendErrorKind, EntryMetadata, Precondition};
use crate::http_error::HttpError;
use hither_http::conditions::{ConditionResult, evaluate};
use http::StatusCode;
use http::header::HeaderMap;

/// Fails unless the conditions in `headers` hold for the present entry.
pub(crate) fn check(
    headers: &HeaderMap,
    there: Option<&EntryMetadata>,
) -> Result<(), BackendError> {
    match evaluate(headers, there.map(|metadata| &metadata.version), false) {
        ConditionResult::Proceed => Ok(()),
        ConditionResult::Failed | ConditionResult::NotModified => {
            Err(BackendError::precondition_failed())
        }
    }
}

/// The conditions in `headers` on the target of a change, which may be missing.
pub(crate) fn on_target(headers: HeaderMap) -> Precondition {
    Box::new(move |there| check(&headers, there))
}

/// The conditions in `headers` on an entry that has to be there, as a directory if the path ends
/// with a slash.
pub(crate) fn on_existing(headers: HeaderMap, path: &NamespacePath) -> Precondition {
    let needs_directory = path.is_directory();
    Box::new(move |there| {
        if needs_directory && there.is_some_and(|metadata| !metadata.is_directory()) {
            return Err(BackendError::not_found());
        }
        check(&headers, there)
    })
}

/// A missing parent directory is a conflict (RFC 4918 section 9.7.1).
pub(crate) fn no_parent(error: BackendError) -> HttpError {
    match error.kind() {
        BackendErrorKind::NotFound => {
            HttpError::new(StatusCode::CONFLICT, "the parent directory does not exist")
        }
        _ => error.into(),
    }
}
