//! Profile of the path to a file: latency, bandwidth and what limits it.
//!
//! Each measured connection has a [`Network`] to itself, with one request at a time, so nothing
//! else decides how many there are, and no cache is in between. After some requests of one byte,
//! one connection reads the file in long requests. The number of connections is doubled while that
//! multiplies the rate by `WORTHWHILE`. All connections continue from step to step, so that their
//! windows stay open. A step ends after its share of the remaining time or bytes.

mod advice;
mod report;
mod steady_rate;
#[cfg(test)]
mod tests;

pub use report::{BandwidthStep, PathLimit, PathProfile};

use crate::client::Client;
use hither_core::endpoint::RangeSupport;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Part, Request, Source};
use hither_transport::{Location, Network, TcpInfo};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use steady_rate::{Sample, steady_rate};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The connections of the steps of a profile that a user wants.
const STEPS: [usize; 5] = [1, 2, 4, 8, 16];
/// The factor of the rate for which the number of connections is doubled.
const WORTHWHILE: f64 = 1.25;
/// The most requests of one byte. They take a fifth of the time at most.
const ROUND_TRIPS: usize = 10;
/// The interval at which the arrived bytes are counted.
const TICK: Duration = Duration::from_millis(20);
/// The shortest pause between two bursts of bytes.
const MIN_PAUSE: Duration = Duration::from_millis(150);
/// The shortest request: shorter ones show round trips, not a rate.
const MIN_REQUEST_BYTES: u64 = 64 << 10;

impl Client {
    /// Measures the path to the file at `url`, which is read past all caches, for this time and
    /// these bytes at most. Every 20 ms `goes_on` gets the elapsed time and the bytes received; if
    /// it returns false, the profile ends with the results so far.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a local or an empty file, [`ErrorKind::Unsupported`] for a server
    /// that sends only whole files, [`ErrorKind::Cancelled`] and [`ErrorKind::Timeout`] if it ends
    /// before the first response, and the errors of the server.
    pub async fn profile_path(
        &self,
        url: &str,
        duration: Duration,
        bytes: u64,
        goes_on: impl FnMut(Duration, u64) -> bool,
    ) -> Result<PathProfile> {
        let most = self.config().transport.max_connections.max(1);
        let steps = STEPS.into_iter().filter(|it| *it <= most).collect();
        self.profile_path_over(url, steps, duration, bytes, goes_on).await
    }

    /// As [`Self::profile_path`], over these ascending numbers of connections.
    pub(crate) async fn profile_path_over(
        &self,
        url: &str,
        counts: Vec<usize>,
        duration: Duration,
        bytes: u64,
        goes_on: impl FnMut(Duration, u64) -> bool,
    ) -> Result<PathProfile> {
        let first = Arc::new(self.measured_connection(url)?);
        let profiler = PathProfiler {
            client: self,
            url,
            duration,
            most: bytes,
            counts,
            goes_on,
            started: Instant::now(),
            connections: vec![Arc::clone(&first)],
            reads: JoinSet::new(),
            bytes: Arc::default(),
            interrupted: false,
            failures: Vec::new(),
        };
        profiler.run(&first).await
    }

    /// A connection to the server of `url`, which is opened by its first request.
    fn measured_connection(&self, url: &str) -> Result<MeasuredConnection> {
        let network = &self.context.network;
        let network = Network::new(network.config().clone(), network.runtime().clone(), None);
        #[cfg(feature = "s3")]
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, path) = self.bucket(rest, &network)?;
            let source = bucket.object(&path)?.replica.source;
            return Ok(MeasuredConnection { network, source });
        }
        let source = network.replica(Location::parse(url)?).source;
        Ok(MeasuredConnection { network, source })
    }
}

/// A network with one connection, and the file behind it.
#[derive(Debug)]
struct MeasuredConnection {
    network: Arc<Network>,
    source: Arc<dyn Source>,
}

impl MeasuredConnection {
    /// Reads one byte; returns the size of the file, if the server states it.
    async fn first_byte(&self) -> Result<Option<u64>> {
        let request = Request { ranges: vec![0..1], ..Request::default() };
        Ok(self.source.fetch(request, Box::new(drop)).await?.size)
    }

    /// Reads the file from `at` on, and again from its beginning, until the bytes are used up.
    async fn read(self: Arc<Self>, mut at: u64, size: u64, bytes: Arc<ByteLimit>) -> Result<()> {
        while let Some(length) = bytes.request(size - at) {
            let request = Request { ranges: vec![at..at + length], ..Request::default() };
            let counted = Arc::clone(&bytes);
            let sink = move |part: Part| {
                counted.received.fetch_add(part.bytes.len() as u64, Ordering::Relaxed);
            };
            self.source.fetch(request, Box::new(sink)).await?;
            at = (at + length) % size;
        }
        Ok(())
    }

