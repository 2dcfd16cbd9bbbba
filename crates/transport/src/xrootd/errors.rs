//! Errors of XRootD servers as errors of this project.

use hither_core::error::{Delivery, Error, ErrorKind, Failure};
use hither_xrd::client::{RequestError, SessionError};
use hither_xrd::wire::ErrorCode;

/// The error for a response of status `error`. `message` is the server's reason, and `name` the
/// requested file.
///
/// The codes are those of `XProtocol.hh`.
pub(crate) fn refused(name: &str, code: ErrorCode, message: &str) -> Error {
    let message = message.trim_end_matches(['\0', '\n', ' ']);
    let seen = if message.is_empty() {
        format!("{name}: the server responded with {code}")
    } else {
        // Opaque information, which may be a token, is behind a question mark.
        let words = message.split(' ').map(|word| match word.split_once('?') {
            Some((path, opaque)) if !opaque.is_empty() => format!("{path}?..."),
            _ => word.to_owned(),
        });
        let message = words.collect::<Vec<_>>().join(" ");
        format!("{name}: the server responded with {code}: {message:?}")
    };
    // There is no code for a path through something that is not a directory (`ENOTDIR`).
    let is_through_file = code == ErrorCode::FS_ERROR && message.ends_with("not a directory");
    let code = if is_through_file { ErrorCode::NOT_FILE } else { code };
    Error::new(kind(code), seen).with_failure(Failure::Xrootd { code: code.0 })
}

/// The error for one failed request.
pub(crate) fn failed(name: &str, failure: RequestError) -> Error {
    match failure {
        RequestError::Refused { code, message } => refused(name, code, &message),
        RequestError::NotOpen => Error::new(ErrorKind::Unavailable, format!("{name}: {failure}"))
            .with_failure(Failure::Xrootd { code: ErrorCode::FILE_NOT_OPEN.0 }),
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
    let converted = Error::new(kind, format!("{name}: {error}"));
    let converted = match &error {
        SessionError::Ended { .. } | SessionError::Mispredicted { .. } => {
            converted.with_failure(Failure::Interrupted(Delivery::Sent))
        }
        _ => converted,
    };
    converted.with_source(error)
}

/// Returns whether this is the error for a server without TLS.
pub(crate) fn lacks_tls(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let session = source.and_then(|source| source.downcast_ref::<SessionError>());
    matches!(session, Some(SessionError::NoTls))
}

/// The kind of a code.
pub(crate) fn kind(code: ErrorCode) -> ErrorKind {
    match code {
        ErrorCode::ARG_INVALID | ErrorCode::ARG_MISSING | ErrorCode::BAD_PAYLOAD => {
            ErrorKind::Invalid
        }
        ErrorCode::ARG_TOO_LONG | ErrorCode::NO_MEMORY => ErrorKind::TooLarge,
        ErrorCode::NOT_AUTHORIZED | ErrorCode::READ_ONLY => ErrorKind::PermissionDenied,
        ErrorCode::AUTH_FAILED | ErrorCode::TLS_REQUIRED => ErrorKind::Unauthenticated,
        ErrorCode::NOT_FOUND | ErrorCode::ATTRIBUTE_NOT_FOUND => ErrorKind::NotFound,
        ErrorCode::NO_SPACE | ErrorCode::OVER_QUOTA => ErrorKind::NoSpace,
        ErrorCode::IT_EXISTS => ErrorKind::AlreadyExists,
        ErrorCode::IS_DIRECTORY | ErrorCode::NOT_FILE => ErrorKind::Invalid,
        ErrorCode::UNSUPPORTED | ErrorCode::IMPOSSIBLE => ErrorKind::Unsupported,
        ErrorCode::CHECKSUM | ErrorCode::TOO_MANY_ERRORS => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::{Effect, Retry};
    use std::time::Duration;

    /// Codes that mean that the server has not carried out the request, and will not.
    const FINAL: [u32; 16] = [
        3000, 3001, 3009, 3010, 3011, 3013, 3015, 3016, 3018, 3021, 3025, 3026, 3027, 3028, 3030,
        3031,
    ];

    #[test]
    fn opaque_information_is_not_shown() {
        let message = "Unable to open /f?authz=Bearer%20secret&x=1 as you; why?";
        let error = refused("root://h//f", ErrorCode(3010), message).to_string();
        assert!(error.contains("Unable to open /f?... as you; why?"), "{error}");
    }

    #[test]
    fn a_path_through_a_file_is_invalid() {
        let error =
            refused("root://h", ErrorCode(3005), "Unable to locate /to/f/x; not a directory");
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Invalid, Retry::Never), "{error}");
        assert!(error.to_string().contains("3005"), "{error}");
    }

    #[test]
    fn a_retry_is_decided_for_every_code() {
        let second = Duration::from_secs(1);
        for code in 3000..3040 {
            let error = refused("root://h//f", ErrorCode(code), "because\n\0");
            assert!(error.to_string().contains("because"), "{error}");
            let read = match code {
                3003 | 3020 => Retry::SameServer { after: second },
                3004 => Retry::SameServer { after: Duration::ZERO },
                3024 => Retry::Busy { after: Duration::ZERO },
                code if FINAL.contains(&code) => Retry::Never,
                _ => Retry::OtherServer,
            };
            let change = match code {
                3005 | 3007 | 3012 | 3017 | 3020 | 3034.. => Retry::LookFirst,
                _ => read,
            };
            assert_eq!(error.retry(), read, "{error}");
            assert_eq!(error.with_effect(Effect::Change).retry(), change, "{code}");
        }
    }
}
