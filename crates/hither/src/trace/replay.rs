//! Replay of a trace: the same reads again.
//!
//! Each thread of the trace is a thread here, and does its reads one after the other, as recorded.
//! Between reads it may pause as long as the recorded program did something else, or a multiple of
//! that. A pause that took too long is taken off the next ones, so that the sum is right; very
//! short pauses are saved up. Recorded waits for data are not repeated.

use super::open;
use crate::Report;
use crate::client::Client;
use crate::file::RemoteFile;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Clock, range};
use hither_trace::{Script, SubmissionOrder, ThreadScript};
use hither_transport::{MonotonicClock, TransferTotals};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Options of a replay.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReplayRequest {
    /// The factor of the pauses between reads: 1 for those of the recorded program, 0 for none.
    pub think: f64,
    /// The URL to read instead of all files without an entry in `map`.
    pub url: Option<String>,
    /// URLs to read instead of files of these names. A name is the whole name, or the part behind
    /// its last `/`.
    pub map: Vec<(String, String)>,
}

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Files read.
    pub files: u64,
    /// Threads that read.
    pub threads: u64,
    /// Time from the start to the end of the last thread, in seconds.
    pub seconds: f64,
    /// Time in reads, in seconds, summed over threads.
    pub waited_seconds: f64,
    /// The longest read, in seconds.
    pub longest_wait_seconds: f64,
    /// Reads that took longer than half a round trip.
    pub slow_reads: u64,
    /// Ranges whose bytes were all present.
    pub hits: u64,
    /// Ranges whose bytes were partly present or in flight.
    pub partial: u64,
    /// Ranges whose bytes were all requested by their read.
    pub misses: u64,
    /// Bytes that were requested before a read waited for them.
    pub bytes_ahead: u64,
    /// Prefetched bytes that were evicted unread.
    pub bytes_dropped: u64,
    /// Time in pauses, in seconds, summed over threads.
    pub paused_seconds: f64,
    /// Bytes that were read ahead and had not arrived when the replay ended: the report lacks them.
    pub unsettled_bytes: u64,
    /// Requests, round trips and bytes.
    pub report: Report,
}

/// The longest wait for requests that are in flight when all reads have ended.
const MAX_SETTLING: Duration = Duration::from_secs(10);

/// The interval at which such requests are checked.
const SETTLING_POLL: Duration = Duration::from_millis(1);

/// The shortest pause. Shorter ones are saved up, because timers are no finer.
const MIN_PAUSE: Duration = Duration::from_micros(100);

/// The longest read into the buffer that a thread reuses.
const MAX_BUFFER_BYTES: usize = 64 << 20;

/// The counters of one thread.
#[derive(Debug, Default)]
struct ThreadCounters {
    reads: u64,
    bytes: u64,
    waited: Duration,
    longest: Duration,
    slow: u64,
    paused: Duration,
}

