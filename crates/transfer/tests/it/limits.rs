//! Limits of a copy: bandwidth, files at a time, attempts, changing numbers of workers; measured
//! with a clock that advances only during sleeps.

use crate::local::place;
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use hither_core::source::clock::Clock;
use hither_core::{
    DirEntry, Endpoint, Error, ErrorKind, FileKind, Limits, LinkEstimate, Part, PartSink, Request,
    ResponseMeta, Result, Source, Storage,
};
use hither_transfer::{
    BandwidthLimit, BandwidthLimiter, CopyOptions, CopyPath, CopyProgress, CopySummary,
    Destination, copy,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PART_BYTES: u64 = 64 << 10;
const SMALL_FILES: usize = 400;

/// A clock that advances only while a task sleeps.
#[derive(Debug, Default, Clone)]
struct SleepersClock {
    time: Arc<AtomicU64>,
    origin: u64,
}

impl SleepersClock {
    /// The same clock, counted from now on.
    fn started(&self) -> Self {
        Self { time: Arc::clone(&self.time), origin: self.time.load(Ordering::SeqCst) }
    }
}

impl Clock for SleepersClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.time.load(Ordering::SeqCst) - self.origin)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let nanos = u64::try_from(duration.as_nanos()).unwrap();
        let end = self.time.load(Ordering::SeqCst) + nanos;
        self.time.fetch_max(end, Ordering::SeqCst);
        Box::pin(tokio::task::yield_now())
    }

    fn random(&self) -> u64 {
        0
    }
}

/// State shared by the fetches of all files.
#[derive(Debug, Default)]
struct Fetches {
    clock: SleepersClock,
    begun: AtomicUsize,
    active: AtomicUsize,
    /// Fetches in progress by path.
    by_path: Mutex<BTreeMap<String, usize>>,
    most_paths: AtomicUsize,
    /// Number of fetches in progress, itself included, when the nth fetch began.
    active_at: Mutex<Vec<usize>>,
    /// Number of fetches that fail, starting with the first.
    failing: usize,
}

/// Files of zeros, in one directory.
#[derive(Debug)]
struct Zeros {
    fetches: Arc<Fetches>,
    files: usize,
    size: u64,
    /// Called at the start of the nth fetch, which continues when the future completes.
    at_fetch: fn(usize, &Fetches, &CopyOptions) -> BoxFuture<'static, ()>,
    options: CopyOptions,
}

#[derive(Debug)]
struct ZeroFile {
    zeros: Arc<Zeros>,
    path: String,
    /// As for real sources, it starts when the file is opened.
    clock: SleepersClock,
}

#[derive(Debug)]
struct ZeroStorage(Arc<Zeros>);

#[async_trait]
impl Storage for ZeroStorage {
    fn name(&self) -> String {
        "zeros:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        Ok(DirEntry::new(path, FileKind::Directory, 0))
    }
    async fn list(&self, path: &str) -> Result<hither_core::Listing> {
        let entry = |n| DirEntry::new(format!("{path}/{n:04}"), FileKind::File, self.0.size);
        Ok((0..self.0.files).map(entry).collect::<Vec<_>>().into())
    }
    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        let (zeros, path) = (Arc::clone(&self.0), path.to_owned());
        let clock = zeros.fetches.clock.started();
        Ok(Arc::new(ZeroFile { zeros, path, clock }))
    }
}

impl ZeroFile {
    async fn deliver(&self, request: Request, mut sink: PartSink) -> Result<ResponseMeta> {
        let fetches = &self.zeros.fetches;
        let nth = fetches.begun.fetch_add(1, Ordering::SeqCst);
        if nth < fetches.failing {
            return Err(Error::new(ErrorKind::Unavailable, "not yet"));
        }
        fetches.active_at.lock().unwrap().push(fetches.active.load(Ordering::SeqCst));
        (self.zeros.at_fetch)(nth, fetches, &self.zeros.options).await;
        for range in request.ranges {
            let mut offset = range.start;
            while offset < range.end {
                let bytes = PART_BYTES.min(range.end - offset);
                let bytes = Bytes::from(vec![0; usize::try_from(bytes).unwrap()]);
                sink(Part { offset, bytes: bytes.clone() });
                offset += bytes.len() as u64;
                tokio::task::yield_now().await;
            }
        }
        Ok(ResponseMeta { size: Some(self.zeros.size), ..ResponseMeta::default() })
    }

