//! Errors of a backend, classified for the front end.

use rustix::io::Errno;
use std::borrow::Cow;
use std::{error, fmt, io};

/// The message for a path whose entry is neither a file nor a directory.
pub(crate) const NOT_A_FILE: &str =
    "there is a pipe, socket or device at this path, which is not replaced";

/// The message for an entry that is neither a file nor a directory.
pub(crate) const NOT_SERVED: &str = "a pipe, socket or device is not served";

/// The message for a link in a listing that is not followed for the client.
pub(crate) const UNFOLLOWED_LINK: &str = "this symbolic link is not followed: that needs `links = true` in the server's configuration, \
     and a client that may read where the link leads";

/// The message for a path with a link that leads to nothing, or to a name that is not served.
pub(crate) const BROKEN_LINK: &str = "a symbolic link in the path leads to nothing that is served";

/// The kind of a [`BackendError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// There is no such file or directory, or no parent directory for it.
    NotFound,
    /// The path exists, and may not be replaced or is of another kind.
    AlreadyExists,
    /// The request is invalid.
    Invalid,
    /// The state of the namespace does not allow the change.
    Conflict,
    /// The server has no permission for it.
    PermissionDenied,
    /// The path has a symbolic link.
    Link,
    /// The condition of the request does not hold.
    PreconditionFailed,
    /// The space of the disk, or of a reservation, is used up.
    NoSpace,
    /// A name or path is too long.
    NameTooLong,
    /// The backend cannot do it now, and has changed nothing; a retry may succeed.
    Unavailable,
    /// The change may have been carried out, and another client may have changed the same name
    /// since: its effect has to be checked before a retry.
    Unconfirmed,
    /// Any other error.
    Internal,
}

/// An error of a backend, with a message for the client.
#[derive(Debug)]
pub struct BackendError {
    kind: BackendErrorKind,
    message: Cow<'static, str>,
    source: Option<io::Error>,
}

impl BackendError {
    /// An error with a message for the client.
    #[must_use]
    pub fn new(kind: BackendErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> BackendErrorKind {
        self.kind
    }

    /// The error for a path without an entry.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(BackendErrorKind::NotFound, "there is no such file or directory")
    }

    /// The error for a path whose entry is neither a file nor a directory.
    #[must_use]
    pub fn not_a_file() -> Self {
        Self::new(BackendErrorKind::Conflict, NOT_A_FILE)
    }

    /// The error for a precondition that does not hold.
    #[must_use]
    pub fn precondition_failed() -> Self {
        let message = "precondition failed: the file has another version than the request expects";
        Self::new(BackendErrorKind::PreconditionFailed, message)
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(BackendErrorKind::Unavailable, "the server is shutting down")
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for BackendError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|error| error as &(dyn error::Error + 'static))
    }
}

impl From<io::Error> for BackendError {
    fn from(error: io::Error) -> Self {
        use BackendErrorKind as Kind;
        match error.kind() {
            io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
                return Self::new(Kind::Conflict, error.to_string());
            }
            io::ErrorKind::CrossesDevices | io::ErrorKind::PermissionDenied
                if error.raw_os_error().is_none() =>
            {
                return Self::new(Kind::PermissionDenied, error.to_string());
            }
            _ => {}
        }
        let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        let (kind, message) = match errno {
            Errno::NOENT | Errno::NOTDIR => return Self::not_found(),
            Errno::XDEV => (
                Kind::PermissionDenied,
                "a symbolic link in the path leads out of the served directory",
            ),
            Errno::LOOP => (
                Kind::Link,
                "a symbolic link in the path is not followed: nothing is written through links, \
                 and reading through them needs `links = true` in the server's configuration",
            ),
            Errno::ILSEQ => (
                Kind::PermissionDenied,
                "a name in the directory is not UTF-8, or has a control character: rename it",
            ),
            // A socket, or a device without a driver.
            Errno::NXIO => (Kind::PermissionDenied, NOT_SERVED),
            Errno::OPNOTSUPP => {
                (Kind::PermissionDenied, "the file system does not support this operation")
            }
            Errno::ACCESS | Errno::PERM => {
                (Kind::PermissionDenied, "the server's user has no permission for this")
            }
            Errno::ROFS => (Kind::PermissionDenied, "the file system is read-only"),
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::MLINK => {
                (Kind::NoSpace, "no space is left on the device")
            }
            Errno::NAMETOOLONG => (Kind::NameTooLong, "the name is too long"),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                (Kind::Unavailable, "the server has too many open files, try again later")
            }
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::BUSY => {
                (Kind::AlreadyExists, "another file or directory has this name")
            }
            _ => (Kind::Internal, "the file system reported an error"),
        };
        Self { source: Some(error), ..Self::new(kind, message) }
    }
}

impl From<Errno> for BackendError {
    fn from(errno: Errno) -> Self {
        io::Error::from(errno).into()
    }
}
