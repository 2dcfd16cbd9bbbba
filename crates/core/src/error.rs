//! Errors, classified by what the caller can do about them.
//!
//! Every layer turns its failures into an [`Error`]; decisions depend only on [`Error::kind`] and
//! [`Error::retry`], so that they are made in one place.

mod config_text;
mod counted;
pub mod retry;
pub mod suggest;

use crate::text::escape_controls;
pub use config_text::invalid_toml;
pub use counted::counted;
use hither_checksum::ChecksumError;
pub use retry::{Delivery, Effect, Failure, Retry};
use std::fmt;
use std::io;
use std::sync::Arc;

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
    /// The server requires credentials (401).
    Unauthenticated,
    /// The credentials don't suffice (403).
    PermissionDenied,
    /// A file or directory of that name exists already.
    AlreadyExists,
    /// The server or the disk has no space left (507).
    NoSpace,
    /// The file is no longer the one that was opened.
    Changed,
    /// The bytes are not what their format says they must be.
    Corrupt,
    /// Valid input, or an operation, that this version does not support.
    Unsupported,
    /// One of the three timeouts expired: connect, first byte, or no progress.
    Timeout,
    /// The server cannot be reached, closed the connection early, or responded with 5xx.
    Unavailable,
    /// The response of the server violates its protocol.
    Protocol,
    /// The request was too large for the server (400, 413, 414, 431 on a many-range request).
    TooLarge,
    /// The caller cancelled the operation.
    Cancelled,
    /// A local file or the local machine failed.
    Local,
}

impl ErrorKind {
    /// The kind of an error of the file system of this machine.
    #[must_use]
    pub fn of_local(error: &io::Error) -> Self {
        use io::ErrorKind as Io;
        match error.kind() {
            Io::NotFound => Self::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => Self::PermissionDenied,
            Io::AlreadyExists => Self::AlreadyExists,
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => Self::NoSpace,
            Io::DirectoryNotEmpty
            | Io::NotADirectory
            | Io::IsADirectory
            | Io::InvalidFilename
            | Io::InvalidInput
            | Io::CrossesDevices => Self::Invalid,
            _ => Self::Local,
        }
    }
}

/// A failure: kind, message, the facts that decide about a retry, and the cause.
///
/// `Display` prints this level only; walk [`std::error::Error::source`] for the rest.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    failure: Failure,
    effect: Effect,
    message: String,
    /// Lines below the message, written by this program.
    excerpt: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of which only the kind is known.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let failure = Failure::Unknown;
        let effect = Effect::Read;
        let excerpt = String::new();
        Self(Box::new(Inner { kind, failure, effect, message, excerpt, source: None }))
    }

    /// Returns the error with these lines below its message. The message and the causes are one
    /// line each, whatever they quote: only here may a line begin.
    #[must_use]
    pub fn with_excerpt(mut self, lines: impl Into<String>) -> Self {
        self.0.excerpt = lines.into();
        self
    }

    /// Returns the error with the fact that decides about a retry.
    #[must_use]
    pub fn with_failure(mut self, failure: Failure) -> Self {
        self.0.failure = failure;
        self
    }

    /// Returns the error of a request for which there was no connection.
    #[must_use]
    pub fn without_connection(self) -> Self {
        match self.0.failure {
            Failure::Unknown => self.with_failure(Failure::NotConnected(io::ErrorKind::Other)),
            _ => self,
        }
    }

    /// The same error, of a request with this effect.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Returns the error of a `request` with this effect: its message states if the server may have
    /// carried out the request.
    #[must_use]
    pub fn of_request(self, effect: Effect, request: impl fmt::Display) -> Self {
        let error = self.with_effect(effect);
        match error.retry() {
            Retry::LookFirst => error.map_message(|message| {
                format!("{message}: the {request} may have been carried out")
            }),
            _ => error,
        }
    }

    /// Returns the error with its cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the error with `context: ` before its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Returns the error with its message replaced by the result of `change`.
    #[must_use]
    pub fn map_message(mut self, change: impl FnOnce(String) -> String) -> Self {
        self.0.message = change(self.0.message);
        self
    }

    /// Returns true if reading a directory as a file may fail so.
    #[must_use]
    pub fn may_be_directory(&self) -> bool {
        use ErrorKind::{Corrupt, Invalid, NotFound, Protocol, Unsupported};
        self.failure() != Failure::OneServer
            && matches!(self.kind(), Corrupt | Invalid | NotFound | Protocol | Unsupported)
    }

    /// Returns true if the error concerns a name and not the server: requests for other names may
    /// succeed.
    #[must_use]
    pub fn concerns_name(&self) -> bool {
        use ErrorKind::{Invalid, NotFound, PermissionDenied, Protocol, Unsupported};
        matches!(self.kind(), Invalid | NotFound | PermissionDenied | Protocol | Unsupported)
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
            let text = escaped_text(cause);
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

    /// The fact that decides about a retry.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.0.failure
    }

    /// The effect of the request that failed.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }
}

/// The text of an error or of a cause. Those of other libraries may quote a server as it is.
#[must_use]
pub fn escaped_text(error: &(dyn std::error::Error + 'static)) -> String {
    let text = error.to_string();
    if error.is::<Error>() { text } else { escape_controls(&text).into_owned() }
}

impl From<ChecksumError> for Error {
    fn from(error: ChecksumError) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_controls(&self.0.message))?;
        self.0.excerpt.lines().try_for_each(|line| write!(f, "\n  {}", escape_controls(line)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quoted_text_begins_a_line() {
        let forged = "no\n  because: forged";
        let quoted = r"no\n  because: forged";
        let cause = Error::new(ErrorKind::Protocol, forged).with_source(io::Error::other(forged));
        assert_eq!(cause.to_string(), quoted);
        assert_eq!(cause.message_with_causes(), quoted);
        let error = Error::new(ErrorKind::Invalid, "odd").with_source(cause.clone());
        assert_eq!(error.message_with_causes(), format!("odd: {quoted}"));
        assert_eq!(escaped_text(&io::Error::other(forged)), quoted);
        let error = cause.with_excerpt("a\t+\n  ^").context("here");
        assert_eq!(error.to_string(), format!("here: {quoted}\n  a\\t+\n    ^"));
        assert_eq!(escaped_text(&error), error.to_string());
    }
}