    fn count(&self, by: isize) {
        let fetches = &self.zeros.fetches;
        let active = &fetches.active;
        let mut by_path = fetches.by_path.lock().unwrap();
        let number = by_path.entry(self.path.clone()).or_default();
        *number = number.checked_add_signed(by).unwrap();
        if *number == 0 {
            by_path.remove(&self.path);
        }
        fetches.most_paths.fetch_max(by_path.len(), Ordering::SeqCst);
        let now = active.load(Ordering::SeqCst).checked_add_signed(by).unwrap();
        active.store(now, Ordering::SeqCst);
    }
}

impl Source for ZeroFile {
    fn name(&self) -> String {
        self.path.clone()
    }
    fn limits(&self) -> Limits {
        Limits::unlimited()
    }
    fn link(&self) -> LinkEstimate {
        LinkEstimate { rtt: Some(Duration::from_millis(100)), ..LinkEstimate::default() }
    }
    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }
    fn max_connections(&self) -> usize {
        64
    }
    fn max_small_files(&self) -> usize {
        SMALL_FILES
    }
    fn idle_connections(&self) -> usize {
        0
    }
    fn preconnect(&self, _connections: usize) {}
    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(async move {
            self.count(1);
            let counted = scopeguard(self);
            let delivered = self.deliver(request, sink).await;
            drop(counted);
            delivered
        })
    }
}

/// A guard that removes a fetch from the counts when it ends or is dropped.
fn scopeguard(file: &ZeroFile) -> impl Drop + '_ {
    struct Guard<'a>(&'a ZeroFile);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.count(-1);
        }
    }
    Guard(file)
}

fn nothing(_: usize, _: &Fetches, _: &CopyOptions) -> BoxFuture<'static, ()> {
    Box::pin(std::future::ready(()))
}

struct Copied {
    summary: CopySummary,
    fetches: Arc<Fetches>,
    progress: Arc<CopyProgress>,
}

async fn copied(
    files: usize,
    size: u64,
    failing: usize,
    options: CopyOptions,
    at_fetch: fn(usize, &Fetches, &CopyOptions) -> BoxFuture<'static, ()>,
) -> Copied {
    copied_by(SleepersClock::default(), files, size, failing, options, at_fetch).await
}

async fn copied_by(
    clock: SleepersClock,
    files: usize,
    size: u64,
    failing: usize,
    mut options: CopyOptions,
    at_fetch: fn(usize, &Fetches, &CopyOptions) -> BoxFuture<'static, ()>,
) -> Copied {
    options.recursive = true;
    let fetches = Arc::new(Fetches { failing, clock, ..Fetches::default() });
    let zeros = Arc::new(Zeros {
        fetches: Arc::clone(&fetches),
        files,
        size,
        at_fetch,
        options: options.clone(),
    });
    let place = CopyPath {
        storage: Arc::new(ZeroStorage(zeros)),
        path: "tree".to_owned(),
        local: None,
        is_directory: false,
        contents: false,
    };
    let progress = Arc::new(CopyProgress::default());
    let copying = copy(vec![place], Destination::Discard, options, Arc::clone(&progress));
    let summary = tokio::time::timeout(Duration::from_secs(60), copying).await.unwrap().unwrap();
    Copied { summary, fetches, progress }
}

fn limited(rate: &str, clock: &SleepersClock) -> CopyOptions {
    let mut options = CopyOptions::default();
    let timetable = rate.parse().unwrap();
    let limit = BandwidthLimit { timetable, minute_of_week: || 0 };
    let limiter = BandwidthLimiter::new(limit, Arc::new(clock.clone()));
    options.bandwidth = Some(Arc::new(limiter));
    options
}

/// Copies with a bandwidth limit.
async fn within(rate: &str, transfers: Option<usize>, files: usize, size: u64) -> Copied {
    let clock = SleepersClock::default();
    let mut options = limited(rate, &clock);
    options.transfers = transfers;
    copied_by(clock, files, size, 0, options, nothing).await
}

