//! Reads, vector reads, hints, advice, cancellations, failures, closing and opening, at random and
//! at once, against a plain byte slice.

use crate::cached::{cache, open, settle};
use crate::rig::{SIZE, content};
use hither_core::{Delivery, Error, ErrorKind, Failure, Limits};
use hither_netem::Link;
use hither_netem::random::Random;
use hither_read::{Access, Advice, CachedFile, PrefetchContext, Prefetcher, ReadAhead};
use hither_simulate::source::{Fault, SimulatedSource};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Only the end of the file is used, so that reads meet each other and its end.
const FIRST: u64 = SIZE as u64 - 300_000;
const HANGS: Duration = Duration::from_secs(100_000);

#[derive(Debug, Clone)]
enum Do {
    Read(usize, u64, u64),
    ReadRanges(usize, Vec<Range<u64>>),
    GiveUp(usize, u64, u64, u64),
    Hint(usize, Vec<Range<u64>>, u64),
    Cancel(usize),
    Sleep(u64),
    Reopen(usize),
}

fn place() -> impl Strategy<Value = u64> {
    prop_oneof![4 => FIRST..FIRST + 60_000, 2 => FIRST..SIZE as u64 + 2_000, 1 => Just(0)]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1u64..3_000, 1 => 1u64..200_000]
}

fn within() -> impl Strategy<Value = Vec<Range<u64>>> {
    let one = (place(), length()).prop_map(|(at, len)| {
        let end = (at + len).min(SIZE as u64);
        at.min(end)..end
    });
    prop::collection::vec(one, 1..8)
}

fn action() -> impl Strategy<Value = Do> {
    prop_oneof![
        8 => (0usize..3, place(), length()).prop_map(|(file, at, len)| Do::Read(file, at, len)),
        2 => (0usize..3, within()).prop_map(|(file, ranges)| Do::ReadRanges(file, ranges)),
        1 => (0usize..3, place(), length(), 0u64..60).prop_map(|(f, at, n, ms)| Do::GiveUp(f, at, n, ms)),
        3 => (0usize..3, within(), 0u64..50).prop_map(|(file, ranges, ms)| Do::Hint(file, ranges, ms)),
        1 => (0usize..20).prop_map(Do::Cancel),
        6 => (0u64..40).prop_map(Do::Sleep),
        1 => (0usize..3).prop_map(Do::Reopen),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let kinds = [ErrorKind::Unavailable, ErrorKind::NotFound, ErrorKind::TooLarge];
    let fail = (prop::sample::select(kinds.to_vec()), any::<bool>()).prop_map(|(kind, again)| {
        let error = Error::new(kind, "by chance");
        let sent = Failure::Interrupted(Delivery::Sent);
        Fault::Fail(if again { error.with_failure(sent) } else { error })
    });
    prop_oneof![
        2 => fail,
        2 => (0u64..20_000).prop_map(|after| Fault::Cut { after }),
        1 => Just(Fault::Change { validator: "\"second\"".to_owned() }),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Adviser {
    None,
    Chatter,
    ReadAhead,
}

fn adviser() -> impl Strategy<Value = Adviser> {
    prop_oneof![Just(Adviser::None), Just(Adviser::Chatter), Just(Adviser::ReadAhead)]
}

/// Says anything.
#[derive(Debug)]
struct Chatter(Random);

impl Prefetcher for Chatter {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        let mut advice = Advice::default();
        let near = access.range.start.saturating_sub(self.0.next_u64() % 5_000);
        let range = near..near + self.0.next_u64() % 20_000;
        assert!(
            !access.range.is_empty() && conditions.size.is_none_or(|size| access.range.end <= size)
        );
        match self.0.next_u64() % 8 {
            0 => advice.same_request = vec![range],
            1 | 2 => advice.will_need = vec![range.end..range.end + 10_000, range],
            3 => advice.dont_need = vec![range],
            _ => {}
        }
        advice
    }
}

fn expected(range: &Range<u64>) -> &'static [u8] {
    static CONTENT: std::sync::LazyLock<bytes::Bytes> = std::sync::LazyLock::new(content);
    let end = usize::try_from(range.end).unwrap().min(SIZE);
    &CONTENT[usize::try_from(range.start).unwrap().min(end)..end]
}

async fn check_read(file: CachedFile, at: u64, len: u64) -> Result<(), Error> {
    let mut target = vec![0; usize::try_from(len).unwrap()];
    let bytes = file.read_at(at, &mut target).await?;
    assert_eq!(&target[..bytes], expected(&(at..at + len)), "{at} {len}");
    Ok(())
}

async fn check_ranges(file: CachedFile, ranges: Vec<Range<u64>>) -> Result<(), Error> {
    let found = file.read_ranges(&ranges).await?;
    for (range, bytes) in ranges.iter().zip(found) {
        assert_eq!(&bytes[..], expected(range), "{range:?}");
    }
    Ok(())
}

/// Errors of reads that were not cancelled.
async fn play(
    source: &Arc<SimulatedSource>,
    actions: Vec<Do>,
    budget: u64,
    adviser: Adviser,
) -> Vec<Error> {
    let cache = cache(budget);
    let anew = |n: usize| {
        let file = open(source, &cache);
        match adviser {
            Adviser::None => {}
            Adviser::Chatter => file.set_prefetcher(Box::new(Chatter(Random::new(n as u64)))),
            Adviser::ReadAhead => file.set_prefetcher(Box::new(ReadAhead::default())),
        }
        file
    };
    let mut files: Vec<_> = (0..3).map(anew).collect();
    let mut hints = Vec::new();
    let mut reads = JoinSet::new();
    for (n, action) in actions.into_iter().enumerate() {
        match action {
            Do::Read(file, at, len) => {
                reads.spawn(check_read(files[file].clone(), at, len));
            }
            Do::ReadRanges(file, ranges) => {
                reads.spawn(check_ranges(files[file].clone(), ranges));
            }
            Do::GiveUp(file, at, len, ms) => {
                let read = check_read(files[file].clone(), at, len);
                reads.spawn(async move {
                    let patience = Duration::from_millis(ms);
                    tokio::time::timeout(patience, read).await.unwrap_or(Ok(()))
                });
            }
            Do::Hint(file, ranges, ms) => {
                hints.push((file, files[file].hint(&ranges, Duration::from_millis(ms))));
            }
            Do::Cancel(which) => {
                if let Some((file, hint)) = hints.get(which) {
                    files[*file].cancel(*hint);
                }
            }
            Do::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Do::Reopen(file) => files[file] = anew(n),
        }
        assert!(cache.gauges().present_bytes <= budget.max(1), "{:?}", cache.gauges());
    }
    let mut errors = Vec::new();
    while let Some(read) = reads.join_next().await {
        errors.extend(read.unwrap().err());
    }
    drop(files);
    settle().await;
    let gauges = cache.gauges();
    assert_eq!((gauges.in_flight_bytes, gauges.waiters, gauges.ahead_bytes), (0, 0, 0));
    errors
}

fn run(
    source: &Arc<SimulatedSource>,
    actions: Vec<Do>,
    budget: u64,
    adviser: Adviser,
) -> Vec<Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime
        .block_on(async {
            tokio::time::timeout(HANGS, play(source, actions, budget, adviser)).await
        })
        .unwrap_or_else(|_| panic!("it hangs"))
}

