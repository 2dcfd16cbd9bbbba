//! Bytes of files that are kept in memory, and those that are on their way.
//!
//! One [`Cache`] serves all open files of a client. What it knows of a file is kept in an *entry*: one version of one file
//! as one identity sees it. Of each byte an entry knows whether it is
//!
//! - *present*: it lies in an extent, a run of bytes with memory of its own. Extents are as long as what was fetched, not
//!   blocks: a basket of 1.5 KB costs 1.5 KB. They end at multiples of 128 KiB, so that none keeps much else alive;
//! - *in flight*: an open file has asked for it. Everybody else who wants it waits for that, for exactly the bytes that he
//!   wants, and is woken when these are there, not when the request ends;
//! - *absent*: who wants it claims it, and by that it is in flight. Claiming and looking are one step under one lock, so
//!   that however many want it, one asks.
//!
//! A read that waits collects its bytes as they arrive. It needs none of them to stay: a budget of one byte makes a cache
//! that keeps nothing, and still every reader gets what he asked for, with one request.
//!
//! **Budget.** All extents of all files share one budget of bytes. What goes when it is exceeded is said in
//! `cache/policy.rs`. Bytes in flight are not part of it; what bounds them is the budget of the reader that asks
//! ([`ReaderConfig`](crate::ReaderConfig)), and for what is fetched ahead a part of this one
//! ([`CacheConfig::ahead_bytes`]).
//!
//! **Versions.** The first answer of a server says which version an entry is. Whatever shows another one ends the entry:
//! its bytes are dropped, who waits is told, and the next who opens the file begins a new entry. A file that is opened
//! again finds the bytes of its last version, but is not served any of them before an answer of the server, asked after
//! that opening, has confirmed that they are those of the file. Openings are counted for that; an answer confirms for all
//! openings before the request was sent. A version without a validator cannot be confirmed: every opening begins anew.
//!
//! The lock is one for all: a hit holds it for a look-up and a copy, a fraction of a microsecond.

mod claims;
mod config;
pub(crate) mod counters;
mod entry;
mod eviction;
mod eviction_policy;
mod extent;
pub mod file;
mod in_flight;
mod version;
mod waiter;

pub(crate) use claims::Claimed;
pub use config::{CacheConfig, HISTORICAL_BLOCK_BYTES};
pub(crate) use entry::ByteCounters;
pub use version::{CacheKey, Version};
pub(crate) use waiter::{Collected, WaitOutcome};

use crate::cache::file::{ReadCounters, ReadTotals};
use crate::sync::{Mutex, lock};
use crate::{CacheStatus, Error, Part};
use entry::{CacheEntry, EntryContext};
use eviction_policy::EvictionPolicy;
use std::collections::HashMap;
use std::ops::Range;
use std::task::{Context, Poll, Waker};

/// What a cache holds at a moment. All but the first are 0 when nothing is going on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Bytes present, with what keeping them costs besides.
    pub present_bytes: u64,
    /// Bytes asked for that have not arrived.
    pub in_flight_bytes: u64,
    /// Reads that wait.
    pub waiters: usize,
    /// Bytes that were fetched ahead, or are on their way, for files that are open, and have not been read.
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
    tally: ByteCounters,
}

/// How things stand with a file, from the point of view of who reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileSnapshot {
    pub(crate) size: Option<u64>,
    /// See [`crate::PrefetchContext::ahead_bytes`] and those after it.
    pub(crate) ahead_bytes: u64,
    pub(crate) ahead_budget_bytes: u64,
    pub(crate) tally: ByteCounters,
}

/// What a look at a range found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    /// Present means that the bytes have been copied.
    pub(crate) found: CacheStatus,
    pub(crate) absent_bytes: u64,
    pub(crate) standing: FileSnapshot,
}

