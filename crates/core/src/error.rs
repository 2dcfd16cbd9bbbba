//! Errors, classified by what the caller can do about them.
//!
//! Every layer turns its failures into an [`Error`]; [`Error::kind`] and [`Error::retry`] are the
//! only things that decisions are taken on, so that they are taken in one place.

pub mod suggest;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of failure. The command's exit codes and the exceptions of language bindings follow this
/// list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A malformed URL, expression, option or range.
    Invalid,
    /// The file, tree or branch does not exist.
    NotFound,
    /// The server wants credentials (401).
    Unauthenticated,
    /// The credentials don't suffice (403).
    PermissionDenied,
    /// There is something of that name already.
    AlreadyExists,
    /// The server or the disk has no room left (507).
    NoSpace,
    /// The file is no longer the one that was opened.
    Changed,
    /// The bytes are not what their format says they must be.
    Corrupt,
    /// A valid thing that this version cannot read or do.
    Unsupported,
    /// One of the three clocks ran out: connect, first byte, or no progress.
    Timeout,
    /// The server cannot be reached, broke off, or said 5xx.
    Unavailable,
    /// The server answered in a way that its protocol does not allow.
    Protocol,
    /// The request was too large for the server (400, 413, 414, 431 on a many-range request).
    TooLarge,
    /// The caller gave up.
    Cancelled,
    /// A local file or the local machine failed.
    Local,
}

/// Advice on retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It cannot.
    Never,
    /// The same server may answer after a while.
    SameServer {
        /// Time to wait first.
        after: Duration,
    },
    /// The server is well, but has to make this file ready first, as from tape: it said when to ask
    /// for it again. Nothing is wrong, so it is no failure to be counted.
    Later {
        /// Time to wait first.
        after: Duration,
    },
    /// Only another replica may answer.
    OtherServer,
}

/// A failure: kind, message, advice on retrying, and the cause.
///
/// `Display` prints this level only; walk [`std::error::Error::source`] for the rest.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    retry: Retry,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error that retrying does not cure, except [`ErrorKind::Unavailable`],
    /// [`ErrorKind::Timeout`] and [`ErrorKind::Protocol`], which another server may.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retry = match kind {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Protocol => Retry::OtherServer,
            _ => Retry::Never,
        };
        Self(Box::new(Inner { kind, retry, message: message.into(), source: None }))
    }

    /// The same error with other advice on retrying.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error with `context: ` before its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// The same error with a message that `change` makes of its own.
    #[must_use]
    pub fn map_message(mut self, change: impl FnOnce(String) -> String) -> Self {
        self.0.message = change(self.0.message);
        self
    }

    /// Returns true if reading a directory as a file may fail so.
    #[must_use]
    pub fn may_be_directory(&self) -> bool {
        use ErrorKind::{Corrupt, Invalid, NotFound, Protocol, Unsupported};
        matches!(self.kind(), Corrupt | Invalid | NotFound | Protocol | Unsupported)
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message with those of the causes that it does not repeat, for callers that show one
    /// text.
    #[must_use]
    pub fn message_with_causes(&self) -> String {
        let mut message = self.to_string();
        let first = std::error::Error::source(self);
        for cause in std::iter::successors(first, |error| error.source()) {
            let text = cause.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
        }
        message
    }

    /// Returns true if the server refused the connection: it is down, restarting, or not there.
    #[must_use]
    pub fn is_refused_connection(&self) -> bool {
        let first = std::error::Error::source(self);
        let causes = std::iter::successors(first, |error| error.source());
        let mut kinds = causes.filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
        kinds.any(|kind| kind == io::ErrorKind::ConnectionRefused)
    }

    /// Advice on retries.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

const _: () = assert!(size_of::<Error>() <= 64);
