//! A job on a simulated path, in virtual time.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]

use super::*;
use hither_core::sync::lock;
use hither_core::{Clock, Endpoint, Limits, LinkEstimate, PartSink, Request, ResponseMeta, Result};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
/// The throughput of one connection, in bytes per second.
const RATE: f64 = 3e5;
const OPTIONS: ControllerOptions =
    ControllerOptions { max_workers: 64, max_small_files: 2048, budget_bytes: 256 * MIB };

/// A clock that is moved by hand, in milliseconds.
#[derive(Debug, Default)]
struct VirtualTime(AtomicU64);

impl VirtualTime {
    fn new() -> Arc<Self> {
        Arc::default()
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        unreachable!("nobody waits")
    }

    fn random(&self) -> u64 {
        0
    }
}

/// A file on a server whose handshake took `latency`.
#[derive(Debug)]
struct Server {
    clock: Arc<VirtualTime>,
    latency: Duration,
    max_small_files: usize,
    preconnected: Mutex<Vec<usize>>,
}

impl Source for Server {
    fn name(&self) -> String {
        "server".to_owned()
    }
    fn limits(&self) -> Limits {
        Limits::unlimited()
    }
    fn link(&self) -> LinkEstimate {
        LinkEstimate { rtt: Some(self.latency), ..LinkEstimate::default() }
    }
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }
    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }
    fn max_connections(&self) -> usize {
        64
    }
    fn max_small_files(&self) -> usize {
        self.max_small_files
    }
    fn idle_connections(&self) -> usize {
        0
    }
    fn preconnect(&self, connections: usize) {
        lock(&self.preconnected).push(connections);
    }
    fn fetch(
        &self,
        _: Request,
        _: PartSink,
    ) -> Pin<Box<dyn Future<Output = Result<ResponseMeta>> + Send + '_>> {
        unreachable!("nothing is fetched")
    }
}

/// Tuned settings in memory, and the state of a path.
#[derive(Debug, Default)]
struct Memory {
    known: Mutex<BTreeMap<String, usize>>,
    is_queued: Mutex<bool>,
    confirmed_bytes: AtomicU64,
}

impl TuningMemory for Memory {
    fn recall(&self, key: &str) -> Option<usize> {
        lock(&self.known).get(key).copied()
    }

    fn remember(&self, key: &str, setting: usize) {
        lock(&self.known).insert(key.to_owned(), setting);
    }

    fn path_signal(&self) -> PathSignal {
        let min_rtt = Duration::from_millis(20);
        let rtt = if *lock(&self.is_queued) { 3 * min_rtt } else { min_rtt };
        PathSignal { rtt: Some(rtt), min_rtt: Some(min_rtt), ..PathSignal::default() }
    }

    fn upload_state(&self) -> UploadState {
        UploadState {
            confirmed_bytes: self.confirmed_bytes.load(Ordering::SeqCst),
            latency: Duration::from_millis(1),
            signal: PathSignal::default(),
        }
    }
}

/// A job that records what is turned.
#[derive(Debug)]
struct Job {
    clock: Arc<VirtualTime>,
    limits: Mutex<ConcurrencyLimits>,
    totals: Mutex<JobTotals>,
    memory: Arc<Memory>,
    wakes: AtomicUsize,
    taken_back: Mutex<Vec<usize>>,
}

impl ControlledJob for Job {
    fn now(&self) -> Duration {
        self.clock.now()
    }
    fn limits(&self) -> ConcurrencyLimits {
        *lock(&self.limits)
    }
    fn totals(&self) -> JobTotals {
        *lock(&self.totals)
    }
    fn memory(&self) -> Option<&dyn TuningMemory> {
        Some(&*self.memory)
    }
    fn workers_changed(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }
    fn take_back(&self, workers: usize) {
        lock(&self.taken_back).push(workers);
    }
}

/// A controller, its job and the server that the files are on.
struct Rig {
    controller: ConcurrencyController<Job>,
    server: Arc<Server>,
    source: Arc<dyn Source>,
}

impl Rig {
    fn new(latency_ms: u64) -> Self {
        Self::with(latency_ms, OPTIONS, 400)
    }

