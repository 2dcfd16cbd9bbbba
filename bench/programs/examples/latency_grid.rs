//! Duration of the job of 2006 by latency and block size, in virtual time: figure 5 of Furano and
//! others ("Latencies and data access", CHEP 2006), with the real cache over a simulated link.
//! Prints a table of comma-separated values.
//!
//!     cargo run --release -p hither-bench --example latency_grid -- [READS]
//!
//! A block size of 0 means neither cache nor read-ahead; `learned` is the default, which chooses
//! the block size. READS limits the job to its first reads of 100,000.

#![expect(clippy::print_stdout, reason = "printing is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a failure ends the program")]

use hither_netem::Link;
use hither_read::{
    Cache, CacheConfig, CacheKey, CachedFile, ReadAhead, ReadAheadConfig, ReaderConfig,
};
use hither_simulate::source::SimulatedSource;
use hither_simulate::workload::{BABAR_READS, Workload, babar};
use hither_tune::ReadTrial;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

/// Three times the 350 KB/s that the job needs, in bits per second.
const RATE: u64 = 3 * 350_000 * 8;
const LATENCIES: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const BLOCKS: [u64; 8] = [0, 25_000, 50_000, 100_000, 200_000, 300_000, 400_000, 500_000];

/// The way a read is done.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// As a request.
    Bare,
    /// In blocks of this size, with read-ahead.
    Blocks(u64),
    /// By default.
    Learned,
}

impl Way {
    fn name(self) -> String {
        match self {
            Self::Bare => "0".to_owned(),
            Self::Blocks(bytes) => bytes.to_string(),
            Self::Learned => "learned".to_owned(),
        }
    }
}

async fn play(job: &Workload, rtt: Duration, way: Way) -> String {
    let bytes = vec![0; usize::try_from(job.size).unwrap()];
    let source = Arc::new(SimulatedSource::new(bytes, Link::new(rtt, Some(RATE))));
    let memory = match way {
        Way::Bare => CacheConfig::with_budget(1),
        _ => CacheConfig::default(),
    };
    let cache = Arc::new(Cache::new(memory));
    let key = CacheKey { name: "job".to_owned(), identity: String::new() };
    let spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let log = Arc::clone(&source);
    let file = CachedFile::new(
        source,
        Arc::clone(&cache),
        key,
        ReaderConfig::default().with_trial(ReadTrial::begin),
        spawn,
    );
    let mut config = ReadAheadConfig::default();
    if let Way::Blocks(bytes) = way {
        (config.block_bytes, config.learn_blocks) = (bytes, false);
    }
    if !matches!(way, Way::Bare) {
        file.set_prefetcher(Box::new(ReadAhead::new(config)));
    }
    let begin = Instant::now();
    let mut target = vec![0; 8192];
    let mut owed = Duration::ZERO;
    for step in &job.steps {
        // Timers count whole milliseconds.
        owed += step.think;
        let whole = Duration::from_millis(u64::try_from(owed.as_millis()).unwrap());
        sleep(whole).await;
        owed -= whole;
        let target = &mut target[..usize::try_from(step.length).unwrap()];
        file.read_at(step.offset, target).await.unwrap();
    }
    let seconds = begin.elapsed().as_secs_f64();
    drop(file);
    let totals = cache.totals();
    format!(
        "{},{},{seconds:.3},{},{},{},{},{}",
        rtt.as_millis(),
        way.name(),
        totals.reads,
        totals.reads - totals.hits,
        totals.bytes_fetched,
        totals.bytes_used,
        log.log().len(),
    )
}

fn main() {
    let reads = std::env::args().nth(1).map_or(BABAR_READS, |reads| reads.parse().unwrap());
    let mut job = babar(2006);
    job.steps.truncate(reads);
    println!("rtt_ms,block_bytes,seconds,reads,waits,fetched_bytes,used_bytes,requests");
    let blocks = BLOCKS.map(|bytes| if bytes == 0 { Way::Bare } else { Way::Blocks(bytes) });
    for way in blocks.into_iter().chain([Way::Learned]) {
        for rtt in LATENCIES {
            let virtual_time =
                Builder::new_current_thread().enable_time().start_paused(true).build();
            let rtt = Duration::from_millis(rtt);
            println!("{}", virtual_time.unwrap().block_on(play(&job, rtt, way)));
        }
    }
}
