//! The same jobs through the real cache and its driver, over connections that start slowly.

use crate::cached::{cache, open};
use hither_netem::Link;
use hither_read::{CachedFile, ReadAhead};
use hither_simulate::source::SimulatedSource;
use hither_testkit::workload::{Workload, babar, interleaved, random, skim, skip};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// 50 ms, 100 Mbit/s.
const LINK: Link = Link::new(Duration::from_millis(50), Some(100_000_000));
const MEMORY: u64 = 64 * MIB;

/// Duration of a workload, and bytes fetched in vain.
#[derive(Debug)]
struct Outcome {
    seconds: f64,
    waste: f64,
    peak_ahead: u64,
    waits: u64,
}

/// Source of the predictions.
#[derive(Debug, Clone, Copy)]
enum Who {
    Nobody,
    Advisor,
    Program,
}

async fn play(job: &Workload, who: Who) -> Outcome {
    play_over(job, who, LINK).await
}

async fn play_over(job: &Workload, who: Who, link: Link) -> Outcome {
    let bytes = vec![0; usize::try_from(job.size).unwrap()];
    let source = Arc::new(SimulatedSource::new(bytes, link));
    let cache = cache(MEMORY);
    let file: CachedFile = open(&source, &cache);
    let begin = Instant::now();
    match who {
        Who::Nobody => {}
        Who::Advisor => file.set_prefetcher(Box::new(ReadAhead::default())),
        Who::Program => {
            let reads: Vec<_> = job.steps.iter().map(|step| step.range()).collect();
            file.hint(&reads, Duration::ZERO);
        }
    }
    let mut target = vec![0; usize::try_from(2 * MIB).unwrap()];
    let mut owed = Duration::ZERO;
    let mut peak_ahead = 0;
    for step in &job.steps {
        // Timers count whole milliseconds.
        owed += step.think;
        if owed >= Duration::from_millis(1) {
            let whole = Duration::from_millis(u64::try_from(owed.as_millis()).unwrap());
            sleep(whole).await;
            owed -= whole;
        }
        let target = &mut target[..usize::try_from(step.length).unwrap()];
        file.read_at(step.offset, target).await.unwrap();
        peak_ahead = peak_ahead.max(cache.gauges().ahead_bytes);
    }
    let seconds = begin.elapsed().as_secs_f64();
    drop(file);
    let totals = cache.totals();
    let fetched = totals.bytes_fetched;
    Outcome {
        seconds,
        waste: 1.0 - totals.bytes_used as f64 / fetched as f64,
        peak_ahead,
        waits: totals.reads - totals.hits,
    }
}

async fn assert_near_the_programs_own_plan(job: &Workload) {
    let ours = play(job, Who::Advisor).await;
    let best = play(job, Who::Program).await;
    assert!(best.seconds / ours.seconds >= 0.8, "{ours:?}, best {best:?}");
    assert_thrifty(&ours);
}

fn assert_thrifty(outcome: &Outcome) {
    assert!(outcome.waste <= 0.1, "{outcome:?}");
    assert!(outcome.peak_ahead <= MEMORY / 2 + 512 * KIB, "{outcome:?}");
}

const THINK: Duration = Duration::from_micros(500);

#[tokio::test(start_paused = true)]
async fn sequential_and_alternating_readers_wait_little() {
    for job in [
        interleaved(1, 256, 128 * KIB, THINK),
        interleaved(8, 64, 128 * KIB, THINK),
        interleaved(8, 256, 16 * KIB, THINK / 8),
    ] {
        assert_near_the_programs_own_plan(&job).await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_with_strides_wait_little() {
    for job in [
        skip(128 * MIB, 64 * KIB, 4 * KIB, 4 * KIB, THINK),
        skip(64 * MIB, 256 * KIB, 192 * KIB, 64 * KIB, THINK),
        skip(80 * MIB, 5 * MIB, 4 * MIB, 128 * KIB, THINK),
    ] {
        assert_near_the_programs_own_plan(&job).await;
    }
}

#[tokio::test(start_paused = true)]
async fn skims_wait_once_per_event() {
    assert_near_the_programs_own_plan(&skim(256 * MIB, 1, 256 * KIB, 3, 2000, THINK)).await;
    assert_near_the_programs_own_plan(&skim(128 * MIB, 7, 40_000, 3, 2000, THINK)).await;
}

#[tokio::test(start_paused = true)]
async fn random_readers_are_not_read_ahead() {
    let job = random(512 * MIB, 1000, 2000..9000, THINK, 4);
    let ours = play(&job, Who::Advisor).await;
    let bare = play(&job, Who::Nobody).await;
    assert!(bare.seconds / ours.seconds >= 0.95, "{ours:?}, bare {bare:?}");
    assert_thrifty(&ours);
}

/// The first of its 100,000 reads: what is learned is learned by then.
#[tokio::test(start_paused = true)]
async fn the_babar_workload_waits_little() {
    let mut job = babar(2006);
    job.steps.truncate(20_000);
    let near = play_over(&job, Who::Advisor, Link::new(Duration::ZERO, Some(8_400_000))).await;
    let far =
        play_over(&job, Who::Advisor, Link::new(Duration::from_millis(100), Some(8_400_000))).await;
    assert!(far.waits * 20 < job.steps.len() as u64, "{far:?}");
    assert!(far.seconds / near.seconds < 1.15, "{near:?}, {far:?}");
}
