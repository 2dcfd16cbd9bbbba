//! Samples of the activity of the CPUs.
//!
//! Each CPU has a clock event of its own. It interrupts the CPU at a prime number of times a
//! second, so that it does not synchronise with timers at round rates, and records the process, and
//! the call chain through kernel and program. Programs are not instrumented. The events do not use
//! hardware counters, so they work in virtual machines, too.
//!
//! The rights of the user decide which processes are sampled. With root (or `CAP_PERFMON`, or
//! `perf_event_paranoid` below 0) all processes and the kernel are sampled. Otherwise only the
//! threads of the user's own processes are sampled, each by an event that new threads inherit, and
//! only while they run outside the kernel.
//!
//! Memory: a ring of 512 KiB for each CPU, emptied twice a second. Samples that the kernel could
//! not write are counted as lost.

use crate::perf_events::{Event, Ring, Scope};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::io::Result;

/// Maximum number of threads followed without root: each takes one descriptor per CPU.
const MAX_FOLLOWED_THREADS: usize = 512;
/// Call chains contain markers, at and above this value, before the kernel part and before the user
/// part.
const FIRST_MARKER: u64 = (-4095_i64).cast_unsigned();
const KERNEL_MARKER: u64 = (-128_i64).cast_unsigned();
const USER_MARKER: u64 = (-512_i64).cast_unsigned();
const LOST_RECORD: u32 = 2;
const SAMPLE_RECORD: u32 = 9;
const CALIBRATION_HZ: u32 = 4999;

/// A sample. Addresses are in the order of calls, innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) process: u32,
    pub(crate) cpu: u32,
    pub(crate) kernel: Vec<u64>,
    pub(crate) user: Vec<u64>,
}

/// One record of a ring.
#[derive(Debug, PartialEq, Eq)]
enum Record {
    Sample(Sample),
    Lost(u64),
    Other,
}

/// The events and rings of all CPUs.
#[derive(Debug)]
pub(crate) struct Sampler {
    rings: Vec<Ring>,
    /// Events that write to one of the rings.
    followers: Vec<Event>,
    lost: u64,
}

impl Sampler {
    /// Samples all processes and the kernel on these CPUs.
    pub(crate) fn of_machine(cpus: &[u32], hz: u32) -> Result<Self> {
        let open = |cpu: &u32| Ring::map(Event::sampling(Scope::Machine(*cpu), hz)?);
        let rings = cpus.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { rings, followers: Vec::new(), lost: 0 })
    }

    /// Samples these threads, and threads that they start, outside the kernel.
    pub(crate) fn of_threads(threads: &[u32], cpus: &[u32], hz: u32) -> Result<Self> {
        let mut sampler = Self { rings: Vec::new(), followers: Vec::new(), lost: 0 };
        for cpu in cpus {
            let mut ring: Option<Ring> = None;
            for thread in threads.iter().take(MAX_FOLLOWED_THREADS) {
                let event = match Event::sampling(Scope::Thread(*thread, *cpu), hz) {
                    // The thread has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                    other => other?,
                };
                match &ring {
                    Some(ring) => {
                        event.redirect_to(ring)?;
                        sampler.followers.push(event);
                    }
                    None => ring = Some(Ring::map(event)?),
                }
            }
            sampler.rings.extend(ring);
        }
        Ok(sampler)
    }

    /// Begins to sample.
    pub(crate) fn start(&self) -> Result<()> {
        self.events().try_for_each(Event::enable)
    }

    /// Ends sampling; what was recorded can still be [drained](Self::drain).
    pub(crate) fn stop(&self) -> Result<()> {
        self.events().try_for_each(Event::disable)
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.rings.iter().map(Ring::event).chain(&self.followers)
    }

    /// Samples that the kernel could not record.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Passes the samples since the last call to `sink`.
    pub(crate) fn drain(&mut self, mut sink: impl FnMut(Sample)) {
        let mut bytes = Vec::new();
        for ring in &mut self.rings {
            bytes.clear();
            ring.take(&mut bytes);
            for record in records(&bytes) {
                match record {
                    Record::Sample(sample) => sink(sample),
                    Record::Lost(count) => self.lost = self.lost.saturating_add(count),
                    Record::Other => {}
                }
            }
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// The records in these bytes: type, flags and size of each, then its content. Ends at an
/// incomplete record.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record> {
    std::iter::from_fn(move || {
        let kind = small(bytes, 0)?;
        let size = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?);
        let (record, rest) = bytes.split_at_checked(usize::from(size).max(8))?;
        bytes = rest;
        let content = record.get(8..)?;
        Some(match kind {
            SAMPLE_RECORD => sample(content).map_or(Record::Other, Record::Sample),
            LOST_RECORD => number(content, 8).map_or(Record::Other, Record::Lost),
            _ => Record::Other,
        })
    })
}