    /// The statistics of the connection with the most bytes: another one was to a server that
    /// redirected.
    fn tcp(&self) -> Option<TcpInfo> {
        self.network.tcp_info().into_iter().map(|(_, it)| it).max_by_key(|it| it.segments_received)
    }
}

/// Bytes requested and received, of all connections.
#[derive(Debug, Default)]
struct ByteLimit {
    left: AtomicU64,
    readers: AtomicU64,
    received: AtomicU64,
}

impl ByteLimit {
    /// The length of the next request, at most `most`; none at the end. Half of the remaining bytes
    /// is for the present connections, and the rest for later ones.
    fn request(&self, most: u64) -> Option<u64> {
        let readers = self.readers.load(Ordering::Relaxed).max(1);
        let length = |left: u64| {
            let length = most.min(left / (2 * readers));
            (length >= most.min(MIN_REQUEST_BYTES)).then_some(length)
        };
        let take = |left: u64| Some(left - length(left)?);
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        length(left)
    }
}

/// A profile in progress.
struct PathProfiler<'a, F> {
    client: &'a Client,
    url: &'a str,
    duration: Duration,
    /// The most bytes of the file to request.
    most: u64,
    /// The connections of the steps.
    counts: Vec<usize>,
    goes_on: F,
    started: Instant,
    connections: Vec<Arc<MeasuredConnection>>,
    reads: JoinSet<Result<()>>,
    bytes: Arc<ByteLimit>,
    interrupted: bool,
    failures: Vec<String>,
}

