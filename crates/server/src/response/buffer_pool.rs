//! Buffers for file data, from a pool of bounded size that clients share fairly.
//!
//! Data between disk and connection, in either direction, lies in a [`PooledBuffer`]. A client that
//! reads slowly keeps its buffers until it has read them or its connection ends. So half of the
//! memory is reserved: from it, a connection that holds nothing gets a [small block](SMALL_BYTES)
//! immediately. With the default limits there is one for each connection, regardless of the others.
//! The other half has limits that fall as less of it is left (dynamic thresholds, Choudhury and
//! Hahne 1998):
//!
//! - An address may hold as much as is left: a quarter of the memory if it is alone, a third
//!   together with another one. Its *allowance* is what it may take beyond what it holds.
//! - A connection may hold a sixteenth of the allowance of its address, and large blocks up to a
//!   thirty-second, so that its other streams have room. Beyond that, responses continue in small
//!   blocks.
//!
//! [`BufferQuota`] bounds the buffers of one response. Buffers are reused: the pages of a new one
//! cost more than the copy into it. The names of listings, the heads of requests that are arriving,
//! and bytes of uploads that are gathered for a write count as well ([`MemoryCharge`]).

use bytes::Bytes;
use hither_core::sync::lock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The size of a block that a connection without any other block gets, regardless of others: half
/// of the default memory has one for each of the default number of connections.
pub(crate) const SMALL_BYTES: usize = 16 << 10;
/// The part of its address's allowance that a connection may hold, and that of large blocks in it.
const CONNECTION_SHARE: usize = 16;
const LARGE_SHARE: usize = 2 * CONNECTION_SHARE;
/// The interval at which the memory of other connections is checked. A release by the connection
/// itself is noticed immediately.
const RECHECK: Duration = Duration::from_millis(250);
/// The maximum number of buffers kept for reuse.
const MAX_SPARE: usize = 64;
/// The size below which a buffer is not worth keeping.
const MIN_SPARE_BYTES: usize = 32 << 10;

/// All memory for file data.
#[derive(Debug)]
pub(crate) struct BufferPool {
    bytes: usize,
    free: AtomicUsize,
    /// The part of the memory that listings may still take, that of heads, and that of uploads.
    listings: AtomicUsize,
    heads: AtomicUsize,
    uploads: AtomicUsize,
    heads_refused: AtomicU64,
    spare: Spare,
    help: Arc<Semaphore>,
}

/// Permission to make a block on another thread though its data is in memory.
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

/// The number of buffers that one response may hold at a time.
pub(crate) type BufferQuota = Arc<Semaphore>;

/// Takes `bytes` from the rest; returns false if that is less.
fn take(left: &AtomicUsize, bytes: usize) -> bool {
    let next = |left: usize| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
}

impl BufferPool {
    pub(crate) fn new(bytes: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            bytes,
            free: AtomicUsize::new(bytes),
            listings: AtomicUsize::new(bytes / 4),
            heads: AtomicUsize::new(bytes / 8),
            uploads: AtomicUsize::new(bytes / 4),
            heads_refused: AtomicU64::new(0),
            spare: Spare::default(),
            help: Arc::new(Semaphore::new(processors - 1)),
        }
    }

    /// Returns the number of bytes that are lent, and that of all.
    pub(crate) fn in_use(&self) -> (u64, u64) {
        let free = self.free.load(Ordering::Relaxed);
        (self.bytes.saturating_sub(free) as u64, self.bytes as u64)
    }

    /// The number of heads that were refused because there was no memory for them.
    pub(crate) fn heads_refused(&self) -> u64 {
        self.heads_refused.load(Ordering::Relaxed)
    }
}

/// The memory that one connection holds.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    pool: Arc<BufferPool>,
    /// Bytes that all connections of the same address hold.
    address: Arc<AtomicUsize>,
    /// Bytes in buffers of this connection.
    held: AtomicUsize,
    released: Notify,
}

impl ConnectionMemory {
    /// The memory of a connection from an address whose connections hold `address` bytes.
    pub(crate) fn new(pool: &Arc<BufferPool>, address: Arc<AtomicUsize>) -> Self {
        let held = AtomicUsize::new(0);
        Self { pool: Arc::clone(pool), address, held, released: Notify::new() }
    }

    /// Returns permission to use another thread, if a processor may be free.
    pub(crate) fn help(&self) -> Option<CpuPermit> {
        Arc::clone(&self.pool.help).try_acquire_owned().ok()
    }

    /// The bytes that the connections of the address may take beyond those that they hold.
    fn allowance(&self) -> usize {
        let reserved = self.pool.bytes / 2;
        let free = self.pool.free.load(Ordering::Relaxed).saturating_sub(reserved);
        free.saturating_sub(self.address.load(Ordering::Relaxed))
    }