    fn with(latency_ms: u64, options: ControllerOptions, max_small_files: usize) -> Self {
        let clock = VirtualTime::new();
        let server = Arc::new(Server {
            clock: Arc::clone(&clock),
            latency: Duration::from_millis(latency_ms),
            max_small_files,
            preconnected: Mutex::default(),
        });
        let limits = ConcurrencyLimits {
            workers: None,
            max_workers: usize::MAX,
            files: None,
            is_part: false,
        };
        let job = Job {
            clock,
            limits: Mutex::new(limits),
            totals: Mutex::default(),
            memory: Arc::default(),
            wakes: AtomicUsize::new(0),
            taken_back: Mutex::default(),
        };
        let controller = ConcurrencyController::new(options, job);
        let source = Arc::clone(&server) as Arc<dyn Source>;
        Self { controller, server, source }
    }

    fn job(&self) -> &Job {
        self.controller.job()
    }

    fn set(&self, change: impl FnOnce(&mut ConcurrencyLimits)) {
        change(&mut lock(&self.job().limits));
    }

    /// Files of 1 GiB in blocks of 4 MiB.
    fn files(&self, knob: Option<TunedKnob>) -> MovedFiles<'_> {
        MovedFiles {
            source: &self.source,
            replicas: None,
            servers: "here there".to_owned(),
            size: 1024 * MIB,
            block_bytes: 4 * MIB,
            by_bandwidth: usize::MAX,
            target_blocks: 1,
            knob,
        }
    }

    /// Lets time pass, in which `rate` says how many bytes a second some workers or files at a time
    /// bring. Returns their number after each sample.
    fn play(&self, time: Duration, rate: impl Fn(usize) -> f64) -> Vec<usize> {
        let job = self.job();
        let end = job.now() + time;
        let mut numbers = Vec::new();
        while job.now() < end {
            let number = self.number();
            let bytes = (rate(number) * SAMPLE_INTERVAL.as_secs_f64()) as u64;
            {
                let mut totals = lock(&job.totals);
                totals.bytes_arrived += bytes;
                totals.bytes_moved_by_servers += bytes;
                totals.files_done += bytes / 1000;
                totals.open_files = number;
                totals.has_small_files = true;
            }
            job.memory.confirmed_bytes.fetch_add(bytes, Ordering::SeqCst);
            job.clock.0.fetch_add(SAMPLE_INTERVAL.as_millis() as u64, Ordering::SeqCst);
            self.controller.sample();
            numbers.push(self.number());
        }
        numbers
    }

    /// The number that is tuned.
    fn number(&self) -> usize {
        match self.controller.tuners.knob() {
            None => self.controller.file_limits().small,
            Some(TunedKnob::Uploads) => self.controller.file_limits().large,
            Some(_) => self.controller.workers(),
        }
    }
}

/// All connections have the same throughput.
fn limited(number: usize) -> f64 {
    number as f64 * RATE
}

/// The path is full with eight connections.
fn full_with_eight(number: usize) -> f64 {
    number.min(8) as f64 * RATE
}

#[test]
fn workers_begin_with_the_rule_for_the_link_and_their_connections_are_opened() {
    let rig = Rig::new(24);
    assert_eq!(rig.controller.workers(), connections::MIN_BULK);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!(rig.controller.workers(), 12);
    assert_eq!(*lock(&rig.server.preconnected), [12]);
    // More workers may run, and samples are to be taken.
    assert_eq!(rig.job().wakes.load(Ordering::SeqCst), 2);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!(rig.job().wakes.load(Ordering::SeqCst), 2);
}

#[test]
fn a_target_that_takes_blocks_gets_as_many_workers_as_it_takes_blocks() {
    let rig = Rig::new(0);
    rig.controller.opened(&MovedFiles { target_blocks: 16, ..rig.files(None) });
    assert_eq!(rig.controller.workers(), 16);
    rig.controller.opened(&MovedFiles { target_blocks: 500, ..rig.files(None) });
    assert_eq!(rig.controller.workers(), OPTIONS.max_workers);
    assert!(!rig.controller.is_tuning());
}

