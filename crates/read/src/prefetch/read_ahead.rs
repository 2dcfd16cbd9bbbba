//! Read-ahead for programs that give no hints.
//!
//! A file has up to [`ReadAheadConfig::cursors`] cursors, one for each reader that seems to be
//! active in it: a thread with its own position, a column, a tree. Every read is assigned to the
//! cursor that it fits best. A cursor whose reads predict the next ones keeps a prefetch window;
//! the misses of one whose reads predict nothing are rounded to blocks, if that has paid off
//! (`block_rounding.rs`).
//!
//! **Which cursor.** The best fit is a cursor that predicted the read; then one in whose
//! neighbourhood it is. A read that begins where an abandoned run of a cursor ended means that
//! readers alternate: it gets its own cursor, which prefetches immediately, and after two of them
//! the next ones are predicted, too. Otherwise the read is a jump of a cursor that predicts nothing
//! yet, or it replaces the least recently used cursor. The reads of one cursor never disturb
//! another. Skips within a window, and repeated reads a short distance back, disturb nothing
//! either.
//!
//! **Window size.** A window starts small and doubles when the reader had to wait for a predicted
//! range that was still in flight; never because time has passed. So a slow reader keeps a small
//! window. The window is bounded by the bytes that keep the path busy
//! ([`ReadAheadConfig::path_factor`]), by the cursor's share of the memory, and by its credit
//! (`waste.rs`). When memory is short it halves. A window is refilled when a quarter of it has been
//! read, the largest when half of it has, so that requests are not tiny.
//!
//! **Lost packets.** Where packets are lost, the bytes that keep a path busy are not enough: while
//! a connection retransmits one, the reader waits and requests nothing more. A reader that has read
//! far has a window that lasts longer than such a retransmission (`STEADY_FACTOR`).
//!
//! **Whole files.** Most readers that begin at the beginning of a file of a few megabytes read it
//! to its end. Where a wait costs more than the bytes, on a path of `FAR_LATENCY` or more, their
//! windows grow faster (`WHOLE`): 5 MB take three waits.
//!
//! **Round trips.** The first window of a sequential reader follows a read that has to go to the
//! server anyway, and joins its request. Advice also states how large the next window may become,
//! so that the connections for it are open by then.
//!
//! A reader that alternates with others stops where another one began: the bytes there have been
//! read.

use super::block_rounding::BlockRounding;
use super::config::ReadAheadConfig;
use super::cursor::{Cursor, CursorMatch};
use super::waste::{Waste, whole};
use crate::{Access, Advice, PrefetchContext, Prefetcher};
use hither_core::range;
use hither_trace::CacheStatus;
use std::ops::Range;
use std::time::Duration;

/// Maximum number of ranges named in one advice.
const MAX_RANGES: usize = 256;
/// Ends of runs that are remembered.
const ENDS: usize = 32;
/// Number of reads in a first window, if they are large.
const READS_AHEAD: u64 = 4;
/// Maximum number of bytes of a read and of the window that joins its request, which has one
/// connection: the window of a larger read is spread over several.
const MAX_JOINED_BYTES: u64 = (384 << 10) - 1;
/// Bytes from the beginning of a file after which it will probably be read to its end.
const WHOLE_BYTES: u64 = 256 << 10;
/// Maximum size of a file of which that is assumed.
pub(crate) const MAX_WHOLE_BYTES: u64 = 8 << 20;
/// Latency from which on waiting costs more than wasted bytes.
const FAR_LATENCY: Duration = Duration::from_millis(20);
/// Longest window of a reader that has read far, as a multiple of that of others.
const STEADY_FACTOR: f64 = 10.0;
/// Divisor of the bytes that such a reader has read, which gives the maximum of that longer window.
const STEADY_PART: u64 = 4;
/// Turns after which readers are assumed to alternate.
const SURE_TURNS: u32 = 2;
/// Reads of a file after which a cursor that had none of them counts as idle.
const IDLE_READS: u64 = 256;

/// Evidence of the speed of a reader.
#[derive(Debug, Clone, Copy)]
struct Pace {
    read_bytes: u64,
    /// It waited for a predicted range.
    starved: bool,
    /// The end of the read, if it has to wait for a request that was not sent yet.
    missed: Option<u64>,
}

