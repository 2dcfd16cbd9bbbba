//! Counters of the kernel, read before and after a profile.
//!
//! Idle time and stolen time (of the hypervisor) come from these counters instead of samples: an
//! idle CPU may deliver no samples at all. System calls are counted by a tracepoint, which costs
//! some 130 ns per call, so it is enabled for only a twentieth of the time. Misses of the data TLB
//! need hardware counters, which most virtual machines do not have.

use crate::perf_events::{Countable, Event, Scope};
use crate::target::{stat, threads};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Duration;

/// Ticks per second: `USER_HZ`, which is part of the kernel's interface on all supported
/// architectures.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;
const SYSTEM_CALLS: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";
/// System calls are counted in one of this many turns.
const TURNS: u64 = 20;

/// Times of one CPU since the start, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    pub(crate) idle: u64,
    pub(crate) steal: u64,
}

/// Counts of a process since its start.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessCounts {
    user_ticks: u64,
    kernel_ticks: u64,
    faults: u64,
    context_switches: u64,
}

/// The counters at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) cpus: BTreeMap<u32, CpuTicks>,
    context_switches: u64,
    interrupts: u64,
    memory: HashMap<String, u64>,
    /// Microseconds in which some task waited, by resource.
    pressure: BTreeMap<&'static str, u64>,
    received: u64,
    sent: u64,
    processes: HashMap<u32, ProcessCounts>,
}

impl Snapshot {
    /// Reads the counters of the machine, of these processes and of their network.
    pub(crate) fn take(processes: &[u32]) -> Self {
        let mut now = Self::default();
        for line in read("/proc/stat").lines() {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let first = || numbers(rest).next().unwrap_or_default();
            match name {
                "ctxt" => now.context_switches = first(),
                "intr" => now.interrupts = first(),
                _ => now.cpus.extend(cpu_ticks(name, rest)),
            }
        }
        for line in read("/proc/vmstat").lines() {
            if let Some((name, count)) = line.split_once(' ') {
                now.memory.extend(count.parse().ok().map(|count| (name.to_owned(), count)));
            }
        }
        for what in ["cpu", "io", "memory"] {
            let waited = some_microseconds(&read(&format!("/proc/pressure/{what}")));
            now.pressure.extend(waited.map(|waited| (what, waited)));
        }
        // The process may have its own network namespace.
        let network = processes.first().map_or_else(|| "self".to_owned(), u32::to_string);
        for line in read(&format!("/proc/{network}/net/dev")).lines() {
            let Some((_, counts)) = line.split_once(':') else { continue };
            let counts: Vec<u64> = numbers(counts).collect();
            now.received += counts.first().copied().unwrap_or_default();
            now.sent += counts.get(8).copied().unwrap_or_default();
        }
        now.update_processes(processes);
        now
    }

    /// Reads the counters of these processes again.
    pub(crate) fn update_processes(&mut self, processes: &[u32]) {
        self.processes.extend(processes.iter().filter_map(|it| Some((*it, counts(*it)?))));
    }

    /// Adds the last known counters of processes that have ended.
    pub(crate) fn add_ended(&mut self, earlier: Self) {
        for (process, counts) in earlier.processes {
            self.processes.entry(process).or_insert(counts);
        }
    }
}