#[tokio::test]
async fn all_connections_together_keep_to_the_bandwidth() {
    for (transfers, files, size) in [(None, 1, 16 * MIB), (None, 64, MIB / 4), (Some(1), 16, MIB)] {
        let Copied { summary, fetches, progress } = within("2M", transfers, files, size).await;
        assert_eq!(summary.bytes, 16 * MIB);
        let took = fetches.clock.now();
        // 8 s minus the initial content of the bucket; the clock may be ahead by one check of the
        // limit.
        assert!(took >= Duration::from_millis(7_800), "{files} files took {took:?}");
        assert!(took <= Duration::from_millis(9_100), "{files} files took {took:?}");
        let stages = progress.stages();
        assert!(stages.fetch.blocked >= Duration::from_secs(7), "{stages:?}");
    }
    // Only uploads are limited.
    let free = within("2M:off", None, 1, 16 * MIB).await;
    assert_eq!(free.fetches.clock.now(), Duration::ZERO);
    assert_eq!(free.progress.stages().fetch.blocked, Duration::ZERO);
}

#[tokio::test]
async fn a_copy_within_this_machine_keeps_to_the_bandwidth_of_either_direction() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    let sizes: [u64; 3] = [8 * MIB, 4 * MIB, 4 * MIB];
    for (nth, size) in sizes.iter().enumerate() {
        let content = vec![7; usize::try_from(*size).unwrap()];
        std::fs::write(folder.path().join(format!("tree/{nth}")), content).unwrap();
    }
    for (nth, rate) in ["2M", "2M:off", "off:2M"].into_iter().enumerate() {
        let clock = SleepersClock::default();
        let mut options = limited(rate, &clock);
        options.recursive = true;
        let source = place(&folder.path().join("tree"));
        let target = Destination::Path(place(&folder.path().join(format!("copy {nth}"))));
        let copying = copy(vec![source], target, options, Arc::default());
        let summary = tokio::time::timeout(Duration::from_secs(60), copying).await;
        assert_eq!(summary.unwrap().unwrap().bytes, sizes.iter().sum::<u64>());
        // 8 s minus the initial content of the bucket, and the last part of each file.
        assert!(clock.now() >= Duration::from_secs(5), "{rate} took {:?}", clock.now());
    }
}

#[tokio::test]
async fn no_more_files_than_transfers_are_copied_at_a_time() {
    let mut options = CopyOptions::default();
    options.transfers = Some(3);
    let copied = copied(40, MIB, 0, options, nothing).await;
    assert_eq!(copied.summary.files, 40);
    assert_eq!(copied.fetches.most_paths.load(Ordering::SeqCst), 3);
}

/// Waits until `number` fetches are in progress.
fn together(number: usize, fetches: &Fetches) -> BoxFuture<'static, ()> {
    let is_waiting = fetches.most_paths.load(Ordering::SeqCst) < number;
    Box::pin(async move {
        for _ in 0..if is_waiting { 500 } else { 0 } {
            tokio::task::yield_now().await;
        }
    })
}

#[tokio::test]
async fn as_many_small_files_are_under_way_as_the_server_takes() {
    let at_fetch = |_, fetches: &Fetches, _: &CopyOptions| together(SMALL_FILES, fetches);
    let copied = copied(1000, 10_000, 0, CopyOptions::default(), at_fetch).await;
    assert_eq!((copied.summary.files, copied.summary.bytes), (1000, 10_000_000));
    assert_eq!(copied.fetches.most_paths.load(Ordering::SeqCst), SMALL_FILES);
    assert_eq!(copied.fetches.begun.load(Ordering::SeqCst), 1000);
}

#[tokio::test]
async fn small_files_under_way_fit_into_the_budget() {
    let mut options = CopyOptions::default();
    options.budget_bytes = 10 * MIB;
    let at_fetch = |_, fetches: &Fetches, _: &CopyOptions| together(10, fetches);
    let copied = copied(100, MIB, 0, options, at_fetch).await;
    assert_eq!(copied.summary.files, 100);
    assert_eq!(copied.fetches.most_paths.load(Ordering::SeqCst), 10);
}