/// Growth rate and maximum of windows.
#[derive(Debug, Clone, Copy)]
struct WindowRule {
    /// Factor by which a window grows at a time.
    growth: u64,
    /// Longest window as a multiple of the bytes that the cursor has earned.
    credit: u64,
    /// Longest window as a multiple of [`ReadAheadConfig::path_factor`].
    path: f64,
}

const ANY: WindowRule = WindowRule { growth: 2, credit: 1, path: 1.0 };
const WHOLE: WindowRule = WindowRule { growth: 16, credit: 16, path: 4.0 };

impl WindowRule {
    /// The rule for a cursor that has read another `more` bytes.
    fn of(cursor: &Cursor, more: u64, conditions: &PrefetchContext) -> Self {
        let is_long = range::len(cursor.run()).saturating_add(more) >= WHOLE_BYTES;
        if is_long && begins_a_file(cursor, conditions) { WHOLE } else { ANY }
    }
}

/// Returns true if the cursor reads a far file of a few megabytes from its beginning.
fn begins_a_file(cursor: &Cursor, conditions: &PrefetchContext) -> bool {
    let is_far = conditions.link.latency().is_some_and(|latency| latency >= FAR_LATENCY);
    let is_small = conditions.size.is_some_and(|size| size <= MAX_WHOLE_BYTES);
    is_far && is_small && cursor.is_sequential() && cursor.run().start == 0
}

/// Predicts reads from the offsets of past ones, without knowledge of the file's contents.
#[derive(Debug)]
pub struct ReadAhead {
    config: ReadAheadConfig,
    cursors: Vec<Cursor>,
    blocks: BlockRounding,
    waste: Waste,
    /// Ends of the latest abandoned runs.
    ends: [u64; ENDS],
    next_end: usize,
    /// Number of runs that continued in the order in which they were abandoned, and the position of
    /// the end of the next one.
    turns: u32,
    next_turn: usize,
    /// Reads so far.
    reads: u64,
    /// The cursor that had the last one.
    latest: usize,
}

impl ReadAhead {
    /// A read-ahead for a file just opened.
    #[must_use]
    pub fn new(config: ReadAheadConfig) -> Self {
        Self {
            config,
            cursors: Vec::new(),
            blocks: BlockRounding::new(config.block_bytes, !config.learn_blocks),
            waste: Waste::default(),
            ends: [u64::MAX; ENDS],
            next_end: 0,
            turns: 0,
            next_turn: ENDS,
            reads: 0,
            latest: 0,
        }
    }

    /// Moves the cursor that a read belongs to; returns it, and true if the read was predicted.
    fn place(&mut self, range: &Range<u64>, advice: &mut Advice) -> (usize, bool) {
        let (index, fit) = self.best(range);
        let touches = fit > CursorMatch::Skips && self.ends.contains(&range.start);
        if fit > CursorMatch::Resumes && touches {
            self.resumes(range.start);
            return (self.add(Cursor::resumed(range), advice), false);
        }
        if fit == CursorMatch::Unrelated {
            let cursor = Cursor::new(range, self.cursors.get(self.latest));
            return (self.add(cursor, advice), false);
        }
        let cursor = &mut self.cursors[index];
        let end = cursor.run().end;
        let predicted = cursor.follow(range, fit, touches, &self.blocks);
        self.waste.orphan(cursor.take_passed());
        if fit > CursorMatch::Inside {
            self.remember_end(end);
        }
        (index, predicted)
    }

    fn best(&self, range: &Range<u64>) -> (usize, CursorMatch) {
        let latest =
            self.cursors.get(self.latest).map_or(CursorMatch::Unrelated, |it| it.fit(range));
        let mut best = (self.latest, latest);
        if best.1 == CursorMatch::Continues {
            return best;
        }
        for (index, cursor) in self.cursors.iter().enumerate() {
            if index != self.latest {
                let fit = cursor.fit(range);
                if fit < best.1 && fit != CursorMatch::Young {
                    best = (index, fit);
                }
            }
        }
        best
    }