impl<F: FnMut(Duration, u64) -> bool> PathProfiler<'_, F> {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    async fn run(mut self, first: &MeasuredConnection) -> Result<PathProfile> {
        let name = first.source.name();
        let failed = |kind, why| Err(Error::new(kind, format!("{name}: {why}")));
        let asked = self.unless_over(first.first_byte(), self.duration).await;
        let whole = first.source.endpoint().ranges == RangeSupport::Whole;
        let size = match asked {
            Some(Err(error)) => return Err(self.client.explain_read(self.url, error).await),
            Some(Ok(Some(size))) if size > 0 && !whole => size,
            Some(Ok(_)) if !whole => {
                return failed(ErrorKind::Invalid, "the file is empty, or its size unknown");
            }
            None if self.interrupted => {
                return failed(ErrorKind::Cancelled, "ended before the first response");
            }
            None if self.started.elapsed() >= self.duration => {
                return failed(ErrorKind::Timeout, "no response until the end of the profile");
            }
            _ => return failed(ErrorKind::Unsupported, "the server sends whole files only"),
        };
        let latency = self.round_trip(first).await;
        self.bytes.left.store(self.most, Ordering::Relaxed);
        let cpu = cpu_seconds();
        let bandwidth = self.steps(size, latency).await?;
        let cpu = cpu_seconds() - cpu;
        let gigabytes = self.bytes.received.load(Ordering::Relaxed) as f64 / 1e9;
        let all = &self.connections;
        let tcp: Vec<_> = all.iter().filter_map(|it| it.tcp()).collect();
        let sum = |of: fn(&TcpInfo) -> u32| tcp.iter().map(|it| u64::from(of(it))).sum();
        let tls = all.iter().map(|it| it.network.counters().totals().tls_micros);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut profile = PathProfile {
            url: name,
            file_bytes: size,
            seconds: self.started.elapsed().as_secs_f64(),
            bytes_received: self.received(),
            interrupted: self.interrupted,
            tcp_handshake_ms: all.iter().filter_map(|it| it.source.link().rtt).min().map(ms),
            tls_handshake_ms: tls
                .filter(|it| *it > 0)
                .min()
                .map(|it| ms(Duration::from_micros(it))),
            request_ms: latency.map(ms),
            limit: PathLimit::of(&bandwidth),
            bandwidth,
            retransmits: sum(|it| it.retransmits),
            segments_sent: sum(|it| it.segments_sent),
            out_of_order: sum(|it| it.out_of_order),
            segments_received: sum(|it| it.segments_received),
            receive_window: tcp.iter().filter_map(|it| it.window).max(),
            peer_window: tcp.iter().filter_map(|it| it.peer_window).max(),
            tcp_rmem_max: last_number("/proc/sys/net/ipv4/tcp_rmem"),
            rmem_max: last_number("/proc/sys/net/core/rmem_max"),
            cpu_seconds_per_gb: (gigabytes > 0.0).then(|| cpu / gigabytes),
            advice: Vec::new(),
        };
        profile.advice = advice::of(&profile, &self.client.config().transport);
        profile.advice.append(&mut self.failures);
        Ok(profile)
    }

    /// The shortest duration of some requests of one byte on an open connection.
    async fn round_trip(&mut self, first: &MeasuredConnection) -> Option<Duration> {
        let end = self.started.elapsed() + self.duration / 5;
        let mut shortest = None;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            // If it fails, the following reads will report the reason.
            let Some(Ok(_)) = self.unless_over(first.first_byte(), end).await else { break };
            shortest = shortest.into_iter().chain([asked.elapsed()]).min();
        }
        shortest
    }

    /// Reads over an increasing number of connections.
    async fn steps(&mut self, size: u64, latency: Option<Duration>) -> Result<Vec<BandwidthStep>> {
        let pause = MIN_PAUSE.max(2 * latency.unwrap_or_default());
        let mut steps: Vec<BandwidthStep> = Vec::new();
        let counts = self.counts.clone();
        let apart = size / counts.last().map_or(1, |most| (*most).max(1) as u64);
        for (left, connections) in (1..=counts.len()).rev().zip(counts) {
            self.connect(connections, size, apart)?;
            let samples = self.step(u32::try_from(left).unwrap_or(1)).await;
            let bytes_per_s = steady_rate(&samples, pause);
            let adds = steps.last().is_none_or(|it| bytes_per_s >= WORTHWHILE * it.bytes_per_s);
            steps.push(BandwidthStep { connections, bytes_per_s });
            if !adds || self.reads.is_empty() || self.is_over(self.duration) {
                break;
            }
        }
        steps.retain(|it| it.bytes_per_s > 0.0);
        Ok(steps)
    }

    /// Starts reads until there are `count`, which begin `apart` bytes from each other.
    fn connect(&mut self, count: usize, size: u64, apart: u64) -> Result<()> {
        let reading = self.bytes.readers.swap(count as u64, Ordering::Relaxed);
        while self.connections.len() < count {
            self.connections.push(Arc::new(self.client.measured_connection(self.url)?));
        }
        for (number, connection) in (0..count as u64).zip(&self.connections) {
            let at = apart * number;
            if number >= reading {
                self.reads.spawn(Arc::clone(connection).read(at, size, Arc::clone(&self.bytes)));
            }
        }
        Ok(())
    }

    /// Waits for the end of a step, one of `left`. Returns the bytes by time.
    async fn step(&mut self, left: u32) -> Vec<Sample> {
        let bytes = Arc::clone(&self.bytes);
        let received = || bytes.received.load(Ordering::Relaxed);
        let began = self.started.elapsed();
        let before = received();
        let end = began + self.duration.saturating_sub(began) / left;
        let enough = before + self.most.saturating_sub(before) / u64::from(left);
        // A bounded number of samples.
        let mut ticks = tokio::time::interval(TICK.max(self.duration / 10_000));
        let mut samples = vec![(began, before)];
        while !self.is_over(end) && received() < enough && !self.reads.is_empty() {
            ticks.tick().await;
            samples.push((self.started.elapsed(), received()));
            while let Some(ended) = self.reads.try_join_next() {
                let error = ended.ok().and_then(Result::err);
                self.failures.extend(error.map(|it| format!("a connection failed: {it}")));
            }
        }
        samples
    }

    /// Waits for `work` until `end`, or until the profile is ended.
    async fn unless_over<T>(&mut self, work: impl Future<Output = T>, end: Duration) -> Option<T> {
        let mut work = std::pin::pin!(work);
        while !self.is_over(end) {
            if let Ok(done) = tokio::time::timeout(TICK, work.as_mut()).await {
                return Some(done);
            }
        }
        None
    }

    /// Returns true after `end`, once the caller wants no more, and if more bytes arrived than were
    /// requested, with a reserve for headers.
    fn is_over(&mut self, end: Duration) -> bool {
        let elapsed = self.started.elapsed();
        let bytes = self.received();
        self.interrupted |= !(self.goes_on)(elapsed, bytes);
        let most = self.most.saturating_add(self.most / 8 + (1 << 20));
        self.interrupted || elapsed >= end || bytes > most
    }

    /// Bytes received, with headers and framing.
    fn received(&self) -> u64 {
        self.connections.iter().map(|it| it.network.counters().totals().bytes_received).sum()
    }
}

fn last_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().next_back()?.parse().ok()
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).map_or(0.0, |it| it.as_secs_f64())
}
