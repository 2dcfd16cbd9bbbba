//! A profile from its start to its end.
//!
//! Everything runs in the calling thread, which wakes up several times a second: it empties the
//! rings, samples the waiting threads, and calls the caller's callback, which may end the profile.
//! Names and classes are looked up at the end.
//!
//! The times of the CPUs come from their counters: idle, stolen by the hypervisor, and the rest,
//! which is busy. Samples divide only the busy time.

use crate::category::Category;
use crate::connections::Connections;
use crate::counters::{
    Counters, CpuTicks, EventCounters, Snapshot, TICKS_PER_SECOND, bytes_moved, pressure,
};
use crate::kernel_symbols::KernelSymbols;
use crate::off_cpu::WaitSampler;
use crate::report::{Profile, Sampling};
use crate::sampler::{Sampler, cost_of_a_sample};
use crate::tally::{Classified, Division, Tally};
use crate::target::{Processes, Target, threads};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A prime number, so that samples do not synchronise with timers.
const DEFAULT_RATE_HZ: u32 = 97;
/// Maximum share of a CPU's time for samples; their rate is lowered to keep it.
const MAX_OVERHEAD: f64 = 0.005;
const TURN: Duration = Duration::from_millis(100);
/// Turns between two reads of rings, of the counters of processes, and of connections.
const TURNS_TO_DRAIN: u64 = 5;
const TURNS_TO_COUNT: u64 = 10;
const TURNS_TO_CONNECTIONS: u64 = 50;

/// The processes to profile, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The processes.
    pub target: Target,
    /// Maximum duration; none to profile until something else ends the profile.
    pub duration: Option<Duration>,
    /// The bytes that are moved meanwhile; none to use the counters of the network interfaces.
    pub bytes: Option<u64>,
}

impl Options {
    /// Options for a profile of these processes without a time limit.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, duration: None, bytes: None }
    }
}

/// The reason for which a profile cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("{0} does not run: name a process, or a unit of systemd, that does")]
pub struct TargetError(String);

/// The progress of a running profile.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// The time since the profile began.
    pub elapsed: Duration,
    /// Samples so far.
    pub samples: u64,
}

/// Preparations that are made before a profile begins.
#[derive(Debug)]
pub struct Profiler {
    kernel: KernelSymbols,
    /// Nanoseconds per sample.
    cost: Option<f64>,
    rate_hz: u32,
}

impl Profiler {
    /// Reads the names of kernel functions and measures the cost of a sample, in about 0.3 s.
    #[must_use]
    pub fn prepare() -> Self {
        let cost = cost_of_a_sample();
        let affordable = cost.map_or(f64::INFINITY, |cost| MAX_OVERHEAD * 1e9 / cost.max(1.0));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 97")]
        let rate_hz = affordable.clamp(1.0, f64::from(DEFAULT_RATE_HZ)) as u32;
        Self { kernel: KernelSymbols::load(), cost, rate_hz }
    }

    /// Profiles until the time is over, the processes have ended, `stop` receives a message or is
    /// disconnected, or `goes_on` returns false, which is called several times a second.
    ///
    /// # Errors
    ///
    /// None of the processes runs.
    pub fn run(
        self,
        options: Options,
        stop: &Receiver<()>,
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Profile, TargetError> {
        let mut run = Run::begin(self, options)?;
        loop {
            let progress = Progress { elapsed: run.elapsed(), samples: run.tally.samples };
            let limit = run.options.duration.unwrap_or(Duration::MAX);
            let left = limit.saturating_sub(progress.elapsed);
            if left.is_zero() || !goes_on(progress) {
                break;
            }
            match stop.recv_timeout(left.min(TURN)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if !run.turn() {
                break;
            }
        }
        Ok(run.end())
    }
}

/// A running profile.
#[derive(Debug)]
struct Run {
    options: Options,
    cost: Option<f64>,
    rate_hz: u32,
    cpus: Vec<u32>,
    target: String,
    mode: &'static str,
    sampler: Option<Sampler>,
    tally: Tally,
    processes: Processes,
    /// The process ids of the target.
    running: Vec<u32>,
    waits: WaitSampler,
    connections: Connections,
    events: EventCounters,
    before: Snapshot,
    latest: Snapshot,
    began: Duration,
    turns: u64,
    notes: Vec<String>,
}

impl Run {
    fn begin(profiler: Profiler, mut options: Options) -> Result<Self, TargetError> {
        let Profiler { kernel, cost, rate_hz } = profiler;
        let cpus: Vec<u32> = Snapshot::take(&[]).cpus.into_keys().collect();
        let mut notes = Vec::new();
        let machine = Sampler::of_machine(&cpus, rate_hz);
        if let Err(error) = &machine {
            notes.push(no_rights(error));
            if options.target == Target::Machine {
                options.target = Target::User(rustix::process::geteuid().as_raw());
            }
        }
        let processes = Processes::new(options.target.clone());
        let running = processes.running();
        let target = describe(&options.target);
        if running.is_empty() && options.target != Target::Machine {
            return Err(TargetError(target));
        }
        let (mode, sampler) = match machine {
            Ok(sampler) => ("machine", Some(sampler)),
            Err(_) => {
                let threads: Vec<u32> = running.iter().flat_map(|it| threads(*it)).collect();
                match Sampler::of_threads(&threads, &cpus, rate_hz) {
                    Ok(sampler) => ("own_processes", Some(sampler)),
                    Err(error) => {
                        notes.push(format!("nothing could be sampled: {error}"));
                        ("none", None)
                    }
                }
            }
        };
        let mut run = Self {
            cost,
            rate_hz,
            target,
            mode,
            sampler,
            tally: Tally::new(kernel),
            processes,
            waits: WaitSampler::default(),
            connections: Connections::default(),
            events: EventCounters::open(&cpus),
            before: Snapshot::take(&running),
            latest: Snapshot::default(),
            began: monotonic(),
            turns: 0,
            notes,
            cpus,
            running,
            options,
        };
        if let Some(Err(error)) = run.sampler.as_ref().map(Sampler::start) {
            run.notes.push(format!("nothing could be sampled: {error}"));
        }
        run.events.next_turn();
        Ok(run)
    }

    fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.began)
    }

