use super::*;
use hither_trace::{CacheStatus, ReadTimes, TracedRead};
use std::ops::Range;

static GOES_ON: AtomicBool = AtomicBool::new(false);
const MS: Duration = Duration::from_millis(1);

/// A job on one file that works for `work` before each read.
fn job(threads: u32, work: Duration, reads: &[Range<u64>]) -> Job {
    let read = |thread: u32, at: u32, range: &Range<u64>| TracedRead {
        file: 0,
        thread,
        ranges: vec![range.clone()],
        times: ReadTimes::at_once(work * at),
        found: CacheStatus::Hit,
        absent_bytes: 0,
    };
    let steps = (1_u32..).zip(reads);
    let reads = steps.flat_map(|(at, range)| (0..threads).map(move |it| read(it, at, range)));
    // The first read of a trace has no pause before it.
    Job::new(Script::of(reads.map(Ok)).unwrap())
}

fn scattered(reads: u64, bytes: u64) -> Vec<Range<u64>> {
    // Far apart, and in an order that a prefetcher cannot learn.
    let starts = (0..reads).map(|it| (it * 7_919 % reads) * 3_000_000);
    starts.map(|start| start..start + bytes).collect()
}

fn run(job: &Job, method: Method, settings: &JobSettings) -> JobResult {
    job.run(method, settings, &GOES_ON).unwrap().unwrap()
}

fn far(rtt_ms: u32) -> JobSettings {
    JobSettings::new(Link::new(rtt_ms * MS, Some(100_000_000)))
}

fn near(seconds: f64, expected: f64) -> bool {
    (seconds / expected - 1.0).abs() < 0.02
}

#[test]
fn reads_that_nothing_foresees_take_a_round_trip_each() {
    let job = job(1, 2 * MS, &scattered(100, 4000));
    let result = run(&job, Method::ReadThrough, &far(50));
    // The handshake, a hundred round trips, and the work between the reads.
    let transfer = f64::from(100 * 4000 * 8) / 1e8 * 1500.0 / 1448.0;
    let expected = 0.05 + 100.0 * 0.05 + 99.0 * 0.002 + transfer;
    assert!(near(result.seconds, expected), "{result:?}, expected {expected}");
    assert_eq!((result.requests, result.reads_waited, result.bytes_used), (100, 100, 400_000));
    assert_eq!(result.waits.connect, 50 * MS);
    assert_eq!(result.waits.round_trips, 100 * 50 * MS);
    assert!(near(result.waits.transfer.as_secs_f64(), transfer), "{:?}", result.waits);
    assert!(near(result.waits.total().as_secs_f64(), expected - 99.0 * 0.002));
}

#[test]
fn time_of_the_server_is_a_cause_of_its_own() {
    let settings = JobSettings { server_time: 3 * MS, ..far(10) };
    let result = run(&job(1, MS, &scattered(50, 1000)), Method::ReadThrough, &settings);
    assert_eq!((result.waits.server, result.waits.round_trips), (150 * MS, 500 * MS));
}

#[test]
fn prefetching_hides_the_latency_of_a_sequential_job() {
    let reads: Vec<_> = (0..2000_u64).map(|it| it * 8192..(it + 1) * 8192).collect();
    let job = job(1, 2 * MS, &reads);
    let through = run(&job, Method::ReadThrough, &far(50));
    let ahead = run(&job, Method::Prefetch, &far(50));
    // The work is 4 s and the transfer 1.4 s: with read-ahead the job hardly waits.
    assert!(through.seconds > 2000.0 * 0.05, "{through:?}");
    assert!(ahead.seconds < 4.7, "{ahead:?}");
    assert!(ahead.reads_waited < 40 && ahead.bytes_used == 2000 * 8192, "{ahead:?}");
}

#[test]
fn copies_take_the_time_of_all_bytes_and_the_work() {
    let job = job(1, MS, &scattered(20, 4000)).with_file_bytes(125_000_000);
    let result = run(&job, Method::CopyFirst, &far(20));
    let expected = 10.0 * 1500.0 / 1448.0 + 0.019;
    assert!(near(result.seconds, expected + 0.1), "{result:?}, expected {expected} and some");
    assert_eq!(result.bytes_fetched, 125_000_000);
}

#[test]
fn threads_wait_beside_each_other() {
    let reads = scattered(40, 2000);
    let alone = run(&job(1, MS, &reads), Method::ReadThrough, &far(30));
    let both = run(&job(2, MS, &reads), Method::ReadThrough, &far(30));
    assert!(near(both.seconds, alone.seconds), "{both:?} {alone:?}");
    // The same ranges are requested once.
    assert_eq!((both.requests, both.bytes_fetched), (40, 80_000));
    assert!(both.waited_seconds > 1.9 * alone.waited_seconds);
}

#[test]
fn a_stopped_run_has_no_result() {
    let job = job(1, MS, &scattered(3, 10));
    assert_eq!(job.run(Method::Prefetch, &far(1), &AtomicBool::new(true)).unwrap(), None);
}

fn grid() -> Grid {
    Grid {
        latencies: vec![MS, 100 * MS],
        bandwidths: vec![Some(100_000_000)],
        caches: vec![1 << 20, 64 << 20],
        blocks: vec![None, Some(100_000)],
        read_aheads: vec![None],
        connections: vec![8],
        each: None,
        server_time: Duration::ZERO,
    }
}

#[test]
fn a_sweep_compares_the_methods_over_each_link() {
    let job = job(1, MS, &scattered(100, 4000));
    let done = std::sync::atomic::AtomicUsize::new(0);
    let count = |_, all: usize| {
        assert_eq!(all, 2 * (1 + 2 + 4));
        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let report = sweep(&job, &grid(), &GOES_ON, &count).unwrap();
    assert_eq!((report.cases.len(), done.into_inner(), report.interrupted), (14, 14, false));
    let [near, far] = report.links.as_slice() else { panic!("{:?}", report.links) };
    // 300 MB take 24 s, more than a hundred round trips.
    assert_ne!(near.recommended, Method::CopyFirst);
    assert!(far.read_through_seconds.unwrap() > 10.0 && far.copy_first_seconds.unwrap() > 24.0);
    let text = report.to_text();
    assert!(text.contains("100 ms, 100 Mbit/s: copy first 25."), "{text}");
    let page = report.to_html("A <job>");
    assert!(page.contains("<h1>A &lt;job&gt;</h1>"), "{page}");
    let maps: Vec<&str> = page.split("<svg").skip(1).collect();
    assert_eq!(maps.len(), 2);
    assert_eq!(maps[0].matches("<rect").count(), 4);
}

#[test]
fn a_large_grid_is_refused_and_a_stopped_one_tells_it() {
    let job = job(1, MS, &scattered(3, 10));
    let large = Grid { connections: (1..=1000).collect(), ..grid() };
    let error = sweep(&job, &large, &GOES_ON, &|_, _| {}).unwrap_err();
    assert_eq!(error.kind(), hither_core::ErrorKind::Invalid);
    let report = sweep(&job, &grid(), &AtomicBool::new(true), &|_, _| {}).unwrap();
    assert!(report.interrupted && report.cases.is_empty() && report.links.is_empty());
}
