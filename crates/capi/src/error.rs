//! Errors as objects: kind, message, advice on retries.

use crate::border::free;
use crate::foreign::c_string;
use hither::{Error, ErrorKind, Retry, defect};
use std::any::Any;
use std::ffi::{CString, c_char};

/// Kind of failure, by what the caller can do about it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No failure.
    None = 0,
    /// A malformed URL, option or range, or a NULL where none is allowed.
    Invalid = 1,
    /// The file or directory does not exist.
    NotFound = 2,
    /// The server wants credentials (401).
    Unauthenticated = 3,
    /// The credentials do not suffice (403).
    PermissionDenied = 4,
    /// There is something of that name already.
    AlreadyExists = 5,
    /// The server or the disk has no room left (507).
    NoSpace = 6,
    /// The file is no longer the one that was opened.
    Changed = 7,
    /// Bytes are not as they have to be: a wrong checksum, or a range beyond the end of the file.
    Corrupt = 8,
    /// This server or this version of the library cannot do that.
    Unsupported = 9,
    /// A time limit ran out: connect, first byte, or no progress.
    Timeout = 10,
    /// The server cannot be reached, broke off, or answered 5xx.
    Unavailable = 11,
    /// The server answered in a way that its protocol does not allow.
    Protocol = 12,
    /// The request was too large for the server.
    TooLarge = 13,
    /// The caller cancelled.
    Cancelled = 14,
    /// A local file or the local machine failed.
    Local = 15,
    /// A defect of the library.
    Internal = 16,
}

impl From<ErrorKind> for Kind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Unauthenticated => Self::Unauthenticated,
            ErrorKind::PermissionDenied => Self::PermissionDenied,
            ErrorKind::AlreadyExists => Self::AlreadyExists,
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::Changed => Self::Changed,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Protocol => Self::Protocol,
            ErrorKind::TooLarge => Self::TooLarge,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Local => Self::Local,
            _ => Self::Internal,
        }
    }
}

/// Advice on retries. The library has retried what it may before it returns an error.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAdvice {
    /// A retry will fail, too.
    Never = 0,
    /// The same server may answer after a while.
    SameServer = 1,
    /// The server has to make the file ready first, as from tape.
    Later = 2,
    /// Only another server may answer.
    OtherServer = 3,
    /// The change may have been made: look before it is requested again.
    LookFirst = 4,
}

/// An error. Free it with hither_error_free.
#[derive(Debug)]
pub struct ErrorObject {
    kind: Kind,
    message: CString,
    retry: RetryAdvice,
    retry_after: f64,
}

impl ErrorObject {
    pub(crate) fn new(error: &Error) -> Self {
        let (retry, retry_after) = match error.retry() {
            Retry::Never => (RetryAdvice::Never, 0.0),
            Retry::AtOnce => (RetryAdvice::SameServer, 0.0),
            Retry::SameServer { after } | Retry::Busy { after } => {
                (RetryAdvice::SameServer, after.as_secs_f64())
            }
            Retry::Later { after } => (RetryAdvice::Later, after.as_secs_f64()),
            Retry::OtherServer => (RetryAdvice::OtherServer, 0.0),
            Retry::LookFirst => (RetryAdvice::LookFirst, 0.0),
        };
        let message = c_string(&error.message_with_causes());
        Self { kind: error.kind().into(), message, retry, retry_after }
    }

    /// Creates the error for a panic of the library.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let message = c_string(&defect(panic));
        Self { kind: Kind::Internal, message, retry: RetryAdvice::Never, retry_after: 0.0 }
    }

    /// Returns the pointer for the program, which frees the error; NULL if there is no error.
    pub(crate) fn hand_over(error: Option<Self>) -> *mut Self {
        error.map_or(std::ptr::null_mut(), |error| Box::into_raw(Box::new(error)))
    }
}

/// Returns the kind of an error; HITHER_KIND_NONE for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hither_error_kind(error: Option<&ErrorObject>) -> Kind {
    error.map_or(Kind::None, |error| error.kind)
}

/// Returns the message of an error with its causes: UTF-8, without secrets, valid until the error
/// is freed. The empty text for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hither_error_message(error: Option<&ErrorObject>) -> *const c_char {
    error.map_or(c"", |error| &error.message).as_ptr()
}

/// Returns advice on retries; HITHER_RETRY_NEVER for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hither_error_retry(error: Option<&ErrorObject>) -> RetryAdvice {
    error.map_or(RetryAdvice::Never, |error| error.retry)
}

/// Returns the seconds to wait before a retry; 0 if the server did not say.
#[unsafe(no_mangle)]
pub extern "C" fn hither_error_retry_after(error: Option<&ErrorObject>) -> f64 {
    error.map_or(0.0, |error| error.retry_after)
}

/// Frees an error. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hither_error_free(error: Option<Box<ErrorObject>>) {
    free(error);
}
