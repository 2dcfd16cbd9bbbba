//! Conversion of errors to the exceptions of `hither.exceptions`.

use hither::{Error, ErrorKind, FormatError, Suggestion};
use pyo3::types::PyAnyMethods;
use pyo3::{PyErr, Python, pyfunction};
use std::any::Any;
use std::error::Error as _;

/// Classes of `hither.exceptions`.
mod classes {
    pyo3::import_exception!(hither.exceptions, AlreadyExistsError);
    pyo3::import_exception!(hither.exceptions, CancelledError);
    pyo3::import_exception!(hither.exceptions, ChangedError);
    pyo3::import_exception!(hither.exceptions, CorruptError);
    pyo3::import_exception!(hither.exceptions, HitherError);
    pyo3::import_exception!(hither.exceptions, InvalidError);
    pyo3::import_exception!(hither.exceptions, LocalError);
    pyo3::import_exception!(hither.exceptions, MissingKeyError);
    pyo3::import_exception!(hither.exceptions, NoSpaceError);
    pyo3::import_exception!(hither.exceptions, NotFoundError);
    pyo3::import_exception!(hither.exceptions, PermissionDeniedError);
    pyo3::import_exception!(hither.exceptions, ProtocolError);
    pyo3::import_exception!(hither.exceptions, TimedOutError);
    pyo3::import_exception!(hither.exceptions, TooLargeError);
    pyo3::import_exception!(hither.exceptions, UnauthenticatedError);
    pyo3::import_exception!(hither.exceptions, UnavailableError);
    pyo3::import_exception!(hither.exceptions, UnsupportedError);
}

/// Creates the exception for `error`. Its message includes the causes.
pub(crate) fn to_exception(error: &Error) -> PyErr {
    let message = error.message_with_causes();
    match error.kind() {
        ErrorKind::NotFound if is_missing_key(error) => classes::MissingKeyError::new_err(message),
        ErrorKind::NotFound => classes::NotFoundError::new_err(message),
        ErrorKind::Invalid => classes::InvalidError::new_err(message),
        ErrorKind::Unauthenticated => classes::UnauthenticatedError::new_err(message),
        ErrorKind::PermissionDenied => classes::PermissionDeniedError::new_err(message),
        ErrorKind::AlreadyExists => classes::AlreadyExistsError::new_err(message),
        ErrorKind::NoSpace => classes::NoSpaceError::new_err(message),
        ErrorKind::Changed => classes::ChangedError::new_err(message),
        ErrorKind::Corrupt => classes::CorruptError::new_err(message),
        ErrorKind::Unsupported => unsupported(error, message),
        ErrorKind::Timeout => classes::TimedOutError::new_err(message),
        ErrorKind::Unavailable => classes::UnavailableError::new_err(message),
        ErrorKind::Protocol => classes::ProtocolError::new_err(message),
        ErrorKind::TooLarge => classes::TooLargeError::new_err(message),
        ErrorKind::Cancelled => classes::CancelledError::new_err(message),
        ErrorKind::Local => classes::LocalError::new_err(message),
        _ => classes::HitherError::new_err(message),
    }
}

/// Creates the exception for a panic of the library.
pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> PyErr {
    classes::HitherError::new_err(hither::defect(panic))
}

/// Creates the exception for the use of an object that is closed or belongs to another process.
pub(crate) fn invalid(message: &'static str) -> PyErr {
    classes::InvalidError::new_err(message)
}

/// The end of the error message for the unknown name `wanted`: similar names, or all if they are
/// few.
#[pyfunction]
pub(crate) fn suggestion(wanted: &str, names: Vec<String>) -> String {
    Suggestion::similar_or_all(wanted, names.iter().map(String::as_str)).to_string()
}

/// A URL for messages, without user, password, query and fragment.
#[pyfunction]
pub(crate) fn redact_url(url: &str) -> String {
    hither_transport::redact_url(url)
}

/// True if two entity tags or dates are of different versions of a file.
#[pyfunction]
pub(crate) fn validators_differ(one: &str, other: &str) -> bool {
    hither_core::validators_differ(one, other)
}

fn format_error(error: &Error) -> Option<&FormatError> {
    error.source().and_then(|cause| cause.downcast_ref())
}

/// Returns true for a missing tree or branch, false for a missing file.
fn is_missing_key(error: &Error) -> bool {
    matches!(format_error(error), Some(FormatError::NotFound { .. } | FormatError::NoTree { .. }))
}

/// The exception for what is not supported, with the branch if it is one.
fn unsupported(error: &Error, message: String) -> PyErr {
    let exception = classes::UnsupportedError::new_err(message);
    if let Some(FormatError::Unsupported { branch, .. }) = format_error(error) {
        let set = Python::attach(|py| exception.value(py).setattr("branch", branch));
        debug_assert!(set.is_ok(), "the attribute of the class is not writable");
    }
    exception
}
