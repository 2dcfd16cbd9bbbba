//! A model of prefetching: a program that reads through a cache over a link, by arithmetic alone.
//!
//! It measures the decisions of a [`Prefetcher`]: the duration of a workload, the number of its
//! waits, and the bytes that are fetched and not used. A workload of 100,000 reads takes a fraction
//! of a second, so a grid of links or a few thousand random workloads are affordable. With real
//! futures and real bytes they would not be.
//!
//! The model: the link has a round-trip time and a rate; a response begins to arrive a round trip
//! after its request, or when the responses before it have arrived. Demand reads are requested
//! immediately. Prefetches are requested in chunks, in their order, within the read-ahead budget,
//! and only while the responses in flight take no longer than a slack. The cache evicts the least
//! recently used extent. There is no slow start and no connection; `SimulatedSource` models those.

mod lru_cache;

use hither_core::{Limits, LinkEstimate, range};
use hither_read::{Access, Advice, PrefetchContext, Prefetcher};
use hither_testkit::workload::{Workload, WorkloadRead};
use hither_trace::CacheStatus;
use lru_cache::LruCache;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Size of a prefetch request in bytes.
const CHUNK: u64 = 128 << 10;

/// The link and the memory of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PrefetchModel {
    /// Round-trip time.
    pub(crate) rtt: Duration,
    /// Bytes per second; infinite for no limit.
    pub(crate) rate: f64,
    /// Bytes that the cache holds.
    pub(crate) memory_bytes: u64,
    /// Maximum prefetched bytes that were not read yet.
    pub(crate) ahead_bytes: u64,
    /// The prefetcher knows the rate.
    pub(crate) rate_known: bool,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ModelResult {
    /// Time from the first read to the end of the last one.
    pub(crate) duration: Duration,
    /// Number of reads.
    pub(crate) reads: u64,
    /// Reads of which some bytes had to be requested.
    pub(crate) misses: u64,
    /// Reads that waited for bytes in flight.
    pub(crate) waits: u64,
    /// Bytes fetched.
    pub(crate) fetched_bytes: u64,
    /// Bytes prefetched and dropped unread, or unread at the end.
    pub(crate) wasted_bytes: u64,
    /// Maximum number of bytes prefetched and unread at any time.
    pub(crate) peak_ahead_bytes: u64,
    /// Maximum number of bytes and of ranges in one piece of advice.
    pub(crate) max_named: (u64, usize),
}

impl ModelResult {
    /// Misses as a fraction of the reads.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub(crate) fn miss_rate(&self) -> f64 {
        self.misses as f64 / self.reads as f64
    }

    /// Wasted bytes as a fraction of the fetched ones.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub(crate) fn waste(&self) -> f64 {
        self.wasted_bytes as f64 / self.fetched_bytes as f64
    }
}

impl PrefetchModel {
    /// A link of this round-trip time and rate in bytes per second, which the prefetcher knows,
    /// with the default memory.
    pub(crate) fn new(rtt: Duration, rate: f64) -> Self {
        Self { rtt, rate, memory_bytes: 64 << 20, ahead_bytes: 32 << 20, rate_known: true }
    }

    /// Maximum time of the responses in flight before another prefetch is requested: two chunks, or
    /// half a round trip.
    fn slack(&self) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let chunks = Duration::from_secs_f64(2.0 * CHUNK as f64 / self.rate);
        chunks.max(self.rtt / 2)
    }

    /// Runs a workload.
    pub(crate) fn play(&self, job: &Workload, advisor: &mut dyn Prefetcher) -> ModelResult {
        let mut run = Run {
            simulation: *self,
            size: job.size,
            store: LruCache::new(self.memory_bytes),
            soon: VecDeque::new(),
            free_at: Duration::ZERO,
            room_at: Duration::ZERO,
            outcome: ModelResult::default(),
        };
        let mut now = Duration::ZERO;
        for step in &job.steps {
            now = run.read(now + step.think, &step.range(), advisor);
        }
        run.outcome.duration = now;
        run.outcome.wasted_bytes = run.store.wasted_bytes() + run.store.ahead_bytes();
        run.outcome
    }

    /// Runs a workload that announces all its reads at its beginning, in their order.
    pub(crate) fn play_informed(&self, job: &Workload) -> ModelResult {
        let wanted = job.steps.iter().map(WorkloadRead::range).collect();
        self.play(job, &mut Informed { wanted })
    }
}

/// Advises everything at the first read.
#[derive(Debug)]
struct Informed {
    wanted: Vec<Range<u64>>,
}

impl Prefetcher for Informed {
    fn observe(&mut self, _: &Access, _: &PrefetchContext) -> Advice {
        Advice { will_need: std::mem::take(&mut self.wanted), ..Advice::default() }
    }
}

/// A prefetcher without advice: every miss is a request.
#[derive(Debug)]
pub(crate) struct NoPrefetch;

impl Prefetcher for NoPrefetch {
    fn observe(&mut self, _: &Access, _: &PrefetchContext) -> Advice {
        Advice::default()
    }
}