    /// Does the work that is due; returns true while there is a process to profile.
    fn turn(&mut self) -> bool {
        self.turns += 1;
        let is_due = |every: u64| self.turns.is_multiple_of(every);
        let counts = is_due(TURNS_TO_COUNT);
        let connects = self.turns % TURNS_TO_CONNECTIONS == TURNS_TO_DRAIN;
        if is_due(TURNS_TO_DRAIN) {
            self.drain();
            self.events.next_turn();
        }
        self.waits.look(&self.running, monotonic);
        if counts {
            self.latest.update_processes(&self.running);
        }
        if connects {
            self.connections.look(&self.running);
            self.running = self.processes.running();
        }
        let has_ended = |it: &u32| !fs::exists(format!("/proc/{it}")).unwrap_or(false);
        self.options.target == Target::Machine || !self.running.iter().all(has_ended)
    }

    fn drain(&mut self) {
        let Self { sampler: Some(sampler), tally, processes, .. } = self else { return };
        tally.begin_round();
        sampler.drain(|sample| tally.add(&sample, processes));
        self.running.extend(self.processes.sampled());
        self.running.sort_unstable();
        self.running.dedup();
    }

    fn end(mut self) -> Profile {
        let stopped = self.sampler.as_ref().map_or(Ok(()), Sampler::stop);
        let time = self.elapsed();
        self.drain();
        self.connections.look(&self.running);
        let mut after = Snapshot::take(&self.running);
        after.add_ended(self.latest);
        let bytes = bytes_moved(&self.before, &after);
        let mut counters = Counters::between(&self.before, &after);
        self.events.add_to(&mut counters, time);
        if let Err(error) = stopped {
            self.notes.push(format!("sampling could not be ended: {error}"));
        }
        explain(&mut self.notes, &self.tally, &counters, self.mode);
        explain_network(&mut self.notes, &self.running);
        let lost = self.sampler.as_ref().map_or(0, Sampler::lost);
        let classified = self.tally.classify();
        let division = divide(&classified, &self.before, &after, time, self.mode, &counters);
        let busy = |(class, count): &(crate::classify::Class, u64)| {
            if class.category == Category::Idle { 0 } else { *count }
        };
        let samples = classified.cpus.values().flatten().map(busy).sum();
        let idle: f64 = [Category::Idle, Category::Steal]
            .iter()
            .filter_map(|it| division.seconds.get(it))
            .sum();
        let rate = f64::from(self.rate_hz);
        let expected = (division.seconds.values().sum::<f64>() - idle) * rate;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let expected = expected.max(0.0) as u64;
        let bytes = self.options.bytes.unwrap_or(bytes);
        let mut profile = Profile {
            target: self.target,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map(|it| it.trim().to_owned())
                .unwrap_or_default(),
            cpus: self.cpus.len(),
            seconds: time.as_secs_f64(),
            bytes,
            bytes_from: if self.options.bytes.is_some() { "option" } else { "interfaces" },
            shares: BTreeMap::new(),
            cpu_seconds_per_gb: None,
            contexts: BTreeMap::new(),
            copies: BTreeMap::new(),
            parts: BTreeMap::new(),
            off_cpu: self.waits.result(),
            counters_per_gb: (bytes > 0).then(|| counters.per_gb(bytes)),
            counters,
            pressure: pressure(&self.before, &after, time),
            connections: self.connections.result(),
            sampling: Sampling {
                mode: self.mode,
                rate_hz: self.rate_hz,
                samples,
                expected,
                lost,
                microseconds_each: self.cost.map(|it| (it / 10.0).round() / 100.0),
                overhead_percent: self.cost.unwrap_or_default() * rate / 1e7,
                skid_percent: 0.0,
            },
            modules: classified.modules,
            notes: self.notes,
            folded: classified.folded,
        };
        profile.divide(&division);
        profile
    }
}

