//! The cost of advice: nanoseconds for a read that is a cache hit.
//!
//!     cargo run --release -p hither-simulate --example time_advice

use hither_core::{
    Access, CacheStatus, Limits, LinkEstimate, PrefetchContext, Prefetcher, ReadAhead,
};
use hither_simulate::workload::{Workload, babar, interleaved, random, skim};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn conditions(size: u64) -> PrefetchContext {
    PrefetchContext {
        size: Some(size),
        link: LinkEstimate {
            rtt: Some(Duration::from_millis(50)),
            bandwidth: Some(12.5e6),
            ..LinkEstimate::default()
        },
        limits: Limits::unlimited(),
        ahead_bytes: 0,
        ahead_budget_bytes: 128 * MIB,
        wasted_bytes: 0,
        fetched_bytes: size,
    }
}

#[expect(clippy::print_stdout, reason = "its output")]
#[expect(clippy::disallowed_methods, reason = "the time of the processor is what is measured")]
fn time(name: &str, job: &Workload) {
    let conditions = conditions(job.size);
    let mut advisor = ReadAhead::default();
    let mut named = 0;
    let begin = Instant::now();
    let rounds = 10;
    for _ in 0..rounds {
        for step in &job.steps {
            let access = Access {
                range: step.range(),
                at: Duration::ZERO,
                found: CacheStatus::Hit,
                planned: false,
            };
            named += advisor.observe(&access, &conditions).will_need.len();
        }
    }
    let taken = begin.elapsed();
    let reads = u32::try_from(rounds * job.steps.len()).unwrap_or(u32::MAX);
    println!("{name:24} {:4} ns, {reads} reads, {named} ranges named", (taken / reads).as_nanos());
}

fn main() {
    let none = Duration::ZERO;
    time("one reader", &interleaved(1, 100_000, 4096, none));
    time("8 interleaved", &interleaved(8, 20_000, 4096, none));
    time("16 interleaved", &interleaved(16, 20_000, 4096, none));
    time("skim", &skim(1024 * MIB, 1, 64 << 10, 3, 2000, none));
    time("random", &random(1024 * MIB, 100_000, 100..8192, none, 1));
    time("babar", &babar(1));
}
