//! Ends HTTP/2 connections whose client does not read its responses.
//!
//! Over HTTP/1.1 the socket shows that a client reads nothing
//! ([`crate::connection::timeout_stream`]). Over HTTP/2 a client grants a window to each response:
//! one that grants nothing, but responds to pings, would hold files and buffers for each of its
//! responses forever. So every response has a mark with the time of its last progress. Its chunks
//! share the mark, as they may outlive the response. When a mark is overdue, the connection ends.
//! Time that a response spends waiting for the server does not count.

use bytes::{Buf, Bytes};
use hither_core::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The number of checks within the maximum time.
const CHECKS: u32 = 4;

/// The responses of one connection.
#[derive(Debug)]
pub(crate) struct WriteStallWatchdog {
    began: Instant,
    marks: Mutex<Vec<Weak<StallMark>>>,
    first: Notify,
}

/// The progress of one response.
#[derive(Debug)]
pub(crate) struct StallMark {
    watchdog: Arc<WriteStallWatchdog>,
    /// The time of the last progress, in milliseconds since the connection began.
    taken: AtomicU64,
    /// Set while the response waits for the server.
    awaits_server: AtomicBool,
}

impl Default for WriteStallWatchdog {
    fn default() -> Self {
        Self { began: Instant::now(), marks: Mutex::default(), first: Notify::new() }
    }
}

impl WriteStallWatchdog {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a response.
    pub(crate) fn watch(self: &Arc<Self>) -> Arc<StallMark> {
        let mark = Arc::new(StallMark {
            watchdog: Arc::clone(self),
            taken: AtomicU64::new(self.now()),
            awaits_server: AtomicBool::new(false),
        });
        let mut marks = lock(&self.marks);
        if marks.len() == marks.capacity() {
            marks.retain(|one| one.strong_count() > 0);
        }
        marks.push(Arc::downgrade(&mark));
        drop(marks);
        self.first.notify_one();
        mark
    }

    /// Waits until some response has made no progress for longer than `max_age`.
    pub(crate) async fn overdue(&self, max_age: Duration) {
        self.first.notified().await;
        let max_millis = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        let mut tick = tokio::time::interval((max_age / CHECKS).max(Duration::from_millis(1)));
        loop {
            tick.tick().await;
            let now = self.now();
            let mut marks = lock(&self.marks);
            marks.retain(|one| one.strong_count() > 0);
            if marks.iter().filter_map(Weak::upgrade).any(|mark| mark.age(now) > max_millis) {
                return;
            }
        }
    }
}

impl StallMark {
    fn age(&self, now: u64) -> u64 {
        if self.awaits_server.load(Ordering::Relaxed) {
            return 0;
        }
        now.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Records that the connection requested a chunk, and whether one was ready.
    pub(crate) fn polled(&self, is_ready: bool) {
        self.awaits_server.store(!is_ready, Ordering::Relaxed);
        self.progressed();
    }

    fn progressed(&self) {
        self.taken.store(self.watchdog.now(), Ordering::Relaxed);
    }
}

/// A chunk; over HTTP/2 with the mark of its response.
#[derive(Debug)]
pub(crate) struct MarkedChunk {
    chunk: Bytes,
    mark: Option<Arc<StallMark>>,
}

impl MarkedChunk {
    pub(crate) fn new(chunk: Bytes, mark: Option<Arc<StallMark>>) -> Self {
        Self { chunk, mark }
    }
}

impl Buf for MarkedChunk {
    fn remaining(&self) -> usize {
        self.chunk.remaining()
    }

    fn chunk(&self) -> &[u8] {
        &self.chunk
    }

    fn advance(&mut self, count: usize) {
        if let Some(mark) = &self.mark {
            mark.progressed();
        }
        self.chunk.advance(count);
    }
}
