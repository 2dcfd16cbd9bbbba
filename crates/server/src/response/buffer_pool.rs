//! Buffers for file data, from a pool of bounded size.
//!
//! Data between disk and connection, in either direction, lies in a [`PooledBuffer`].
//! [`BufferPool`] bounds all buffers together, [`BufferQuota`] those of one response: a client that
//! reads slowly holds two blocks at most, and other clients wait for memory, not for it. Buffers
//! are reused: the pages of a new one cost more than the copy into it. The names of listings count
//! as well ([`ListingCharge`]).

use bytes::Bytes;
use hither_core::sync::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which memory is counted.
const UNIT_BYTES: usize = 4096;
/// The maximum number of buffers kept for reuse.
const MAX_SPARE: usize = 64;
/// The share of the memory that listings may hold together.
const LISTINGS_SHARE: u32 = 4;
/// The names of a listing that are not counted, so that small listings always succeed.
const FREE_LISTING_BYTES: usize = 16 << 10;
/// The size below which a buffer is not worth keeping.
const MIN_SPARE_BYTES: usize = 32 << 10;

/// All memory for file data.
#[derive(Debug)]
pub(crate) struct BufferPool {
    units: Arc<Semaphore>,
    max_units: u32,
    /// The part of the memory that listings may still take.
    listings: Arc<Semaphore>,
    spare: Arc<Spare>,
    help: Arc<Semaphore>,
}

/// Permission to make a block on another thread though its data is in memory.
pub(crate) type CpuPermit = OwnedSemaphorePermit;

/// The memory that the names of one listing occupy, returned when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ListingCharge {
    units: u32,
    permits: Vec<OwnedSemaphorePermit>,
}

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

/// The number of buffers that one response may hold at a time.
pub(crate) type BufferQuota = Arc<Semaphore>;

impl BufferPool {
    pub(crate) fn new(bytes: usize) -> Self {
        let max_units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = Arc::new(Semaphore::new(usize::try_from(max_units).unwrap_or(1)));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let help = Arc::new(Semaphore::new(processors - 1));
        let listings = usize::try_from(max_units / LISTINGS_SHARE).unwrap_or(1);
        let listings = Arc::new(Semaphore::new(listings));
        Self { units, max_units, listings, spare: Arc::new(Spare::default()), help }
    }

    /// Returns permission to use another thread, if a processor may be free.
    pub(crate) fn help(&self) -> Option<CpuPermit> {
        Arc::clone(&self.help).try_acquire_owned().ok()
    }

    /// Returns the number of bytes that are lent, and that of all.
    pub(crate) fn in_use(&self) -> (u64, u64) {
        let total = u64::from(self.max_units);
        let free = self.units.available_permits() as u64;
        (total.saturating_sub(free) * UNIT_BYTES as u64, total * UNIT_BYTES as u64)
    }

    /// Extends the charge of a listing whose names occupy `bytes`. Returns false if listings would
    /// hold more than their share, or there is no memory left.
    pub(crate) fn charge_listing(&self, charge: &mut ListingCharge, bytes: usize) -> bool {
        let counted = bytes.saturating_sub(FREE_LISTING_BYTES);
        let units = u32::try_from(counted.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let missing = units.saturating_sub(charge.units);
        if missing == 0 {
            return true;
        }
        let take = |all: &Arc<Semaphore>| Arc::clone(all).try_acquire_many_owned(missing);
        let (Ok(share), Ok(memory)) = (take(&self.listings), take(&self.units)) else {
            return false;
        };
        charge.permits.extend([share, memory]);
        charge.units = units;
        true
    }

    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.max_units)
    }

    /// Lends a buffer for about `bytes` without waiting; none if it would have to wait.
    pub(crate) fn try_borrow(&self, bytes: usize, quota: &BufferQuota) -> Option<PooledBuffer> {
        let own = Arc::clone(quota).try_acquire_owned().ok()?;
        let units = Arc::clone(&self.units).try_acquire_many_owned(self.units(bytes)).ok()?;
        Some(self.lend(bytes, own, units))
    }

    /// Lends a buffer for about `bytes` when there is one; none if the pool is closed.
    pub(crate) async fn borrow(
        self: Arc<Self>,
        bytes: usize,
        quota: BufferQuota,
    ) -> Option<PooledBuffer> {
        let own = quota.acquire_owned().await.ok()?;
        let units = Arc::clone(&self.units).acquire_many_owned(self.units(bytes)).await.ok()?;
        Some(self.lend(bytes, own, units))
    }

    fn lend(
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

/// A borrowed buffer, returned to the pool when it is dropped.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    buffer: Vec<u8>,
    filled: usize,
    spare: Arc<Spare>,
    _own: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl PooledBuffer {
    /// The buffer, with the bytes that the previous borrower left in it.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Turns the first `filled` bytes into bytes to be sent.
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
    fn buffers_are_bounded_together_and_per_response() {
        let memory = BufferPool::new(4 * UNIT_BYTES);
        let one = Arc::new(Semaphore::new(2));
        let other = Arc::new(Semaphore::new(2));
        let first = memory.try_borrow(1, &one).unwrap();
        let second = memory.try_borrow(UNIT_BYTES, &one).unwrap();
        assert!(memory.try_borrow(1, &one).is_none(), "a third one for the same response");
        assert_eq!(memory.in_use(), (2 * UNIT_BYTES as u64, 4 * UNIT_BYTES as u64));
        assert!(memory.try_borrow(3 * UNIT_BYTES, &other).is_none(), "more than there is");
        drop(first);
        let large = memory.try_borrow(3 * UNIT_BYTES, &other).unwrap();
        drop((second, large));
        assert!(memory.try_borrow(usize::MAX, &one).is_some(), "all of it was returned");
    }

    #[test]
    fn large_listings_hold_a_quarter_of_the_memory_at_most() {
        let memory = BufferPool::new(40 * UNIT_BYTES);
        let mut one = ListingCharge::default();
        let mut other = ListingCharge::default();
        assert!(memory.charge_listing(&mut one, FREE_LISTING_BYTES + 4 * UNIT_BYTES));
        assert!(memory.charge_listing(&mut one, FREE_LISTING_BYTES + 8 * UNIT_BYTES));
        assert_eq!(memory.in_use().0, 8 * UNIT_BYTES as u64);
        assert!(!memory.charge_listing(&mut other, FREE_LISTING_BYTES + 3 * UNIT_BYTES));
        assert!(memory.charge_listing(&mut other, FREE_LISTING_BYTES), "a small one");
        drop(one);
        assert!(memory.charge_listing(&mut other, FREE_LISTING_BYTES + 10 * UNIT_BYTES));
    }

    #[test]
    fn the_filled_bytes_are_sent_and_the_buffer_is_reused() {
        let memory = BufferPool::new(1 << 20);
        let quota = Arc::new(Semaphore::new(1));
        let mut buffer = memory.try_borrow(40_000, &quota).unwrap();
        buffer.buffer().resize(40_000, 7);
        let bytes = buffer.freeze(39_999);
        assert!(bytes.len() == 39_999 && bytes.iter().all(|byte| *byte == 7));
        assert!(memory.try_borrow(1, &quota).is_none());
        drop(bytes);
        let mut again = memory.try_borrow(40_000, &quota).unwrap();
        assert_eq!(again.buffer().len(), 40_000, "the same buffer");
    }
}
