//! Errors of XRootD servers as errors of this project.

use hither_core::error::{Error, ErrorKind, Retry};
use hither_xrd::client::{RequestError, SessionError};
use hither_xrd::wire::ErrorCode;
use std::time::Duration;

/// The backoff for an overloaded server that does not name a time.
const BACK_OFF: Duration = Duration::from_secs(1);

/// The error for a response of status `error`. `message` is the server's reason, and `name` the
/// requested file.
///
/// The codes are those of `XProtocol.hh`. Servers use them loosely: a file that cannot be opened
/// may be reported as an I/O error or a file system error. So those are worth another server, but
/// no second request to the same.
pub(crate) fn refused(name: &str, code: ErrorCode, message: &str) -> Error {
    let message = message.trim_end_matches(['\0', '\n', ' ']);
    let seen = if message.is_empty() {
        format!("{name}: the server responded with {code}")
    } else {
        format!("{name}: the server responded with {code}: {message:?}")
    };
    let (kind, retry) = advice(code);
    let error = Error::new(kind, seen);
    match retry {
        Some(retry) => error.with_retry(retry),
        None => error,
    }
}

/// The error for one failed request.
pub(crate) fn failed(name: &str, failure: RequestError) -> Error {
    match failure {
        RequestError::Refused { code, message } => refused(name, code, &message),
        RequestError::NotOpen => Error::new(ErrorKind::Unavailable, format!("{name}: {failure}"))
            .with_retry(Retry::SameServer { after: Duration::ZERO }),
        failure => {
            Error::new(ErrorKind::Protocol, format!("{name}: {failure}")).with_source(failure)
        }
    }
}

/// The error for a session that has ended.
pub(crate) fn session_over(name: &str, error: SessionError) -> Error {
    let kind = match &error {
        SessionError::Refused { step, code, message } => {
            return refused(&format!("{name} ({step})"), *code, message);
        }
        SessionError::Wire(_) | SessionError::Unasked { .. } => ErrorKind::Protocol,
        SessionError::NoTls | SessionError::SigningWanted => ErrorKind::Unsupported,
        SessionError::TlsWanted { .. } => {
            let what = format!("{name}: {error}; use roots://");
            return Error::new(ErrorKind::Unsupported, what).with_source(error);
        }
        SessionError::Unauthenticated { .. } => ErrorKind::Unauthenticated,
        _ => ErrorKind::Unavailable,
    };
    let told = Error::new(kind, format!("{name}: {error}"));
    let told = match &error {
        SessionError::Ended { .. } | SessionError::Mispredicted { .. } => {
            told.with_retry(Retry::SameServer { after: Duration::ZERO })
        }
        _ => told,
    };
    told.with_source(error)
}

/// Returns whether this is the error for a server without TLS.
pub(crate) fn lacks_tls(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let session = source.and_then(|source| source.downcast_ref::<SessionError>());
    matches!(session, Some(SessionError::NoTls))
}

/// The kind of a code, and its retry policy where that differs from the default of the kind.
fn advice(code: ErrorCode) -> (ErrorKind, Option<Retry>) {
    let again = |after| Some(Retry::SameServer { after });
    match code {
        ErrorCode::ARG_INVALID | ErrorCode::ARG_MISSING | ErrorCode::BAD_PAYLOAD => {
            (ErrorKind::Invalid, None)
        }
        ErrorCode::ARG_TOO_LONG | ErrorCode::NO_MEMORY => {
            (ErrorKind::TooLarge, Some(Retry::OtherServer))
        }
        ErrorCode::FILE_NOT_OPEN => (ErrorKind::Unavailable, again(Duration::ZERO)),
        ErrorCode::NOT_AUTHORIZED | ErrorCode::READ_ONLY => (ErrorKind::PermissionDenied, None),
        ErrorCode::AUTH_FAILED | ErrorCode::TLS_REQUIRED => (ErrorKind::Unauthenticated, None),
        ErrorCode::NOT_FOUND | ErrorCode::ATTRIBUTE_NOT_FOUND => (ErrorKind::NotFound, None),
        ErrorCode::NO_SPACE | ErrorCode::OVER_QUOTA => (ErrorKind::NoSpace, None),
        ErrorCode::IT_EXISTS => (ErrorKind::AlreadyExists, None),
        ErrorCode::IS_DIRECTORY | ErrorCode::NOT_FILE => (ErrorKind::Invalid, None),
        ErrorCode::UNSUPPORTED | ErrorCode::IMPOSSIBLE => (ErrorKind::Unsupported, None),
        ErrorCode::CHECKSUM | ErrorCode::TOO_MANY_ERRORS => {
            (ErrorKind::Corrupt, Some(Retry::OtherServer))
        }
        ErrorCode::OVERLOADED | ErrorCode::IN_PROGRESS | ErrorCode::FILE_LOCKED => {
            (ErrorKind::Unavailable, again(BACK_OFF))
        }
        _ => (ErrorKind::Unavailable, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_map_to_what_the_caller_can_do() {
        for (code, kind, retry) in [
            (ErrorCode::NOT_FOUND, ErrorKind::NotFound, Retry::Never),
            (ErrorCode::NOT_AUTHORIZED, ErrorKind::PermissionDenied, Retry::Never),
            (ErrorCode::IO_ERROR, ErrorKind::Unavailable, Retry::OtherServer),
            (ErrorCode::OVERLOADED, ErrorKind::Unavailable, Retry::SameServer { after: BACK_OFF }),
            (ErrorCode(3999), ErrorKind::Unavailable, Retry::OtherServer),
        ] {
            let error = refused("root://h//f", code, "because\n\0");
            assert_eq!((error.kind(), error.retry()), (kind, retry), "{code}");
            assert!(error.to_string().contains("because"), "{error}");
        }
    }
}