fn counts(process: u32) -> Option<ProcessCounts> {
    let stat = stat(process)?;
    let switches = |thread: u32| -> u64 {
        let status = read(&format!("/proc/{process}/task/{thread}/status"));
        let switches = status.lines().filter(|it| it.contains("ctxt_switches"));
        switches.filter_map(|it| it.split_once(':')?.1.trim().parse::<u64>().ok()).sum()
    };
    Some(ProcessCounts {
        user_ticks: stat.user_ticks,
        kernel_ticks: stat.kernel_ticks,
        faults: stat.minor_faults + stat.major_faults,
        context_switches: threads(process).map(switches).sum(),
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split_ascii_whitespace().map_while(|it| it.parse().ok())
}

/// A line `cpuN user nice system idle iowait irq softirq steal ...` of `/proc/stat`.
fn cpu_ticks(name: &str, rest: &str) -> Option<(u32, CpuTicks)> {
    let cpu = name.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = numbers(rest).collect();
    let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
    Some((cpu, CpuTicks { idle, steal: ticks.get(7).copied().unwrap_or_default() }))
}

/// The total of the line `some` of `/proc/pressure/*`.
fn some_microseconds(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some"))?;
    line.split_once("total=")?.1.trim().parse().ok()
}

/// Events of the kernel during a profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// CPU seconds of the profiled processes, outside the kernel; none for the whole machine.
    pub user_seconds: Option<f64>,
    /// CPU seconds of the profiled processes in the kernel; none for the whole machine.
    pub kernel_seconds: Option<f64>,
    /// System calls of the machine; none where they cannot be counted.
    pub system_calls: Option<f64>,
    /// Context switches: of the profiled processes, or of the machine.
    pub context_switches: f64,
    /// Page faults: of the profiled processes, or of the machine.
    pub page_faults: f64,
    /// Huge pages that the machine allocated.
    pub huge_pages: f64,
    /// Interrupts of the machine.
    pub interrupts: f64,
    /// Misses of loads in the data TLB of all CPUs; none without hardware counters.
    pub dtlb_misses: Option<f64>,
}

impl Counters {
    /// The differences between two snapshots.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let memory = |names: &[&str]| -> f64 {
            let of = |it: &Snapshot, name: &str| it.memory.get(name).copied().unwrap_or_default();
            names.iter().map(|it| of(after, it).saturating_sub(of(before, it)) as f64).sum()
        };
        let sum = |field: fn(&ProcessCounts) -> u64| -> f64 {
            let counts = after.processes.iter().map(|(process, now)| {
                field(now).saturating_sub(before.processes.get(process).map_or(0, field))
            });
            counts.sum::<u64>() as f64
        };
        let difference =
            |field: fn(&Snapshot) -> u64| field(after).saturating_sub(field(before)) as f64;
        let has_processes = !after.processes.is_empty() || !before.processes.is_empty();
        let seconds = |field| has_processes.then(|| sum(field) / TICKS_PER_SECOND);
        Self {
            user_seconds: seconds(|it| it.user_ticks),
            kernel_seconds: seconds(|it| it.kernel_ticks),
            system_calls: None,
            context_switches: if has_processes {
                sum(|it| it.context_switches)
            } else {
                difference(|it| it.context_switches)
            },
            page_faults: if has_processes { sum(|it| it.faults) } else { memory(&["pgfault"]) },
            huge_pages: memory(&["thp_fault_alloc", "thp_file_alloc", "thp_collapse_alloc"]),
            interrupts: difference(|it| it.interrupts),
            dtlb_misses: None,
        }
    }

    /// The counters per 10^9 bytes.
    pub(crate) fn per_gb(&self, bytes: u64) -> Self {
        let per = |count: f64| count / (bytes as f64 / 1e9);
        Self {
            user_seconds: self.user_seconds.map(per),
            kernel_seconds: self.kernel_seconds.map(per),
            system_calls: self.system_calls.map(per),
            context_switches: per(self.context_switches),
            page_faults: per(self.page_faults),
            huge_pages: per(self.huge_pages),
            interrupts: per(self.interrupts),
            dtlb_misses: self.dtlb_misses.map(per),
        }
    }
}

/// The bytes that interfaces moved: received or sent, whichever is more. A loopback interface
/// counts each byte in both directions.
pub(crate) fn bytes_moved(before: &Snapshot, after: &Snapshot) -> u64 {
    let received = after.received.saturating_sub(before.received);
    received.max(after.sent.saturating_sub(before.sent))
}

