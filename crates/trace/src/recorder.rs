//! The record of a read, and its path from an open file into a trace.

use hither_core::Clock;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Presence of the bytes of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// All bytes were present: the program did not wait.
    Hit,
    /// Some bytes were in flight, and none had to be requested: the program was faster than the
    /// prefetches.
    InFlight,
    /// Some bytes had to be requested.
    Miss,
}

/// The times of a read, all by one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadTimes {
    /// The program submitted the read.
    pub submitted: Duration,
    /// The last byte was present. Never before [`ReadTimes::submitted`], even if all bytes were
    /// present earlier.
    pub completed: Duration,
    /// The program received the bytes.
    pub consumed: Duration,
}

impl ReadTimes {
    /// A read without a wait: it found its bytes.
    #[must_use]
    pub const fn at_once(at: Duration) -> Self {
        Self { submitted: at, completed: at, consumed: at }
    }
}

/// One read of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadEvent<'a> {
    /// The file, as numbered by [`TraceSink::number`].
    pub file: u32,
    /// The thread of the program: a small number, see [`thread_number`].
    pub thread: u32,
    /// The ranges of the read, in the order of the program; several for a vector read.
    pub ranges: &'a [Range<u64>],
    /// The times, relative to the start of the trace.
    pub times: ReadTimes,
    /// Presence of the bytes of the read.
    pub found: CacheStatus,
    /// Bytes that had to be requested; more than 0 if and only if [`CacheStatus::Miss`]. If it is
    /// less than all of them, the read was a partial hit.
    pub absent_bytes: u64,
}

/// Receiver of the records of reads. All files of a client share it, and it is called on the
/// threads of the program: it must be fast and must not fail; a sink that cannot continue drops the
/// records.
pub trait TraceSink: Send + Sync + Debug {
    /// Time since the start of the trace.
    fn now(&self) -> Duration;
    /// The number of the file with this name (secrets removed); equal for equal names.
    fn number(&self, name: &str) -> u32;
    /// Adds a record. Reads are recorded when they end, so reads of different threads are not in
    /// the order of their submission.
    fn record(&self, event: &ReadEvent<'_>);
}

/// Records the reads of one open file.
#[derive(Debug, Clone)]
pub struct FileRecorder {
    sink: Arc<dyn TraceSink>,
    file: u32,
    /// Time on the trace's clock at which the file's clock was zero. Negative if the file's clock
    /// was started first.
    origin: Offset,
}

/// A difference between clocks.
#[derive(Debug, Clone, Copy)]
enum Offset {
    Ahead(Duration),
    Behind(Duration),
}

impl Offset {
    /// The offset of a clock that shows `here` from one that shows `there`.
    fn between(here: Duration, there: Duration) -> Self {
        match here.checked_sub(there) {
            Some(ahead) => Self::Ahead(ahead),
            None => Self::Behind(there.saturating_sub(here)),
        }
    }

    /// Converts a time of the other clock to this one.
    fn applied(self, at: Duration) -> Duration {
        match self {
            Self::Ahead(ahead) => at.saturating_add(ahead),
            Self::Behind(behind) => at.saturating_sub(behind),
        }
    }
}

impl FileRecorder {
    /// Creates a recorder for the file `name` (secrets removed), whose reads have times of `clock`.
    #[must_use]
    pub fn new(sink: Arc<dyn TraceSink>, name: &str, clock: &dyn Clock) -> Self {
        let origin = Offset::between(sink.now(), clock.now());
        let file = sink.number(name);
        Self { sink, file, origin }
    }

    /// Records a completed read, on the thread that submitted it. Times are those of the file's
    /// clock; `absent_bytes` as in [`ReadEvent::absent_bytes`].
    pub fn record(
        &self,
        ranges: &[Range<u64>],
        times: ReadTimes,
        found: CacheStatus,
        absent_bytes: u64,
    ) {
        let times = ReadTimes {
            submitted: self.origin.applied(times.submitted),
            completed: self.origin.applied(times.completed),
            consumed: self.origin.applied(times.consumed),
        };
        let thread = thread_number();
        self.sink.record(&ReadEvent {
            file: self.file,
            thread,
            ranges,
            times,
            found,
            absent_bytes,
        });
    }
}

/// The number of the current thread: 0 for the first thread that calls this, and so on. Never
/// reused.
#[must_use]
pub fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static MINE: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending no longer has a number.
    MINE.try_with(|number| *number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_to_the_start_of_the_trace() {
        for (clock, at) in [(3, 4), (10, 11), (500, 501)] {
            let origin = Offset::between(Duration::from_secs(10), Duration::from_secs(clock));
            assert_eq!(origin.applied(Duration::from_secs(at)), Duration::from_secs(11));
        }
    }

    #[test]
    fn every_thread_has_its_own_number() {
        let here = thread_number();
        let there = std::thread::spawn(|| (thread_number(), thread_number())).join().unwrap();
        assert_eq!((here, there.0), (thread_number(), there.1));
        assert_ne!(here, there.0);
    }
}
