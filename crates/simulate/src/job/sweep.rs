//! A job over all combinations of links and settings.

use super::{Job, JobResult, JobSettings, Method, SimulationReport};
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use hither_netem::link::Link;
use serde::Serialize;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Maximum number of runs in a sweep.
pub const MAX_CASES: usize = 10_000;

/// The values of each axis, in the order of the report. None may be empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Round-trip times.
    pub latencies: Vec<Duration>,
    /// Rates, in bits per second of IP packets; none for no limit.
    pub bandwidths: Vec<Option<u64>>,
    /// As [`JobSettings::cache_bytes`].
    pub caches: Vec<u64>,
    /// As [`JobSettings::block_bytes`].
    pub blocks: Vec<Option<u64>>,
    /// As [`JobSettings::read_ahead_bytes`].
    pub read_aheads: Vec<Option<u64>>,
    /// As [`JobSettings::connections`].
    pub connections: Vec<usize>,
    /// Limit of each connection, as [`Link::each`].
    pub each: Option<u64>,
    /// As [`JobSettings::server_time`].
    pub server_time: Duration,
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Case {
    /// The method by which the job gets its data.
    pub method: Method,
    /// The link and the settings.
    #[serde(flatten)]
    pub settings: JobSettings,
    /// The result; none before the run has finished.
    #[serde(flatten)]
    pub result: Option<JobResult>,
}

/// Three latencies at 1 Gbit/s, with the client's default settings.
impl Default for Grid {
    fn default() -> Self {
        let latencies = [200, 20_000, 100_000].map(Duration::from_micros).to_vec();
        let bandwidth = Some(1_000_000_000);
        let default = JobSettings::new(Link::A);
        Self {
            latencies,
            bandwidths: vec![bandwidth],
            caches: vec![default.cache_bytes],
            blocks: vec![default.block_bytes],
            read_aheads: vec![default.read_ahead_bytes],
            connections: vec![default.connections],
            each: None,
            server_time: default.server_time,
        }
    }
}

impl Grid {
    /// The runs without duplicates: for each link copies, runs without prefetching, and runs with
    /// it.
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut add = |method, settings| cases.push(Case { method, settings, result: None });
        for (rtt, bandwidth, connections) in
            product3(&self.latencies, &self.bandwidths, &self.connections)
        {
            let link = Link { each: self.each, ..Link::new(rtt, bandwidth) };
            let settings = JobSettings {
                connections,
                server_time: self.server_time,
                ..JobSettings::new(link)
            };
            add(Method::CopyFirst, settings);
            for cache_bytes in self.caches.iter().copied() {
                let off = Some(0);
                let none = JobSettings { cache_bytes, read_ahead_bytes: off, ..settings };
                add(Method::ReadThrough, JobSettings { block_bytes: off, ..none });
            }
            for (cache_bytes, block_bytes, read_ahead_bytes) in
                product3(&self.caches, &self.blocks, &self.read_aheads)
            {
                if read_ahead_bytes != Some(0) {
                    let all =
                        JobSettings { cache_bytes, block_bytes, read_ahead_bytes, ..settings };
                    add(Method::Prefetch, all);
                }
            }
        }
        cases
    }
}

fn product3<'a, A: Copy, B: Copy, C: Copy>(
    first: &'a [A],
    second: &'a [B],
    third: &'a [C],
) -> impl Iterator<Item = (A, B, C)> + 'a {
    first
        .iter()
        .flat_map(move |a| second.iter().flat_map(move |b| third.iter().map(move |c| (*a, *b, *c))))
}

/// Runs the job over the grid, on all processors. `progress` gets the number of finished runs and
/// the number of all runs, on any thread. Once `stop` is true, no run starts and running ones end,
/// and the report has only the finished ones.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] for more than [`MAX_CASES`] runs, and the errors of [`Job::run`].
pub fn sweep(
    job: &Job,
    grid: &Grid,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<SimulationReport> {
    let cases = grid.cases();
    let all = cases.len();
    if all > MAX_CASES {
        let message = format!("{all} combinations of the lists are more than {MAX_CASES}");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let cases: Vec<_> = cases.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut case = lock(case);
            case.result = job.run(case.method, &case.settings, stop)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        }
        Ok(())
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get).min(all);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err(Error::new(ErrorKind::Local, "a thread of the simulation panicked"));
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(panicked))
    })?;
    let cases = cases.iter().map(|case| *lock(case)).filter(|case| case.result.is_some());
    Ok(SimulationReport::new(job, grid, cases.collect(), all))
}
