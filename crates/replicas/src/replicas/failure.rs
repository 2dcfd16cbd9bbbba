//! Classification of failures by the part that failed, which determines the remedy.

use hither_core::error::{Error, ErrorKind, Retry};

/// The part of the system that an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureScope {
    /// The request: no replica can answer it, or it must be split first.
    Request,
    /// The file of this replica: missing, another one, or forbidden. A retry does not help.
    File,
    /// The server: unreachable or failing. It may recover.
    Server,
    /// Nothing has failed: the server has to make the file ready first. Another replica may be
    /// ready.
    Staging,
    /// Chance: a connection broke, which may happen to any server once.
    Chance,
}

/// Classifies an error by its kind and the decision about a retry.
#[must_use]
pub fn classify(error: &Error) -> FailureScope {
    match (error.kind(), error.retry()) {
        (
            ErrorKind::NotFound
            | ErrorKind::Unauthenticated
            | ErrorKind::PermissionDenied
            | ErrorKind::Changed
            | ErrorKind::Corrupt
            | ErrorKind::Unsupported
            | ErrorKind::Protocol,
            _,
        ) => FailureScope::File,
        (_, Retry::Later { .. }) => FailureScope::Staging,
        (
            ErrorKind::Unavailable | ErrorKind::Timeout,
            Retry::AtOnce | Retry::SameServer { .. } | Retry::Busy { .. },
        ) => FailureScope::Chance,
        (ErrorKind::Unavailable | ErrorKind::Timeout, _) => FailureScope::Server,
        _ => FailureScope::Request,
    }
}
