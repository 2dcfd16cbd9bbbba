//! The error that an HTTP status stands for (RFC 4918 section 11, RFC 9110 section 15).

use crate::authorization;
use crate::config::TransportConfig;
use crate::http::call::HttpResponse;
use crate::http::server_reason::quoted_reason;
use crate::location::Location;
use hither_core::error::{Error, ErrorKind, Failure};
use hither_http::{ResponseHead, RetryAfter};
use http::{HeaderMap, Method, StatusCode};
use std::time::SystemTime;

/// The fact in a response by which a retry is decided.
pub(crate) fn failure(status: StatusCode, headers: &HeaderMap) -> Failure {
    of_facts(status, ResponseHead::of(status, headers).retry_after.as_ref())
}

fn of_facts(status: StatusCode, retry_after: Option<&RetryAfter>) -> Failure {
    let after = retry_after.map(|retry_after| retry_after.delay(SystemTime::now()));
    Failure::Status { code: status.as_u16(), after }
}

/// A status by number and meaning.
pub(crate) fn shown(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    format!("{} ({reason})", status.as_u16())
}

/// The error for a response to a read, with the likely reason if the server rejects its credential.
pub(crate) fn of_read(
    location: &Location,
    config: &TransportConfig,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Error {
    let refusal = authorization::refusal(location, config, method, status, headers, body);
    refusal.unwrap_or_else(|| {
        let facts = ResponseHead::of(status, headers);
        let reason = quoted_reason(headers, body);
        of_status(status, &location.to_string(), &reason, facts.retry_after.as_ref())
    })
}

/// The error for a status without bytes of the file. `reason` is the server's own reason, as
/// [`server_reason::quoted_reason`](crate::http::server_reason::quoted_reason) returns it.
pub(crate) fn of_status(
    status: StatusCode,
    name: &str,
    reason: &str,
    retry_after: Option<&RetryAfter>,
) -> Error {
    let seen = format!("{name}: the server responded with {}{reason}", shown(status));
    let (kind, what) = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            (ErrorKind::NotFound, format!("{seen}: the file does not exist, check the path"))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => (
            ErrorKind::Unauthenticated,
            format!(
                "{seen}: the proxy requires a user and password, as in http://user:password@host:port"
            ),
        ),
        StatusCode::ACCEPTED => {
            (ErrorKind::Unavailable, format!("{seen}: the file is being staged, try again later"))
        }
        StatusCode::UNAUTHORIZED => (ErrorKind::Unauthenticated, seen),
        StatusCode::FORBIDDEN => (ErrorKind::PermissionDenied, seen),
        status if is_server_failure(status) => {
            let after = retry_after.map(|it| it.delay(SystemTime::now()).as_secs());
            let when = match after {
                Some(seconds @ 1..) => format!("in {seconds} s"),
                _ => "later".to_owned(),
            };
            let what = format!("the server is overloaded or failing, try again {when}");
            (ErrorKind::Unavailable, format!("{seen}: {what}"))
        }
        _ => (ErrorKind::Protocol, format!("{seen}, expected 200 or 206")),
    };
    Error::new(kind, what).with_failure(of_facts(status, retry_after))
}

/// Returns whether a status means that the server is busy or out of order.
fn is_server_failure(status: StatusCode) -> bool {
    is_temporary(status) || status.is_server_error()
}

/// Returns true for a status after which the same request may succeed later.
pub(crate) fn is_temporary(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Returns true for a status that means that the server does not support the method of a request
/// (RFC 9110 sections 15.5.6 and 15.6.2).
pub(crate) fn lacks_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
}

/// Returns true for a status that means that the server does not support the method of a request,
/// or its content type (RFC 9110 section 15.5.16).
pub(crate) fn is_unsupported(status: StatusCode) -> bool {
    lacks_method(status) || status == StatusCode::UNSUPPORTED_MEDIA_TYPE
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
    .with_failure(Failure::OneServer)
}

