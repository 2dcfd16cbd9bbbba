//! A recorded job on another link and with other settings, in virtual time.
//!
//! The job is the script of a trace: threads that read, work, and read again. It is a closed loop:
//! a thread continues when its bytes have arrived, however long that takes, so that a slower link
//! delays what follows, and nothing else. The reads use the code of a real job:
//! [`CachedFile`](hither_read::CachedFile) with its cache and driver,
//! [`ReadAhead`](hither_read::ReadAhead), the planner and the choice of connections. Only the bytes
//! are simulated: they are zeros from a [`SimulatedSource`], whose connections open, start slowly
//! and share the link.
//!
//! Three methods are compared, as in figure 4 of Furano and others, "Latencies and data access",
//! CHEP 2006: copying the files first, reading through without prefetching, and prefetching.
//!
//! *Not modelled:* losses and the sender's reaction to them; the client's CPU time per request;
//! columns that are learned from trees, and files opened ahead. Overlapping reads of one thread run
//! one after the other. All files come from one server, and each ends where the job's reads of it
//! end.

mod copy_first;
mod heat_map;
mod play;
mod report;
mod sweep;

pub use report::{LinkReport, SimulationReport};
pub use sweep::{Case, Grid, MAX_CASES, sweep};

use crate::source::{SimulatedSource, WaitCauses};
use crate::virtual_time::VirtualTime;
use hither_core::{Endpoint, Result};
use hither_netem::link::Link;
use hither_trace::Script;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of a TCP segment.
const SEGMENT_BYTES: u64 = 1448;
/// Bytes of the IP packet that carries a segment.
const PACKET_BYTES: u64 = 1500;

/// The reads of a program, and the files that it read.
#[derive(Debug, Clone)]
pub struct Job {
    script: Script,
    /// Sizes of the files, by their numbers in the trace.
    files: BTreeMap<u32, u64>,
}

/// The figures of a job that do not depend on the link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobReport {
    /// Reads; a vector read is one.
    pub reads: u64,
    /// Bytes read; repeated reads are counted each time.
    pub bytes: u64,
    /// Files read.
    pub files: usize,
    /// Bytes of the files, each up to the end of the job's reads.
    pub file_bytes: u64,
    /// Threads that read.
    pub threads: usize,
    /// The longest time that a thread worked between its reads.
    pub work_seconds: f64,
    /// Duration as recorded.
    pub recorded_seconds: f64,
}

impl Job {
    /// The job of this script.
    #[must_use]
    pub fn new(script: Script) -> Self {
        let mut files = BTreeMap::new();
        for (step, ranges) in script.threads.values().flat_map(|thread| thread.steps()) {
            let size = files.entry(step.file).or_insert(0);
            *size = ranges.iter().map(|range| range.end).fold(*size, u64::max);
        }
        Self { script, files }
    }

    /// Sets the size of every file to at least `bytes`.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> Self {
        for size in self.files.values_mut() {
            *size = bytes.max(*size);
        }
        self
    }

    /// The figures of the job.
    #[must_use]
    pub fn report(&self) -> JobReport {
        let threads = self.script.threads.values();
        let steps = || threads.clone().flat_map(|thread| thread.steps());
        JobReport {
            reads: steps().count() as u64,
            bytes: steps().map(|(_, ranges)| hither_core::range::total_bytes(ranges)).sum(),
            files: self.files.len(),
            file_bytes: self.files.values().sum(),
            threads: threads.len(),
            work_seconds: self.work().as_secs_f64(),
            recorded_seconds: self.script.recorded.as_secs_f64(),
        }
    }

    /// The duration if reads take no time.
    fn work(&self) -> Duration {
        let threads = self.script.threads.values();
        threads.map(|thread| thread.paused()).max().unwrap_or_default()
    }

    /// Runs the job with this method; returns none if it was stopped.
    ///
    /// # Errors
    ///
    /// An error of the client's code: the simulated server causes none.
    pub fn run(
        &self,
        method: Method,
        settings: &JobSettings,
        stop: &AtomicBool,
    ) -> Result<Option<JobResult>> {
        let time = VirtualTime::new();
        let host = settings.host(&time);
        let result = match method {
            Method::CopyFirst => time.run(copy_first::copy_first(self, &host, settings), stop),
            Method::ReadThrough | Method::Prefetch => {
                let prefetches = method == Method::Prefetch;
                time.run(play::play(self, &time, &host, settings, prefetches), stop)
            }
        };
        result.transpose()
    }
}

/// A method to get the data of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// Copies the files; the job then reads them locally, which takes no time.
    CopyFirst,
    /// Requests what the cache does not hold when the job needs it.
    ReadThrough,
    /// Requests data before the job needs them.
    Prefetch,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::CopyFirst => "copy first",
            Self::ReadThrough => "read through",
            Self::Prefetch => "prefetch",
        })
    }
}

/// The link and the settings of the client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobSettings {
    /// Round-trip time, rate of IP packets and limit of each connection. Loss and queue are not
    /// modelled.
    #[serde(flatten, serialize_with = "link")]
    pub link: Link,
    /// Time of the server for each request.
    #[serde(skip)]
    pub server_time: Duration,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Bytes of a block, 0 for none; learned by default.
    pub block_bytes: Option<u64>,
    /// Maximum bytes prefetched and not yet read; half of the cache by default.
    pub read_ahead_bytes: Option<u64>,
    /// Maximum connections.
    pub connections: usize,
}

fn link<S: Serializer>(link: &Link, to: S) -> std::result::Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("latency_seconds", &link.rtt.as_secs_f64())?;
    map.serialize_entry("bits_per_second", &link.bandwidth)?;
    map.end()
}

impl JobSettings {
    /// The client's default settings over `link`.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self {
            link,
            server_time: Duration::ZERO,
            cache_bytes: hither_read::CacheConfig::default().budget_bytes,
            block_bytes: None,
            read_ahead_bytes: None,
            connections: hither_load::connections::MAX_INTERACTIVE,
        }
    }

    /// The server, with an empty file on it.
    fn host(&self, time: &VirtualTime) -> SimulatedSource {
        // The rate of a link includes the headers of packets; the simulated source sends only
        // payload.
        let payload = |rate: u64| rate / PACKET_BYTES * SEGMENT_BYTES;
        let link = Link {
            bandwidth: self.link.bandwidth.map(payload),
            each: self.link.each.map(payload),
            ..self.link
        };
        SimulatedSource::zeros(0, link)
            .with_clock(Arc::new(time.clone()))
            .with_limits(Endpoint::default().limits())
            .with_max_connections(self.connections)
            .with_server_time(self.server_time)
            .with_idle_restart()
            .with_activity()
    }
}

/// The result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobResult {
    /// Duration of the job.
    pub seconds: f64,
    /// Time that reads waited, summed over threads.
    pub waited_seconds: f64,
    /// The same by cause; the time of copying is not included.
    pub waits: WaitCauses,
    /// Reads that waited.
    pub reads_waited: u64,
    /// Requests.
    pub requests: u64,
    /// Connections opened.
    pub connections_opened: usize,
    /// Bytes fetched.
    pub bytes_fetched: u64,
    /// Of them, bytes that were read.
    pub bytes_used: u64,
}

#[cfg(test)]
mod tests;