#[test]
fn workers_double_where_each_brings_as_much() {
    let rig = Rig::new(1);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert!(!rig.controller.has_more_workers());
    let numbers = rig.play(3 * SECOND, limited);
    assert_eq!([4, 9, 14, 19].map(|tick| numbers[tick]), [8, 16, 32, 64]);
    assert_eq!(*lock(&rig.server.preconnected), [8, 16, 32, 64]);
    assert!(rig.controller.has_more_workers());
    let decisions = rig.controller.tuners().decisions();
    assert_eq!((decisions[0].from, decisions[0].to), (4, 8));
}

#[test]
fn workers_that_bring_nothing_are_parked_and_keep_their_pieces() {
    let rig = Rig::new(1);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    let numbers = rig.play(20 * SECOND, full_with_eight);
    assert!(numbers.contains(&16) && *numbers.last().unwrap() < 16, "{numbers:?}");
    assert!(lock(&rig.job().taken_back).is_empty());
}

#[test]
fn on_a_path_where_packets_queue_pieces_of_parked_workers_are_taken_back() {
    let rig = Rig::new(40);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!(rig.controller.workers(), 20);
    *lock(&rig.job().memory.is_queued) = true;
    let numbers = rig.play(10 * SECOND, limited);
    let falls = numbers.windows(2).filter(|it| it[1] < it[0]).map(|it| it[1]);
    let falls: Vec<_> = falls.collect();
    assert!(!falls.is_empty(), "{numbers:?}");
    assert_eq!(*lock(&rig.job().taken_back), falls);
}

#[test]
fn what_the_user_sets_is_what_runs_and_nothing_is_tuned() {
    let rig = Rig::new(24);
    rig.set(|limits| limits.workers = Some(3));
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    rig.controller.moves_between("a b");
    assert_eq!(rig.controller.workers(), 3);
    assert!(!rig.controller.is_tuning());
    let rig = Rig::new(24);
    rig.set(|limits| limits.max_workers = 5);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!(rig.controller.workers(), 5);
    assert!(rig.controller.is_tuning());
}

#[test]
fn neither_parts_of_a_job_nor_limits_of_bandwidth_are_tuned() {
    let rig = Rig::new(24);
    rig.set(|limits| limits.is_part = true);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!((rig.controller.workers(), rig.controller.is_tuning()), (12, false));
    let rig = Rig::new(24);
    let limited = MovedFiles { by_bandwidth: 6, ..rig.files(Some(TunedKnob::Connections)) };
    rig.controller.opened(&limited);
    let small = SmallFileLimits { by_target: usize::MAX, is_local: false };
    rig.controller.opened_small(&limited, &small);
    assert_eq!((rig.controller.workers(), rig.controller.is_tuning()), (6, false));
    assert_eq!(rig.controller.file_limits().small, 6);
}

#[test]
fn files_at_a_time_are_as_many_as_workers_unless_a_number_is_set() {
    let rig = Rig::new(24);
    let all = FileLimits { large: 64, small: connections::MIN_SMALL_FILES, all: usize::MAX };
    assert_eq!(rig.controller.file_limits(), all);
    rig.set(|limits| limits.files = Some(2));
    assert_eq!(rig.controller.file_limits(), FileLimits { large: 2, all: 2, ..all });
    rig.set(|limits| (limits.files, limits.workers) = (None, Some(100)));
    assert_eq!(rig.controller.file_limits(), FileLimits { large: 100, ..all });
    rig.set(|limits| limits.workers = Some(1));
    assert_eq!(rig.controller.file_limits(), FileLimits { large: 64, small: 1, ..all });
}

#[test]
fn a_setting_of_an_earlier_job_is_the_first_one_and_the_last_is_remembered() {
    let rig = Rig::new(1);
    let key = "connections here there large";
    lock(&rig.job().memory.known).insert(key.to_owned(), 32);
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!(rig.controller.workers(), 32);
    rig.play(60 * SECOND, full_with_eight);
    let decisions = rig.controller.end();
    let settled = lock(&rig.job().memory.known)[key];
    assert!((6..=10).contains(&settled), "{settled} after {decisions:?}");
    assert!(!decisions.is_empty() && !rig.controller.is_tuning());
}