/// Parses a sample: address, process, thread, time, CPU, then the number of addresses, then the
/// addresses.
fn sample(bytes: &[u8]) -> Option<Sample> {
    const CHAIN: usize = 32;
    let mut sample =
        Sample { process: small(bytes, 8)?, cpu: small(bytes, 24)?, ..Sample::default() };
    let room = bytes.len().saturating_sub(CHAIN + 8) / 8;
    let length = usize::try_from(number(bytes, CHAIN)?).ok()?.min(room);
    let mut part = None;
    for at in 0..length {
        match number(bytes, CHAIN + 8 + 8 * at)? {
            KERNEL_MARKER => part = Some(&mut sample.kernel),
            USER_MARKER => part = Some(&mut sample.user),
            marker if marker >= FIRST_MARKER => part = None,
            address => part.iter_mut().for_each(|part| part.push(address)),
        }
    }
    Some(sample)
}

/// Measures the nanoseconds that a sample takes from the program that it interrupts, in a quarter
/// of a second; none if that cannot be measured.
///
/// The same work is done with and without sampling, and timed by the CPU clock of this thread,
/// which includes interrupts, and the time that a hypervisor adds to them, but not the time of
/// other threads.
pub(crate) fn cost_of_a_sample() -> Option<f64> {
    const ROUNDS: usize = 5;
    let mut ring = Ring::map(Event::sampling(Scope::Caller, CALIBRATION_HZ).ok()?).ok()?;
    let mut costs = Vec::new();
    let mut bytes = Vec::new();
    for _ in 0..ROUNDS {
        let without = timed_work();
        ring.event().enable().ok()?;
        let with = timed_work();
        ring.event().disable().ok()?;
        bytes.clear();
        ring.take(&mut bytes);
        let samples = records(&bytes).filter(|it| matches!(it, Record::Sample(_))).count();
        if samples > 0 {
            costs.push((with - without) / samples as f64);
        }
    }
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).map(|cost| cost.max(0.0))
}

/// Returns the nanoseconds of CPU time that a fixed amount of work took: tens of milliseconds.
fn timed_work() -> f64 {
    const STEPS: u64 = 8_000_000;
    let started = clock_gettime(ClockId::ThreadCPUTime);
    let mut state = 1_u64;
    for step in 0..STEPS {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
    }
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    (ended.tv_sec - started.tv_sec) as f64 * 1e9 + (ended.tv_nsec - started.tv_nsec) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, content: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + 8 * content.len()).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(content.iter().flat_map(|it| it.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_chain_is_divided_at_its_markers() {
        let chain = [7, KERNEL_MARKER, 0xff01, 0xff02, USER_MARKER, 0x11, FIRST_MARKER, 9];
        let content = [&[0xff01, 42, 1000, 3][..], &chain].concat();
        let bytes = [record(SAMPLE_RECORD, &content), record(LOST_RECORD, &[1, 5])].concat();
        let kernel = vec![0xff01, 0xff02];
        let expected = Sample { process: 42, cpu: 3, kernel, user: vec![0x11] };
        let found: Vec<_> = records(&bytes).collect();
        assert_eq!(found, [Record::Sample(expected), Record::Lost(5)]);
    }

    #[test]
    fn this_thread_can_be_sampled_where_the_system_allows_it() {
        if let Some(cost) = cost_of_a_sample() {
            assert!(cost < 1e6, "{cost} ns for each sample");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(records(&bytes).count() <= bytes.len());
            let _ = sample(&bytes);
        }
    }
}
