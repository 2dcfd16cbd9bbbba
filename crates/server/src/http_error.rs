//! Why a request is not done, as a status and a sentence.

use http::header::{HeaderName, HeaderValue};
use http::{StatusCode, header};
use rustix::io::Errno;
use std::io;

/// An answer that says no.
#[derive(Debug, Clone)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) what: String,
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), fields: Vec::new() }
    }

    /// With a field in its header; one that cannot be written is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.fields.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such file or directory")
    }

    pub(crate) fn conflict() -> Self {
        Self::new(StatusCode::CONFLICT, "the parent directory does not exist")
    }

    pub(crate) fn failed_precondition() -> Self {
        let what = "precondition failed: the file has another version than the request expects";
        Self::new(StatusCode::PRECONDITION_FAILED, what)
    }
}

/// What the file system says.
impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        if error.raw_os_error().is_none() && error.kind() == io::ErrorKind::InvalidInput {
            return Self::new(StatusCode::CONFLICT, error.to_string());
        }
        let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        let (status, what) = match errno {
            Errno::NOENT | Errno::NOTDIR => return Self::not_found(),
            // XDEV: a link that leads out of the tree. LOOP: one that leads in a circle, or anywhere it must not.
            Errno::XDEV | Errno::LOOP => (
                StatusCode::FORBIDDEN,
                "a symbolic link in the path leads out of the served directory",
            ),
            Errno::OPNOTSUPP => {
                (StatusCode::FORBIDDEN, "the file system does not support this operation")
            }
            Errno::ACCESS | Errno::PERM => {
                (StatusCode::FORBIDDEN, "the server's user has no permission for this")
            }
            Errno::ROFS => (StatusCode::FORBIDDEN, "the file system is read-only"),
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::MLINK => {
                (StatusCode::INSUFFICIENT_STORAGE, "no space is left on the device")
            }
            Errno::NAMETOOLONG => (StatusCode::URI_TOO_LONG, "the name is too long"),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the server has too many open files, try again later",
            ),
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::BUSY => {
                (StatusCode::CONFLICT, "the name is in use by something else")
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "the file system reported an error"),
        };
        let refusal = Self::new(status, what);
        match status {
            StatusCode::SERVICE_UNAVAILABLE => refusal.with(header::RETRY_AFTER, "1"),
            _ => refusal,
        }
    }
}

impl From<Errno> for HttpError {
    fn from(errno: Errno) -> Self {
        io::Error::from(errno).into()
    }
}