impl Lookup {
    /// A look at nothing, of a version that may not be the file's any more.
    pub(crate) const UNCONFIRMED: Self = Self {
        found: CacheStatus::InFlight,
        absent_bytes: 0,
        standing: FileSnapshot {
            size: None,
            ahead_bytes: 0,
            ahead_budget_bytes: 0,
            tally: ByteCounters {
                ahead_bytes: 0,
                fetched_bytes: 0,
                used_bytes: 0,
                wasted_bytes: 0,
            },
        },
    };
}

impl Cache {
    /// An empty one.
    #[must_use]
    pub fn new(config: CacheConfig) -> Self {
        let state = CacheState {
            policy: EvictionPolicy::new(config.budget_bytes),
            entries: HashMap::new(),
            latest: HashMap::new(),
            next_entry: 0,
            openings: 0,
            wakers: Vec::new(),
            tally: ByteCounters::default(),
        };
        Self { config, counts: ReadCounters::default(), state: Mutex::new(state) }
    }

    /// How much it holds.
    #[must_use]
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// What it holds now.
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

    /// What all reads through it found, and what has become of what was fetched for them.
    #[must_use]
    pub fn totals(&self) -> ReadTotals {
        let tally = lock(&self.state).tally;
        ReadTotals {
            bytes_ahead: tally.ahead_bytes,
            bytes_fetched: tally.fetched_bytes,
            bytes_used: tally.used_bytes,
            bytes_dropped: tally.wasted_bytes,
            ..self.counts.totals()
        }
    }

    pub(crate) fn counts(&self) -> &ReadCounters {
        &self.counts
    }

