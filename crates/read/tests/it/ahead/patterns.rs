//! Readers with a pattern take hardly longer than a program that said at the start what it would
//! read.

use super::prefetch_model::{ModelResult, NoPrefetch, PrefetchModel};
use hither_read::ReadAhead;
use hither_testkit::workload::{Workload, interleaved, random, skim, skip};
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// 50 ms, 100 Mbit/s.
const RTT: Duration = Duration::from_millis(50);
const RATE: f64 = 12.5e6;
/// From a program that only reads to one that computes for most of its time.
const THINKS: [Duration; 3] =
    [Duration::ZERO, Duration::from_micros(500), Duration::from_millis(20)];

fn simulation() -> PrefetchModel {
    PrefetchModel::new(RTT, RATE)
}

/// Reading ahead takes at most 1.25 times as long as the plan, wastes at most a tenth, keeps to its
/// memory.
fn assert_near(best: &ModelResult, job: &Workload) -> ModelResult {
    let ours = simulation().play(job, &mut ReadAhead::default());
    let share = best.duration.as_secs_f64() / ours.duration.as_secs_f64();
    assert!(share >= 0.8, "{share}: {ours:?} {best:?}");
    assert!(ours.waste() <= 0.1, "{}: {ours:?}", ours.waste());
    assert!(ours.peak_ahead_bytes <= simulation().ahead_bytes + 256 * KIB, "{ours:?}");
    ours
}

fn assert_near_informed(job: &Workload) -> ModelResult {
    assert_near(&simulation().play_informed(job), job)
}

#[test]
fn a_sequential_reader_is_read_ahead() {
    for think in THINKS {
        let ours = assert_near_informed(&interleaved(1, 512, 128 * KIB, think));
        assert!(ours.misses <= 2, "{ours:?}");
        assert_near_informed(&interleaved(1, 8192, 4 * KIB, think / 16));
    }
}

#[test]
fn a_reader_as_fast_as_the_link_waits_only_at_the_start() {
    let per_read = Duration::from_secs_f64(131_072.0 / RATE) * 11 / 10;
    let ours = assert_near_informed(&interleaved(1, 1024, 128 * KIB, per_read));
    assert!(ours.misses + ours.waits < 16, "{ours:?}");
}

#[test]
fn eight_interleaved_cursors_are_read_ahead() {
    for think in THINKS {
        let ours = assert_near_informed(&interleaved(8, 64, 128 * KIB, think));
        assert!(ours.misses <= 24, "{ours:?}");
        assert_near_informed(&interleaved(8, 512, 16 * KIB, think / 8));
    }
}

#[test]
fn sixteen_interleaved_cursors_are_read_ahead() {
    for think in THINKS {
        assert_near_informed(&interleaved(16, 128, 64 * KIB, think / 4));
    }
}

/// mountpoint-s3 #1886: several readers of one open file reset each other's read-ahead.
#[test]
fn interleaved_cursors_do_not_reset_each_other() {
    let job = interleaved(8, 64, 128 * KIB, Duration::ZERO);
    let ours = assert_near_informed(&job);
    let alone = simulation()
        .play(&interleaved(1, 512, 128 * KIB, Duration::ZERO), &mut ReadAhead::default());
    let share = alone.duration.as_secs_f64() / ours.duration.as_secs_f64();
    assert!(share > 0.8, "{share} of what one reader gets");
    assert_eq!(ours.fetched_bytes, job.bytes(), "nothing is fetched twice");
}

/// mountpoint-s3 #795: read 399, skip 99, and so on; the skip reset the read-ahead.
#[test]
fn skips_do_not_reset_the_read_ahead() {
    for think in THINKS {
        let ours = assert_near_informed(&skip(100 * MIB, 4980 * KIB, 3990 * KIB, 128 * KIB, think));
        assert!(ours.misses <= 6, "{ours:?}");
    }
}

#[test]
fn repeated_strides_are_read_ahead() {
    for think in THINKS {
        assert_near_informed(&skip(128 * MIB, 64 * KIB, 4 * KIB, 4 * KIB, think));
        assert_near_informed(&skip(64 * MIB, 256 * KIB, 192 * KIB, 64 * KIB, think));
        assert_near_informed(&skip(512 * MIB, 8 * MIB, 512 * KIB, 128 * KIB, think));
    }
}

#[test]
fn skims_are_not_read_ahead() {
    for think in THINKS {
        assert_near_informed(&skim(512 * MIB, 1, 256 * KIB, 3, 2000, think));
        assert_near_informed(&skim(128 * MIB, 7, 40_000, 3, 2000, think));
    }
}

/// Nobody can name the next random read; the best plan is to fetch what is asked for and no more.
#[test]
fn random_reads_are_not_read_ahead() {
    for think in THINKS {
        let job = random(1024 * MIB, 3000, 2000..9000, think, 4);
        let ours = assert_near(&simulation().play(&job, &mut NoPrefetch), &job);
        assert!(ours.waste() < 0.02, "{ours:?}");
    }
}

/// Threads of one program reach the file in another order than they were started.
#[test]
fn reordered_reads_do_not_reset_the_read_ahead() {
    let mut job = interleaved(1, 512, 128 * KIB, Duration::from_millis(15));
    for pair in job.steps.chunks_exact_mut(2).step_by(3) {
        pair.swap(0, 1);
    }
    let ours = assert_near_informed(&job);
    assert!(ours.misses <= 8, "{ours:?}");
}

#[test]
fn small_backward_seeks_do_not_reset_the_read_ahead() {
    let mut job = interleaved(1, 2048, 16 * KIB, Duration::from_millis(5));
    for at in (20..2000).step_by(20) {
        job.steps[at].offset -= 300 * KIB;
    }
    let ours = simulation().play(&job, &mut ReadAhead::default());
    assert!(ours.misses <= 4, "{ours:?}");
    assert!(ours.fetched_bytes <= job.size, "{ours:?}");
}

#[test]
fn a_slow_reader_keeps_a_small_window() {
    let slow = interleaved(1, 1000, 4 * KIB, Duration::from_millis(200));
    let ours = assert_near_informed(&slow);
    assert!(ours.peak_ahead_bytes <= 384 * KIB, "{ours:?}");
}

#[test]
fn windows_stay_within_the_memory() {
    for ahead_bytes in [0, 100_000, MIB] {
        let simulation = PrefetchModel { ahead_bytes, ..simulation() };
        let job = interleaved(8, 128, 32 * KIB, Duration::ZERO);
        let ours = simulation.play(&job, &mut ReadAhead::default());
        assert!(ours.peak_ahead_bytes <= ahead_bytes + 256 * KIB, "{ours:?}");
    }
}
