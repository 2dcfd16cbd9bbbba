//! A job of 100,000 small reads over long links.

use super::prefetch_model::{ModelResult, NoPrefetch, PrefetchModel};
use hither_read::ReadAhead;
use hither_testkit::workload::babar;
use std::time::Duration;

/// Three times what the job needs, in bytes per second.
const RATE: f64 = 1_050_000.0;

fn play(rtt_ms: u64, seed: u64) -> ModelResult {
    let simulation = PrefetchModel::new(Duration::from_millis(rtt_ms), RATE);
    simulation.play(&babar(seed), &mut ReadAhead::default())
}

#[test]
fn the_babar_workload_tolerates_a_tenth_of_a_second_of_latency() {
    for seed in [2006, 1] {
        let near = play(0, seed);
        let far = play(100, seed);
        assert!(far.miss_rate() < 0.05, "{far:?}");
        let ratio = far.duration.as_secs_f64() / near.duration.as_secs_f64();
        assert!(ratio < 1.15, "{ratio}: {near:?} {far:?}");
        assert!(near.waste() < 0.1 && far.waste() < 0.1, "{near:?} {far:?}");
    }
}

#[test]
fn without_a_cache_the_babar_workload_waits_for_every_read() {
    let simulation =
        PrefetchModel { memory_bytes: 0, ..PrefetchModel::new(Duration::from_millis(100), RATE) };
    let outcome = simulation.play(&babar(2006), &mut NoPrefetch);
    assert!(outcome.duration > Duration::from_secs(10_000));
    assert_eq!(outcome.misses, outcome.reads);
}