/// The shares of the time, in percent, in which some task waited for CPU, disk or memory.
pub(crate) fn pressure(
    before: &Snapshot,
    after: &Snapshot,
    time: Duration,
) -> BTreeMap<&'static str, f64> {
    let share = |(what, now): (&&'static str, &u64)| {
        let waited = now.saturating_sub(*before.pressure.get(what)?);
        Some((*what, (waited as f64 / (time.as_secs_f64() * 1e4).max(1.0)).min(100.0)))
    };
    after.pressure.iter().filter_map(share).collect()
}

/// Counters that have to be opened on each CPU.
#[derive(Debug)]
pub(crate) struct EventCounters {
    system_calls: Vec<Event>,
    dtlb_misses: Vec<Event>,
    turn: u64,
}

impl EventCounters {
    /// Opens the counters that this machine and the rights of the user allow.
    pub(crate) fn open(cpus: &[u32]) -> Self {
        let open = |what: Countable| -> Vec<Event> {
            let events = cpus.iter().map(|cpu| Event::counter(what, Scope::Machine(*cpu)));
            events.collect::<std::io::Result<_>>().unwrap_or_default()
        };
        let tracepoint = read(SYSTEM_CALLS).trim().parse().ok().map(Countable::Tracepoint);
        let dtlb_misses = open(Countable::DataTlbMisses);
        for event in &dtlb_misses {
            // If this fails, the count stays 0.
            let _ = event.enable();
        }
        Self { system_calls: tracepoint.map(open).unwrap_or_default(), dtlb_misses, turn: 0 }
    }

    /// Starts the next turn, which lasts some tenths of a second.
    pub(crate) fn next_turn(&mut self) {
        let change = match self.turn % TURNS {
            0 => Event::enable,
            1 => Event::disable,
            _ => |_: &Event| Ok(()),
        };
        // A counter that cannot be changed keeps its state; its count is scaled by the time in
        // which it was enabled.
        let _ = self.system_calls.iter().try_for_each(change);
        self.turn += 1;
    }

    /// Adds the counts, extrapolated to the whole duration.
    pub(crate) fn add_to(&self, counters: &mut Counters, time: Duration) {
        let total = |events: &[Event]| -> Option<f64> {
            let counts = events.iter().map(|event| event.count().ok());
            let scaled = counts.map(|count| {
                let (count, nanoseconds) = count.filter(|(_, time)| *time > 0)?;
                Some(count as f64 * (time.as_nanos() as f64 / nanoseconds as f64))
            });
            scaled.sum::<Option<f64>>().filter(|_| !events.is_empty())
        };
        counters.system_calls = total(&self.system_calls);
        counters.dtlb_misses = total(&self.dtlb_misses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_time() {
        let found = cpu_ticks("cpu12", " 1 2 3 40 5 6 7 8 9 10");
        assert_eq!(found, Some((12, CpuTicks { idle: 45, steal: 8 })));
        assert_eq!(cpu_ticks("cpu", " 1 2 3 40 5 6 7 8"), None);
        assert_eq!(cpu_ticks("cpu1", " 1 2 x"), None);
    }

    #[test]
    fn pressure_is_the_line_of_some() {
        let text = "some avg10=1.00 avg60=0 avg300=0 total=12345\nfull avg10=0 total=1\n";
        assert_eq!(some_microseconds(text), Some(12345));
        assert_eq!(some_microseconds("some total=x"), None);
    }

    #[test]
    fn counters_of_this_process_grow() {
        let own = [std::process::id()];
        let before = Snapshot::take(&own);
        let pages = std::hint::black_box(vec![1_u8; 4 << 20]);
        let after = Snapshot::take(&own);
        let counters = Counters::between(&before, &after);
        assert!(counters.page_faults > 0.0 && counters.user_seconds.is_some(), "{counters:?}");
        assert!(!before.cpus.is_empty());
        let half = counters.per_gb(2_000_000_000);
        assert_eq!(half.page_faults * 2.0, counters.page_faults);
        drop(pages);
    }
}
