//! Programs that do what is least expected: advice stays within its bounds, and what it wastes
//! within the limit.

use super::prefetch_model::{ModelResult, PrefetchModel};
use hither_core::{Limits, LinkEstimate, range};
use hither_netem::random::Random;
use hither_read::{Access, PrefetchContext, Prefetcher, ReadAhead, ReadAheadConfig};
use hither_testkit::workload::Workload;
use hither_trace::CacheStatus;
use proptest::prelude::*;
use std::ops::Range;
use std::time::Duration;

const SIZE: u64 = 1 << 30;
const AHEAD: u64 = 1 << 20;

/// Memory is scarce, so what is not read is soon dropped.
fn play(reads: Vec<Range<u64>>) -> ModelResult {
    let mut simulation = PrefetchModel::new(Duration::from_millis(50), 12.5e6);
    (simulation.memory_bytes, simulation.ahead_bytes) = (4 << 20, AHEAD);
    let job = Workload::new(SIZE, reads, Duration::from_millis(5));
    simulation.play(&job, &mut ReadAhead::default())
}

/// The limit, what is allowed at the start, and what may be ahead when the limit is reached.
fn is_thrifty(outcome: &ModelResult) -> bool {
    let config = ReadAheadConfig::default();
    let limit = config.waste_limit * outcome.fetched_bytes as f64;
    outcome.wasted_bytes as f64 <= limit + (config.allowance_bytes + AHEAD) as f64
}

/// Reads `run` times `length` bytes, each time `step` after the one before, then elsewhere;
/// repeated.
fn bursts(times: u64, run: u64, length: u64, step: u64) -> Vec<Range<u64>> {
    let mut random = Random::new(run * length + step);
    let starts = (0..times).map(|_| random.next_u64() % (SIZE - run * step - length));
    let runs =
        starts.map(|start| (0..run).map(move |n| start + n * step..start + n * step + length));
    runs.flatten().collect()
}

#[test]
fn readers_that_stop_once_predicted_waste_at_most_the_limit() {
    for run in [2, 3, 5, 16] {
        for (length, step) in [(4096, 4096), (65_536, 65_536), (1000, 5000), (100, 50)] {
            let outcome = play(bursts(8000 / run, run, length, step));
            assert!(is_thrifty(&outcome), "{run} {length} {step}: {outcome:?}");
        }
    }
}

