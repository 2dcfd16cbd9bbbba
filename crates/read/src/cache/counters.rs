//! Counters of reads.

use crate::cache::Lookup;
use hither_trace::CacheStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of reads through a cache.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    reads: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    bytes_read: AtomicU64,
    waited_micros: AtomicU64,
}

/// Counters of reads through a cache, and of the bytes fetched for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Ranges that were read.
    pub reads: u64,
    /// Of them, those that found all their bytes and did not wait.
    pub hits: u64,
    /// Those that found some of their bytes present or in flight.
    pub partial: u64,
    /// Those whose bytes all had to be requested.
    pub misses: u64,
    /// Bytes that were read, repeated reads included.
    pub bytes_read: u64,
    /// Total time that calls waited.
    pub waited: Duration,
    /// Bytes that were requested before any read waited for them.
    pub bytes_ahead: u64,
    /// Bytes that arrived.
    pub bytes_fetched: u64,
    /// Of them, bytes that were read, counted once for each time that they arrived.
    pub bytes_used: u64,
    /// Bytes that were dropped unread.
    pub bytes_dropped: u64,
}

impl ReadCounters {
    /// Counts the start of a read of `bytes`.
    pub(crate) fn began(&self, bytes: u64, lookup: &Lookup) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        match lookup.found {
            CacheStatus::Hit => self.hits.fetch_add(1, Ordering::Relaxed),
            CacheStatus::Miss if lookup.absent_bytes >= bytes => {
                self.misses.fetch_add(1, Ordering::Relaxed)
            }
            CacheStatus::InFlight | CacheStatus::Miss => 0,
        };
    }

    /// Adds the time that a call has waited.
    pub(crate) fn waited(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.waited_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> ReadTotals {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let reads = get(&self.reads);
        let hits = get(&self.hits);
        let misses = get(&self.misses);
        ReadTotals {
            reads,
            hits,
            partial: reads.saturating_sub(hits + misses),
            misses,
            bytes_read: get(&self.bytes_read),
            waited: Duration::from_micros(get(&self.waited_micros)),
            ..ReadTotals::default()
        }
    }
}
