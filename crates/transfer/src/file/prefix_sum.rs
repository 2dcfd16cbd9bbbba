//! Checksum of a file whose bytes come in any order, by an algorithm that takes them in one.
//!
//! crc32c and adler32 of parts can be combined; sha256 and md5 cannot. So the beginning of the file
//! is summed up while its rest still comes, by one thread at a time, from the file, where it lies in
//! memory: at the end, little is left to read. A block that is taken back makes what was summed up
//! void, and the next step begins again.

use crate::file::partial_file::PartialFile;
use crate::file::{FileCopy, Sink};
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::spawn_blocking;
use tracing::debug;

/// Bytes that are summed up at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes that are worth a thread.
const WORTHWHILE_BYTES: u64 = 8 * STEP_BYTES;

#[derive(Debug)]
pub(crate) struct PrefixSum {
    state: Mutex<PrefixSumState>,
    is_running: AtomicBool,
}

#[derive(Debug)]
struct PrefixSumState {
    hasher: Hasher,
    /// Bytes that it has taken.
    bytes: u64,
    /// How often blocks had been taken back when it began.
    taken_back: u64,
}

impl PrefixSum {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let state = PrefixSumState { hasher: Hasher::new(algorithm), bytes: 0, taken_back: 0 };
        Self { state: Mutex::new(state), is_running: AtomicBool::new(false) }
    }

    /// Sums up the next step. Returns the bytes that are there and not summed up yet.
    fn step(&self, file: &FileCopy, part: &PartialFile) -> Result<u64> {
        let mut state = lock(&self.state);
        let (taken_back, end) = file.state().blocks.written_from(state.bytes);
        if taken_back != state.taken_back {
            let hasher = Hasher::new(state.hasher.algorithm());
            *state = PrefixSumState { hasher, bytes: 0, taken_back };
            return Ok(file.state().blocks.written_from(0).1);
        }
        let PrefixSumState { hasher, bytes, .. } = &mut *state;
        let next = end.min(*bytes + STEP_BYTES);
        part.read(*bytes..next, |piece| hasher.update(piece))?;
        *bytes = next;
        Ok(end - next)
    }
}

impl FileCopy {
    /// Goes on with the sum of the beginning, if that is worth it and nobody does.
    pub(crate) fn sum_up_prefix(self: &Arc<Self>) {
        let Some(prefix) = &self.prefix else { return };
        if prefix.is_running.load(Ordering::Relaxed) {
            return;
        }
        let done = lock(&prefix.state).bytes;
        let there = self.state().blocks.written_from(done).1;
        if there < done.saturating_add(WORTHWHILE_BYTES)
            || self.known_by_pieces().is_some()
            || prefix.is_running.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let file = Arc::clone(self);
        spawn_blocking(move || {
            let (Some(prefix), Sink::Part(part)) = (&file.prefix, &file.sink) else { return };
            let mut left = Ok(WORTHWHILE_BYTES);
            while !file.is_over() && left.as_ref().is_ok_and(|left| *left >= STEP_BYTES) {
                left = prefix.step(&file, part);
            }
            if let Err(error) = left {
                // Whoever finishes the file meets it again.
                debug!(file = file.item.name, %error, "sum of the beginning given up");
            }
            prefix.is_running.store(false, Ordering::Release);
        });
    }

    /// The checksum of the file, which is whole. Blocks the thread.
    pub(crate) fn summed_up(&self) -> Result<Option<Checksum>> {
        let (Some(prefix), Sink::Part(part)) = (&self.prefix, &self.sink) else { return Ok(None) };
        while prefix.step(self, part)? > 0 {}
        let state = lock(&prefix.state);
        if state.bytes != self.version.size {
            let message =
                format!("{}: only {} bytes could be summed up", self.item.name, state.bytes);
            return Err(Error::new(ErrorKind::Local, message));
        }
        Ok(Some(state.hasher.clone().finish()))
    }
}
