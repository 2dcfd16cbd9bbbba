//! The activity of a connection: its requests, and the idle time of its client.
//!
//! Each request has a [`RequestProgress`] with the time of its last progress, from its head until
//! the last chunk of its response has been sent; the chunks share it, as they may outlive the
//! response. Time that a request spends waiting for the server does not count.
//!
//! - A client that does not read a response, or more slowly than the minimum rate, loses the
//!   connection. Over HTTP/1.1 the socket shows that ([`crate::connection::timeout_stream`]); over
//!   HTTP/2 a client may grant no window, and respond to pings forever. One stream that holds data
//!   suffices, regardless of the others. A response to which the client has granted no window at
//!   all holds none, and may wait for its turn behind others: it counts only if all do.
//! - A connection without requests is closed after the idle timeout, whatever frames arrive on it.
//! - When the server is full, connections are evicted in the order of their
//!   [idle time](ConnectionMonitor::idle_time).

use crate::connection::rate_check::RateCheck;
use bytes::{Buf, Bytes};
use hither_core::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The number of checks within the maximum time.
const CHECKS: u32 = 4;
/// The time after which a client that does not read its responses counts as idle.
const STALLED: Duration = Duration::from_secs(10);

/// The activity of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionMonitor {
    began: Instant,
    requests: Mutex<Vec<Weak<RequestProgress>>>,
    /// Requests that began, and those of them that have not ended.
    begun: AtomicU64,
    active: AtomicUsize,
    /// The time of the end of the last request, in milliseconds since the connection began.
    last_end: AtomicU64,
    first: Notify,
    evicted: Notify,
}

/// The progress of one request.
#[derive(Debug)]
pub(crate) struct RequestProgress {
    monitor: Arc<ConnectionMonitor>,
    /// The time of the last progress, in milliseconds since the connection began.
    taken: AtomicU64,
    /// Bytes that were sent since the last check, and the rate of all checks.
    bytes: AtomicU64,
    rate: Mutex<RateCheck>,
    /// Set while the request waits for the server.
    awaits_server: AtomicBool,
    /// Set while the response is ready and the connection has not requested any of it.
    is_offered: AtomicBool,
}

impl Default for ConnectionMonitor {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            requests: Mutex::default(),
            begun: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            last_end: AtomicU64::new(0),
            first: Notify::new(),
            evicted: Notify::new(),
        }
    }
}

