//! A program that reads through a cache over a link, by arithmetic alone.
//!
//! For what is decided before a byte moves: how long a job takes with an [`Prefetcher`], how often it waits, what is fetched in
//! vain. A job of 100,000 reads takes a fraction of a second, so a grid of links or a few thousand random jobs are
//! affordable, which they are not with real futures and real bytes.
//!
//! The model: the link has a round-trip time and a rate; an answer begins to arrive a round trip after its request, or
//! when the answers before it are through. What a program waits for is asked for at once, what is wanted soon only
//! while the answers under way take no longer than a slack, in chunks, in its order, as far as the budget for
//! reading ahead goes. The cache drops the extent that was not used for longest. There is no slow start and no connection: what those
//! cost is for [`crate::memory`] to tell.

mod lru_cache;

use crate::workload::Workload;
use hither_core::{
    Access, Advice, CacheStatus, Limits, LinkEstimate, PrefetchContext, Prefetcher, range,
};
use lru_cache::LruCache;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Bytes of one request for what is wanted soon.
const CHUNK: u64 = 128 << 10;

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefetchModel {
    /// Round-trip time.
    pub rtt: Duration,
    /// Bytes per second; infinite for no limit.
    pub rate: f64,
    /// Bytes that the cache holds.
    pub memory_bytes: u64,
    /// Bytes of them that may have been fetched ahead and not been read.
    pub ahead_bytes: u64,
    /// The program itself tells the rate; otherwise nobody knows it.
    pub rate_known: bool,
}

/// How it went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelResult {
    /// From the first step to the end of the last read.
    pub duration: Duration,
    /// Reads.
    pub reads: u64,
    /// Reads of which some bytes had to be asked for.
    pub misses: u64,
    /// Reads that waited for bytes under way.
    pub waits: u64,
    /// Bytes fetched.
    pub fetched_bytes: u64,
    /// Bytes fetched ahead and dropped unread, or unread at the end.
    pub wasted_bytes: u64,
    /// Most bytes fetched ahead and unread at any time.
    pub peak_ahead_bytes: u64,
    /// Most bytes named by one piece of advice, and ranges.
    pub max_named: (u64, usize),
}

impl ModelResult {
    /// Misses, as a part of the reads.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn miss_rate(&self) -> f64 {
        self.misses as f64 / self.reads as f64
    }

    /// What was wasted, as a part of what was fetched.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn waste(&self) -> f64 {
        self.wasted_bytes as f64 / self.fetched_bytes as f64
    }
}

impl PrefetchModel {
    /// A link of this round-trip time and rate in bytes per second, which the program knows, and memory as by default.
    #[must_use]
    pub fn new(rtt: Duration, rate: f64) -> Self {
        Self { rtt, rate, memory_bytes: 256 << 20, ahead_bytes: 128 << 20, rate_known: true }
    }

    /// How long the answers under way may take for what is wanted soon to be asked for: two chunks, or half a round trip.
    fn slack(&self) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let chunks = Duration::from_secs_f64(2.0 * CHUNK as f64 / self.rate);
        chunks.max(self.rtt / 2)
    }

    /// Plays a job.
    pub fn play(&self, job: &Workload, advisor: &mut dyn Prefetcher) -> ModelResult {
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

    /// Plays a job that has said at the beginning everything that it will read, in order.
    #[must_use]
    pub fn play_informed(&self, job: &Workload) -> ModelResult {
        let wanted = job.steps.iter().map(super::workload::WorkloadRead::range).collect();
        self.play(job, &mut Informed { wanted })
    }
}

/// Names everything at the first read.
#[derive(Debug)]
struct Informed {
    wanted: Vec<Range<u64>>,
}

impl Prefetcher for Informed {
    fn observe(&mut self, _: &Access, _: &PrefetchContext) -> Advice {
        Advice { will_need: std::mem::take(&mut self.wanted), ..Advice::default() }
    }
}

/// Names nothing: every read that misses is a request.
#[derive(Debug)]
pub struct Silent;

impl Prefetcher for Silent {
    fn observe(&mut self, _: &Access, _: &PrefetchContext) -> Advice {
        Advice::default()
    }
}

/// A job being played.
#[derive(Debug)]
struct Run {
    simulation: PrefetchModel,
    size: u64,
    store: LruCache,
    /// Wanted soon, not asked for yet.
    soon: VecDeque<Range<u64>>,
    /// When the answers under way are through.
    free_at: Duration,
    /// Since when there has been room for reading ahead.
    room_at: Duration,
    outcome: ModelResult,
}

impl Run {
    /// One read at `now`; when it is done.
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
            },
            limits: Limits { range_cost_bytes: 120, ..Limits::unlimited() },
            ahead_bytes: self.store.ahead_bytes(),
            ahead_budget_bytes: self.simulation.ahead_bytes,
            wasted_bytes: self.store.wasted_bytes(),
            fetched_bytes: self.outcome.fetched_bytes,
        }
    }

    /// Asks for as much of what is wanted soon as could be by `now`.
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
                // What was named at this very moment is asked for now, not in the past.
                self.ask(at.max(self.room_at), &[&[], &chunk]);
            }
        }
    }

    /// Takes about so many missing bytes from what is wanted soon.
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

    /// One request: what is read first, then what is not read yet.
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