    /// Adds a cursor, if necessary in place of the least recently used one.
    fn add(&mut self, cursor: Cursor, advice: &mut Advice) -> usize {
        if self.cursors.len() < self.config.cursors.max(1) {
            self.cursors.push(cursor);
            return self.cursors.len() - 1;
        }
        let oldest = self.cursors.iter().enumerate().min_by_key(|(_, cursor)| cursor.used_at);
        let index = oldest.map_or(0, |(index, _)| index);
        self.give_up(index, advice);
        self.remember_end(self.cursors[index].run().end);
        self.cursors[index] = cursor;
        index
    }

    /// Cancels the prefetches of a cursor.
    fn give_up(&mut self, index: usize, advice: &mut Advice) {
        let cursor = &mut self.cursors[index];
        self.waste.orphan(cursor.ahead_bytes());
        cursor.ahead(MAX_RANGES, &mut advice.dont_need);
        cursor.forget();
    }

    fn remember_end(&mut self, end: u64) {
        self.ends[self.next_end % ENDS] = end;
        self.next_end += 1;
    }

    /// Records that the run that ended here continues, and counts runs in a row that continue in
    /// the order in which they were abandoned.
    fn resumes(&mut self, end: u64) {
        let Some(place) = self.ends.iter().position(|known| *known == end) else { return };
        self.ends[place] = u64::MAX;
        self.turns = if place == self.next_turn { self.turns + 1 } else { 1 };
        self.next_turn = (place + 1) % ENDS;
    }

    /// Names the reads of the next readers: readers that have begun to alternate will continue to.
    fn name_turns(&mut self, read_bytes: u64, conditions: &PrefetchContext, advice: &mut Advice) {
        self.turns = 0;
        if self.waste.tight(&self.config, conditions) {
            return;
        }
        let size = conditions.size.unwrap_or(0);
        let named = range::total_bytes(&advice.will_need).saturating_add(conditions.ahead_bytes);
        let mut room = conditions.ahead_budget_bytes.saturating_sub(named);
        for turn in 0..self.config.cursors.min(ENDS) {
            let start = self.ends[(self.next_turn + turn) % ENDS];
            let end = start.saturating_add(read_bytes).min(size);
            if start >= end || end - start > room {
                return;
            }
            room -= end - start;
            advice.will_need.push(start..end);
        }
    }

    /// Names the ranges that the cursor predicts, as far as its window and the memory allow.
    fn go_ahead(
        &mut self,
        index: usize,
        pace: Pace,
        conditions: &PrefetchContext,
        advice: &mut Advice,
    ) {
        let Some(size) = conditions.size else { return };
        let cursor = &self.cursors[index];
        let hop = match cursor.region() {
            Some(region) if f64::from(region.used()) < 0.95 - self.config.waste_limit => return,
            Some(region) => region.hop().saturating_mul(2),
            None if !cursor.is_exact() => return,
            None => 0,
        };
        let (allowed, longest) = self.window(index, hop, pace, conditions);
        let ahead = self.cursors[index].ahead_bytes();
        let low = if longest { allowed / 2 } else { allowed - allowed / 4 };
        if ahead >= low {
            return;
        }
        let named: u64 = self.cursors.iter().map(Cursor::ahead_bytes).fold(0, u64::saturating_add);
        let budget = conditions.ahead_budget_bytes;
        let room = budget.saturating_sub(named.max(conditions.ahead_bytes));
        let bytes = (allowed - ahead).min(room);
        if bytes < allowed / 8 {
            self.reclaim(index, advice);
        }
        let end = self.end(index, size);
        let cursor = &mut self.cursors[index];
        let joins = ahead == 0
            && cursor.is_sequential()
            && pace.missed == Some(cursor.run().end)
            && pace.read_bytes.saturating_add(bytes) <= MAX_JOINED_BYTES;
        let named = if joins { &mut advice.same_request } else { &mut advice.will_need };
        cursor.name(bytes, end, MAX_RANGES, &mut self.blocks, named);
        if !named.is_empty() && cursor.is_sequential() {
            let next = allowed.saturating_mul(WindowRule::of(cursor, allowed, conditions).growth);
            advice.next_bytes = next.min(size.saturating_sub(cursor.run().end));
        }
    }