    /// The size of the next block of a response, `max` unless memory is scarce.
    pub(crate) fn block_bytes(&self, max: usize) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        let is_plenty = held.saturating_add(max) <= self.allowance() / LARGE_SHARE;
        if is_plenty { max } else { max.min(SMALL_BYTES) }
    }

    /// The largest buffer that a connection gets as its first one when others have returned theirs.
    pub(crate) fn max_loan(&self) -> usize {
        self.pool.bytes / 4
    }

    /// Takes memory for a buffer; returns false if the connection holds its share already.
    fn take(&self, bytes: usize) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        let allowance = self.allowance();
        let is_small = bytes <= SMALL_BYTES;
        let share = allowance / if is_small { CONNECTION_SHARE } else { LARGE_SHARE };
        let is_first = held == 0 && (is_small || bytes <= allowance);
        if !is_first && held.saturating_add(bytes) > share || !take(&self.pool.free, bytes) {
            return false;
        }
        self.address.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Returns memory to the pool.
    fn release(&self, bytes: usize) {
        self.pool.free.fetch_add(bytes, Ordering::Relaxed);
        self.address.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Lends a buffer for about `bytes` without waiting; none if it would have to wait.
    pub(crate) fn try_borrow(
        self: &Arc<Self>,
        bytes: usize,
        quota: &BufferQuota,
    ) -> Option<PooledBuffer> {
        let own = Arc::clone(quota).try_acquire_owned().ok()?;
        self.take(bytes).then(|| self.lend(bytes, own))
    }

    /// Lends a buffer for about `bytes` when there is one; none if the quota is closed.
    pub(crate) async fn borrow(
        self: Arc<Self>,
        bytes: usize,
        quota: BufferQuota,
    ) -> Option<PooledBuffer> {
        let own = quota.acquire_owned().await.ok()?;
        while !self.take(bytes) {
            // At the end of the time, others may have released some.
            let _ = timeout(RECHECK, self.released.notified()).await;
        }
        // There may be enough for the next one that waits.
        self.released.notify_one();
        Some(self.lend(bytes, own))
    }

    fn lend(self: &Arc<Self>, bytes: usize, own: OwnedSemaphorePermit) -> PooledBuffer {
        let large = bytes >= MIN_SPARE_BYTES;
        let buffer = if large { self.pool.spare.take() } else { Vec::new() };
        PooledBuffer { buffer, filled: 0, bytes, memory: Arc::clone(self), _own: own }
    }
}

/// A borrowed buffer, returned to the pool when it is dropped.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    buffer: Vec<u8>,
    filled: usize,
    /// The bytes that count as held.
    bytes: usize,
    memory: Arc<ConnectionMemory>,
    _own: OwnedSemaphorePermit,
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
            self.memory.pool.spare.keep(std::mem::take(&mut self.buffer));
        }
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.memory.release(self.bytes);
        self.memory.released.notify_one();
    }
}

/// The purpose of a [`MemoryCharge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargePurpose {
    /// The names of a listing.
    Listing,
    /// The head of a request that is arriving.
    Head,
    /// Bytes of an upload that are not written yet.
    Upload,
}

impl ChargePurpose {
    /// The bytes that are not counted, so that small charges always succeed.
    fn free_bytes(self) -> usize {
        match self {
            Self::Listing | Self::Upload => 16 << 10,
            Self::Head => 8 << 10,
        }
    }
}

/// Memory of a connection in addition to its buffers, returned when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    memory: Arc<ConnectionMemory>,
    purpose: ChargePurpose,
    counted: usize,
}

impl MemoryCharge {
    pub(crate) fn new(memory: &Arc<ConnectionMemory>, purpose: ChargePurpose) -> Self {
        Self { memory: Arc::clone(memory), purpose, counted: 0 }
    }

    /// The part of the memory that is left for this purpose.
    fn share(&self) -> &AtomicUsize {
        match self.purpose {
            ChargePurpose::Listing => &self.memory.pool.listings,
            ChargePurpose::Head => &self.memory.pool.heads,
            ChargePurpose::Upload => &self.memory.pool.uploads,
        }
    }

