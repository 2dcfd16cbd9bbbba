//! Programs that read trees, against a model of the cache in which a request takes one round trip,
//! whatever it holds.

mod model;
mod synthetic;

use super::*;
use model::{CONFIG, Program, Run, Shape};
use proptest::prelude::*;
use std::time::Duration;
use synthetic::{SyntheticColumn, SyntheticLayout};

/// The talk's file: 152 columns whose baskets are full after different numbers of entries, no
/// clusters.
fn talk() -> Shape {
    Shape::unclustered(152, 283_000)
}

/// A file as ROOT writes them today: clusters, in each of which every column has one basket.
fn clustered(columns: usize) -> Shape {
    Shape::clustered(columns, 50_000, 1_000)
}

/// The columns of the talk's query: two of a kind with one between them.
const QUERY: [usize; 2] = [71, 73];
const SEVEN: [usize; 7] = [3, 17, 40, 71, 73, 110, 149];

fn learned(columns: &[usize]) -> Vec<LearnedSet> {
    vec![LearnedSet {
        steady: columns.iter().map(|id| format!("c{id}")).collect(),
        now_and_then: Vec::new(),
    }]
}

#[test]
fn reads_in_basket_order_wait_four_times_at_first() {
    let shape = talk();
    let program = Program::in_basket_order(&shape, &QUERY);
    assert!(program.reads.len() > 4_000);
    // The layout is there two round trips after the first read.
    let run = Run::new(&shape).layout_after(2.0).of(&program);
    assert!(run.waited <= 4.0, "{run:?}");
    assert!(run.waste() <= 0.1, "{run:?}");
}

#[test]
fn reads_in_basket_order_wait_once_when_the_branches_were_learned() {
    let shape = talk();
    let program = Program::in_basket_order(&shape, &QUERY);
    let run = Run::new(&shape).learned(&learned(&QUERY)).of(&program);
    assert!(run.waited <= 1.0, "{run:?}");
    assert!(run.fetched == run.needed, "{run:?}");
}

#[test]
fn a_layout_that_is_known_in_time_saves_the_learning() {
    let shape = talk();
    for columns in [&QUERY[..], &SEVEN[..]] {
        let program = Program::in_basket_order(&shape, columns);
        let run = Run::new(&shape).of(&program);
        assert!(run.waited <= 5.0, "{} columns: {run:?}", columns.len());
        assert!(run.waste() <= 0.1, "{run:?}");
    }
}

#[test]
fn branches_learned_by_one_run_are_prefetched_in_the_next() {
    let shape = talk();
    let program = Program::in_basket_order(&shape, &SEVEN);
    let first = Run::new(&shape).of(&program);
    let (tree, set) = first.learned_sets.first().unwrap();
    assert_eq!((*tree, set), (0, &learned(&SEVEN)[0]));
    let second = Run::new(&shape).learned(std::slice::from_ref(set)).of(&program);
    assert!(second.waited <= 1.0, "{second:?}");
}

#[test]
fn the_first_branches_select_the_learned_set() {
    let shape = talk();
    let mut sets = learned(&[1, 2, 5]);
    sets.extend(learned(&SEVEN));
    sets.extend(learned(&QUERY));
    for columns in [&QUERY[..], &SEVEN[..], &[1, 2, 5]] {
        let run = Run::new(&shape).learned(&sets).of(&Program::in_basket_order(&shape, columns));
        assert!(run.waited <= 3.0, "{columns:?}: {run:?}");
    }
}

#[test]
fn steps_after_the_first_do_not_wait() {
    let shape = talk();
    let program = Program::in_steps(&shape, &SEVEN, 20);
    let run = Run::new(&shape).layout_after(2.0).of(&program);
    let first_step = program.reads.iter().position(|read| read.step > 0).unwrap();
    let late: Vec<_> = run.waits.iter().filter(|(read, _)| *read >= first_step).collect();
    assert!(late.is_empty(), "{late:?} after read {first_step}");
    assert!(run.fetched as f64 <= 1.1 * run.needed as f64, "{run:?}");
}

#[test]
fn branches_of_triggered_events_take_one_round_trip_per_cluster() {
    // In the talk's file, which has no clusters, the longest baskets are those of 2,000 entries;
    // where triggered events are as rare as that, a round trip for each is what it takes.
    let cases = [
        (clustered(150), 1_000, 100),
        (clustered(150), 1_000, 1),
        (talk(), 2_000, 100),
        (talk(), 900, 1),
    ];
    for (shape, within, per_thousand) in cases {
        let extra: Vec<usize> = (45..145).collect();
        let program = Program::triggered(&shape, &[1, 2, 3, 4, 5, 6, 7], &extra, per_thousand);
        let run = Run::new(&shape).of(&program);
        let clusters = shape.entries.div_ceil(within) as f64;
        assert!(run.waited <= clusters + 4.0, "{per_thousand}: {clusters} clusters, {run:?}");
    }
}