#[test]
fn of_uploads_in_one_request_more_begin_and_none_is_stopped() {
    let rig = Rig::new(1);
    rig.controller.opened(&rig.files(Some(TunedKnob::Uploads)));
    assert_eq!(rig.controller.file_limits().large, connections::MIN_BULK);
    let numbers = rig.play(20 * SECOND, full_with_eight);
    assert!(numbers.contains(&16) && *numbers.last().unwrap() < 16, "{numbers:?}");
    assert!(numbers.iter().all(|number| *number >= connections::MIN_BULK));
    // Their workers stay.
    assert_eq!(rig.controller.workers(), *numbers.iter().max().unwrap());
    rig.set(|limits| limits.workers = Some(2));
    assert_eq!(rig.controller.file_limits().large, 64);
}

#[test]
fn uploads_at_a_time_have_room_in_memory() {
    let options = ControllerOptions { budget_bytes: 80 * MIB, ..OPTIONS };
    let rig = Rig::with(1, options, 400);
    rig.controller.opened(&rig.files(Some(TunedKnob::Blocks)));
    let numbers = rig.play(5 * SECOND, limited);
    assert_eq!(numbers.iter().max(), Some(&10), "{numbers:?}");
}

#[test]
fn fewer_files_are_moved_by_servers_that_refuse_more() {
    let rig = Rig::new(1);
    rig.controller.moves_between("a b");
    let numbers = rig.play(80 * SECOND, limited);
    let before = *numbers.last().unwrap();
    assert!(before >= 16, "{numbers:?}");
    (0..9).for_each(|_| rig.controller.begin_move());
    assert_eq!(rig.controller.refuse_move(), 8);
    let numbers = rig.play(30 * SECOND, limited);
    assert!(numbers.iter().all(|number| *number <= 8), "{numbers:?}");
    assert_eq!(rig.controller.refuse_move(), 7);
    rig.controller.end_move();
    assert_eq!(rig.controller.refuse_move(), 5);
}

#[test]
fn files_that_servers_do_not_move_are_tuned_anew() {
    let rig = Rig::new(1);
    rig.controller.moves_between("a b");
    assert_eq!(rig.controller.tuners.knob(), Some(TunedKnob::ThirdPartyFiles));
    rig.controller.opened(&rig.files(Some(TunedKnob::Blocks)));
    assert_eq!(rig.controller.tuners.knob(), Some(TunedKnob::Blocks));
    rig.controller.opened(&rig.files(Some(TunedKnob::Connections)));
    assert_eq!(rig.controller.tuners.knob(), Some(TunedKnob::Connections));
}

#[test]
fn small_files_at_a_time_grow_while_that_brings_more_up_to_what_the_server_takes() {
    let rig = Rig::with(4, OPTIONS, 300);
    let limits = SmallFileLimits { by_target: usize::MAX, is_local: false };
    rig.controller.opened_small(&rig.files(None), &limits);
    let rule = connections::for_small_files(&rig.server.link(), 300);
    assert_eq!(rig.controller.file_limits().small, rule);
    let numbers = rig.play(10 * SECOND, limited);
    assert_eq!(numbers.iter().max(), Some(&300), "{numbers:?}");
    assert!(numbers.iter().all(|number| *number >= rule));
    let fewer = SmallFileLimits { by_target: 9, ..limits };
    rig.controller.opened_small(&rig.files(None), &fewer);
    assert_eq!(rig.controller.file_limits().small, 9);
}

#[test]
fn of_local_small_files_the_target_sets_the_number() {
    let rig = Rig::new(1);
    for (by_target, expected) in [(9, 9), (usize::MAX, connections::MIN_SMALL_FILES)] {
        let limits = SmallFileLimits { by_target, is_local: true };
        rig.controller.opened_small(&rig.files(None), &limits);
        assert_eq!(rig.controller.file_limits().small, expected);
    }
    assert!(!rig.controller.is_tuning());
}
