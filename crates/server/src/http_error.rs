//! An HTTP error response: a status, the reason as a sentence, and header fields.

use crate::backend::{BackendError, BackendErrorKind};
use http::header::{HeaderName, HeaderValue};
use http::{StatusCode, header};
use std::fmt::Display;

/// An HTTP error response.
#[derive(Debug, Clone)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) what: String,
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), fields: Vec::new() }
    }

    /// Adds a header field; a value that no field can hold is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.fields.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    pub(crate) fn not_found() -> Self {
        BackendError::not_found().into()
    }

    pub(crate) fn precondition_failed() -> Self {
        BackendError::precondition_failed().into()
    }

    /// `existing` is kept, as the field `Overwrite` of the request demands.
    pub(crate) fn may_not_overwrite(existing: impl Display) -> Self {
        let what = format!(
            "{existing} exists, and the request has `Overwrite: F`: send `Overwrite: T` to replace it"
        );
        Self::new(StatusCode::PRECONDITION_FAILED, what)
    }
}

impl From<BackendError> for HttpError {
    fn from(error: BackendError) -> Self {
        use BackendErrorKind as Kind;
        let status = match error.kind() {
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::AlreadyExists | Kind::Conflict => StatusCode::CONFLICT,
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::PermissionDenied | Kind::Link => StatusCode::FORBIDDEN,
            Kind::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Kind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            Kind::NameTooLong => StatusCode::URI_TOO_LONG,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            // Clients retry a change after 503, and check its effect first after 504.
            Kind::Unconfirmed => StatusCode::GATEWAY_TIMEOUT,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let http = Self::new(status, error.to_string());
        match status {
            StatusCode::SERVICE_UNAVAILABLE => http.with(header::RETRY_AFTER, "1"),
            _ => http,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_were_not_carried_out_may_be_repeated() {
        for (kind, status, repeats) in [
            (BackendErrorKind::Unavailable, 503, true),
            (BackendErrorKind::Unconfirmed, 504, false),
        ] {
            let error = HttpError::from(BackendError::new(kind, "no answer"));
            let retries = error.fields.iter().any(|(name, _)| *name == header::RETRY_AFTER);
            assert_eq!((error.status.as_u16(), retries), (status, repeats));
        }
    }
}
