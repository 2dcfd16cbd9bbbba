//! The error that an HTTP status stands for (RFC 4918 section 11, RFC 9110 section 15).

use crate::http::call::HttpResponse;
use crate::http::server_reason::said;
use hither_core::error::{Error, ErrorKind, Retry};
use hither_http::{ResponseHead, RetryAfter};
use http::StatusCode;
use std::time::Duration;

/// The backoff after a server error.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(200);
/// The maximum `Retry-After` that is waited for. A longer one is an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause before a retry of a file that is being staged, where the server does not say how long
/// that takes.
const READY_SOON: Duration = Duration::from_secs(5);

/// A status by number and meaning.
fn shown(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    format!("{} ({reason})", status.as_u16())
}

/// The error for a status without bytes of the file. `said` is the server's own reason, as
/// [`server_reason::said`](crate::http::server_reason::said) returns it.
pub(crate) fn of_status(
    status: StatusCode,
    name: &str,
    said: &str,
    retry_after: Option<&RetryAfter>,
) -> Error {
    let seen = format!("{name}: the server responded with {}{said}", shown(status));
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Error::new(
            ErrorKind::NotFound,
            format!("{seen}: the file does not exist, check the path"),
        ),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Error::new(
            ErrorKind::Unauthenticated,
            format!(
                "{seen}: the proxy requires a user and password, as in http://user:password@host:port"
            ),
        ),
        StatusCode::ACCEPTED => {
            let after = match retry_after {
                Some(RetryAfter::Delay(after)) => (*after).max(BACK_OFF),
                Some(RetryAfter::Date(_)) | None => READY_SOON,
            };
            Error::new(
                ErrorKind::Unavailable,
                format!("{seen}: the file is being staged, try again later"),
            )
            .with_retry(Retry::Later { after })
        }
        StatusCode::UNAUTHORIZED => Error::new(ErrorKind::Unauthenticated, seen),
        StatusCode::FORBIDDEN => Error::new(ErrorKind::PermissionDenied, seen),
        status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            let after = match retry_after {
                Some(RetryAfter::Delay(after)) => *after,
                Some(RetryAfter::Date(_)) | None => BACK_OFF,
            };
            let retry = match status {
                StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
                    Retry::OtherServer
                }
                _ if after > PATIENCE => Retry::OtherServer,
                _ => Retry::SameServer { after },
            };
            Error::new(
                ErrorKind::Unavailable,
                format!("{seen}: the server is overloaded or failing, try again later"),
            )
            .with_retry(retry)
        }
        _ => Error::new(ErrorKind::Protocol, format!("{seen}, expected 200 or 206")),
    }
}

/// The error for a header with a single range that is too long for the server.
pub(crate) fn header_too_long(name: &str, status: StatusCode, text_bytes: usize) -> Error {
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "{name}: the server responded with {} ({reason}) to a single range of {text_bytes} bytes of text: no request is \
             shorter; raise the limit on headers or paths of the server, or of a proxy before it",
            status.as_u16()
        ),
    )
    .with_retry(Retry::OtherServer)
}

/// The error for a request that is too large for the server. The learned limit was lowered, so a
/// smaller request may succeed.
pub(crate) fn too_large(name: &str, status: StatusCode, ranges: usize, bytes: u64) -> Error {
    let asked = match ranges {
        1 => format!("{bytes} bytes in one range"),
        _ => format!("{bytes} bytes in {ranges} ranges"),
    };
    Error::new(
        ErrorKind::TooLarge,
        format!("{name}: the server responded with {} to a request for {asked}", status.as_u16()),
    )
    .with_retry(Retry::SameServer { after: Duration::ZERO })
}

/// The error for a response to `method` that is no success, or a partial one (207).
pub(crate) fn of_response(reply: &HttpResponse, method: &str) -> Error {
    if let Some(refusal) = &reply.refusal {
        return refusal.clone();
    }
    let facts = ResponseHead::of(reply.status, &reply.headers);
    let said = said(&reply.headers, &reply.body);
    of_change(reply.status, method, &reply.location.to_string(), &said, facts.retry_after.as_ref())
}

/// The same for the parts of a response.
pub(crate) fn of_change(
    status: StatusCode,
    method: &str,
    name: &str,
    said: &str,
    retry_after: Option<&RetryAfter>,
) -> Error {
    let seen = format!("{name}: the server responded to {method} with {}{said}", shown(status));
    let (kind, what) = match status {
        StatusCode::CONFLICT => (ErrorKind::NotFound, "the parent directory does not exist"),
        StatusCode::PRECONDITION_FAILED => (ErrorKind::AlreadyExists, "the name exists already"),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            (ErrorKind::Unsupported, "the server does not support or allow it here")
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            (ErrorKind::TooLarge, "the server does not accept files of this size")
        }
        StatusCode::INSUFFICIENT_STORAGE => (ErrorKind::NoSpace, "the server has no space left"),
        StatusCode::LOCKED => {
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("{seen}: it is locked by another client"),
            );
            return error.with_retry(Retry::SameServer { after: Duration::from_secs(1) });
        }
        StatusCode::MULTI_STATUS => (ErrorKind::PermissionDenied, "only a part of it was done"),
        status if status.is_success() => (ErrorKind::Protocol, "expected another status"),
        _ => return of_status(status, name, said, retry_after),
    };
    Error::new(kind, format!("{seen}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_map_to_what_the_caller_can_do() {
        for (status, kind, retry) in [
            (404, ErrorKind::NotFound, Retry::Never),
            (401, ErrorKind::Unauthenticated, Retry::Never),
            (403, ErrorKind::PermissionDenied, Retry::Never),
            (500, ErrorKind::Unavailable, Retry::SameServer { after: BACK_OFF }),
            (501, ErrorKind::Unavailable, Retry::OtherServer),
            (202, ErrorKind::Unavailable, Retry::Later { after: READY_SOON }),
            (418, ErrorKind::Protocol, Retry::OtherServer),
        ] {
            let error = of_status(StatusCode::from_u16(status).unwrap(), "http://h/f", "", None);
            assert_eq!((error.kind(), error.retry()), (kind, retry), "{status}");
        }
        let later = RetryAfter::Delay(Duration::from_secs(3600));
        let error = of_status(StatusCode::SERVICE_UNAVAILABLE, "http://h/f", "", Some(&later));
        assert_eq!(error.retry(), Retry::OtherServer);
    }
}