/// The error for a request that is too large for the server. The learned limit was lowered, so a
/// smaller request may succeed.
pub(crate) fn too_large(name: &str, status: StatusCode, ranges: usize, bytes: u64) -> Error {
    let requested = match ranges {
        1 => format!("{bytes} bytes in one range"),
        _ => format!("{bytes} bytes in {ranges} ranges"),
    };
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "{name}: the server responded with {} to a request for {requested}",
            status.as_u16()
        ),
    )
    .with_failure(Failure::TooLarge)
}

/// The error for a response to `method` that is not a success, or is a partial one (207).
pub(crate) fn of_response(reply: &HttpResponse, method: &str) -> Error {
    if let Some(refusal) = &reply.refusal {
        return refusal.clone();
    }
    let facts = ResponseHead::of(reply.status, &reply.headers);
    let reason = quoted_reason(&reply.headers, &reply.body);
    let name = reply.location.to_string();
    let has_control = reply.location.plain_path().contains(char::is_control);
    let error = if reply.status == StatusCode::BAD_REQUEST && has_control {
        let seen = refused(reply.status, method, &name, &reason);
        let what = format!("{seen}: the server takes no names with control characters");
        Error::new(ErrorKind::Unsupported, what).with_failure(of_facts(reply.status, None))
    } else {
        of_change(reply.status, method, &name, &reason, facts.retry_after.as_ref())
    };
    let error = if reply.has_waited { error.with_failure(Failure::OneServer) } else { error };
    error.of_request(reply.effect, method)
}

impl HttpResponse {
    /// The fact that a retry is decided by, if the response is a failure.
    #[must_use]
    pub fn failure(&self) -> Failure {
        if self.has_waited {
            return Failure::OneServer;
        }
        failure(self.status, &self.headers)
    }
}

/// Returns true for the status that means that the parent of a new name does not exist (RFC 4918
/// sections 9.3.1, 9.7.1, 9.8.5 and 9.9.4), or that there is another conflict.
pub(crate) fn is_conflict(status: StatusCode, method: &str) -> bool {
    status == StatusCode::CONFLICT && matches!(method, "PUT" | "MKCOL" | "MOVE" | "COPY")
}

/// The error for a conflict of a new name. `what` is the reason that a look has shown.
pub(crate) fn conflict(reply: &HttpResponse, method: &str, kind: ErrorKind, what: &str) -> Error {
    let reason = quoted_reason(&reply.headers, &reply.body);
    let seen = refused(reply.status, method, &reply.location.to_string(), &reason);
    let failure = failure(reply.status, &reply.headers);
    Error::new(kind, format!("{seen}: {what}")).with_failure(failure).with_effect(reply.effect)
}

fn refused(status: StatusCode, method: &str, name: &str, reason: &str) -> String {
    format!("{name}: the server responded to {method} with {}{reason}", shown(status))
}

