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

mod entry;
mod extent;
mod flights;
mod policy;
mod waiter;

pub(crate) use entry::Tally;
pub(crate) use waiter::{Collected, Outcome};

use crate::file::{Counts, ReadTotals};
use crate::sync::{Mutex, lock};
use crate::{Error, Found, Part};
use entry::{Entry, House};
use policy::{Class, Policy};
use std::collections::HashMap;
use std::ops::Range;
use std::task::{Context, Poll, Waker};

/// How much a [`Cache`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Bytes that are present, of all files. 256 MiB by default: what a path of 1 Gbit/s and 240 ms has under way, eight
    /// times, and less than the memory that a batch system leaves a job for each processor.
    pub budget_bytes: u64,
    /// How many of them may be there, or on their way, before anybody has read them. Half of the budget by default: what
    /// is fetched ahead must leave room for what is read again.
    pub ahead_bytes: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self::with_budget(256 << 20)
    }
}

impl CacheConfig {
    /// The default for a budget, in bytes.
    #[must_use]
    pub const fn with_budget(budget_bytes: u64) -> Self {
        Self { budget_bytes, ahead_bytes: budget_bytes / 2 }
    }

    /// The size that XrdClient had in 2006: 3 MB (Furano et al., "Latencies and data access", CHEP 2006). The block of
    /// 128 KB that went with it is [`HISTORICAL_BLOCK_BYTES`]; blocks are a matter of who reads ahead.
    #[must_use]
    pub const fn historical() -> Self {
        Self::with_budget(3_000_000)
    }
}

/// The block of XrdClient's cache, in bytes; see [`CacheConfig::historical`].
pub const HISTORICAL_BLOCK_BYTES: u64 = 128_000;

/// What file, and as whom it is seen: what one identity was shown is not shown to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The URL or whatever else names the file, secrets included where they select it.
    pub name: String,
    /// Digest of the credential that it is read with; empty for none.
    pub identity: String,
}

/// What tells a version of a file from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Size in bytes; none if the server does not tell.
    pub size: Option<u64>,
    /// Entity tag or date of the last change, as sent; none if the server has neither.
    pub validator: Option<String>,
}

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
    counts: Counts,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    policy: Policy,
    entries: HashMap<u64, Entry>,
    /// The latest entry of each file.
    latest: HashMap<CacheKey, u64>,
    next_entry: u64,
    openings: u64,
    wakers: Vec<Waker>,
    tally: Tally,
}

/// How things stand with a file, from the point of view of who reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) size: Option<u64>,
    /// See [`crate::Conditions::ahead_bytes`] and those after it.
    pub(crate) ahead_bytes: u64,
    pub(crate) ahead_budget_bytes: u64,
    pub(crate) tally: Tally,
}

/// What a look at a range found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Present means that the bytes have been copied.
    pub(crate) found: Found,
    pub(crate) absent_bytes: u64,
    pub(crate) standing: Standing,
}

impl Look {
    /// A look at nothing, of a version that may not be the file's any more.
    pub(crate) const UNCONFIRMED: Self = Self {
        found: Found::InFlight,
        absent_bytes: 0,
        standing: Standing {
            size: None,
            ahead_bytes: 0,
            ahead_budget_bytes: 0,
            tally: Tally { ahead_bytes: 0, fetched_bytes: 0, used_bytes: 0, wasted_bytes: 0 },
        },
    };
}

/// A read that has begun to wait.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) waiter: u64,
    /// To be asked for by who claimed.
    pub(crate) fresh: Vec<Range<u64>>,
    /// In flight, and nobody had waited for it until now.
    pub(crate) hastened: Vec<Range<u64>>,
    /// The version has to be confirmed, and nothing that the owner has under way does it.
    pub(crate) unconfirmed: bool,
}