    /// Does something under the lock, makes room, and wakes who is to be woken after it.
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
            let CacheState { policy, entries, wakers, tally, .. } = state;
            let mut house = EntryContext { policy, wakers, tally };
            entries.get_mut(&id).map(|entry| act(entry, &mut house))
        })
    }

    /// Opens a file: its entry, and the number of the opening.
    pub(crate) fn open(&self, key: &CacheKey) -> (u64, u64) {
        self.with(|state| {
            state.openings += 1;
            let known = state.latest.get(key).copied().filter(|id| {
                let version = state.entries.get(id).map(|entry| entry.version.as_ref());
                version.is_some_and(|it| it.is_none_or(|it| it.validator.is_some()))
            });
            let id = known.unwrap_or_else(|| {
                state.next_entry += 1;
                let id = state.next_entry;
                state.entries.insert(id, CacheEntry::new(id, key.clone()));
                state.latest.insert(key.clone(), id);
                id
            });
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.handles += 1;
            }
            (id, state.openings)
        })
    }

    /// Closes a file that was opened.
    pub(crate) fn close(&self, id: u64) {
        self.entry(id, |entry, house| {
            entry.handles = entry.handles.saturating_sub(1);
            if entry.handles == 0 {
                entry.demote(&(0..u64::MAX), house);
            }
        });
        self.with(|state| state.forget_if_empty(id));
    }

    /// The number of the latest opening.
    pub(crate) fn openings(&self) -> u64 {
        lock(&self.state).openings
    }

    /// Looks at `range`; if all of it is present and confirmed since the opening numbered `opened`, copies it to `target`.
    pub(crate) fn read(
        &self,
        id: u64,
        opened: u64,
        range: &Range<u64>,
        target: Option<&mut [u8]>,
    ) -> Lookup {
        let mut state = lock(&self.state);
        let CacheState { policy, entries, wakers, tally, .. } = &mut *state;
        let mut house = EntryContext { policy, wakers, tally };
        let mut look =
            Lookup { found: CacheStatus::Miss, absent_bytes: 0, standing: FileSnapshot::default() };
        let Some(entry) = entries.get_mut(&id) else { return look };
        let confirmed = entry.confirmed >= opened && entry.changed.is_none();
        if confirmed && entry.covers(range) {
            look.found = CacheStatus::Hit;
            if let Some(target) = target {
                entry.copy(range, target, &mut house);
            }
        } else {
            (look.found, look.absent_bytes) = entry.find(range);
            if look.found == CacheStatus::Hit && !confirmed {
                look.found = CacheStatus::InFlight;
            }
        }
        look.standing = standing(entry, house.policy, &self.config);
        look
    }

    /// How things stand with a file.
    pub(crate) fn standing(&self, id: u64) -> FileSnapshot {
        let state = lock(&self.state);
        let known = state.entries.get(&id);
        known.map(|entry| standing(entry, &state.policy, &self.config)).unwrap_or_default()
    }

    /// What is known of the version, and whether it was confirmed since the opening numbered `opened`.
    pub(crate) fn version(&self, id: u64, opened: u64) -> (Option<Version>, bool) {
        let state = lock(&self.state);
        let entry = state.entries.get(&id);
        entry.map_or((None, false), |it| (it.version.clone(), it.confirmed >= opened))
    }

    /// Bytes arrived.
    pub(crate) fn insert(&self, id: u64, part: &Part) {
        self.entry(id, |entry, house| {
            if entry.changed.is_none() {
                entry.insert(part.offset, &part.bytes, house);
            }
        });
    }

    /// The server said which version it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed) if it is another one.
    pub(crate) fn learn(&self, id: u64, told: &Version) -> Result<(), Error> {
        self.entry(id, |entry, house| entry.learn(told, house)).unwrap_or(Ok(()))
    }

    /// A server confirmed the version, asked when there had been so many openings.
    pub(crate) fn confirm(&self, id: u64, openings: u64) {
        self.entry(id, |entry, house| entry.confirm(openings, house));
    }

    /// The file is not the one any more that the entry is of.
    pub(crate) fn change(&self, id: u64, error: &Error) {
        self.with(|state| {
            let CacheState { policy, entries, wakers, tally, latest, .. } = state;
            let mut house = EntryContext { policy, wakers, tally };
            if let Some(entry) = entries.get_mut(&id) {
                entry.change(error, &mut house);
                if latest.get(&entry.key) == Some(&id) {
                    latest.remove(&entry.key);
                }
            }
        });
    }

    /// What was fetched ahead in `ranges` will not be read: it may go like everything else.
    pub(crate) fn demote(&self, id: u64, ranges: &[Range<u64>]) {
        self.entry(id, |entry, house| {
            let ranges = ranges.iter().filter(|range| range.start < range.end);
            ranges.for_each(|range| entry.demote(range, house));
        });
    }

    /// Whether a read has come to its end; its bytes.
    pub(crate) fn poll(
        &self,
        id: u64,
        waiter: u64,
        cx: &Context<'_>,
    ) -> Poll<(WaitOutcome, Collected)> {
        let ended = self.entry(id, |entry, house| {
            let Some(waiting) = entry.waiter(waiter) else {
                return Poll::Ready((WaitOutcome::Again, Collected::default()));
            };
            if waiting.outcome.is_none() {
                waiting.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let ended = entry.remove_waiter(waiter, house);
            let (outcome, collected) =
                ended.map_or((None, Collected::default()), |it| (it.outcome, it.collected));
            Poll::Ready((outcome.unwrap_or(WaitOutcome::Again), collected))
        });
        ended.unwrap_or(Poll::Ready((WaitOutcome::Again, Collected::default())))
    }

    /// A read is given up.
    pub(crate) fn forget(&self, id: u64, waiter: u64) {
        self.entry(id, |entry, house| drop(entry.remove_waiter(waiter, house)));
        self.with(|state| state.forget_if_empty(id));
    }
}

fn standing(entry: &CacheEntry, policy: &EvictionPolicy, config: &CacheConfig) -> FileSnapshot {
    let ahead_bytes = entry.ahead_bytes();
    let others = (policy.ahead_bytes() + policy.flying_ahead).saturating_sub(ahead_bytes);
    FileSnapshot {
        size: entry.size(),
        ahead_bytes,
        ahead_budget_bytes: config.ahead_bytes.saturating_sub(others),
        tally: entry.tally,
    }
}

impl CacheState {
    /// Nothing is kept of a file that nobody has open and of which nothing is present.
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
