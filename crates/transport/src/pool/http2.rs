//! An HTTP/2 connection, which carries many requests at a time (RFC 9113).
//!
//! Each request is a stream. Streams share the handshakes and the congestion window of their
//! connection, and its flow control (RFC 9113 section 5.2), whose window is large enough here that
//! no stream waits for it. Streams fail one by one (`RST_STREAM`) or all together (`GOAWAY`, a lost
//! connection). Each reports to its own request, as a connection of its own would. A cancelled
//! request resets its stream and leaves the others alone.
//!
//! The server announces its stream limit in its first frame, which comes with its first response or
//! before it. Until then the limit of the last process applies, or the minimum that the RFC
//! recommends. A server with too many streams refuses some (`REFUSED_STREAM`), which promises that
//! it has not processed them.
//!
//! hyper does framing and flow control. `pool/http2_pool.rs` decides who gets a stream on which
//! connection.

use crate::connect::maybe_tls_stream::MaybeTlsStream;
use crate::connect::metered_stream::ConnectionMeter;
use crate::http::request_body::BoxBody;
use crate::pool::Pool;
use futures_util::future::{Either, select};
use h2::Reason;
use hither_core::SlotGuard;
use hither_core::endpoint::MAX_STREAMS;
use hither_core::error::{Error, ErrorKind, Result};
use http::header::HOST;
use http::uri::{Scheme, Uri};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The maximum of unread bytes of one response. Responses that share a connection are not much
/// larger.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The maximum of unread bytes of all responses on one connection: the bandwidth-delay product of 2
/// Gbit/s at 240 ms.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// The assumed stream limit of a server that has not announced one (RFC 9113 section 6.5.2).
const EXPECTED_STREAMS: usize = 100;

/// An HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    sender: http2::SendRequest<BoxBody>,
    meter: Arc<ConnectionMeter>,
    allowed: Arc<Allowed>,
    /// Streams in use, changed by the pool only.
    taken: AtomicUsize,
    /// Requests that failed before their responses began, and responses that began.
    failures: AtomicU64,
    answers: AtomicU64,
    /// The connection gets no more requests.
    retired: AtomicBool,
    /// The claim on this connection among those of all processes.
    _claim: Option<Box<dyn SlotGuard>>,
}

/// The stream limit of the server.
#[derive(Debug)]
struct Allowed {
    streams: AtomicUsize,
    /// The first response has arrived, and with it the limit.
    changed: Notify,
}

/// The driver of a connection, which moves its bytes.
#[derive(Debug)]
pub(crate) struct Http2Driver {
    connection: http2::Connection<TokioIo<MaybeTlsStream>, BoxBody, TokioExecutor>,
    allowed: Arc<Allowed>,
}

impl Http2Connection {
    /// Starts HTTP/2 on a connection that negotiated it. `streams` is the last known stream limit,
    /// 0 if there is none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if the connection was closed already.
    pub(crate) async fn start(
        stream: MaybeTlsStream,
        meter: Arc<ConnectionMeter>,
        streams: usize,
        claim: Option<Box<dyn SlotGuard>>,
    ) -> Result<(Arc<Self>, Http2Driver)> {
        let streams = if streams > 1 { streams } else { EXPECTED_STREAMS };
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_max_send_streams(streams)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| {
                Error::new(ErrorKind::Unavailable, "cannot start HTTP/2 on a connection")
                    .with_source(error)
            })?;
        let allowed = Arc::new(Allowed { streams: streams.into(), changed: Notify::new() });
        let multiplexed = Arc::new(Self {
            sender,
            meter,
            allowed: Arc::clone(&allowed),
            taken: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            _claim: claim,
        });
        Ok((multiplexed, Http2Driver { connection, allowed }))
    }

    /// Streams in use.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Streams that are free.
    pub(crate) fn free(&self) -> usize {
        if self.is_gone() {
            0
        } else {
            self.allowed.streams.load(Ordering::Relaxed).saturating_sub(self.taken())
        }
    }

    /// Takes a stream. The caller holds the lock of the pool's streams.
    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    fn put_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether it accepts no more requests.
    pub(crate) fn is_gone(&self) -> bool {
        self.retired.load(Ordering::Relaxed) || self.sender.is_closed()
    }

    /// Sends no more requests on it. Those in progress continue.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was lost at its first requests.
    pub(crate) fn failed_before_response(&self) -> bool {
        let failed = self.failures.load(Ordering::Relaxed) > 0;
        failed && self.answers.load(Ordering::Relaxed) == 0 && self.is_gone()
    }
}

