//! Memory for file data, borrowed from a bounded store.
//!
//! Whatever is on its way from disk to a connection, or back, lies in a [`PooledBuffer`]. All loans together are bounded by
//! [`BufferPool`], those of one answer by its own [`BufferQuota`]: a client that reads slowly holds two blocks and no more, whoever
//! comes next waits for memory, not for the slow one. Buffers go round: the pages of a fresh one cost more than the copy
//! into it.

use bytes::Bytes;
use hither_core::sync::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of the account.
const UNIT_BYTES: usize = 4096;
/// Buffers kept for the next one.
const MAX_SPARE: usize = 64;
/// Smaller ones are not worth keeping.
const MIN_SPARE_BYTES: usize = 32 << 10;

/// All memory for file data.
#[derive(Debug)]
pub(crate) struct BufferPool {
    units: Arc<Semaphore>,
    max_units: u32,
    spare: Arc<Spare>,
    help: Arc<Semaphore>,
}

/// The right to have a block made by another thread though its data is in memory.
pub(crate) type CpuPermit = OwnedSemaphorePermit;

#[derive(Debug, Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_default()
    }

    fn keep(&self, buffer: Vec<u8>) {
        let mut spare = lock(&self.0);
        if spare.len() < MAX_SPARE {
            spare.push(buffer);
        }
    }
}

/// How many loans one answer may have at a time.
pub(crate) type BufferQuota = Arc<Semaphore>;

impl BufferPool {
    pub(crate) fn new(bytes: usize) -> Self {
        let max_units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = Arc::new(Semaphore::new(usize::try_from(max_units).unwrap_or(1)));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let help = Arc::new(Semaphore::new(processors - 1));
        Self { units, max_units, spare: Arc::new(Spare::default()), help }
    }

    /// Help, if a processor may be free for it.
    pub(crate) fn help(&self) -> Option<CpuPermit> {
        Arc::clone(&self.help).try_acquire_owned().ok()
    }

    /// Bytes that are lent, and that there are.
    pub(crate) fn in_use(&self) -> (u64, u64) {
        let (most, free) = (u64::from(self.max_units), self.units.available_permits() as u64);
        (most.saturating_sub(free) * UNIT_BYTES as u64, most * UNIT_BYTES as u64)
    }

    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.max_units)
    }

    /// A buffer for some `bytes`, at once; none if one would have to wait for it.
    pub(crate) fn try_borrow(&self, bytes: usize, allowance: &BufferQuota) -> Option<PooledBuffer> {
        let own = Arc::clone(allowance).try_acquire_owned().ok()?;
        let units = Arc::clone(&self.units).try_acquire_many_owned(self.units(bytes)).ok()?;
        Some(self.loan(bytes, own, units))
    }

    /// A buffer for some `bytes`, when there is one; none if nobody can ever have one again.
    pub(crate) async fn borrow(
        self: Arc<Self>,
        bytes: usize,
        allowance: BufferQuota,
    ) -> Option<PooledBuffer> {
        let own = allowance.acquire_owned().await.ok()?;
        let units = Arc::clone(&self.units).acquire_many_owned(self.units(bytes)).await.ok()?;
        Some(self.loan(bytes, own, units))
    }

    fn loan(
        &self,
        bytes: usize,
        own: OwnedSemaphorePermit,
        units: OwnedSemaphorePermit,
    ) -> PooledBuffer {
        let large = bytes >= MIN_SPARE_BYTES;
        let buffer = if large { self.spare.take() } else { Vec::new() };
        let spare = Arc::clone(&self.spare);
        PooledBuffer { buffer, filled: 0, spare, _own: own, _units: units }
    }
}

/// A borrowed buffer; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    buffer: Vec<u8>,
    filled: usize,
    spare: Arc<Spare>,
    _own: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl PooledBuffer {
    /// The buffer, with whatever the last borrower left in it.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The first `filled` bytes of it, to be sent.
    pub(crate) fn freeze(mut self, filled: usize) -> Bytes {
        self.filled = filled.min(self.buffer.len());
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.filled).unwrap_or_default()
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if self.buffer.capacity() >= MIN_SPARE_BYTES {
            self.spare.keep(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loans_are_bounded_together_and_for_each_answer() {
        let memory = BufferPool::new(4 * UNIT_BYTES);
        let (one, other) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(2)));
        let first = memory.try_borrow(1, &one).unwrap();
        let second = memory.try_borrow(UNIT_BYTES, &one).unwrap();
        assert!(memory.try_borrow(1, &one).is_none(), "a third one for the same answer");
        assert_eq!(memory.in_use(), (2 * UNIT_BYTES as u64, 4 * UNIT_BYTES as u64));
        assert!(memory.try_borrow(3 * UNIT_BYTES, &other).is_none(), "more than there is");
        drop(first);
        let large = memory.try_borrow(3 * UNIT_BYTES, &other).unwrap();
        drop((second, large));
        assert!(memory.try_borrow(usize::MAX, &one).is_some(), "all of it is back");
    }

    #[test]
    fn what_is_sent_is_what_was_filled_in_and_goes_back() {
        let memory = BufferPool::new(1 << 20);
        let allowance = Arc::new(Semaphore::new(1));
        let mut loan = memory.try_borrow(40_000, &allowance).unwrap();
        loan.buffer().resize(40_000, 7);
        let bytes = loan.freeze(39_999);
        assert!(bytes.len() == 39_999 && bytes.iter().all(|byte| *byte == 7));
        assert!(memory.try_borrow(1, &allowance).is_none());
        drop(bytes);
        let mut again = memory.try_borrow(40_000, &allowance).unwrap();
        assert_eq!(again.buffer().len(), 40_000, "the same buffer");
    }
}
