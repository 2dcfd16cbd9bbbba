//! What is noted of a request, from its head to the end of its answer, whoever sends it.
//!
//! A [`RequestRecord`] begins with the head of a request and is carried along; those who do a part of the work say so. When it is
//! dropped, however that comes, a line goes to the [access log](crate::monitoring::access_log) and the figures to the
//! [meters](crate::monitoring::meters), where there are any. A server with neither pays for two looks at the clock.
//!
//! **Where the time goes.** `head` is the time until the answer begins, `whole` until its last byte was handed to the
//! connection. Within that, `disk` is the time that threads spent reading or writing files for this request, and `client` the
//! time that it was waited for the client, to take what was there or to send more. The two overlap: while a block is sent, the next is
//! read. A slow answer with a long `client` is the network's or the client's, one with a long `disk` this machine's.

use crate::connection::peer::Peer;
use crate::connection::tcp_info::SocketRef;
use crate::monitoring::access_log::{AccessLog, AccessLogEntry};
use crate::monitoring::request_stats::RequestStats;
use crate::monitoring::stats::ServerStats;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Where notes go.
#[derive(Debug, Clone)]
pub(crate) struct RequestRecorder {
    pub(crate) log: AccessLog,
    pub(crate) meters: Option<Arc<ServerStats>>,
}

/// What is counted of a request by those who receive and write its body, on whatever thread.
#[derive(Debug, Default)]
pub(crate) struct RequestTimings {
    received: AtomicU64,
    disk_nanoseconds: AtomicU64,
    client_nanoseconds: AtomicU64,
    meters: Option<Arc<ServerStats>>,
}

impl RequestTimings {
    /// So many bytes of its body have come.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(meters) = &self.meters {
            meters.received(bytes);
        }
    }

    /// Does something with a file, which counts as time of the disk.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        add(&self.disk_nanoseconds, began.elapsed());
        done
    }

    /// It was waited so long for the client to send more.
    pub(crate) fn waited(&self, time: Duration) {
        add(&self.client_nanoseconds, time);
    }
}

fn add(sum: &AtomicU64, time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sum.fetch_add(nanoseconds, Ordering::Relaxed);
}

/// See the module above.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    records: RequestRecorder,
    /// What only the log wants.
    line: Option<Box<AccessLogEntry>>,
    figures: RequestStats,
    tally: Arc<RequestTimings>,
    socket: Arc<SocketRef>,
    began: Instant,
}

impl RequestRecorder {
    /// Notes that a request has begun.
    pub(crate) fn begin<B>(&self, request: &http::Request<B>, peer: &Peer) -> RequestRecord {
        let line = self.log.is_kept().then(|| Box::new(AccessLogEntry::new(request, peer)));
        let figures = RequestStats::of(request.method());
        if let Some(meters) = &self.meters {
            meters.begin(figures.method);
        }
        RequestRecord {
            records: self.clone(),
            line,
            figures,
            tally: Arc::new(RequestTimings {
                meters: self.meters.clone(),
                ..RequestTimings::default()
            }),
            socket: Arc::clone(&peer.socket),
            began: Instant::now(),
        }
    }
}

impl RequestRecord {
    /// For those who receive its body.
    pub(crate) fn timings(&self) -> Arc<RequestTimings> {
        Arc::clone(&self.tally)
    }

    /// Whether it matters who has sent the request.
    pub(crate) fn wants_name(&self) -> bool {
        self.line.is_some()
    }

    /// Who has sent the request.
    pub(crate) fn name(&mut self, name: String) {
        if let Some(line) = &mut self.line {
            line.set_name(&name);
        }
    }

    /// The file that is asked for, by its path below the root.
    pub(crate) fn file(&mut self, path: &str) {
        if self.records.meters.is_some() {
            self.figures.file = Some(path.to_owned());
        }
    }

    /// Why it is refused, or why its answer broke off.
    pub(crate) fn reason(&mut self, reason: &str) {
        if let Some(line) = &mut self.line {
            line.set_reason(reason);
        }
    }

    /// The head of the answer is ready.
    pub(crate) fn answered(&mut self, status: StatusCode, ranges: Option<usize>) {
        self.figures.status = status.as_u16();
        self.figures.ranges = ranges;
        self.figures.head = self.began.elapsed();
    }

    /// Bytes of its body were handed to the connection.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.figures.sent = self.figures.sent.saturating_add(bytes as u64);
        if let Some(meters) = &self.records.meters {
            meters.sent(bytes);
        }
    }

    /// The answer has waited so long for the client to take what was there.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.figures.client += time;
    }

    /// Threads have read files for the answer for so long.
    pub(crate) fn disk(&mut self, time: Duration) {
        self.figures.disk += time;
    }

    /// All of the answer was handed to the connection.
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
        if let Some(meters) = &self.records.meters {
            meters.end(figures);
        }
        if let Some(mut line) = self.line.take() {
            line.fill(figures, self.socket.info());
            self.records.log.write(line);
        }
    }
}