impl Http2Driver {
    /// Drives the connection to its end. Calls `tell` with the stream limit once the server has
    /// announced it.
    pub(crate) async fn run(self, tell: impl Fn(usize)) {
        let Self { mut connection, allowed } = self;
        loop {
            let changed = pin!(allowed.changed.notified());
            match select(&mut connection, changed).await {
                // The requests on it report how it ended.
                Either::Left(_) => return,
                Either::Right(((), _)) => {}
            }
            let streams = connection.current_max_send_streams().clamp(1, MAX_STREAMS);
            allowed.streams.store(streams, Ordering::Relaxed);
            tell(streams);
        }
    }
}

/// A stream for one request, until dropped.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    pool: Arc<Pool>,
    connection: Arc<Http2Connection>,
    sender: http2::SendRequest<BoxBody>,
    round_trip: u64,
    /// The server refused the request, as one too many.
    refused: bool,
    /// The stream was returned.
    is_left: bool,
}

impl Http2Stream {
    /// A stream that was [taken](Http2Connection::take).
    pub(crate) fn new(pool: Arc<Pool>, connection: Arc<Http2Connection>) -> Self {
        let sender = connection.sender.clone();
        Self { pool, connection, sender, round_trip: 0, refused: false, is_left: false }
    }

    /// Returns the stream without serving the next waiter.
    pub(crate) fn undo(mut self) {
        self.is_left = true;
        self.connection.put_back();
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.connection.answers.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.refused
    }

    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        self.sender.ready().await
    }

    /// Records that a request for `requested_bytes` bytes of a file is sent.
    pub(crate) fn begin(&mut self, requested_bytes: u64) {
        self.round_trip = self.connection.meter.counters().next_round_trip();
        self.connection.meter.counters().sent(self.round_trip, requested_bytes);
        if let Some(recorder) = self.connection.meter.recorder() {
            recorder.sent();
        }
    }

    pub(crate) fn send(
        &mut self,
        request: http::Request<BoxBody>,
    ) -> impl Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>> + Send + use<>
    {
        self.sender.send_request(addressed(request))
    }

    pub(crate) fn answered(&self) {
        self.connection.meter.counters().answered(self.round_trip);
        if self.connection.answers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.connection.allowed.changed.notify_one();
        }
    }

    /// Records that a request failed before its response began.
    pub(crate) fn failed(&mut self, error: &hyper::Error) {
        match reason(error) {
            Some(Reason::REFUSED_STREAM | Reason::ENHANCE_YOUR_CALM) => self.refused = true,
            Some(Reason::HTTP_1_1_REQUIRED) => self.pool.no_streams(),
            _ => {
                self.connection.failures.fetch_add(1, Ordering::Relaxed);
                if self.connection.failed_before_response() {
                    self.pool.no_streams();
                }
            }
        }
    }

    /// Nothing arrived for too long: no other request should use this connection.
    pub(crate) fn retire(&self) {
        self.connection.retire();
        self.pool.parted(&self.connection);
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.is_left, true) {
            self.connection.put_back();
            self.pool.serve();
        }
    }
}

/// The reason why the server ended a stream or the connection.
fn reason(error: &hyper::Error) -> Option<Reason> {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    causes.find_map(|cause| cause.downcast_ref::<h2::Error>())?.reason()
}

/// The request in the form of HTTP/2, with the host in its target (RFC 9113 section 8.3.1).
fn addressed(mut request: http::Request<BoxBody>) -> http::Request<BoxBody> {
    let Some(host) = request.headers_mut().remove(HOST) else { return request };
    let target = std::mem::take(request.uri_mut());
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme(Scheme::HTTPS).authority(host.as_bytes()).path_and_query(path);
    // A valid host of HTTP/1.1 is valid here.
    *request.uri_mut() = uri.build().unwrap_or(target);
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request;

    #[test]
    fn the_host_field_becomes_the_authority_of_the_target() {
        let request = http::Request::builder()
            .uri("/a%20b?c=d")
            .header(HOST, "example.org:8443")
            .body(request::empty())
            .unwrap();
        let request = addressed(request);
        assert_eq!(request.uri(), "https://example.org:8443/a%20b?c=d");
        assert!(!request.headers().contains_key(HOST));
    }
}