fn file(rate: Option<u64>, max_ranges: usize, connections: usize) -> SimulatedSource {
    let limits = Limits { max_ranges, max_total_bytes: 70_000, ..Limits::unlimited() };
    SimulatedSource::new(content(), Link::new(Duration::from_millis(20), rate))
        .with_limits(Limits { range_cost_bytes: 120, ..limits })
        .with_max_connections(connections)
}

fn budget() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![1_u64, 5_000, 60_000, 1 << 20, 64 << 20])
}

/// Most servers send what was asked for.
fn merging() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![0_u64, 0, 500, u64::MAX])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_read_has_the_bytes_of_the_file(
        actions in prop::collection::vec(action(), 1..60),
        budget in budget(),
        adviser in adviser(),
        rate in prop::option::of(2_000_000u64..1_000_000_000),
        max_ranges in 1usize..40,
        connections in 1usize..6,
        merging in merging(),
    ) {
        let source = Arc::new(file(rate, max_ranges, connections).with_merging(merging));
        let errors = run(&source, actions, budget, adviser);
        prop_assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn an_error_is_retried_or_returned(
        actions in prop::collection::vec(action(), 1..60),
        faults in prop::collection::btree_map(0usize..30, fault(), 1..6),
        budget in budget(),
        adviser in adviser(),
        max_ranges in 1usize..40,
        connections in 1usize..6,
        merging in merging(),
    ) {
        let mut source = file(Some(50_000_000), max_ranges, connections).with_merging(merging);
        let mut kinds = vec![];
        for (nth, fault) in faults {
            kinds.push(match &fault {
                Fault::Fail(error) => error.kind(),
                Fault::Change { .. } => ErrorKind::Changed,
                _ => ErrorKind::Unavailable,
            });
            source = source.with_fault(nth, fault);
        }
        let errors = run(&Arc::new(source), actions, budget, adviser);
        for error in errors {
            prop_assert!(kinds.contains(&error.kind()), "{error:?} of {kinds:?}");
        }
    }

    #[test]
    fn no_byte_is_requested_twice(
        actions in prop::collection::vec(action(), 1..60),
        adviser in adviser(),
        max_ranges in 1usize..40,
        connections in 1usize..6,
    ) {
        // Closing a file cancels what it has asked for.
        let actions: Vec<_> =
            actions.into_iter().filter(|it| !matches!(it, Do::Reopen(_))).collect();
        let source = Arc::new(file(Some(50_000_000), max_ranges, connections));
        run(&source, actions, 64 << 20, adviser);
        let mut asked = vec![0u8; SIZE];
        for range in source.log().iter().filter(|it| !it.failed).flat_map(|it| &it.request.ranges) {
            if *range != (0..1) {
                // A read beyond the end of the file is asked for, too, and refused.
                for at in range.start..range.end.min(SIZE as u64) {
                    asked[usize::try_from(at).unwrap()] += 1;
                }
            }
        }
        let twice = asked.iter().position(|&times| times > 1);
        let log = || source.log().into_iter().map(|it| (it.start, it.end, it.failed, it.request.ranges));
        prop_assert!(twice.is_none(), "byte {twice:?} of {:?}", log().collect::<Vec<_>>());
    }
}