/// Bytes that a part of a program reads, in which order, from where on.
#[derive(Debug, Clone)]
enum Act {
    Run { start: u64, length: u64, reads: u64 },
    Steps { start: u64, by: i64, length: u64, reads: u64 },
    Around { start: u64, spread: u64, reads: u64 },
    Anywhere { at: u64, length: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let start = prop_oneof![0..SIZE, SIZE - 100_000..SIZE, 0..4096_u64];
    let length = prop_oneof![1..200_u64, 1..100_000_u64, 1..2_000_000_u64];
    prop_oneof![
        (start.clone(), length.clone(), 1..60_u64).prop_map(|(start, length, reads)| Act::Run {
            start,
            length,
            reads
        }),
        (start.clone(), -3_000_000..3_000_000_i64, 1..20_000_u64, 1..60_u64)
            .prop_map(|(start, by, length, reads)| Act::Steps { start, by, length, reads }),
        (start.clone(), 1..2_000_000_u64, 1..60_u64)
            .prop_map(|(start, spread, reads)| Act::Around { start, spread, reads }),
        (start, length).prop_map(|(at, length)| Act::Anywhere { at, length }),
    ]
}

/// The reads of acts, two of them at a time taking turns, within the file.
fn reads(acts: &[Act], seed: u64) -> Vec<Range<u64>> {
    let mut random = Random::new(seed);
    let mut lists: Vec<Vec<Range<u64>>> = acts.iter().map(|act| one(act, &mut random)).collect();
    lists.iter_mut().for_each(|list| list.reverse());
    let mut all = Vec::new();
    while let Some(last) = lists.len().checked_sub(1) {
        let which = last.saturating_sub(usize::from(random.chance(0.5)));
        match lists[which].pop() {
            Some(read) => all.push(read),
            None => drop(lists.remove(which)),
        }
    }
    let inside = all.into_iter().map(|read| read.start.min(SIZE - 1)..read.end.min(SIZE));
    inside.filter(|read| read.start < read.end).collect()
}

fn one(act: &Act, random: &mut Random) -> Vec<Range<u64>> {
    let read = |start: u64, length: u64| start..start.saturating_add(length);
    match *act {
        Act::Run { start, length, reads } => {
            (0..reads).map(|n| read(start + n * length, length)).collect()
        }
        Act::Steps { start, by, length, reads } => (0..reads)
            .map(|n| read(start.saturating_add_signed(by * n.cast_signed()), length))
            .collect(),
        Act::Around { start, spread, reads } => (0..reads)
            .map(|_| read(start + random.next_u64() % spread, 1 + random.next_u64() % 8000))
            .collect(),
        Act::Anywhere { at, length } => vec![read(at, length)],
    }
}

/// Any context of a read, plausible or not.
fn conditions() -> impl Strategy<Value = PrefetchContext> {
    let bytes = || prop_oneof![Just(0), Just(u64::MAX), 0..SIZE, 0..10_000_u64];
    let rate =
        prop::option::of(prop_oneof![Just(0.0), Just(f64::INFINITY), Just(f64::NAN), 1.0..1e10]);
    let rtt = prop::option::of((0..1_000_000_u64).prop_map(Duration::from_micros));
    (prop::option::weighted(0.9, Just(SIZE)), rtt, rate, bytes(), bytes(), bytes(), bytes())
        .prop_map(|(size, rtt, bandwidth, ahead_bytes, budget, wasted_bytes, fetched_bytes)| {
            PrefetchContext {
                size,
                link: LinkEstimate { rtt, bandwidth, ..LinkEstimate::default() },
                limits: Limits::unlimited(),
                ahead_bytes,
                ahead_budget_bytes: budget,
                wasted_bytes,
                fetched_bytes,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_access_pattern_wastes_at_most_the_limit(
        acts in prop::collection::vec(act(), 1..40), seed in any::<u64>()
    ) {
        let outcome = play(reads(&acts, seed));
        prop_assert!(is_thrifty(&outcome), "{outcome:?}");
        prop_assert!(outcome.peak_ahead_bytes <= AHEAD + (512 << 10), "{outcome:?}");
    }

    #[test]
    fn prefetches_stay_within_file_and_memory(
        acts in prop::collection::vec(act(), 1..12),
        seed in any::<u64>(),
        conditions in prop::collection::vec(conditions(), 1..8),
        block_bytes in prop_oneof![Just(0), Just(256 << 10), 1..1_000_000_u64],
        learn_blocks in any::<bool>(),
    ) {
        let mut config = ReadAheadConfig::default();
        (config.block_bytes, config.learn_blocks) = (block_bytes, learn_blocks);
        let mut advisor = ReadAhead::new(config);
        let mut random = Random::new(seed);
        for read in reads(&acts, seed) {
            let pick = |random: &mut Random, n: usize| usize::from(random.next_u64().to_le_bytes()[0]) % n;
            let conditions = &conditions[pick(&mut random, conditions.len())];
            let found = [CacheStatus::Hit, CacheStatus::InFlight, CacheStatus::Miss][pick(&mut random, 3)];
            let access = Access { range: read.clone(), at: Duration::ZERO, found, planned: false };
            let advice = advisor.observe(&access, conditions);
            let soon = range::total_bytes(&advice.will_need);
            prop_assert!(soon <= conditions.ahead_budget_bytes.saturating_sub(conditions.ahead_bytes));
            prop_assert!(advice.will_need.len() <= 256 && advice.same_request.len() <= 2);
            let size = conditions.size.unwrap_or(0);
            let named = advice.will_need.iter().chain(&advice.same_request);
            prop_assert!(named.clone().all(|it| it.start < it.end && it.end <= size), "{advice:?}");
            let along = range::total_bytes(&advice.same_request);
            prop_assert!(along <= (2 * block_bytes).max(384 << 10), "{advice:?}");
            prop_assert!(advice.same_request.iter().all(|it| it.end <= read.start || it.start >= read.end));
            prop_assert!(advice.dont_need.iter().all(|it| it.start < it.end));
        }
    }
}

#[test]
fn extreme_offsets_do_not_overflow() {
    let mut advisor = ReadAhead::default();
    let conditions = PrefetchContext {
        size: Some(u64::MAX),
        link: LinkEstimate::default(),
        limits: Limits::unlimited(),
        ahead_bytes: 0,
        ahead_budget_bytes: u64::MAX,
        wasted_bytes: u64::MAX,
        fetched_bytes: u64::MAX,
    };
    let top = u64::MAX - 5_000_000;
    let reads =
        (0..40_u64).flat_map(|n| [top + n * 100_000..top + n * 100_000 + 99_999, n..u64::MAX - n]);
    for range in reads {
        for found in [CacheStatus::Miss, CacheStatus::InFlight, CacheStatus::Hit] {
            let access = Access { range: range.clone(), at: Duration::MAX, found, planned: false };
            advisor.observe(&access, &conditions);
        }
    }
}