#[tokio::test]
async fn workers_turn_up_and_are_parked_while_a_copy_runs() {
    /// The 20th fetch raises the number of workers to six, and waits for all of them; the 60th
    /// lowers it to one.
    fn at_fetch(nth: usize, fetches: &Fetches, options: &CopyOptions) -> BoxFuture<'static, ()> {
        match nth {
            20 => options.control.set_workers(6),
            60 => options.control.set_workers(1),
            _ => {}
        }
        let active = fetches.active.load(Ordering::SeqCst);
        let waits = (20..26).contains(&nth) && active < 6;
        Box::pin(async move {
            for _ in 0..if waits { 100_000 } else { 0 } {
                tokio::task::yield_now().await;
            }
        })
    }
    let mut options = CopyOptions::default();
    options.block_bytes = MIB;
    options.control.set_workers(2);
    let copied = copied(1, 100 * MIB, 0, options, at_fetch).await;
    assert_eq!(copied.summary.bytes, 100 * MIB);
    let active = copied.fetches.active_at.lock().unwrap().clone();
    assert_eq!(*active[..20].iter().max().unwrap(), 2);
    assert_eq!(*active[20..60].iter().max().unwrap(), 6);
    // Workers that are copying finish their piece.
    let parked = &active[66..];
    assert!(parked.len() > 20 && parked.iter().all(|active| *active == 1), "{active:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tuned_where_the_number_of_workers_is_set() {
    /// Each fetch takes time, so that the rate grows with the number of workers.
    fn at_fetch(_: usize, fetches: &Fetches, _: &CopyOptions) -> BoxFuture<'static, ()> {
        let clock = fetches.clock.clone();
        Box::pin(async move {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                clock.sleep(Duration::from_millis(5)).await;
            }
        })
    }
    for (workers, files, mib) in [(None, 1, 256), (Some(3), 1, 64), (Some(3), 20, 1)] {
        let mut options = CopyOptions::default();
        options.block_bytes = MIB;
        workers.into_iter().for_each(|workers| options.control.set_workers(workers));
        let copied = copied(files, mib * MIB, 0, options, at_fetch).await;
        assert_eq!(copied.summary.bytes, files as u64 * mib * MIB);
        let tuned = &copied.summary.tuning;
        assert_eq!(tuned.is_empty(), workers.is_some(), "{tuned:?}");
        let most = copied.fetches.active_at.lock().unwrap().iter().max().copied();
        assert!(workers.is_none() || most == workers, "{most:?} at a time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_attempted_as_often_as_requested() {
    for (attempts, failing, failures) in [(1, 1, 1), (2, 1, 0), (3, 2, 0), (2, 2, 1)] {
        let mut options = CopyOptions::default();
        options.attempts = attempts;
        let copied = copied(1, MIB, failing, options, nothing).await;
        let summary = &copied.summary;
        assert_eq!(summary.failures.len(), failures, "{attempts} attempts, {failing} failing");
        assert_eq!(summary.files, 1 - failures as u64);
        let told = summary.notices.iter().filter(|it| it.contains("attempt")).count();
        assert_eq!(told, failing.min(attempts as usize - 1));
        let figures = copied.progress.figures();
        assert_eq!((figures.files_found, figures.files_done), (1, 1));
        assert_eq!(figures.bytes_done, if failures == 0 { MIB } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn idle_workers_split_the_last_piece_unless_other_parts_of_the_job_follow() {
    /// The first fetch delivers no bytes for twenty seconds, in which the other worker looks for
    /// work.
    fn at_fetch(nth: usize, fetches: &Fetches, _: &CopyOptions) -> BoxFuture<'static, ()> {
        let clock = fetches.clock.clone();
        Box::pin(async move {
            for _ in 0..if nth == 0 { 100 } else { 0 } {
                clock.sleep(Duration::from_millis(200)).await;
                tokio::time::advance(Duration::from_millis(20)).await;
            }
        })
    }
    for is_part in [true, false] {
        let mut options = CopyOptions::default();
        options.block_bytes = MIB;
        options.control.set_workers(2);
        options.control.set_part(is_part);
        let copied = copied(1, 2 * MIB, 0, options, at_fetch).await;
        assert_eq!(copied.summary.bytes, 2 * MIB);
        let begun = copied.fetches.begun.load(Ordering::SeqCst);
        assert_eq!(begun == 2, is_part, "{begun} fetches");
    }
}