/// A workload that is running.
#[derive(Debug)]
struct Run {
    simulation: PrefetchModel,
    size: u64,
    store: LruCache,
    /// Prefetches that have not been requested yet.
    soon: VecDeque<Range<u64>>,
    /// The time at which all responses in flight have arrived.
    free_at: Duration,
    /// The time since which there has been room for prefetches.
    room_at: Duration,
    outcome: ModelResult,
}

impl Run {
    /// Runs one read at `now`; returns the time at which it is complete.
    fn read(
        &mut self,
        now: Duration,
        range: &Range<u64>,
        advisor: &mut dyn Prefetcher,
    ) -> Duration {
        self.ask_soon(now);
        let missing = self.store.missing(range);
        let arrives = self.store.arrives(range);
        let found = match (missing.is_empty(), arrives > now) {
            (false, _) => CacheStatus::Miss,
            (true, true) => CacheStatus::InFlight,
            (true, false) => CacheStatus::Hit,
        };
        self.outcome.reads += 1;
        self.outcome.misses += u64::from(found == CacheStatus::Miss);
        self.outcome.waits += u64::from(found == CacheStatus::InFlight);
        let access = Access { range: range.clone(), at: now, found, planned: false };
        let advice = advisor.observe(&access, &self.conditions());
        let bytes =
            range::total_bytes(&advice.will_need) + range::total_bytes(&advice.same_request);
        let ranges = advice.will_need.len() + advice.same_request.len();
        let most = &mut self.outcome.max_named;
        *most = (most.0.max(bytes), most.1.max(ranges));
        self.drop_named(&advice.dont_need);
        if found == CacheStatus::Miss {
            let along: Vec<_> =
                advice.same_request.iter().flat_map(|it| self.store.missing(it)).collect();
            let along = range::difference(&range::merged(&along, 0), &missing);
            self.ask(now, &[&missing, &along]);
        }
        self.soon.extend(advice.will_need);
        self.ask_soon(now);
        let done = self.store.arrives(range).max(now);
        self.store.read(range);
        done
    }

    fn conditions(&self) -> PrefetchContext {
        PrefetchContext {
            size: Some(self.size),
            link: LinkEstimate {
                rtt: Some(self.simulation.rtt),
                bandwidth: self.simulation.rate_known.then_some(self.simulation.rate),
                ..LinkEstimate::default()
            },
            limits: Limits { range_cost_bytes: 120, ..Limits::unlimited() },
            ahead_bytes: self.store.ahead_bytes(),
            ahead_budget_bytes: self.simulation.ahead_bytes,
            wasted_bytes: self.store.wasted_bytes(),
            fetched_bytes: self.outcome.fetched_bytes,
        }
    }

    /// Requests the prefetches that could be requested by `now`.
    fn ask_soon(&mut self, now: Duration) {
        let slack = self.simulation.slack() + self.simulation.rtt;
        while !self.soon.is_empty() {
            let at = self.free_at.saturating_sub(slack).max(self.room_at);
            if at > now {
                return;
            }
            let room = self.simulation.ahead_bytes.saturating_sub(self.store.ahead_bytes());
            if room == 0 {
                self.room_at = now;
                return;
            }
            let chunk = self.chunk(room.min(CHUNK));
            if !chunk.is_empty() {
                // A prefetch is requested at the time of its advice at the earliest.
                self.ask(at.max(self.room_at), &[&[], &chunk]);
            }
        }
    }

    /// Takes about `bytes` missing bytes from the prefetches.
    fn chunk(&mut self, bytes: u64) -> Vec<Range<u64>> {
        let mut chunk = Vec::new();
        let mut left = bytes;
        while left > 0
            && let Some(mut next) = self.soon.pop_front()
        {
            if range::len(&next) > left {
                self.soon.push_front(next.start + left..next.end);
                next.end = next.start + left;
            }
            for missing in self.store.missing(&next) {
                left = left.saturating_sub(range::len(&missing));
                chunk.push(missing);
            }
        }
        chunk
    }

    /// Sends one request: demanded ranges first, then prefetches.
    fn ask(&mut self, at: Duration, parts: &[&[Range<u64>]; 2]) {
        self.free_at = self.free_at.max(at + self.simulation.rtt);
        for (ahead, ranges) in [(false, parts[0]), (true, parts[1])] {
            // Ranges of one request may overlap.
            for range in ranges {
                for missing in self.store.missing(range) {
                    let bytes = range::len(&missing);
                    #[expect(clippy::cast_precision_loss, reason = "bytes of one range")]
                    let takes = (bytes + 120) as f64 / self.simulation.rate;
                    self.free_at += Duration::from_secs_f64(takes);
                    self.store.add(&missing, self.free_at, ahead);
                    self.outcome.fetched_bytes += bytes;
                }
            }
        }
        let ahead = self.store.ahead_bytes();
        self.outcome.peak_ahead_bytes = self.outcome.peak_ahead_bytes.max(ahead);
    }

    fn drop_named(&mut self, never: &[Range<u64>]) {
        if never.is_empty() || self.soon.is_empty() {
            return;
        }
        let never = range::merged(never, 0);
        let soon = std::mem::take(&mut self.soon);
        let rest = soon.iter().flat_map(|it| range::difference(std::slice::from_ref(it), &never));
        self.soon = rest.collect();
    }
}
