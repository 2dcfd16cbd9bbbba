//! The way of one request: a connection of its own, or a place on one that carries several.

use crate::counters::TransferCounters;
use crate::pool::http2::Http2Stream;
use bytes::Bytes;
use futures_util::future::Either;
use hither_core::SlotGuard;
use hither_core::tune::link::BandwidthEstimator;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What goes with a request: nothing, a few bytes, or a stream.
pub(crate) type BoxBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A connection that carries one request at a time, and what is watched on it.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    pub(crate) sender: SendRequest<BoxBody>,
    pub(crate) tap: Arc<ConnectionMeter>,
    /// Answers received so far.
    pub(crate) answers: u64,
    /// The right to this connection among those of all processes.
    pub(crate) _claim: Option<Box<dyn SlotGuard>>,
}

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

/// What the bytes of one connection tell: how many, and how they were spaced; and when a request is on its way.
///
/// A request counts as sent when its first bytes are with the kernel, not when they are handed to the HTTP codec, which
/// drops those that nobody waits for any more: no server would know of them.
#[derive(Debug)]
pub(crate) struct ConnectionMeter {
    account: Arc<TransferCounters>,
    opened: Instant,
    train: Mutex<BandwidthEstimator>,
    /// Bytes of the file that the next request asks for, until it is sent.
    asked: Mutex<Option<u64>>,
    /// The flight of the last request.
    flight: AtomicU64,
}

impl ConnectionMeter {
    pub(crate) fn new(account: Arc<TransferCounters>) -> Self {
        Self {
            account,
            opened: Instant::now(),
            train: Mutex::default(),
            asked: Mutex::default(),
            flight: AtomicU64::new(0),
        }
    }

    /// The books.
    pub(crate) fn account(&self) -> &TransferCounters {
        &self.account
    }

    fn arrived(&self, bytes: usize) {
        let now = self.opened.elapsed();
        self.account.received(bytes as u64);
        self.train.lock().unwrap_or_else(PoisonError::into_inner).arrived(now, bytes as u64);
    }

    /// If something was written, and a request was to be, that is under way since `flight`.
    fn wrote(&self, flight: u64, polled: &Poll<std::io::Result<usize>>) {
        if !matches!(polled, Poll::Ready(Ok(1..))) {
            return;
        }
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bytes) = asked {
            self.account.sent(flight, bytes);
            self.flight.store(flight, Ordering::Release);
        }
    }

    /// The answer to the last request has begun to arrive.
    pub(crate) fn answered(&self) {
        self.account.answered(self.flight.load(Ordering::Acquire));
    }

    /// A request for so many bytes of a file is about to be written, and a new answer awaited: its bytes are a train of
    /// their own.
    pub(crate) fn restart(&self, rtt: Option<Duration>, bytes_asked: u64) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes_asked);
        self.watch(rtt);
    }

    /// New answers are awaited, whose bytes are a train of their own.
    pub(crate) fn watch(&self, rtt: Option<Duration>) {
        *self.train.lock().unwrap_or_else(PoisonError::into_inner) = BandwidthEstimator::new(rtt);
    }

    pub(crate) fn bandwidth(&self) -> Option<f64> {
        self.train.lock().unwrap_or_else(PoisonError::into_inner).bandwidth()
    }
}

/// The stream under the HTTP codec, tapped.
#[derive(Debug)]
pub(crate) struct MeteredStream {
    stream: TcpStream,
    tap: Arc<ConnectionMeter>,
}

impl MeteredStream {
    pub(crate) fn new(stream: TcpStream, tap: Arc<ConnectionMeter>) -> Self {
        Self { stream, tap }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        if read > 0 {
            self.tap.arrived(read);
        }
        polled
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let flight = self.tap.account.next_flight();
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.tap.wrote(flight, &polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let flight = self.tap.account.next_flight();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.tap.wrote(flight, &polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