impl Client {
    /// Replays the trace at `path`. The report covers all requests of the client during the replay,
    /// including read-ahead that no read of the trace needed.
    ///
    /// # Errors
    ///
    /// As [`summarize`](super::summarize) for the trace, and the errors of reading the files. The
    /// first error ends all threads.
    pub fn replay(&self, path: &Path, request: &ReplayRequest) -> Result<ReplayReport> {
        let mut reads = SubmissionOrder::new(open(path)?);
        let script = Script::of(reads.by_ref()).map_err(|error| error.context(path.display()))?;
        let scripts = &script.threads;
        let names = reads.get_ref().names();
        let files = self.open_for(scripts.values(), names, request)?;
        let before = (self.counters().totals(), self.reads());
        let clock = MonotonicClock::start();
        let stop = AtomicBool::new(false);
        let ended: Vec<Result<ThreadCounters>> = std::thread::scope(|scope| {
            let threads: Vec<_> = scripts
                .values()
                .map(|script| {
                    let player = Player {
                        client: self,
                        files: &files,
                        clock: &clock,
                        stop: &stop,
                        think: request.think,
                    };
                    scope.spawn(move || {
                        let stop = || player.stop.store(true, Ordering::Relaxed);
                        player.play(script).inspect_err(|_| stop())
                    })
                })
                .collect();
            let panicked = |_| Err(Error::new(ErrorKind::Local, "a thread of the replay panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        let seconds = clock.now().as_secs_f64();
        let mut all = ReplayReport {
            files: files.len() as u64,
            threads: scripts.len() as u64,
            seconds,
            ..ReplayReport::default()
        };
        for done in ended {
            all.add(&done?);
        }
        all.unsettled_bytes = self.await_requests(&clock);
        let reads = self.reads();
        all.hits = reads.hits - before.1.hits;
        all.partial = reads.partial - before.1.partial;
        all.misses = reads.misses - before.1.misses;
        all.bytes_ahead = reads.bytes_ahead - before.1.bytes_ahead;
        all.bytes_dropped = reads.bytes_dropped - before.1.bytes_dropped;
        all.report = report(&before.0, &self.counters().totals(), &all, files.values());
        Ok(all)
    }

    /// Waits until no read-ahead is in flight, for [`MAX_SETTLING`] at most: a request is counted
    /// when it is sent and its bytes when they arrive, but the server logs all of them. Returns the
    /// bytes that are still in flight then.
    fn await_requests(&self, clock: &MonotonicClock) -> u64 {
        let until = clock.now() + MAX_SETTLING;
        loop {
            let bytes = self.context.cache.gauges().in_flight_bytes;
            if bytes == 0 || clock.now() >= until {
                return bytes;
            }
            std::thread::park_timeout(SETTLING_POLL);
        }
    }

    /// Opens the files that the scripts read.
    fn open_for<'a>(
        &self,
        scripts: impl Iterator<Item = &'a ThreadScript>,
        names: &[String],
        request: &ReplayRequest,
    ) -> Result<BTreeMap<u32, RemoteFile>> {
        let mut files = BTreeMap::new();
        for number in scripts.flat_map(|script| script.steps().map(|(step, _)| step.file)) {
            if files.contains_key(&number) {
                continue;
            }
            let name = names.get(number as usize).map(String::as_str).unwrap_or_default();
            let short = name.rsplit('/').next().unwrap_or_default();
            let mapped = request.map.iter().find(|(from, _)| from == name || from == short);
            let url = mapped.map(|(_, url)| url.as_str()).or(request.url.as_deref());
            files.insert(number, self.open(url.unwrap_or(name))?);
        }
        Ok(files)
    }
}

/// A thread that plays a script.
struct Player<'a> {
    client: &'a Client,
    files: &'a BTreeMap<u32, RemoteFile>,
    clock: &'a MonotonicClock,
    stop: &'a AtomicBool,
    think: f64,
}

impl Player<'_> {
    fn play(&self, script: &ThreadScript) -> Result<ThreadCounters> {
        let mut done = ThreadCounters::default();
        let mut buffer = Vec::new();
        // The pause that is due, and the time by which earlier pauses were too long.
        let mut due = Duration::ZERO;
        let mut overdone = Duration::ZERO;
        for (step, ranges) in script.steps() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let pause = step.pause.as_secs_f64() * self.think;
            due = due.saturating_add(Duration::try_from_secs_f64(pause).unwrap_or_default());
            let taken_off = due.min(overdone);
            due -= taken_off;
            overdone -= taken_off;
            if due >= MIN_PAUSE {
                let paused = self.pause(due);
                done.paused += paused;
                overdone += paused.saturating_sub(due);
                due = Duration::ZERO;
            }
            let Some(file) = self.files.get(&step.file) else { break };
            let began = self.clock.now();
            done.bytes += self.read(file, ranges, &mut buffer)?;
            let took = self.clock.now().saturating_sub(began);
            done.reads += 1;
            done.waited += took;
            done.longest = done.longest.max(took);
            done.slow += u64::from(file.origin.source.link().rtt.is_some_and(|rtt| took > rtt / 2));
        }
        Ok(done)
    }

    /// Does one read, and returns the number of bytes.
    fn read(&self, file: &RemoteFile, ranges: &[Range<u64>], buffer: &mut Vec<u8>) -> Result<u64> {
        let length = usize::try_from(range::total_bytes(ranges)).unwrap_or(usize::MAX);
        let (&[Range { start, end }], ..=MAX_BUFFER_BYTES) = (ranges, length) else {
            // This compares a long range with the size of the file before it allocates memory.
            let bytes = file.read_ranges(self.client, ranges)?;
            return Ok(bytes.iter().map(|bytes| bytes.len() as u64).sum());
        };
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let target = buffer.get_mut(..length).unwrap_or_default();
        let read = file.read_at(self.client, start, target)?;
        if read < length {
            let message = format!(
                "the trace reads bytes {start}..{end} of {}, which ends before them",
                file.name()
            );
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(read as u64)
    }

    /// Pauses for at least `pause`, and returns the duration.
    fn pause(&self, pause: Duration) -> Duration {
        let began = self.clock.now();
        loop {
            let passed = self.clock.now().saturating_sub(began);
            match pause.checked_sub(passed) {
                None | Some(Duration::ZERO) => return passed,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

/// The difference between the counters before and after a replay.
fn report<'a>(
    before: &TransferTotals,
    after: &TransferTotals,
    all: &ReplayReport,
    files: impl Iterator<Item = &'a RemoteFile>,
) -> Report {
    let rtt = files.filter_map(|file| file.origin.source.link().rtt).max();
    Report {
        seconds: all.seconds,
        bytes_used: all.bytes,
        rtt_seconds: rtt.unwrap_or_default().as_secs_f64(),
        ..Report::between(before, after)
    }
}

impl ReplayReport {
    /// Share of the misses among all ranges, 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn miss_share(&self) -> f64 {
        let all = self.hits + self.partial + self.misses;
        if all == 0 { 0.0 } else { self.misses as f64 / all as f64 }
    }

    fn add(&mut self, done: &ThreadCounters) {
        self.reads += done.reads;
        self.bytes += done.bytes;
        self.slow_reads += done.slow;
        self.waited_seconds += done.waited.as_secs_f64();
        self.paused_seconds += done.paused.as_secs_f64();
        self.longest_wait_seconds = self.longest_wait_seconds.max(done.longest.as_secs_f64());
    }
}
