//! The writer of a client's trace.
//!
//! All threads share one [`TraceWriter`] behind one lock, which is held for some twenty nanoseconds
//! per read, and while a block is written every few thousand reads. If the trace cannot be written
//! any further, because the disk is full, it ends there: reads continue, and
//! [`Client::flush_trace`](crate::Client::flush_trace) returns the error.

use hither_core::Clock;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_trace::{FileRecorder, ReadEvent, TraceSink, TraceWriter};
use hither_transport::MonotonicClock;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A trace that is being written.
#[derive(Debug)]
pub(crate) struct TraceFileSink {
    path: PathBuf,
    clock: MonotonicClock,
    state: Mutex<RecorderState>,
}

#[derive(Debug)]
struct RecorderState {
    writer: TraceWriter<File>,
    /// The error that ended the trace.
    failed: Option<io::Error>,
}

impl TraceFileSink {
    /// Starts a trace at `path`, and replaces a file there.
    pub(crate) fn start(path: &Path) -> Result<Self> {
        let writer = File::create(path)
            .and_then(TraceWriter::new)
            .map_err(|error| not_written(path, &error))?;
        let state = Mutex::new(RecorderState { writer, failed: None });
        Ok(Self { path: path.to_owned(), clock: MonotonicClock::start(), state })
    }

    /// A recorder of the reads of file `name`, whose times are those of `clock`.
    pub(crate) fn recorder(self: &Arc<Self>, name: &str, clock: &dyn Clock) -> FileRecorder {
        FileRecorder::new(Arc::clone(self) as Arc<dyn TraceSink>, name, clock)
    }

    /// Writes the buffered part of the trace; returns the first error since its start.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut state = self.state();
        state.with(TraceWriter::flush);
        state.failed.as_ref().map_or(Ok(()), |error| Err(not_written(&self.path, error)))
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        lock(&self.state)
    }
}

impl RecorderState {
    /// Runs `act` with the writer, unless the trace has ended by an error.
    fn with<T>(&mut self, act: impl FnOnce(&mut TraceWriter<File>) -> io::Result<T>) -> Option<T> {
        if self.failed.is_some() {
            return None;
        }
        act(&mut self.writer).map_err(|error| self.failed = Some(error)).ok()
    }
}

impl TraceSink for TraceFileSink {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn number(&self, name: &str) -> u32 {
        self.state().with(|writer| writer.number(name)).unwrap_or(u32::MAX)
    }

    fn record(&self, event: &ReadEvent<'_>) {
        self.state().with(|writer| writer.record(event));
    }
}

impl Drop for TraceFileSink {
    fn drop(&mut self) {
        // Programs that need the error have called `flush`.
        drop(self.flush());
    }
}

fn not_written(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Local, format!("cannot write the trace {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_trace::{CacheStatus, ReadTimes, TraceReader};

    #[test]
    fn reads_of_all_threads_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let recording = Arc::new(TraceFileSink::start(&path).unwrap());
        let clock = MonotonicClock::start();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let recorder = recording.recorder("file", &clock);
                scope.spawn(move || {
                    for i in 0..1000 {
                        let at = thread * 1_000_000 + i;
                        let times = ReadTimes::at_once(clock.now());
                        recorder.record(&[at..at + 1], times, CacheStatus::Hit, 0);
                    }
                });
            }
        });
        recording.flush().unwrap();
        let reads = TraceReader::new(File::open(&path).unwrap()).unwrap();
        let mut all: Vec<_> = reads.map(Result::unwrap).collect();
        assert_eq!(all.len(), 4000);
        all.sort_by_key(|read| read.ranges[0].start);
        for reads in all.chunks(1000) {
            assert!(reads.iter().all(|read| read.thread == reads[0].thread));
            assert!(reads.is_sorted_by_key(|read| read.times.submitted));
        }
    }

    #[test]
    fn a_full_disk_ends_the_trace_and_not_the_job() {
        let Ok(recording) = TraceFileSink::start(Path::new("/dev/full")) else { return };
        let recording = Arc::new(recording);
        let recorder = recording.recorder("file", &MonotonicClock::start());
        recorder.record(&[0..1], ReadTimes::at_once(Duration::ZERO), CacheStatus::Hit, 0);
        let error = recording.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Local);
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }
}
