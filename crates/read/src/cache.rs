//! Memory cache of file ranges, shared by all open files of a client.
//!
//! A [`Cache`] keeps one *entry* per version of a file and identity that reads it. For each byte an
//! entry records one of three states:
//!
//! - *present*: the byte lies in an extent, a run of bytes with memory of its own. Extents have the
//!   length of the fetched range and are not rounded to blocks: a basket of 1.5 KB costs 1.5 KB.
//!   They end at multiples of 128 KiB, so that none keeps many other bytes in memory.
//! - *in flight*: an open file has requested it. Every other read of it waits for exactly the bytes
//!   that it needs, and wakes when these have arrived, not when the request ends.
//! - *absent*: a read that needs it claims it, which puts it in flight. Looking up and claiming are
//!   one step under one lock, so that any number of concurrent reads cause one request.
//!
//! A read that waits collects its bytes as they arrive and does not depend on the cache keeping
//! them: with a budget of one byte the cache keeps nothing, and every read still gets its bytes
//! with one request.
//!
//! **Budget.** All extents of all files share one budget of bytes; `cache/eviction_policy.rs`
//! chooses which are evicted. Bytes in flight are not part of it: the budget of the reader that
//! requests them bounds them ([`ReaderConfig`](crate::ReaderConfig)), and
//! [`CacheConfig::ahead_bytes`] bounds prefetches.
//!
//! **Versions.** The first response names the version of an entry. A response with another version
//! ends the entry: its bytes are dropped, waiting reads wake with an error, and the next opening of
//! the file begins a new entry. A file that is opened again finds the bytes of its last version,
//! but none is served before a response to a request sent after that opening has confirmed the
//! version. Openings are counted for this; a response confirms for all openings before its request
//! was sent. A version without a validator cannot be confirmed: every opening begins with an empty
//! entry.
//!
//! One lock guards the cache: a hit holds it for a look-up and a copy, a fraction of a microsecond.

mod claims;
mod config;
pub(crate) mod counters;
mod entry;
mod eviction;
mod eviction_policy;
mod extent;
pub mod file;
mod in_flight;
mod openings;
mod version;
mod waiter;

pub(crate) use claims::Claimed;
pub use config::CacheConfig;
pub(crate) use entry::ByteCounters;
pub use version::{CacheKey, Version};
pub(crate) use waiter::{Collected, WaitOutcome};

use crate::cache::file::{ReadCounters, ReadTotals};
use crate::sync::{Mutex, lock};
use entry::{CacheEntry, EntryContext};
use eviction_policy::EvictionPolicy;
use hither_core::{Error, Part};
use hither_trace::CacheStatus;
use std::collections::HashMap;
use std::ops::Range;
use std::task::{Context, Poll, Waker};

/// Contents of a cache at one moment. All but the first are 0 when the cache is idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Bytes present, with the overhead of keeping them.
    pub present_bytes: u64,
    /// Bytes requested that have not arrived.
    pub in_flight_bytes: u64,
    /// Reads that wait.
    pub waiters: usize,
    /// Bytes that were prefetched, or are in flight, for open files, and have not been read.
    pub ahead_bytes: u64,
}

/// Bytes of files in memory. Shared by everything that a client has open.
#[derive(Debug)]
pub struct Cache {
    config: CacheConfig,
    counts: ReadCounters,
    state: Mutex<CacheState>,
}

#[derive(Debug)]
struct CacheState {
    policy: EvictionPolicy,
    entries: HashMap<u64, CacheEntry>,
    /// The latest entry of each file.
    latest: HashMap<CacheKey, u64>,
    next_entry: u64,
    openings: u64,
    wakers: Vec<Waker>,
    counters: ByteCounters,
}

/// State of a file as its readers see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileSnapshot {
    pub(crate) size: Option<u64>,
    /// See [`crate::PrefetchContext::ahead_bytes`] and those after it.
    pub(crate) ahead_bytes: u64,
    pub(crate) ahead_budget_bytes: u64,
    pub(crate) counters: ByteCounters,
}

/// Result of looking up a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    /// Present means that the bytes have been copied.
    pub(crate) found: CacheStatus,
    pub(crate) absent_bytes: u64,
    pub(crate) snapshot: FileSnapshot,
}

