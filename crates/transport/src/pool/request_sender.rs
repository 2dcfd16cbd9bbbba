//! The sender of one request: an HTTP/1.1 connection, or a stream of an HTTP/2 connection.

use crate::http::request_body::BoxBody;
use crate::pool::http1::Http1Connection;
use crate::pool::http2::Http2Stream;
use futures_util::future::Either;
use hyper::body::Incoming;
use std::time::Duration;

/// The way of one request.
#[derive(Debug)]
pub(crate) enum RequestSender {
    /// A connection of its own.
    Http1(Http1Connection),
    /// A place on one that carries several.
    Http2(Http2Stream),
}

impl RequestSender {
    /// Whether the connection has answered before.
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

    /// A request for so many bytes of a file is about to be sent.
    pub(crate) fn begin(&mut self, rtt: Option<Duration>, bytes_asked: u64) {
        match self {
            Self::Http1(connection) => connection.tap.restart(rtt, bytes_asked),
            Self::Http2(place) => place.begin(bytes_asked),
        }
    }

    /// Sends a request.
    pub(crate) fn send(
        &mut self,
        request: http::Request<BoxBody>,
    ) -> impl Future<Output = hyper::Result<http::Response<Incoming>>> + use<> {
        match self {
            Self::Http1(connection) => Either::Left(connection.sender.send_request(request)),
            Self::Http2(place) => Either::Right(place.send(request)),
        }
    }

    /// The answer has begun to arrive.
    pub(crate) fn answered(&mut self) {
        match self {
            Self::Http1(connection) => {
                connection.tap.answered();
                connection.answers += 1;
            }
            Self::Http2(place) => place.answered(),
        }
    }

    /// The request has failed before its answer began.
    pub(crate) fn failed(&mut self, error: &hyper::Error) {
        if let Self::Http2(place) = self {
            place.failed(error);
        }
    }

    /// Whether the server refused the request because there were too many at a time.
    pub(crate) fn was_refused(&self) -> bool {
        matches!(self, Self::Http2(place) if place.was_refused())
    }

    /// Nothing has come for too long: no other request is sent this way.
    pub(crate) fn retire(&self) {
        if let Self::Http2(place) = self {
            place.retire();
        }
    }

    /// How fast the path is by the last answer. Answers that come among others tell nothing about it.
    pub(crate) fn bandwidth(&self) -> Option<f64> {
        match self {
            Self::Http1(connection) => connection.tap.bandwidth(),
            Self::Http2(_) => None,
        }
    }
}
