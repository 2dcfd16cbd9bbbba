//! The record of a request, from its head to the end of its response.
//!
//! A [`RequestRecord`] begins with the head of a request and travels with it; each part of the code
//! that works on the request adds to it. When it is dropped, for any reason, it goes to the [access
//! log](crate::monitoring::access_log) and to the [statistics](crate::monitoring::stats), if the
//! server has them. Without both, a record costs two readings of the clock.
//!
//! **Where the time goes.** `head` is the time to the head of the response, `whole` that to the
//! last byte passed to the connection. Within that, `disk` is the time that threads spent reading
//! or writing files for this request, and `client` the time spent waiting for the client to read or
//! to send more. The two overlap: while a block is sent, the next is read. If a response is slow, a
//! long `client` means that the network or the client is slow, a long `disk` this machine.

use crate::connection::peer::Peer;
use crate::monitoring::access_log::{AccessLog, AccessLogEntry};
use crate::monitoring::request_stats::RequestStats;
use crate::monitoring::stats::ServerStats;
use hither_core::sync::lock;
use hither_http::server_timing::ServerTiming;
use hither_transport::SocketRef;
use http::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{Span, debug};

/// The destinations of records.
#[derive(Debug, Clone)]
pub(crate) struct RequestRecorder {
    pub(crate) log: AccessLog,
    pub(crate) stats: Option<Arc<ServerStats>>,
}

/// Counters of a request for the threads that receive and write its body.
#[derive(Debug, Default)]
pub(crate) struct RequestTimings {
    received: AtomicU64,
    disk_nanoseconds: AtomicU64,
    client_nanoseconds: AtomicU64,
    stats: Option<Arc<ServerStats>>,
}

impl RequestTimings {
    /// Counts received body bytes.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(stats) = &self.stats {
            stats.received(bytes);
        }
    }

    /// Adds time that was spent reading or writing files.
    pub(crate) fn disk(&self, time: Duration) {
        add(&self.disk_nanoseconds, time);
    }

    /// Counts time spent waiting for the client to send more.
    pub(crate) fn waited(&self, time: Duration) {
        add(&self.client_nanoseconds, time);
    }
}

fn add(sum: &AtomicU64, time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sum.fetch_add(nanoseconds, Ordering::Relaxed);
}

/// The record of a request, delivered when it is dropped.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    records: RequestRecorder,
    /// The entry of the access log, if there is one.
    line: Option<Box<AccessLogEntry>>,
    figures: RequestStats,
    tally: Arc<RequestTimings>,
    socket: Arc<SocketRef>,
    /// The sums of the connection.
    timing: Arc<Mutex<ServerTiming>>,
    began: Instant,
    /// The tracing span of the request.
    span: Span,
}

impl RequestRecorder {
    /// Begins the record of a request.
    pub(crate) fn begin<B>(&self, request: &http::Request<B>, peer: &Peer) -> RequestRecord {
        let line = self.log.is_kept().then(|| Box::new(AccessLogEntry::new(request, peer)));
        let figures = RequestStats::of(request.method());
        if let Some(stats) = &self.stats {
            stats.begin(figures.method);
        }
        RequestRecord {
            records: self.clone(),
            line,
            figures,
            tally: Arc::new(RequestTimings {
                stats: self.stats.clone(),
                ..RequestTimings::default()
            }),
            socket: Arc::clone(&peer.socket),
            timing: Arc::clone(&peer.timing),
            began: Instant::now(),
            span: Span::current(),
        }
    }
}

impl RequestRecord {
    /// The counters for the receiver of the request's body.
    pub(crate) fn timings(&self) -> Arc<RequestTimings> {
        Arc::clone(&self.tally)
    }

    /// The tracing span of the request.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Returns true if the name of the user is recorded.
    pub(crate) fn wants_name(&self) -> bool {
        self.line.is_some() || !self.span.is_disabled()
    }

    /// Records the name of the user.
    pub(crate) fn name(&mut self, name: String) {
        if !name.is_empty() {
            self.span.record("client", &*name);
        }
        if let Some(line) = &mut self.line {
            line.set_name(&name);
        }
    }

    /// Records the requested file, by its path below the root.
    pub(crate) fn file(&mut self, path: &str) {
        if self.records.stats.is_some() {
            self.figures.file = Some(path.to_owned());
        }
    }

    /// Records why the request failed, or why its response ended early.
    pub(crate) fn reason(&mut self, reason: &str) {
        if let Some(line) = &mut self.line {
            line.set_reason(reason);
        }
    }

    /// Records that the head of the response is ready.
    pub(crate) fn answered(&mut self, status: StatusCode, ranges: Option<usize>) {
        self.figures.status = status.as_u16();
        self.figures.ranges = ranges;
        self.figures.head = self.began.elapsed();
    }

    /// Counts body bytes passed to the connection.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.figures.sent = self.figures.sent.saturating_add(bytes as u64);
        if let Some(stats) = &self.records.stats {
            stats.sent(bytes);
        }
    }

    /// Adds time that the response waited for the client to read.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.figures.client += time;
    }

    /// Adds time that threads spent reading files for the response.
    pub(crate) fn disk(&mut self, time: Duration) {
        self.figures.disk += time;
    }

    /// Records that the whole response was passed to the connection.
    pub(crate) fn complete(&mut self) {
        self.figures.complete = true;
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let figures = &mut self.figures;
        figures.whole = self.began.elapsed();
        figures.received = self.tally.received.load(Ordering::Relaxed);
        let time = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
        figures.disk += time(&self.tally.disk_nanoseconds);
        figures.client += time(&self.tally.client_nanoseconds);
        let mut timing = lock(&self.timing);
        timing.total += figures.whole;
        timing.disk += figures.disk;
        timing.client += figures.client;
        drop(timing);
        self.span.in_scope(|| {
            debug!(
                status = figures.status,
                sent = figures.sent,
                received = figures.received,
                duration = ?figures.whole,
                complete = figures.complete,
                "request ended"
            );
        });
        if let Some(stats) = &self.records.stats {
            stats.end(figures);
        }
        if let Some(mut line) = self.line.take() {
            line.fill(figures, self.socket.info());
            self.records.log.write(line);
        }
    }
}