impl Cache {
    /// An empty one.
    #[must_use]
    pub fn new(config: CacheConfig) -> Self {
        let state = State {
            policy: Policy::new(config.budget_bytes),
            entries: HashMap::new(),
            latest: HashMap::new(),
            next_entry: 0,
            openings: 0,
            wakers: Vec::new(),
            tally: Tally::default(),
        };
        Self { config, counts: Counts::default(), state: Mutex::new(state) }
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
            in_flight_bytes: entries().map(Entry::in_flight_bytes).sum(),
            waiters: entries().map(Entry::waiter_count).sum(),
            ahead_bytes: entries().map(Entry::ahead_bytes).sum(),
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

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Does something under the lock, makes room, and wakes who is to be woken after it.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
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
    fn entry<T>(&self, id: u64, act: impl FnOnce(&mut Entry, &mut House<'_>) -> T) -> Option<T> {
        self.with(|state| {
            let State { policy, entries, wakers, tally, .. } = state;
            let mut house = House { policy, wakers, tally };
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
                state.entries.insert(id, Entry::new(id, key.clone()));
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
    ) -> Look {
        let mut state = lock(&self.state);
        let State { policy, entries, wakers, tally, .. } = &mut *state;
        let mut house = House { policy, wakers, tally };
        let mut look =
            Look { found: Found::Absent, absent_bytes: 0, standing: Standing::default() };
        let Some(entry) = entries.get_mut(&id) else { return look };
        let confirmed = entry.confirmed >= opened && entry.changed.is_none();
        if confirmed && entry.covers(range) {
            look.found = Found::Present;
            if let Some(target) = target {
                entry.copy(range, target, &mut house);
            }
        } else {
            (look.found, look.absent_bytes) = entry.find(range);
            if look.found == Found::Present && !confirmed {
                look.found = Found::InFlight;
            }
        }
        look.standing = standing(entry, house.policy, &self.config);
        look
    }

    /// How things stand with a file.
    pub(crate) fn standing(&self, id: u64) -> Standing {
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

    /// A read of `ranges`, sorted and disjoint, begins to wait, as far as they lie in the file if its size is known; it is served once all is there and the version confirmed.
    /// What is absent is claimed for `owner`, who has to ask for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed) if the entry is at its end.
    pub(crate) fn claim(
        &self,
        id: u64,
        owner: u64,
        opened: u64,
        ranges: &[Range<u64>],
    ) -> Result<Claimed, Error> {
        let claimed = self.entry(id, |entry, house| {
            if let Some(error) = &entry.changed {
                return Err(error.clone());
            }
            let size = entry.size().unwrap_or(u64::MAX);
            let ranges = ranges.iter().map(|range| range.start.min(size)..range.end.min(size));
            let ranges: Vec<_> = ranges.filter(|range| range.start < range.end).collect();
            let (waiter, fresh, hastened) = entry.claim(&ranges, owner, opened, house);
            // What is under way confirms it on the way.
            let unconfirmed = entry.confirmed < opened && entry.flights_of(owner).is_empty();
            Ok(Claimed { waiter, fresh, hastened, unconfirmed })
        });
        claimed
            .unwrap_or_else(|| Err(Error::new(crate::ErrorKind::Cancelled, "the file is closed")))
    }

    /// Claims for `owner` what is absent of `ranges`, in their order, as long as there is room for what is fetched ahead,
    /// and at most `most` bytes. Nobody waits for it. Returns what was claimed, and what of `ranges` there was no room for.
    pub(crate) fn claim_ahead(
        &self,
        id: u64,
        owner: u64,
        ranges: &[Range<u64>],
        most: u64,
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let claimed = self.entry(id, |entry, house| {
            let (mut claimed, mut later) = (Vec::new(), Vec::new());
            if entry.changed.is_some() {
                return (claimed, later);
            }
            let used = house.policy.ahead_bytes() + house.policy.flying_ahead;
            let mut room = self.config.ahead_bytes.saturating_sub(used).min(most);
            for (nth, range) in ranges.iter().enumerate() {
                if room == 0 {
                    later.extend(ranges.iter().skip(nth).cloned());
                    break;
                }
                let end = entry.size().map_or(range.end, |size| range.end.min(size));
                for absent in entry.absent(&(range.start.min(end)..end)) {
                    let to = absent.end.min(absent.start.saturating_add(room));
                    room -= to - absent.start;
                    if to > absent.start {
                        entry.claim_ahead(absent.start..to, owner, house);
                        claimed.push(absent.start..to);
                    }
                    later.extend((to < absent.end).then_some(to..absent.end));
                }
            }
            (claimed, later)
        });
        claimed.unwrap_or_default()
    }

    /// Claims those of `gaps` that are absent as a whole.
    pub(crate) fn claim_gaps(&self, id: u64, owner: u64, gaps: &[Range<u64>]) -> Vec<Range<u64>> {
        let claimed = self.entry(id, |entry, house| {
            let whole = |gap: &&Range<u64>| entry.absent(gap).as_slice() == [(*gap).clone()];
            let gaps: Vec<_> = gaps.iter().filter(whole).cloned().collect();
            gaps.iter().for_each(|gap| entry.claim_ahead(gap.clone(), owner, house));
            gaps
        });
        claimed.unwrap_or_default()
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

    /// What `owner` asked for of `ranges` will not come.
    pub(crate) fn fail(&self, id: u64, owner: u64, ranges: &[Range<u64>], error: &Error) {
        self.entry(id, |entry, house| {
            entry.fail(owner, ranges, || Outcome::Failed(error.clone()), house);
        });
    }

    /// Whether somebody waits for a confirmation for the opening numbered `opened`, be it besides bytes that others bring.
    pub(crate) fn lacks_confirmation(&self, id: u64, opened: u64) -> bool {
        self.entry(id, |entry, _| entry.lacks_confirmation(opened)).unwrap_or(false)
    }

    /// The version could not be confirmed for the opening numbered `opened`: who waits for that waits in vain.
    pub(crate) fn fail_unconfirmed(&self, id: u64, opened: u64, error: &Error) {
        self.entry(id, |entry, house| entry.fail_unconfirmed(opened, error, house));
    }

    /// `owner` will bring nothing more; who waits for it has to ask himself. Tells whether there was anything.
    pub(crate) fn abandon(&self, id: u64, owner: u64) -> bool {
        let abandoned = self.entry(id, |entry, house| {
            let flights = entry.flights_of(owner);
            entry.fail(owner, &flights, || Outcome::Again, house);
            !flights.is_empty()
        });
        abandoned.unwrap_or(false)
    }

    /// Gives back what `owner` has claimed of `ranges` and nobody waits for; returns it.
    pub(crate) fn release(&self, id: u64, owner: u64, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        self.entry(id, |entry, house| entry.release(owner, ranges, house)).unwrap_or_default()
    }

    /// What of `ranges` is on its way.
    pub(crate) fn in_flight(&self, id: u64, owner: u64) -> Vec<Range<u64>> {
        self.entry(id, |entry, _| entry.flights_of(owner)).unwrap_or_default()
    }

    /// The file is not the one any more that the entry is of.
    pub(crate) fn change(&self, id: u64, error: &Error) {
        self.with(|state| {
            let State { policy, entries, wakers, tally, latest, .. } = state;
            let mut house = House { policy, wakers, tally };
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

    /// Something had to be asked for although there is no room for more that is fetched ahead: what is there is not what
    /// is read. The oldest of it, about `bytes`, is not kept room for any longer.
    pub(crate) fn age(&self, bytes: u64) {
        self.with(|state| {
            let used = state.policy.ahead_bytes() + state.policy.flying_ahead;
            let mut excess = (used + bytes).saturating_sub(self.config.ahead_bytes).min(bytes);
            while excess > 0 {
                let Some(token) = state.policy.next_ahead() else { return };
                let State { policy, entries, wakers, tally, .. } = &mut *state;
                let mut house = House { policy, wakers, tally };
                let Some(entry) = entries.get_mut(&token.entry).filter(|it| it.is_at(&token))
                else {
                    continue;
                };
                let len = entry.extents.get(&token.start).map_or(0, |extent| extent.len());
                entry.move_to(token.start, Class::Small, &mut house);
                excess = excess.saturating_sub(len);
            }
        });
    }

    /// Whether a read has come to its end; its bytes.
    pub(crate) fn poll(
        &self,
        id: u64,
        waiter: u64,
        cx: &Context<'_>,
    ) -> Poll<(Outcome, Collected)> {
        let ended = self.entry(id, |entry, house| {
            let Some(waiting) = entry.waiter(waiter) else {
                return Poll::Ready((Outcome::Again, Collected::default()));
            };
            if waiting.outcome.is_none() {
                waiting.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let ended = entry.remove_waiter(waiter, house);
            let (outcome, collected) =
                ended.map_or((None, Collected::default()), |it| (it.outcome, it.collected));
            Poll::Ready((outcome.unwrap_or(Outcome::Again), collected))
        });
        ended.unwrap_or(Poll::Ready((Outcome::Again, Collected::default())))
    }

    /// A read is given up.
    pub(crate) fn forget(&self, id: u64, waiter: u64) {
        self.entry(id, |entry, house| drop(entry.remove_waiter(waiter, house)));
        self.with(|state| state.forget_if_empty(id));
    }
}

fn standing(entry: &Entry, policy: &Policy, config: &CacheConfig) -> Standing {
    let ahead_bytes = entry.ahead_bytes();
    let others = (policy.ahead_bytes() + policy.flying_ahead).saturating_sub(ahead_bytes);
    Standing {
        size: entry.size(),
        ahead_bytes,
        ahead_budget_bytes: config.ahead_bytes.saturating_sub(others),
        tally: entry.tally,
    }
}

impl State {
    /// Drops extents until the budget is kept.
    fn evict(&mut self) {
        while self.policy.is_over_budget() {
            let Some((class, token)) = self.policy.next_victim() else { return };
            let Self { policy, entries, wakers, tally, .. } = self;
            let mut house = House { policy, wakers, tally };
            let Some(entry) = entries.get_mut(&token.entry).filter(|entry| entry.is_at(&token))
            else {
                continue;
            };
            let Some(extent) = entry.extents.get_mut(&token.start) else { continue };
            match (class, extent.again) {
                (Class::Small, 1..) => {
                    extent.again = 0;
                    entry.move_to(token.start, Class::Main, &mut house);
                }
                (Class::Main, 1..) => {
                    extent.again -= 1;
                    entry.move_to(token.start, Class::Main, &mut house);
                }
                _ => {
                    if class == Class::Small {
                        house.policy.remember(token.entry, token.start);
                    }
                    entry.drop_extent(token.start, &mut house);
                    self.forget_if_empty(token.entry);
                }
            }
        }
        let entries = &self.entries;
        self.policy.sweep(|token| entries.get(&token.entry).is_some_and(|it| it.is_at(token)));
    }

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
