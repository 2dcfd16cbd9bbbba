//! What a server's refusal means to those who list and write (RFC 4918 section 11, RFC 9110 section 15).

use crate::http::call::HttpResponse;
use crate::respond;
use hither_core::error::{Error, ErrorKind, Retry};
use hither_http::ResponseHead;
use http::StatusCode;
use std::time::Duration;

/// The error for an answer to `method` that is no success, or half a one (207).
pub(crate) fn refused(reply: &HttpResponse, method: &str) -> Error {
    if let Some(refusal) = &reply.refusal {
        return refusal.clone();
    }
    let status = reply.status;
    let reason = status.canonical_reason().unwrap_or("no standard meaning");
    let seen = format!(
        "{}: the server answered {method} with {} ({reason})",
        reply.location,
        status.as_u16()
    );
    let (kind, what) = match status {
        StatusCode::CONFLICT => {
            (ErrorKind::NotFound, "the directory that it would be in does not exist")
        }
        StatusCode::PRECONDITION_FAILED => {
            (ErrorKind::AlreadyExists, "there is something of that name")
        }
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            (ErrorKind::Unsupported, "it cannot do that, or may not do it here")
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            (ErrorKind::TooLarge, "it does not take files of that size")
        }
        StatusCode::INSUFFICIENT_STORAGE => (ErrorKind::NoSpace, "it has no room left"),
        StatusCode::LOCKED => {
            let error =
                Error::new(ErrorKind::Unavailable, format!("{seen}: somebody has locked it"));
            return error.with_retry(Retry::SameServer { after: Duration::from_secs(1) });
        }
        StatusCode::MULTI_STATUS => {
            (ErrorKind::PermissionDenied, "it could do a part of that only")
        }
        status if status.is_success() => (ErrorKind::Protocol, "expected another kind of success"),
        _ => {
            let facts = ResponseHead::of(status, &reply.headers);
            let name = reply.location.to_string();
            return respond::refused(status, &name, facts.retry_after.as_ref());
        }
    };
    Error::new(kind, format!("{seen}: {what}"))
}