/// Divides the time of all CPUs among the categories.
fn divide(
    classified: &Classified,
    before: &Snapshot,
    after: &Snapshot,
    time: Duration,
    mode: &str,
    counters: &Counters,
) -> Division {
    let mut division = Division::default();
    let mut all_busy = 0.0;
    for (cpu, now) in &after.cpus {
        let start = before.cpus.get(cpu).copied().unwrap_or(*now);
        let since = |field: fn(&CpuTicks) -> u64| {
            field(now).saturating_sub(field(&start)) as f64 / TICKS_PER_SECOND
        };
        let whole = time.as_secs_f64();
        let idle = since(|it| it.idle).min(whole);
        let steal = since(|it| it.steal).min(whole - idle);
        *division.seconds.entry(Category::Idle).or_default() += idle;
        *division.seconds.entry(Category::Steal).or_default() += steal;
        let busy = whole - idle - steal;
        all_busy += busy;
        if mode == "machine" {
            let classes = classified.cpus.get(cpu).map_or(&[][..], Vec::as_slice);
            division.add_cpu(busy, classes);
        }
    }
    if mode != "machine" {
        // The kernel counts the time of the processes inside and outside of it.
        let user = counters.user_seconds.unwrap_or_default().min(all_busy);
        let kernel = counters.kernel_seconds.unwrap_or_default().min(all_busy - user);
        let classes: Vec<_> = classified.cpus.values().flatten().cloned().collect();
        division.add_cpu(user, &classes);
        *division.seconds.entry(Category::RestOfKernel).or_default() += kernel;
        *division.seconds.entry(Category::OtherProcesses).or_default() += all_busy - user - kernel;
    }
    division
}

pub(crate) fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn describe(target: &Target) -> String {
    match target {
        Target::Machine => "the machine".to_owned(),
        Target::Process(process) => match crate::target::stat(*process) {
            Some(stat) => format!("{} (process {process})", stat.name),
            None => format!("process {process}"),
        },
        Target::Unit(unit) => format!("unit {unit}"),
        Target::User(user) => format!("processes of user {user}"),
    }
}

fn setting(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}"))
        .map_or_else(|_| "not known".to_owned(), |it| it.trim().to_owned())
}

fn no_rights(error: &std::io::Error) -> String {
    format!(
        "the machine could not be sampled ({error}; kernel.perf_event_paranoid is {}): only your own \
         processes were, outside the kernel. For more, run this as root, or as root set \
         kernel.perf_event_paranoid to -1",
        setting("perf_event_paranoid")
    )
}

fn explain(notes: &mut Vec<String>, tally: &Tally, counters: &Counters, mode: &str) {
    if mode == "machine" && !tally.has_kernel_names() {
        notes.push(format!(
            "functions of the kernel have no names (kernel.kptr_restrict is {}), so their time is \
             unknown: run this as root, or as root set kernel.kptr_restrict to 0",
            setting("kptr_restrict")
        ));
    }
    if mode == "machine" && counters.system_calls.is_none() {
        let advice = "mount -t tracefs tracefs /sys/kernel/tracing";
        notes.push(format!("system calls were not counted: they need `{advice}`"));
    }
    if counters.dtlb_misses.is_none() {
        let what =
            "misses of the TLB were not counted: this machine shows no counters of the processor";
        notes.push(what.to_owned());
    }
}

fn explain_network(notes: &mut Vec<String>, running: &[u32]) {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    if let Some(first) = running.first()
        && let Some(theirs) = network(&first.to_string())
        && network("self") != Some(theirs)
    {
        notes.push(format!(
            "the processes have a network of their own, whose connections are not seen from here: \
             run this within `nsenter -t {first} -n`"
        ));
    }
}
