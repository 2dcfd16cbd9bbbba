//! An answer on its way out.

use crate::response::body::ResponseBody;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, header};

/// Status, header and body.
#[derive(Debug)]
pub(crate) struct ServerResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
    /// Ranges that it holds, for the access log.
    pub(crate) ranges: Option<usize>,
}

impl ServerResponse {
    /// Nothing but a status.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: ResponseBody::Empty, ranges: None }
    }

    /// A short text.
    pub(crate) fn text(status: StatusCode, kind: &'static str, text: String) -> Self {
        let mut answer = Self::empty(status);
        answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        answer.body = ResponseBody::Whole(Bytes::from(text));
        answer
    }

    /// With a field in its header; one that cannot be written is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a field; one that cannot be written is left out.
    pub(crate) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }
}
