//! Whose fault an error is.

use crate::error::{Error, ErrorKind, Retry};

/// Who is to blame, and so what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureScope {
    /// The request: nobody could answer it, or it must be cut smaller first.
    Request,
    /// The member's file: it is not there, not this one, or not for us. No use asking again.
    File,
    /// The member's server: it cannot be reached or is out of order. It may come back.
    Server,
    /// Nobody: the member has to make the file ready first. Another may have it.
    Nobody,
    /// Chance: a connection that broke. It may happen to anybody once.
    Chance,
}

/// The table.
pub(super) fn classify(error: &Error) -> FailureScope {
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
        (_, Retry::Later { .. }) => FailureScope::Nobody,
        (ErrorKind::Unavailable | ErrorKind::Timeout, Retry::SameServer { .. }) => {
            FailureScope::Chance
        }
        (ErrorKind::Unavailable | ErrorKind::Timeout, _) => FailureScope::Server,
        _ => FailureScope::Request,
    }
}