#[test]
fn branches_triggered_often_are_prefetched_as_steady() {
    let shape = clustered(150);
    let extra: Vec<usize> = (45..145).collect();
    let program = Program::triggered(&shape, &[1, 2, 3], &extra, 100);
    let run = Run::new(&shape).of(&program);
    assert!(run.waited <= 10.0, "{run:?}");
    assert!(run.waste() <= 0.1, "{run:?}");
}

#[test]
fn a_jump_back_waits_once_and_wastes_little() {
    let shape = clustered(60);
    let mut program = Program::in_basket_order(&shape, &[3, 9, 21]);
    let all = program.reads.clone();
    program.reads.truncate(all.len() / 2);
    program.reads.extend_from_slice(&all[..all.len() / 2]);
    let run = Run::new(&shape).forgetting().of(&program);
    assert!(run.waited <= 8.0, "{run:?}");
}

#[test]
fn a_second_pass_over_dropped_baskets_waits_once() {
    let shape = clustered(60);
    let once = Program::in_basket_order(&shape, &[3, 9, 21]);
    let mut twice = once.clone();
    twice.reads.extend(once.reads.iter().cloned());
    let (one, two) =
        (Run::new(&shape).forgetting().of(&once), Run::new(&shape).forgetting().of(&twice));
    assert!(two.waited <= one.waited + 1.0, "{one:?} {two:?}");
    assert!(two.fetched <= 2 * one.fetched, "{one:?} {two:?}");
}

#[test]
fn random_events_cost_one_round_trip_each_and_little_waste() {
    let shape = clustered(60);
    let columns = [3, 9, 21, 40];
    let program = Program::at_random(&shape, &columns, 300);
    let run = Run::new(&shape).forgetting().of(&program);
    let events = program.reads.len() as f64 / columns.len() as f64;
    assert!(run.waited <= events + 8.0, "{events} events: {run:?}");
    let small = Program::at_random(&shape, &columns, 300);
    let run = Run::new(&shape).of(&small);
    assert!(run.fetched as f64 <= 1.3 * run.needed as f64, "{run:?}");
}

#[test]
fn a_skim_takes_one_round_trip_per_event() {
    let shape = talk();
    let events: Vec<u64> = (0..280).map(|n| n * 1_000 + n * 37 % 500).collect();
    let program = Program::of_events(&shape, &SEVEN, &events);
    let run = Run::new(&shape).of(&program);
    assert!(run.waited <= 280.0 + 8.0, "{run:?}");
    // Where in a long basket the event is, a longer one does not tell: sometimes two of the shorter
    // are fetched for one.
    assert!(run.fetched as f64 <= 2.5 * run.needed as f64, "{run:?}");
}

#[test]
fn two_trees_of_a_file_are_predicted_independently() {
    let shape = clustered(60);
    let both = shape.twice();
    let first = Program::in_basket_order(&both, &[3, 9, 21]);
    let second = Program::in_basket_order(&both.second(), &[5, 6]);
    let interleaved = Program::interleaved(&first, &second);
    let run = Run::new(&both).of(&interleaved);
    assert!(run.waited <= 6.0, "{run:?}");
    // What may be tried in any case, for each tree.
    assert!(run.fetched - run.needed <= 2 << 16, "{run:?}");
}

#[test]
fn nothing_is_fetched_beyond_the_entries_that_will_be_read() {
    let shape = clustered(60);
    let mut program = Program::in_basket_order(&shape, &[3, 9, 21]);
    program.reads.retain(|read| (10_000..20_000).contains(&read.entry));
    let run = Run::new(&shape).entries(10_000..20_000).of(&program);
    assert!(run.last_entry < 20_000, "{run:?}");
    // What was tried to find out which branches are read lies at the first entry.
    assert!(run.fetched - run.needed <= 1 << 16, "{run:?}");
}

#[test]
fn the_memory_budget_limits_the_prefetched_bytes() {
    let shape = talk();
    let program = Program::in_basket_order(&shape, &SEVEN);
    for budget in [0, 100, 10_000, 300_000, 1 << 20] {
        let run = Run::new(&shape).budget(budget).of(&program);
        assert!(run.max_ahead <= budget.max(256 << 10) + (512 << 10), "{budget}: {run:?}");
    }
    let run = Run::new(&shape).budget(1 << 20).of(&program);
    assert!(run.waits.len() < 60, "{run:?}");
}