    /// Adapts the window of a cursor; returns the bytes it may prefetch, and true if that is the
    /// maximum.
    fn window(
        &mut self,
        index: usize,
        hop: u64,
        pace: Pace,
        conditions: &PrefetchContext,
    ) -> (u64, bool) {
        let recent = self.reads.saturating_sub(IDLE_READS);
        let active = self.cursors.iter().filter(|it| it.used_at >= recent && it.window() > 0);
        let sharing = (active.count() as u64).max(1);
        let memory = conditions.ahead_budget_bytes / sharing;
        let rule = WindowRule::of(&self.cursors[index], 0, conditions);
        let path = conditions.link.bandwidth_delay_bytes();
        let far = self.cursors[index].earned() / STEADY_PART;
        let path = path.map_or(self.config.unknown_path_bytes, |product| {
            let bytes = self.config.path_factor * rule.path * product;
            whole(bytes).max(far.min(whole(STEADY_FACTOR * bytes)))
        });
        let young = self.first_window(index, conditions);
        let first = young.max(pace.read_bytes.saturating_mul(READS_AHEAD));
        let most = path.max(first).saturating_add(hop).min(memory);
        let short = conditions.ahead_bytes > conditions.ahead_budget_bytes;
        let cursor = &mut self.cursors[index];
        let growth = if pace.starved { rule.growth } else { 1 };
        cursor.steer(first, most, growth, short);
        let earned = cursor.earned().saturating_mul(rule.credit);
        let credit = self.waste.credit(earned, young, &self.config, conditions);
        (cursor.window().min(credit), cursor.window() == most && credit >= most)
    }

    /// The window of a cursor that has earned nothing, in bytes. At the beginning of a file it may
    /// be the bandwidth-delay product, up to two and a half times the configured value.
    fn first_window(&self, index: usize, conditions: &PrefetchContext) -> u64 {
        let least = self.config.first_window_bytes;
        let path = conditions.link.bandwidth_delay_bytes().map_or(0, whole);
        let begins = begins_a_file(&self.cursors[index], conditions);
        if begins { path.min(least.saturating_mul(5) / 2).max(least) } else { least }
    }

    /// Cancels the prefetches of an idle cursor, to free memory for another.
    fn reclaim(&mut self, index: usize, advice: &mut Advice) {
        let recent = self.reads.saturating_sub(IDLE_READS);
        let idle = self.cursors.iter().enumerate().position(|(other, cursor)| {
            other != index && cursor.used_at < recent && cursor.ahead_bytes() > 0
        });
        if let Some(idle) = idle {
            self.give_up(idle, advice);
        }
    }

    /// The position where a cursor stops: the end of the file, or where another one began.
    fn end(&self, index: usize, size: u64) -> u64 {
        let cursor = &self.cursors[index];
        if !cursor.is_sequential() {
            return size;
        }
        let here = cursor.run().end;
        let others = self.cursors.iter().filter(|other| other.is_sequential());
        let begun = others.map(|other| other.run().start).filter(|&start| start > here).min();
        begun.map_or(size, |start| start.min(size))
    }

    /// Adds the block around a read that missed, where that pays off and there is memory.
    fn along(&mut self, range: &Range<u64>, conditions: &PrefetchContext, advice: &mut Advice) {
        let Some(size) = conditions.size else { return };
        let short = conditions.ahead_bytes >= conditions.ahead_budget_bytes;
        if short || self.waste.tight(&self.config, conditions) {
            return;
        }
        // A block must not take longer than two more requests would.
        let path = conditions.link.bandwidth_delay_bytes();
        let most = path.map_or(u64::MAX, |product| whole(2.0 * product).max(32 << 10));
        let block = self.blocks.around(range, size, most);
        if block.start < range.start {
            advice.same_request.push(block.start..range.start);
        }
        if block.end > range.end {
            advice.same_request.push(range.end..block.end);
        }
    }
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self::new(ReadAheadConfig::default())
    }
}

