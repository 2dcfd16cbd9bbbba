//! Answers that wait for a client of HTTP/2 to take them.
//!
//! Over HTTP/1.1 the socket tells who takes nothing ([`crate::connection::clocked`]). Over HTTP/2 a client grants each answer its bytes: one
//! that grants none, and answers pings meanwhile, would hold files and blocks of memory for each of its answers for ever. So
//! there is a mark on every answer of when something of it was taken the last time, which the blocks on their way share with
//! it: they may outlive it. When one is overdue, the connection ends. While an answer waits for the server, its client has time.

use crate::connection::sendfile::BodyChunk;
use bytes::Buf;
use hither_core::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often marks are looked at, in parts of the time that they may stay.
const LOOKS: u32 = 4;

/// The answers of one connection.
#[derive(Debug)]
pub(crate) struct WriteStallWatchdog {
    began: Instant,
    marks: Mutex<Vec<Weak<StallMark>>>,
    first: Notify,
}

/// How it is with one answer.
#[derive(Debug)]
pub(crate) struct StallMark {
    held: Arc<WriteStallWatchdog>,
    /// When something of it was taken, in milliseconds since the connection began.
    taken: AtomicU64,
    /// It waits for the server.
    is_ours: AtomicBool,
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

    /// One more answer.
    pub(crate) fn watch(self: &Arc<Self>) -> Arc<StallMark> {
        let (held, taken) = (Arc::clone(self), AtomicU64::new(self.now()));
        let mark = Arc::new(StallMark { held, taken, is_ours: AtomicBool::new(false) });
        let mut marks = lock(&self.marks);
        if marks.len() == marks.capacity() {
            marks.retain(|one| one.strong_count() > 0);
        }
        marks.push(Arc::downgrade(&mark));
        drop(marks);
        self.first.notify_one();
        mark
    }

    /// Waits until nothing of some answer has been taken for so long.
    pub(crate) async fn overdue(&self, patience: Duration) {
        self.first.notified().await;
        let most = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let mut tick = tokio::time::interval((patience / LOOKS).max(Duration::from_millis(1)));
        loop {
            tick.tick().await;
            let now = self.now();
            let mut marks = lock(&self.marks);
            marks.retain(|one| one.strong_count() > 0);
            if marks.iter().filter_map(Weak::upgrade).any(|mark| mark.age(now) > most) {
                return;
            }
        }
    }
}

impl StallMark {
    fn age(&self, now: u64) -> u64 {
        match self.is_ours.load(Ordering::Relaxed) {
            true => 0,
            false => now.saturating_sub(self.taken.load(Ordering::Relaxed)),
        }
    }

    /// More of the answer was asked for, and was there or has to be waited for.
    pub(crate) fn asked(&self, is_there: bool) {
        self.is_ours.store(!is_there, Ordering::Relaxed);
        self.moved();
    }

    fn moved(&self) {
        self.taken.store(self.held.now(), Ordering::Relaxed);
    }
}

/// Bytes on their way; over HTTP/2 with the mark of their answer.
#[derive(Debug)]
pub(crate) struct MarkedChunk {
    chunk: BodyChunk,
    mark: Option<Arc<StallMark>>,
}

impl MarkedChunk {
    pub(crate) fn new(chunk: BodyChunk, mark: Option<Arc<StallMark>>) -> Self {
        Self { chunk, mark }
    }
}

impl Buf for MarkedChunk {
    fn remaining(&self) -> usize {
        self.chunk.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.chunk.chunk()
    }

    fn advance(&mut self, count: usize) {
        if let Some(mark) = &self.mark {
            mark.moved();
        }
        self.chunk.advance(count);
    }
}
