//! The sender of one request: an HTTP/1.1 connection, or a stream of an HTTP/2 connection.

use crate::http::request_body::BoxBody;
use crate::pool::http1::Http1Connection;
use crate::pool::http2::Http2Stream;
use hyper::body::Incoming;
use std::time::Duration;

/// The sender of one request.
#[derive(Debug)]
pub(crate) enum RequestSender {
    /// An HTTP/1.1 connection.
    Http1(Http1Connection),
    /// A stream of an HTTP/2 connection.
    Http2(Http2Stream),
}

impl RequestSender {
    /// Returns whether the connection has carried a response before.
    pub(crate) fn has_answered(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.answers > 0,
            Self::Http2(place) => place.has_answered(),
        }
    }

    /// Waits until a request can be sent.
    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(connection) => connection.sender.ready().await,
            Self::Http2(place) => place.ready().await,
        }
    }

    /// Records that a request for `requested_bytes` bytes of a file is sent.
    pub(crate) fn begin(&mut self, rtt: Option<Duration>, requested_bytes: u64) {
        match self {
            Self::Http1(connection) => connection.meter.restart(rtt, requested_bytes),
            Self::Http2(place) => place.begin(requested_bytes),
        }
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        request: http::Request<BoxBody>,
    ) -> hyper::Result<http::Response<Incoming>> {
        match self {
            Self::Http1(connection) => connection.send(request).await,
            Self::Http2(place) => place.send(request).await,
        }
    }

    /// Records that the response has begun.
    pub(crate) fn answered(&mut self) {
        match self {
            Self::Http1(connection) => {
                connection.meter.answered();
                connection.answers += 1;
            }
            Self::Http2(place) => place.answered(),
        }
    }

    /// Records the head of the response for explanations. On a shared connection it may be that of
    /// another request.
    pub(crate) fn record<B>(&self, response: &http::Response<B>) {
        if let Self::Http1(connection) = self
            && let Some(recorder) = connection.meter.recorder()
        {
            recorder.responded(response.status(), response.headers());
        }
    }

    /// Records that a body of `length` bytes will be read.
    pub(crate) fn expects_body(&self, length: u64) {
        if let Self::Http1(connection) = self {
            connection.meter.expects_body(length);
        }
    }

    /// Records that the request failed before its response began.
    pub(crate) fn failed(&mut self, error: &hyper::Error) {
        if let Self::Http2(place) = self {
            place.failed(error);
        }
    }

    /// Returns whether the server refused the request, as one too many.
    pub(crate) fn was_refused(&self) -> bool {
        matches!(self, Self::Http2(place) if place.was_refused())
    }

    /// Nothing arrived for too long: no other request should use this connection.
    pub(crate) fn retire(&self) {
        if let Self::Http2(place) = self {
            place.retire();
        }
    }

    /// The bandwidth of the path by the last response. Responses of shared connections do not show
    /// it.
    pub(crate) fn bandwidth(&self) -> Option<f64> {
        match self {
            Self::Http1(connection) => connection.meter.bandwidth(),
            Self::Http2(_) => None,
        }
    }
}