impl Prefetcher for ReadAhead {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        let mut advice = Advice::default();
        let mut range = access.range.clone();
        range.end = range.end.min(conditions.size.unwrap_or(u64::MAX));
        // The ranges of a vector are neither neighbours by chance nor steps of a reader: they do
        // not predict other reads.
        if range.start >= range.end || access.planned {
            return advice;
        }
        self.reads += 1;
        self.blocks.read(&range);
        let (index, predicted) = self.place(&range, &mut advice);
        self.latest = index;
        let cursor = &mut self.cursors[index];
        cursor.used_at = self.reads;
        if access.found == CacheStatus::Miss {
            if predicted {
                cursor.forget();
            }
            if !cursor.is_exact() {
                self.along(&range, conditions, &mut advice);
            }
        }
        let starved = predicted && access.found != CacheStatus::Hit;
        let missed = (access.found == CacheStatus::Miss).then_some(range.end);
        let pace = Pace { read_bytes: range.end - range.start, starved, missed };
        self.go_ahead(index, pace, conditions, &mut advice);
        if self.turns >= SURE_TURNS {
            self.name_turns(pace.read_bytes, conditions, &mut advice);
        }
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::{Limits, LinkEstimate};

    const KIB: u64 = 1 << 10;

    fn conditions(size: Option<u64>) -> PrefetchContext {
        PrefetchContext {
            size,
            link: LinkEstimate::default(),
            limits: Limits::unlimited(),
            ahead_bytes: 0,
            ahead_budget_bytes: 1 << 30,
            wasted_bytes: 0,
            fetched_bytes: 0,
        }
    }

    fn read(prefetcher: &mut ReadAhead, range: Range<u64>, found: CacheStatus) -> Advice {
        let access = Access { range, at: Duration::ZERO, found, planned: false };
        prefetcher.observe(&access, &conditions(Some(1 << 40)))
    }

    #[test]
    fn read_ahead_starts_with_the_second_sequential_read() {
        let mut prefetcher = ReadAhead::default();
        assert_eq!(read(&mut prefetcher, 0..4 * KIB, CacheStatus::Miss).will_need, []);
        let advice = read(&mut prefetcher, 4 * KIB..8 * KIB, CacheStatus::Hit);
        assert_eq!(advice.will_need, [8 * KIB..136 * KIB]);
        assert_eq!(read(&mut prefetcher, 8 * KIB..12 * KIB, CacheStatus::Hit), Advice::default());
    }

    #[test]
    fn the_first_window_joins_the_request_of_a_read_that_waits() {
        let mut prefetcher = ReadAhead::default();
        read(&mut prefetcher, 0..4 * KIB, CacheStatus::Miss);
        let advice = read(&mut prefetcher, 4 * KIB..8 * KIB, CacheStatus::Miss);
        assert_eq!((advice.same_request, advice.will_need), (vec![8 * KIB..136 * KIB], vec![]));
        assert_eq!(advice.next_bytes, 256 * KIB);
        // That of large reads would take one connection too long.
        let at = 1 << 30;
        read(&mut prefetcher, at..at + 256 * KIB, CacheStatus::Miss);
        let advice = read(&mut prefetcher, at + 256 * KIB..at + 512 * KIB, CacheStatus::Miss);
        assert_eq!((advice.same_request.len(), advice.will_need.len()), (0, 1));
    }

    /// The bytes that a reader without pauses has after some waits. What is requested by the time
    /// of a wait has arrived at its end.
    fn read_in(rtt: Duration, waits: usize) -> u64 {
        let mut prefetcher = ReadAhead::default();
        let link = LinkEstimate { rtt: Some(rtt), bandwidth: Some(8e6), ..LinkEstimate::default() };
        let conditions = PrefetchContext { link, ..conditions(Some(6_000_000)) };
        let (mut at, mut arrived, mut named, mut waited) = (0, 0, 0, 0);
        while waited <= waits {
            let range = at..at + 8 * KIB;
            let found = match range.end {
                end if end <= arrived => CacheStatus::Hit,
                end if end <= named => CacheStatus::InFlight,
                _ => CacheStatus::Miss,
            };
            let access = Access { range: range.clone(), at: Duration::ZERO, found, planned: false };
            let advice = prefetcher.observe(&access, &conditions);
            let ends = advice.will_need.iter().chain(&advice.same_request).map(|it| it.end);
            named = ends.fold(named.max(range.end), u64::max);
            if found != CacheStatus::Hit {
                waited += 1;
                arrived = named;
            }
            at = range.end;
        }
        at
    }

