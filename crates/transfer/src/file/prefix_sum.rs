//! Checksum of a file whose bytes come in any order, by an algorithm that takes them in one.
//!
//! crc32c and adler32 of parts can be combined; sha256 and md5 cannot. So the beginning of the file
//! is summed up while its rest still comes, by one thread at a time, from the file, while it is
//! still in memory: at the end, little is left to read. A block that is taken back makes what was
//! summed up void, and the next step begins again.

use crate::file::block_map::BlockMap;
use crate::file::partial_file::PartialFile;
use hither_core::Result;
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are summed up at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes that are worth a thread.
const WORTHWHILE_BYTES: u64 = 8 * STEP_BYTES;

/// The sum of the beginning of a file.
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
    /// Times that blocks had been taken back when it began.
    taken_back: u64,
}

impl PrefixSum {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let state = PrefixSumState { hasher: Hasher::new(algorithm), bytes: 0, taken_back: 0 };
        Self { state: Mutex::new(state), is_running: AtomicBool::new(false) }
    }

    /// Claims the sum for the caller, who goes on with it in a thread and then calls
    /// [`PrefixSum::pause`]: if that is worth it, and nobody does.
    pub(crate) fn begin(&self, blocks: &BlockMap) -> bool {
        if self.is_running.load(Ordering::Relaxed) {
            return false;
        }
        let done = lock(&self.state).bytes;
        let (_, end) = blocks.written_from(done);
        end >= done.saturating_add(WORTHWHILE_BYTES)
            && !self.is_running.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn pause(&self) {
        self.is_running.store(false, Ordering::Release);
    }

    /// Sums up the next bytes of those that `written_from` says are in `part`
    /// ([`BlockMap::written_from`]). Returns whether there are more. Blocks the thread.
    pub(crate) fn step(
        &self,
        written_from: impl Fn(u64) -> (u64, u64),
        part: &PartialFile,
    ) -> Result<bool> {
        let mut state = lock(&self.state);
        let (mut taken_back, mut end) = written_from(state.bytes);
        if taken_back != state.taken_back {
            (taken_back, end) = written_from(0);
            let hasher = Hasher::new(state.hasher.algorithm());
            *state = PrefixSumState { hasher, bytes: 0, taken_back };
        }
        let PrefixSumState { hasher, bytes, .. } = &mut *state;
        let next = end.min(*bytes + STEP_BYTES);
        part.read(*bytes..next, |piece| hasher.update(piece))?;
        *bytes = next;
        Ok(next < end)
    }

    /// The sum of the bytes so far.
    pub(crate) fn checksum(&self) -> Checksum {
        lock(&self.state).hasher.clone().finish()
    }
}
