//! An HTTP request that is not a range read, and its response.

use crate::http::request_body::RequestBody;
use crate::location::Location;
use bytes::Bytes;
use hither_core::error::{Effect, Error};
use http::header::IntoHeaderName;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// An HTTP request.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// The method, of HTTP or WebDAV.
    pub method: Method,
    /// The URL.
    pub location: Location,
    /// Fields in addition to those that every request has.
    pub headers: HeaderMap,
    /// The body.
    pub content: RequestBody,
    /// Its effect at the server. By default that of the method, which is a change unless it only
    /// reads.
    pub effect: Effect,
    /// The maximum length of the response's body in bytes; a longer one is an error.
    pub max_reply_bytes: usize,
    /// The caller decides when a request that a busy server refuses is sent again.
    pub(crate) is_paced: bool,
    /// The request is useless while the server is down: it fails at once if connections are
    /// refused.
    pub(crate) failover: bool,
    /// Gets the body of a successful response as it arrives, too.
    pub(crate) arriving: Option<UnboundedSender<Bytes>>,
    /// Reads the body of a successful response instead of the caller.
    pub(crate) watcher: Option<BodyWatcher>,
}

/// Reads the body of a response while it arrives.
#[derive(Clone)]
pub(crate) struct BodyWatcher {
    /// The longest time without a byte.
    pub(super) silence: Duration,
    /// The longest time without progress.
    pub(super) stall: Duration,
    pub(super) take: Arc<TakeBytes>,
}

/// Takes the next bytes of a body. Returns true if they are progress.
type TakeBytes = dyn Fn(&[u8]) -> bool + Send + Sync;

impl BodyWatcher {
    pub(crate) fn new(
        silence: Duration,
        stall: Duration,
        take: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { silence, stall, take: Arc::new(take) }
    }
}

impl fmt::Debug for BodyWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyWatcher")
    }
}

impl HttpRequest {
    /// A request without fields or body, whose response is short.
    #[must_use]
    pub fn new(method: Method, location: Location) -> Self {
        let headers = HeaderMap::new();
        let content = RequestBody::Empty;
        let effect = effect_of(&method);
        let max_reply_bytes = 64 * 1024;
        Self {
            method,
            location,
            headers,
            content,
            effect,
            max_reply_bytes,
            is_paced: false,
            failover: false,
            arriving: None,
            watcher: None,
        }
    }

    /// The same request with one more field. A value that is not allowed in a field is left out.
    pub(crate) fn with(mut self, name: impl IntoHeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.insert(name, value);
        }
        self
    }

    /// The same request with a body.
    pub(crate) fn with_content(self, content: RequestBody) -> Self {
        Self { content, ..self }
    }

    /// The same request with this effect.
    pub(crate) fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// Returns true if it may be sent again after a response that refuses it for now.
    pub(super) fn waits_while_busy(&self) -> bool {
        !self.is_paced && !self.failover && self.content.is_whole()
    }

    /// Returns true if it is sent only once, because bytes were sent or received, or because
    /// another server can be used.
    pub(super) fn is_sent_once(&self) -> bool {
        let is_seen = self.arriving.is_some() || self.watcher.is_some();
        is_seen || self.failover || !self.content.is_whole()
    }
}

/// The effect of a request with this method.
fn effect_of(method: &Method) -> Effect {
    if is_read(method) { Effect::Read } else { Effect::Change }
}

/// Returns true for methods that change nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND" | "QUERY")
}

/// An HTTP response.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// Its status; every status counts as a success here.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The URL that responded, after redirects.
    pub location: Location,
    /// For 401 and 403, the error that names the insufficient credential and the reason.
    pub refusal: Option<Error>,
    /// The effect of the request.
    pub effect: Effect,
    /// The server stayed busy until the retries ended.
    pub has_waited: bool,
}