    #[test]
    fn a_far_file_takes_few_waits() {
        let ms = Duration::from_millis;
        assert!(read_in(ms(50), 3) >= 5_000_000, "{}", read_in(ms(50), 3));
        assert!(read_in(ms(1), 3) <= 1_000_000, "{}", read_in(ms(1), 3));
    }

    #[test]
    fn a_window_doubles_when_the_reader_starves() {
        let mut prefetcher = ReadAhead::default();
        let mut named = Vec::new();
        for n in 0..128 {
            let found = if n < 64 { CacheStatus::Hit } else { CacheStatus::InFlight };
            named.push(read(&mut prefetcher, n * 4 * KIB..(n + 1) * 4 * KIB, found).will_need);
        }
        let longest =
            |lists: &[Vec<Range<u64>>]| lists.iter().map(|it| range::total_bytes(it)).max();
        assert!(longest(&named[2..64]) <= Some(128 * KIB));
        assert!(longest(&named[64..]) > Some(128 * KIB));
    }

    #[test]
    fn a_reader_that_has_come_far_has_a_window_that_outlasts_repetitions() {
        let mut prefetcher = ReadAhead::default();
        let rtt = Some(Duration::from_millis(100));
        let link = LinkEstimate { rtt, bandwidth: Some(1e6), ..LinkEstimate::default() };
        let conditions = PrefetchContext { link, ..conditions(Some(1 << 40)) };
        let mut longest = |read_bytes: u64| {
            let reads = (0..read_bytes).step_by(4096).map(|at| Access {
                range: at..at + 4096,
                at: Duration::ZERO,
                found: CacheStatus::InFlight,
                planned: false,
            });
            let named = |it: Access| prefetcher.observe(&it, &conditions).next_bytes / ANY.growth;
            reads.map(named).max()
        };
        assert_eq!(longest(1_000_000), Some(400_000));
        let far = longest(10_000_000).unwrap();
        assert!((2_000_000..=2_500_000).contains(&far), "{far}");
        assert_eq!(longest(40_000_000), Some(4_000_000));
    }

    #[test]
    fn a_file_of_unknown_size_is_not_read_ahead() {
        let mut prefetcher = ReadAhead::default();
        for n in 0..20 {
            let access = Access {
                range: n * 10..n * 10 + 10,
                at: Duration::ZERO,
                found: CacheStatus::Miss,
                planned: false,
            };
            assert_eq!(prefetcher.observe(&access, &conditions(None)), Advice::default());
        }
    }

    #[test]
    fn a_cursor_that_jumps_cancels_its_prefetches() {
        let config = ReadAheadConfig { cursors: 2, block_bytes: 0, ..ReadAheadConfig::default() };
        let mut prefetcher = ReadAhead::new(config);
        for reader in 0..2_u64 {
            for n in 0..2 {
                let at = (reader << 30) + n * KIB;
                read(&mut prefetcher, at..at + KIB, CacheStatus::Miss);
            }
        }
        let advice = read(&mut prefetcher, 1 << 39..(1 << 39) + 1, CacheStatus::Miss);
        assert_eq!(advice.dont_need, [2 * KIB..130 * KIB]);
    }

    #[test]
    fn alternating_readers_are_all_read_ahead_once_two_are_known() {
        let mut prefetcher =
            ReadAhead::new(ReadAheadConfig { block_bytes: 0, ..ReadAheadConfig::default() });
        let at = |reader: u64, n: u64| {
            ((reader * reader) << 30) + n * KIB..((reader * reader) << 30) + (n + 1) * KIB
        };
        for reader in 0..6 {
            read(&mut prefetcher, at(reader, 0), CacheStatus::Miss);
        }
        read(&mut prefetcher, at(0, 1), CacheStatus::Miss);
        let advice = read(&mut prefetcher, at(1, 1), CacheStatus::Miss);
        // The cursors of the third and the last are where those stopped.
        assert_eq!(advice.will_need, [at(3, 1), at(4, 1)]);
    }
}
