//! What an answer means for the caller: the error to give, and what the endpoint's record learns from it.

use hither_core::endpoint::{Endpoint, LARGEST_HEADER_BYTES, RangeSupport};
use hither_core::error::{Error, ErrorKind, Retry};
use hither_http::{Hint, RetryAfter};
use http::StatusCode;
use std::time::Duration;

/// Pause before a server that failed is asked again.
const BACK_OFF: Duration = Duration::from_millis(200);
/// Longest `Retry-After` that is honoured by waiting rather than by giving up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The error for a status that brings no bytes.
pub(crate) fn refused(status: StatusCode, name: &str, retry_after: Option<&RetryAfter>) -> Error {
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    let seen = format!("{name}: the server answered {} ({reason})", status.as_u16());
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Error::new(
            ErrorKind::NotFound,
            format!("{seen}: there is no such file, check the path"),
        ),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Error::new(
            ErrorKind::Unauthenticated,
            format!(
                "{seen}: the proxy wants a user and password, as in http://user:password@host:port"
            ),
        ),
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
            Error::new(ErrorKind::Unavailable, format!("{seen}: the server has trouble, try later"))
                .with_retry(retry)
        }
        _ => Error::new(ErrorKind::Protocol, format!("{seen}, expected 200 or 206")),
    }
}

/// The request was too large for the server; the endpoint's record has been lowered, so a smaller one may pass.
pub(crate) fn too_large(name: &str, status: StatusCode, ranges: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("{name}: the server answered {} to a request for {ranges} ranges", status.as_u16()),
    )
    .with_retry(Retry::SameServer { after: Duration::ZERO })
}

/// A prior from the name that the server gives itself, for a server not met before.
pub(crate) fn apply_hint(endpoint: &mut Endpoint, hint: &Hint) {
    if endpoint.ranges != RangeSupport::Unknown {
        return;
    }
    endpoint.max_ranges = hint.max_ranges.unwrap_or(MOST_RANGES);
    endpoint.max_header_bytes = hint.max_header_bytes.min(LARGEST_HEADER_BYTES);
    endpoint.suffix = hint.tail.unwrap_or(endpoint.suffix);
    match hint.multi {
        Some(true) => endpoint.ranges = RangeSupport::Multi,
        Some(false) => endpoint.ranges = RangeSupport::Single,
        None => {}
    }
}

/// A request for `ranges` ranges of `text_bytes` was answered in full: the server may take more than was assumed, unless
/// more has been `refused` before.
pub(crate) fn raise(endpoint: &mut Endpoint, ranges: usize, text_bytes: usize, refused: usize) {
    endpoint.ranges = RangeSupport::Multi;
    let ceiling = if refused == 0 { MOST_RANGES } else { refused - 1 };
    if ranges * 2 > endpoint.max_ranges {
        endpoint.max_ranges = (endpoint.max_ranges * 2).clamp(1, ceiling.max(1));
    }
    // Header limits come in powers of two of which other fields take a share; half as much again approaches them
    // without jumping over the common 8 KiB from below.
    let common = 7_900;
    if text_bytes * 4 > endpoint.max_header_bytes * 3 && endpoint.max_header_bytes < common {
        endpoint.max_header_bytes = (endpoint.max_header_bytes * 3 / 2).min(common);
    }
}

/// A request for `ranges` ranges of `text_bytes` was refused as too large.
pub(crate) fn lower(endpoint: &mut Endpoint, ranges: usize, text_bytes: usize) {
    endpoint.max_ranges = (ranges / 2).max(1).min(endpoint.max_ranges);
    endpoint.max_header_bytes = (text_bytes / 2).max(64).min(endpoint.max_header_bytes);
}

/// No request holds more ranges than this, whatever a server takes.
const MOST_RANGES: usize = 10_000;

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
            (418, ErrorKind::Protocol, Retry::OtherServer),
        ] {
            let error = refused(StatusCode::from_u16(status).unwrap(), "http://h/f", None);
            assert_eq!((error.kind(), error.retry()), (kind, retry), "{status}");
        }
        let later = RetryAfter::Delay(Duration::from_secs(3600));
        let error = refused(StatusCode::SERVICE_UNAVAILABLE, "http://h/f", Some(&later));
        assert_eq!(error.retry(), Retry::OtherServer);
    }

    #[test]
    fn what_was_refused_is_not_tried_again() {
        let mut endpoint = Endpoint::default();
        lower(&mut endpoint, 200, 3_800);
        assert_eq!((endpoint.max_ranges, endpoint.max_header_bytes), (100, 1_900));
        for _ in 0..10 {
            let ranges = endpoint.max_ranges;
            raise(&mut endpoint, ranges, 10, 200);
        }
        assert_eq!(endpoint.max_ranges, 199);
    }
}