/// The error for a response to a change, from the parts of the response.
pub(crate) fn of_change(
    status: StatusCode,
    method: &str,
    name: &str,
    reason: &str,
    retry_after: Option<&RetryAfter>,
) -> Error {
    let seen = refused(status, method, name, reason);
    let (kind, what) = match status {
        _ if is_conflict(status, method) => {
            (ErrorKind::NotFound, "the parent directory may not exist")
        }
        StatusCode::CONFLICT if method == "DELETE" => {
            (ErrorKind::Invalid, "what is there does not allow it")
        }
        StatusCode::PRECONDITION_FAILED => (ErrorKind::AlreadyExists, "the name exists already"),
        _ if lacks_method(status) => {
            (ErrorKind::Unsupported, "the server does not support or allow it here")
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            (ErrorKind::TooLarge, "the server does not accept files of this size")
        }
        StatusCode::INSUFFICIENT_STORAGE => (ErrorKind::NoSpace, "the server has no space left"),
        StatusCode::LOCKED => (ErrorKind::Unavailable, "it is locked by another client"),
        StatusCode::MULTI_STATUS => (ErrorKind::PermissionDenied, "only a part of it was done"),
        status if status.is_success() => (ErrorKind::Protocol, "expected another status"),
        StatusCode::BAD_REQUEST => (ErrorKind::Protocol, "the server does not accept the request"),
        _ => return of_status(status, name, reason, retry_after),
    };
    Error::new(kind, format!("{seen}: {what}")).with_failure(of_facts(status, retry_after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::{Effect, Retry};
    use std::time::Duration;

    /// Statuses, and the decision about a retry.
    type Rows<'a> = &'a [(&'a [u16], Retry)];

    const NONE: Duration = Duration::ZERO;
    const BUSY: (&[u16], Retry) = (&[408, 425, 429, 503], Retry::Busy { after: NONE });

    fn check(rows: Rows<'_>, failed: impl Fn(StatusCode) -> Error, others: Retry, server: Retry) {
        for code in 100..1000 {
            let row = rows.iter().find(|(codes, _)| codes.contains(&code));
            let rest = if (500..600).contains(&code) { server } else { others };
            let error = failed(StatusCode::from_u16(code).unwrap());
            assert_eq!(error.retry(), row.map_or(rest, |(_, retry)| *retry), "{error}");
        }
    }

    #[test]
    fn a_retry_of_a_read_is_decided_for_every_status() {
        let rows: Rows<'_> = &[
            BUSY,
            (&[202], Retry::Later { after: Duration::from_secs(5) }),
            (&[401, 403, 404, 407, 410], Retry::Never),
            (&[423], Retry::SameServer { after: Duration::from_secs(1) }),
            (&[501, 505], Retry::OtherServer),
        ];
        let failed = |status| of_status(status, "http://h/f", "", None);
        check(rows, failed, Retry::OtherServer, Retry::SameServer { after: NONE });
    }

    #[test]
    fn a_retry_of_a_change_is_decided_for_every_status() {
        let seen: Vec<u16> = (200..300).filter(|code| *code != 207).collect();
        let rows: Rows<'_> = &[
            BUSY,
            (&seen, Retry::LookFirst),
            (&[207, 401, 403, 404, 405, 407, 410, 412, 413, 501, 507], Retry::Never),
            (&[423], Retry::SameServer { after: Duration::from_secs(1) }),
            (&[505], Retry::OtherServer),
            (&[511], Retry::SameServer { after: NONE }),
        ];
        for method in ["PUT", "MOVE", "COPY", "DELETE", "MKCOL", "POST"] {
            // What makes a name needs its directory, and a directory may have contents.
            let conflict = if method == "POST" { Retry::OtherServer } else { Retry::Never };
            let rows = [rows, &[(&[409], conflict)]].concat();
            let failed = |status| {
                of_change(status, method, "http://h/f", "", None).with_effect(Effect::Change)
            };
            check(&rows, failed, Retry::OtherServer, Retry::LookFirst);
        }
    }

    #[test]
    fn statuses_have_kinds() {
        for (status, kind) in [
            (404, ErrorKind::NotFound),
            (401, ErrorKind::Unauthenticated),
            (403, ErrorKind::PermissionDenied),
            (408, ErrorKind::Unavailable),
            (425, ErrorKind::Unavailable),
            (500, ErrorKind::Unavailable),
            (418, ErrorKind::Protocol),
        ] {
            let error = of_status(StatusCode::from_u16(status).unwrap(), "http://h/f", "", None);
            assert_eq!(error.kind(), kind, "{status}");
        }
    }

    #[test]
    fn a_date_counts_from_now_if_the_response_has_none() {
        let failed = |after: Duration| {
            let date = RetryAfter::Date(SystemTime::now() + after);
            of_status(StatusCode::SERVICE_UNAVAILABLE, "http://h/f", "", Some(&date)).retry()
        };
        assert_eq!(failed(Duration::from_secs(86_400)), Retry::OtherServer);
        let soon = failed(Duration::from_secs(30));
        assert!(matches!(soon, Retry::Busy { after } if after.as_secs() >= 25), "{soon:?}");
    }
}
