//! Reasons for which threads wait.
//!
//! The kernel counts exactly how long each thread ran and how long it waited for a CPU
//! (`/proc/PID/task/*/schedstat`). The remaining time is divided by samples of each thread, several
//! times a second: of its kernel stack as root, otherwise of the function in which it waits
//! (`wchan`). One sample costs microseconds, so the rate is lowered if there are many threads.

use crate::target::threads;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Duration;

const MAX_THREADS: usize = 1024;
/// Minimum time between two samples, and maximum share of the time that sampling may take.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_SHARE: f64 = 0.003;

/// Reasons for waiting, by prefixes of kernel functions.
const REASONS: &[(&str, &[&str])] = &[
    ("network_send", &["sk_stream_wait", "tcp_sendmsg", "sock_sendmsg", "splice_to_socket"]),
    (
        "network_receive",
        &["sk_wait_data", "tcp_recvmsg", "inet_csk_accept", "skb_wait", "unix_stream", "inet_"],
    ),
    ("events", &["ep_poll", "do_epoll", "do_poll", "do_sys_poll", "do_select", "io_cqring"]),
    (
        "disk",
        &[
            "io_schedule",
            "folio_wait",
            "wait_on_page",
            "bit_wait",
            "blk_",
            "jbd2_",
            "submit_bio",
            "balance_dirty",
            "wb_wait",
            "ext4_",
            "xfs_",
            "filemap_",
            "vfs_fsync",
        ],
    ),
    ("locks", &["futex", "rwsem", "mutex", "__mutex", "rt_mutex"]),
    ("timers", &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]),
    ("pipes", &["pipe_", "anon_pipe"]),
    ("processes", &["do_wait", "kernel_wait", "do_sigtimedwait", "sigsuspend", "do_signal_stop"]),
];

/// The time of the threads of the profiled processes, by state.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OffCpu {
    /// Number of threads seen.
    pub threads: u64,
    /// Their time, summed over threads.
    pub seconds: f64,
    /// Shares of it in percent: `running`, `run_queue` (waiting for a CPU), and the reasons for
    /// waiting. The sum is 100.
    pub shares: BTreeMap<&'static str, f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    first: (u64, u64),
    last: (u64, u64),
    from: Duration,
    to: Duration,
}

/// Samples threads at intervals.
#[derive(Debug, Default)]
pub(crate) struct WaitSampler {
    threads: HashMap<u32, Thread>,
    reasons: BTreeMap<&'static str, u64>,
    next: Duration,
}

impl WaitSampler {
    /// Samples all threads if the interval has passed; `clock` must be monotonic.
    pub(crate) fn look(&mut self, processes: &[u32], clock: impl Fn() -> Duration) {
        let now = clock();
        if now < self.next {
            return;
        }
        for process in processes {
            for thread in threads(*process).take(MAX_THREADS) {
                self.look_at(*process, thread, now);
            }
        }
        let took = clock().saturating_sub(now);
        self.next = now + MIN_INTERVAL.max(took.div_f64(MAX_SHARE));
    }

    fn look_at(&mut self, process: u32, thread: u32, now: Duration) {
        let path = format!("/proc/{process}/task/{thread}");
        let read = |name: &str| fs::read_to_string(format!("{path}/{name}")).ok();
        let Some(ran) = read("schedstat").as_deref().and_then(schedstat) else { return };
        if !self.threads.contains_key(&thread) && self.threads.len() >= MAX_THREADS {
            return;
        }
        let new = Thread { first: ran, last: ran, from: now, to: now };
        let seen = self.threads.entry(thread).or_insert(new);
        seen.last = ran;
        seen.to = now;
        let stack = read("stack").filter(|it| !it.is_empty()).or_else(|| read("wchan"));
        if let Some(reason) = stack.as_deref().and_then(reason) {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// The times so far; none if no thread was seen.
    pub(crate) fn result(&self) -> Option<OffCpu> {
        let time: Duration = self.threads.values().map(|it| it.to.saturating_sub(it.from)).sum();
        let total = time.as_nanos() as f64;
        if total == 0.0 {
            return None;
        }
        let sum = |field: fn(&(u64, u64)) -> u64| -> f64 {
            let grown = |it: &Thread| field(&it.last).saturating_sub(field(&it.first)) as f64;
            self.threads.values().map(grown).sum()
        };
        let running = (sum(|it| it.0) / total).min(1.0);
        let queued = (sum(|it| it.1) / total).min(1.0 - running);
        let blocked = 1.0 - running - queued;
        let looks: u64 = self.reasons.values().sum();
        let mut shares = BTreeMap::from([("running", running), ("run_queue", queued)]);
        for (reason, count) in &self.reasons {
            shares.insert(reason, blocked * *count as f64 / looks as f64);
        }
        if looks == 0 {
            shares.insert("other", blocked);
        }
        shares.values_mut().for_each(|share| *share = (*share * 1e4).round() / 100.0);
        Some(OffCpu { threads: self.threads.len() as u64, seconds: total / 1e9, shares })
    }
}

/// Nanoseconds that a thread ran and waited for a CPU.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// The reason in a stack or a `wchan`; none for a thread that runs or is ready to run.
fn reason(stack: &str) -> Option<&'static str> {
    // `[<0>] function+0x1/0x2`, the innermost first; or one function; or 0.
    let functions = || {
        let names = stack.lines().map(|line| line.rsplit(' ').next().unwrap_or(line));
        names.map(|it| it.split('+').next().unwrap_or(it)).filter(|it| !matches!(*it, "" | "0"))
    };
    let first = functions().next()?;
    if ["irqentry_", "exit_to_user", "preempt_schedule"].iter().any(|it| first.starts_with(it)) {
        return None;
    }
    let of = |function: &str| {
        let is_of = |names: &&[&str]| names.iter().any(|name| function.starts_with(name));
        REASONS.iter().find(|(_, names)| is_of(names)).map(|(reason, _)| *reason)
    };
    Some(functions().find_map(of).unwrap_or("other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_shows_what_its_thread_waits_for() {
        let stack =
            "[<0>] wait_woken+0x5/0x70\n[<0>] sk_wait_data+0x1/0x2\n[<0>] tcp_recvmsg+0x1/0x9\n";
        assert_eq!(reason(stack), Some("network_receive"));
        assert_eq!(reason("[<0>] futex_do_wait+0x1/0x2\n"), Some("locks"));
        assert_eq!(reason("ep_poll"), Some("events"));
        assert_eq!(reason("[<0>] strange+0x1/0x2\n"), Some("other"));
        let running = ["0", "", "[<0>] irqentry_exit_to_user_mode+0x1/0x2\n"];
        assert_eq!(running.map(reason), [None, None, None]);
    }

    #[test]
    fn shares_of_waiting_threads_are_100_in_sum() {
        let mut waits = WaitSampler::default();
        let own = [std::process::id()];
        waits.look(&own, || Duration::from_secs(1));
        assert_eq!(waits.result(), None);
        waits.look(&own, || Duration::from_secs(60));
        let found = waits.result().unwrap();
        assert!(found.threads >= 1 && (found.shares.values().sum::<f64>() - 100.0).abs() < 0.1);
        // This is before the end of the interval.
        waits.look(&own, || Duration::from_millis(60_001));
        assert_eq!(waits.result(), Some(found));
    }
}