impl Lookup {
    /// The result of no look-up, for a version that may no longer be the file's.
    pub(crate) const UNCONFIRMED: Self = Self {
        found: CacheStatus::InFlight,
        absent_bytes: 0,
        snapshot: FileSnapshot {
            size: None,
            ahead_bytes: 0,
            ahead_budget_bytes: 0,
            counters: ByteCounters {
                ahead_bytes: 0,
                fetched_bytes: 0,
                used_bytes: 0,
                wasted_bytes: 0,
            },
        },
    };
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(config: CacheConfig) -> Self {
        let state = CacheState {
            policy: EvictionPolicy::new(config.budget_bytes),
            entries: HashMap::new(),
            latest: HashMap::new(),
            next_entry: 0,
            openings: 0,
            wakers: Vec::new(),
            counters: ByteCounters::default(),
        };
        Self { config, counts: ReadCounters::default(), state: Mutex::new(state) }
    }

    /// Limits of the cache.
    #[must_use]
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// Contents of the cache now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let state = lock(&self.state);
        let entries = || state.entries.values();
        Gauges {
            present_bytes: state.policy.bytes(),
            in_flight_bytes: entries().map(CacheEntry::in_flight_bytes).sum(),
            waiters: entries().map(CacheEntry::waiter_count).sum(),
            ahead_bytes: entries().map(CacheEntry::ahead_bytes).sum(),
        }
    }

    /// Counters of all reads through the cache, and of the bytes fetched for them.
    #[must_use]
    pub fn totals(&self) -> ReadTotals {
        let counters = lock(&self.state).counters;
        ReadTotals {
            bytes_ahead: counters.ahead_bytes,
            bytes_fetched: counters.fetched_bytes,
            bytes_used: counters.used_bytes,
            bytes_dropped: counters.wasted_bytes,
            ..self.counts.totals()
        }
    }

    pub(crate) fn counts(&self) -> &ReadCounters {
        &self.counts
    }

    /// Calls `act` under the lock, evicts down to the budget, and wakes the collected wakers after
    /// that.
    fn with<T>(&self, act: impl FnOnce(&mut CacheState) -> T) -> T {
        let mut state = lock(&self.state);
        let result = act(&mut state);
        if state.policy.is_over_budget() {
            state.evict();
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// The same for one entry.
    fn entry<T>(
        &self,
        id: u64,
        act: impl FnOnce(&mut CacheEntry, &mut EntryContext<'_>) -> T,
    ) -> Option<T> {
        self.with(|state| {
            let CacheState { policy, entries, wakers, counters, .. } = state;
            let mut context = EntryContext { policy, wakers, counters };
            entries.get_mut(&id).map(|entry| act(entry, &mut context))
        })
    }

    /// Looks up `range`; if all of it is present and confirmed since the opening numbered `opened`,
    /// copies it to `target`.
    pub(crate) fn read(
        &self,
        id: u64,
        opened: u64,
        range: &Range<u64>,
        target: Option<&mut [u8]>,
    ) -> Lookup {
        let mut state = lock(&self.state);
        let CacheState { policy, entries, wakers, counters, .. } = &mut *state;
        let mut context = EntryContext { policy, wakers, counters };
        let mut lookup =
            Lookup { found: CacheStatus::Miss, absent_bytes: 0, snapshot: FileSnapshot::default() };
        let Some(entry) = entries.get_mut(&id) else { return lookup };
        let confirmed = entry.confirmed >= opened && entry.changed.is_none();
        if confirmed && entry.covers(range) {
            lookup.found = CacheStatus::Hit;
            if let Some(target) = target {
                entry.copy(range, target, &mut context);
            }
        } else {
            (lookup.found, lookup.absent_bytes) = entry.find(range);
            if lookup.found == CacheStatus::Hit && !confirmed {
                lookup.found = CacheStatus::InFlight;
            }
        }
        lookup.snapshot = snapshot(entry, context.policy, &self.config);
        lookup
    }

    /// State of a file.
    pub(crate) fn snapshot(&self, id: u64) -> FileSnapshot {
        let state = lock(&self.state);
        let known = state.entries.get(&id);
        known.map(|entry| snapshot(entry, &state.policy, &self.config)).unwrap_or_default()
    }

    /// The known version, and true if it was confirmed since the opening numbered `opened`.
    pub(crate) fn version(&self, id: u64, opened: u64) -> (Option<Version>, bool) {
        let state = lock(&self.state);
        let entry = state.entries.get(&id);
        entry.map_or((None, false), |it| (it.version.clone(), it.confirmed >= opened))
    }

    /// Records bytes that arrived.
    pub(crate) fn insert(&self, id: u64, part: &Part) {
        self.entry(id, |entry, context| {
            if entry.changed.is_none() {
                entry.insert(part.offset, &part.bytes, context);
            }
        });
    }

    /// Records the version that the server stated.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`](hither_core::ErrorKind::Changed) if it is another one.
    pub(crate) fn learn(&self, id: u64, reported: &Version) -> Result<(), Error> {
        self.entry(id, |entry, context| entry.learn(reported, context)).unwrap_or(Ok(()))
    }

    /// Records that a server confirmed the version in response to a request sent when the number of
    /// openings was `openings`.
    pub(crate) fn confirm(&self, id: u64, openings: u64) {
        self.entry(id, |entry, context| entry.confirm(openings, context));
    }

    /// Records that the file is no longer the version of the entry.
    pub(crate) fn change(&self, id: u64, error: &Error) {
        self.with(|state| {
            let CacheState { policy, entries, wakers, counters, latest, .. } = state;
            let mut context = EntryContext { policy, wakers, counters };
            if let Some(entry) = entries.get_mut(&id) {
                entry.change(error, &mut context);
                if latest.get(&entry.key) == Some(&id) {
                    latest.remove(&entry.key);
                }
            }
        });
    }

    /// Removes the protection of prefetched bytes in `ranges`, which will not be read.
    pub(crate) fn demote(&self, id: u64, ranges: &[Range<u64>]) {
        self.entry(id, |entry, context| {
            let ranges = ranges.iter().filter(|range| range.start < range.end);
            ranges.for_each(|range| entry.demote(range, context));
        });
    }

    /// Polls a read; returns its bytes once it is complete.
    pub(crate) fn poll(
        &self,
        id: u64,
        waiter: u64,
        cx: &Context<'_>,
    ) -> Poll<(WaitOutcome, Collected)> {
        let ended = self.entry(id, |entry, context| {
            let Some(waiting) = entry.waiter(waiter) else {
                return Poll::Ready((WaitOutcome::Again, Collected::default()));
            };
            if waiting.outcome.is_none() {
                waiting.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let ended = entry.remove_waiter(waiter, context);
            let (outcome, collected) =
                ended.map_or((None, Collected::default()), |it| (it.outcome, it.collected));
            Poll::Ready((outcome.unwrap_or(WaitOutcome::Again), collected))
        });
        ended.unwrap_or(Poll::Ready((WaitOutcome::Again, Collected::default())))
    }

    /// Removes a read that was dropped.
    pub(crate) fn forget(&self, id: u64, waiter: u64) {
        self.entry(id, |entry, context| drop(entry.remove_waiter(waiter, context)));
        self.with(|state| state.forget_if_empty(id));
    }
}

fn snapshot(entry: &CacheEntry, policy: &EvictionPolicy, config: &CacheConfig) -> FileSnapshot {
    let ahead_bytes = entry.ahead_bytes();
    let others = (policy.ahead_bytes() + policy.prefetching_bytes).saturating_sub(ahead_bytes);
    FileSnapshot {
        size: entry.size(),
        ahead_bytes,
        ahead_budget_bytes: config.ahead_bytes.saturating_sub(others),
        counters: entry.counters,
    }
}

impl CacheState {
    /// Removes the entry of a file that is not open and of which nothing is present.
    fn forget_if_empty(&mut self, id: u64) {
        let empty =
            self.entries.get(&id).is_some_and(|entry| entry.handles == 0 && entry.is_idle());
        if let Some(entry) = empty.then(|| self.entries.remove(&id)).flatten()
            && self.latest.get(&entry.key) == Some(&id)
        {
            self.latest.remove(&entry.key);
        }
    }
}