#[test]
fn reads_that_are_not_baskets_are_ignored() {
    let shape = talk();
    let layout = shape.layout();
    let cache = ColumnarPrefetcher::new(CONFIG, None);
    drop(cache.handle().set_layout(Arc::clone(&layout), &[]));
    let mut state = cache.handle.lock();
    let access =
        |range| Access { range, at: Duration::ZERO, found: CacheStatus::Miss, planned: false };
    let context = model::context(1 << 30, 0);
    assert_eq!(state.observe(&access(1_000..8_000_000), &context), None);
    assert_eq!(state.observe(&access(0..10), &context), None, "the header");
    let some: Vec<_> = layout.overlapping(&(1_000_000..1_065_536)).collect();
    let first = &some.first().unwrap().range;
    let last = &some.last().unwrap().range;
    let inside = first.start + 1..last.end - 1;
    assert_eq!(state.observe(&access(inside), &context), None, "middle to middle");
    for whole in [first.start..last.end - 1, first.start + 1..last.end] {
        assert!(state.observe(&access(whole), &context).is_some());
    }
}

#[test]
fn without_a_layout_nothing_is_prefetched_and_few_reads_are_kept() {
    let mut cache = ColumnarPrefetcher::<SyntheticLayout>::new(CONFIG, None);
    let context = model::context(1 << 30, 0);
    for n in 0..10_000_u64 {
        let access = Access {
            range: n..n + 1,
            at: Duration::ZERO,
            found: CacheStatus::Miss,
            planned: false,
        };
        assert_eq!(cache.observe(&access, &context), Advice::default());
    }
    let handle = cache.handle();
    assert!(handle.awaits_layout());
    assert!(
        matches!(&handle.lock().layout, LayoutState::Pending(reads) if reads.len() == MAX_PENDING_READS)
    );
    handle.set_no_layout();
    assert!(!handle.awaits_layout());
    assert!(handle.learned_sets().is_empty());
    assert_eq!(handle.set_layout(Arc::<SyntheticLayout>::default(), &[]), Advice::default());
}

#[test]
fn a_lookup_among_a_million_baskets_is_fast() {
    let shape = Shape::clustered(100, 10_000_000, 1_000);
    let layout = shape.layout();
    assert_eq!(layout.len(), 1_000_000);
    let program = Program::in_basket_order(&shape, &[5, 50]);
    let run = Run::new(&shape).of(&program);
    assert!(run.waited <= 5.0, "{} waits", run.waits.len());
}

#[test]
fn learned_sets_with_unknown_branches_are_ignored() {
    let shape = talk();
    let program = Program::in_basket_order(&shape, &QUERY);
    let foreign = LearnedSet { steady: vec!["nowhere".into()], now_and_then: vec!["c1".into()] };
    let run = Run::new(&shape).learned(&[foreign]).of(&program);
    assert!(run.waited <= 5.0, "{run:?}");
}

#[test]
fn branches_of_a_learned_set_that_are_not_read_are_soon_dropped() {
    let shape = talk();
    let many: Vec<usize> = (60..90).collect();
    let program = Program::in_basket_order(&shape, &QUERY);
    let run = Run::new(&shape).learned(&learned(&many)).budget(1 << 20).of(&program);
    assert!(run.fetched as f64 <= 1.5 * run.needed as f64, "{run:?}");
}

fn any_baskets() -> impl Strategy<Value = Vec<(Vec<(u64, u32)>, u64)>> {
    let places = prop::collection::vec((0_u64..20_000, 0_u32..3_000), 0..30);
    prop::collection::vec((places, 1_u64..50), 0..8)
}

proptest! {
    #[test]
    fn prefetches_stay_within_file_and_budget(
        columns in any_baskets(),
        reads in prop::collection::vec((0_u64..24_000, 1_u64..4_000, 0_u8..3), 0..120),
        budget in 0_u64..100_000,
    ) {
        let mut layout = SyntheticLayout::default();
        let columns = columns.into_iter().enumerate().map(|(id, (places, each))| {
            let starts = (0..=places.len() as u64).map(|n| n * each).collect();
            SyntheticColumn::new(id, &places, starts)
        });
        layout.add(600, 40, columns);
        let mut cache = ColumnarPrefetcher::new(CONFIG, None);
        drop(cache.handle().set_layout(Arc::new(layout), &[]));
        let context = model::context(22_000, budget);
        for (start, length, found) in reads {
            let found = [CacheStatus::Hit, CacheStatus::InFlight, CacheStatus::Miss][usize::from(found)];
            let access = Access { range: start..start + length, at: Duration::ZERO, found, planned: false };
            let advice = cache.observe(&access, &context);
            prop_assert!(range::total_bytes(&advice.will_need) <= budget);
            if found != CacheStatus::Miss {
                prop_assert!(advice.same_request.is_empty());
            }
        }
        for (_, set) in cache.handle().learned_sets() {
            prop_assert!(set.is_plausible());
        }
    }
}