impl ConnectionMonitor {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a request, whose response has to be read at `min_rate` bytes per second.
    pub(crate) fn begin(self: &Arc<Self>, min_rate: u64) -> Arc<RequestProgress> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        let request = Arc::new(RequestProgress {
            monitor: Arc::clone(self),
            taken: AtomicU64::new(self.now()),
            bytes: AtomicU64::new(0),
            rate: Mutex::new(RateCheck::new(min_rate)),
            awaits_server: AtomicBool::new(true),
            is_offered: AtomicBool::new(false),
        });
        let mut requests = lock(&self.requests);
        if requests.len() == requests.capacity() {
            requests.retain(|one| one.strong_count() > 0);
        }
        requests.push(Arc::downgrade(&request));
        drop(requests);
        self.first.notify_one();
        request
    }

    /// The number of requests that began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Returns true if a request has not ended.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// The requests that have not ended.
    fn requests(&self) -> Vec<Arc<RequestProgress>> {
        let mut requests = lock(&self.requests);
        requests.retain(|one| one.strong_count() > 0);
        requests.iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until the client has read nothing of some response for longer than `max_age`, or less
    /// than its minimum rate.
    pub(crate) async fn overdue(&self, max_age: Duration) {
        self.first.notified().await;
        let max_millis = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        let period = (max_age / CHECKS).max(Duration::from_millis(1));
        let mut tick = tokio::time::interval(period);
        loop {
            tick.tick().await;
            let now = self.now();
            let is_overdue =
                |one: &Arc<RequestProgress>| one.age(now) > max_millis || one.is_slow(period);
            let requests = self.requests();
            let is_unread = |one: &Arc<RequestProgress>| one.unread_age(now) > max_millis;
            let are_unread = !requests.is_empty() && requests.iter().all(is_unread);
            if self.is_active() && (are_unread || requests.iter().any(is_overdue)) {
                return;
            }
        }
    }

    /// Waits until the connection has had no request for `max`, from now on.
    pub(crate) async fn idle(&self, max: Duration) {
        let called = Instant::now();
        loop {
            let last_end = Duration::from_millis(self.last_end.load(Ordering::Relaxed));
            let since =
                if self.is_active() { Instant::now() } else { called.max(self.began + last_end) };
            if since.elapsed() >= max {
                return;
            }
            tokio::time::sleep_until(since + max).await;
        }
    }

    /// The time since the client last did something; zero if the server has work to do for it, or
    /// the client has not stalled for long.
    pub(crate) fn idle_time(&self) -> Duration {
        let now = self.now();
        let age = self.requests().iter().map(|one| one.unread_age(now)).min();
        let since_end = || now.saturating_sub(self.last_end.load(Ordering::Relaxed));
        match age.map(Duration::from_millis) {
            None => Duration::from_millis(since_end()),
            Some(age) if age < STALLED => Duration::ZERO,
            Some(age) => age,
        }
    }

    /// Ends the connection.
    pub(crate) fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Waits until the connection has to end.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl RequestProgress {
    fn age(&self, now: u64) -> u64 {
        if self.awaits_server.load(Ordering::Relaxed) {
            return 0;
        }
        now.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// The age, or the time since the response was offered if the client has read none of it.
    fn unread_age(&self, now: u64) -> u64 {
        if self.is_offered.load(Ordering::Relaxed) {
            return now.saturating_sub(self.taken.load(Ordering::Relaxed));
        }
        self.age(now)
    }

    /// Returns true if the client reads too slowly. `waited` is the time since the last call.
    fn is_slow(&self, waited: Duration) -> bool {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        !self.awaits_server.load(Ordering::Relaxed) && !lock(&self.rate).add(waited, bytes)
    }

    /// Records that the response is ready to be read.
    pub(crate) fn offered(&self) {
        self.is_offered.store(true, Ordering::Relaxed);
        self.progressed(0);
    }

    /// Records that the connection requested a chunk, and whether one was ready.
    pub(crate) fn polled(&self, is_ready: bool) {
        self.is_offered.store(false, Ordering::Relaxed);
        self.awaits_server.store(!is_ready, Ordering::Relaxed);
        self.progressed(0);
    }

    fn progressed(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.taken.store(self.monitor.now(), Ordering::Relaxed);
    }
}

impl Drop for RequestProgress {
    fn drop(&mut self) {
        self.monitor.last_end.store(self.monitor.now(), Ordering::Relaxed);
        self.monitor.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A chunk with the progress of its request.
#[derive(Debug)]
pub(crate) struct MonitoredChunk {
    chunk: Bytes,
    progress: Arc<RequestProgress>,
}

impl MonitoredChunk {
    pub(crate) fn new(chunk: Bytes, progress: &Arc<RequestProgress>) -> Self {
        Self { chunk, progress: Arc::clone(progress) }
    }
}

impl Buf for MonitoredChunk {
    fn remaining(&self) -> usize {
        self.chunk.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.chunk.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.progress.progressed(count);
        self.chunk.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_after_its_last_request() {
        let monitor = Arc::new(ConnectionMonitor::default());
        let request = monitor.begin(100);
        advance(10 * MINUTE).await;
        assert_eq!(monitor.idle_time(), Duration::ZERO, "the request waits for the server");
        assert!(timeout(10 * MINUTE, monitor.idle(MINUTE)).await.is_err());
        drop(request);
        advance(MINUTE).await;
        assert_eq!(monitor.idle_time(), MINUTE);
        assert!(timeout(2 * MINUTE, monitor.idle(MINUTE)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_read_byte_by_byte_is_overdue() {
        let monitor = Arc::new(ConnectionMonitor::default());
        let request = monitor.begin(100);
        request.polled(true);
        let mut chunk = MonitoredChunk::new(Bytes::from_static(&[7; 1000]), &request);
        assert!(chunk.remaining() == 1000 && chunk.chunk() == [7; 1000]);
        let reading = async {
            for _ in 0..100 {
                chunk.advance(1);
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        };
        tokio::select! {
            () = monitor.overdue(MINUTE) => assert!(monitor.is_active()),
            () = reading => panic!("100 bytes were read in 500 s"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_holds_data_is_overdue_though_others_progress() {
        let monitor = Arc::new(ConnectionMonitor::default());
        let [stalled, read] = [monitor.begin(100), monitor.begin(100)];
        stalled.polled(true);
        let reading = async {
            for _ in 0..100 {
                read.polled(true);
                read.progressed(10_000);
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        };
        tokio::select! {
            () = monitor.overdue(MINUTE) => assert!(monitor.is_active()),
            () = reading => panic!("a stream stalled for 500 s"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn responses_of_which_the_client_grants_nothing_are_overdue_if_all_are() {
        let monitor = Arc::new(ConnectionMonitor::default());
        let [waiting, read] = [monitor.begin(0), monitor.begin(0)];
        waiting.offered();
        read.polled(false);
        assert!(timeout(10 * MINUTE, monitor.overdue(MINUTE)).await.is_err());
        drop(read);
        monitor.first.notify_one();
        assert!(timeout(2 * MINUTE, monitor.overdue(MINUTE)).await.is_ok());
        assert!(monitor.idle_time() > MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_long_is_idle() {
        let monitor = Arc::new(ConnectionMonitor::default());
        let request = monitor.begin(0);
        request.polled(true);
        advance(STALLED / 2).await;
        assert_eq!(monitor.idle_time(), Duration::ZERO);
        advance(STALLED).await;
        assert_eq!(monitor.idle_time(), STALLED * 3 / 2);
    }
}