    /// Extends the charge to `bytes`. Returns false if that is more than is left for the purpose,
    /// or than the address may hold.
    pub(crate) fn extend(&mut self, bytes: usize) -> bool {
        let counted = bytes.saturating_sub(self.purpose.free_bytes());
        let missing = counted.saturating_sub(self.counted);
        if missing == 0 {
            return true;
        }
        let pool = &self.memory.pool;
        let allowance = match self.purpose {
            // An upload continues without memory; the head of another request does not.
            ChargePurpose::Upload => self.memory.allowance() / CONNECTION_SHARE,
            ChargePurpose::Listing | ChargePurpose::Head => self.memory.allowance(),
        };
        if missing <= allowance && take(self.share(), missing) {
            if take(&pool.free, missing) {
                self.memory.address.fetch_add(missing, Ordering::Relaxed);
                self.counted = counted;
                return true;
            }
            self.share().fetch_add(missing, Ordering::Relaxed);
        }
        if self.purpose == ChargePurpose::Head {
            pool.heads_refused.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Returns all of it.
    pub(crate) fn reset(&mut self) {
        let counted = std::mem::take(&mut self.counted);
        self.share().fetch_add(counted, Ordering::Relaxed);
        self.memory.release(counted);
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(pool: &Arc<BufferPool>, address: &Arc<AtomicUsize>) -> Arc<ConnectionMemory> {
        Arc::new(ConnectionMemory::new(pool, Arc::clone(address)))
    }

    fn quota() -> BufferQuota {
        Arc::new(Semaphore::new(2))
    }

    #[test]
    fn a_response_holds_no_more_buffers_than_its_quota() {
        let pool = Arc::new(BufferPool::new(64 << 20));
        let memory = connection(&pool, &Arc::default());
        let one = quota();
        let first = memory.try_borrow(1000, &one).unwrap();
        let _second = memory.try_borrow(2000, &one).unwrap();
        assert!(memory.try_borrow(1, &one).is_none(), "a third one for the same response");
        assert_eq!(pool.in_use(), (3000, 64 << 20));
        drop(first);
        assert_eq!(pool.in_use().0, 2000);
        assert!(memory.try_borrow(1, &one).is_some());
    }

    /// Lends blocks to a connection as long as it gets any.
    fn exhaust(memory: &Arc<ConnectionMemory>) -> Vec<PooledBuffer> {
        let lend = |bytes| memory.try_borrow(bytes, &quota());
        let next = || lend(memory.block_bytes(256 << 10)).or_else(|| lend(SMALL_BYTES));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn connections_that_take_all_they_can_leave_blocks_for_each_new_one() {
        let pool = Arc::new(BufferPool::new(512 << 20));
        let mut held = Vec::new();
        // As many connections of an address, and as many in all, as the default limits allow.
        for _ in 0..4 {
            let address = Arc::default();
            for _ in 0..4096 {
                let connection = connection(&pool, &address);
                let blocks = exhaust(&connection);
                assert!(!blocks.is_empty(), "a new connection, {:?} in use", pool.in_use());
                held.push(blocks);
            }
        }
        let (in_use, all) = pool.in_use();
        assert!(in_use < all);
        drop(held);
        assert_eq!(pool.in_use().0, 0);
    }

    #[test]
    fn one_address_does_not_hold_what_others_need() {
        let pool = Arc::new(BufferPool::new(512 << 20));
        let greedy = Arc::default();
        let _held: Vec<_> = (0..2000).flat_map(|_| exhaust(&connection(&pool, &greedy))).collect();
        assert!(greedy.load(Ordering::Relaxed) <= (128 << 20) + 2000 * SMALL_BYTES);
        let other = connection(&pool, &Arc::default());
        assert_eq!(other.block_bytes(256 << 10), 256 << 10);
        assert!(other.try_borrow(256 << 10, &quota()).is_some());
        // Another connection of the same address gets small ones.
        let same = connection(&pool, &greedy);
        assert_eq!(same.block_bytes(256 << 10), SMALL_BYTES);
        assert!(same.try_borrow(SMALL_BYTES, &quota()).is_some());
    }

    #[tokio::test]
    async fn a_buffer_that_a_connection_returns_goes_to_who_waits_on_it() {
        let pool = Arc::new(BufferPool::new(32 << 20));
        let memory = connection(&pool, &Arc::default());
        let mut held = exhaust(&memory);
        let waiting = tokio::spawn(Arc::clone(&memory).borrow(SMALL_BYTES, quota()));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.pop();
        assert!(waiting.await.unwrap().is_some());
    }

    #[test]
    fn listings_and_heads_hold_their_share_of_the_memory_at_most() {
        let pool = Arc::new(BufferPool::new(400_000));
        let memory = connection(&pool, &Arc::default());
        for (purpose, share) in [(ChargePurpose::Listing, 100_000), (ChargePurpose::Head, 50_000)] {
            let free = purpose.free_bytes();
            let mut one = MemoryCharge::new(&memory, purpose);
            let mut other = MemoryCharge::new(&memory, purpose);
            assert!(one.extend(free + share / 2) && one.extend(free + share - 10));
            assert_eq!(pool.in_use().0, share as u64 - 10);
            assert!(!other.extend(free + 11));
            assert!(other.extend(free), "a small one");
            drop(one);
            assert!(other.extend(free + share));
        }
        assert_eq!(pool.in_use().0, 0);
        assert_eq!(pool.heads_refused(), 1);
    }

    #[test]
    fn uploads_hold_their_share_of_the_memory_and_leave_some_for_heads() {
        let pool = Arc::new(BufferPool::new(16 << 20));
        let memory = connection(&pool, &Arc::default());
        let mut upload = MemoryCharge::new(&memory, ChargePurpose::Upload);
        let held = (1..).map(|kib| kib << 10).take_while(|bytes| upload.extend(*bytes)).last();
        let most = (4 << 20) + ChargePurpose::Upload.free_bytes();
        assert!((3 << 20..=most).contains(&held.unwrap()), "{held:?}");
        assert!(MemoryCharge::new(&memory, ChargePurpose::Head).extend(16 << 10));
        upload.reset();
        assert_eq!(pool.in_use().0, 0);
    }

    #[test]
    fn the_filled_bytes_are_sent_and_the_buffer_is_reused() {
        let pool = Arc::new(BufferPool::new(32 << 20));
        let memory = connection(&pool, &Arc::default());
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
