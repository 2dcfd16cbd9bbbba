//! An open file, read through the cache.
//!
//! A read takes one of two paths. If all of its bytes are present it copies them: a look-up, no
//! waiting, no allocation ([`CachedFile::begin`]). Otherwise it claims the absent bytes and waits
//! for them and for those in flight ([`PendingRead`]), whichever open file requested them. Every
//! read is also shown to the file's [`Prefetcher`], whose advice is queued with the hints of the
//! program.
//!
//! The *driver* fetches all bytes: a future that starts with the first request needed and ends when
//! no work is left. It owns the [`Reader`](crate::Reader), and with that the requests: see
//! `cache/file/driver.rs`.
//!
//! **One version.** An open file reads one version, that of its first read. If the file changes,
//! reads that notice fail with [`ErrorKind::Changed`], and so do all later ones until it is opened
//! again; a change that shows before the first read was served does not count. Bytes of a version
//! that was read before the opening are served once a response has confirmed it.
//!
//! **Failures** end the reads that wait for the bytes that failed; the next read requests those
//! bytes again. A failed prefetch is not reported.
//!
//! Lock order: the file's lock before the cache's.

mod driver;
mod inner;
mod opening;
mod pending_read;
mod prefetch_queue;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use crate::cache::counters::ReadCounters;
pub use crate::cache::counters::ReadTotals;
pub use pending_read::PendingRead;
pub use prefetch_queue::HintId;

use crate::cache::{Cache, CacheKey, Lookup, Version};
use crate::sync::{Mutex, lock};
use crate::{Access, Advice, PrefetchContext, Prefetcher, ReaderConfig};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::task::AtomicWaker;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Part, Source, range};
use hither_trace::{CacheStatus, FileRecorder};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use work::DriverWork;

/// Runs a future to its end, on a runtime of the caller.
pub type Spawn = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// An open file. Clones are the same open file; it is closed with the last of them, and its
/// requests are cancelled.
#[derive(Debug, Clone)]
pub struct CachedFile {
    open: Arc<Open>,
}

/// A weak reference to an open file, which does not keep it open.
#[derive(Debug, Clone)]
pub struct WeakFile {
    open: Weak<Open>,
}

impl WeakFile {
    /// The file, if it is still open.
    #[must_use]
    pub fn upgrade(&self) -> Option<CachedFile> {
        self.open.upgrade().map(|open| CachedFile { open })
    }
}

/// Closes the file when the last clone is gone.
#[derive(Debug)]
struct Open {
    file: Arc<CachedFileInner>,
}

/// State that the open file and its driver share.
struct CachedFileInner {
    source: Arc<dyn Source>,
    cache: Arc<Cache>,
    key: CacheKey,
    config: ReaderConfig,
    spawn: Spawn,
    state: Mutex<CachedFileState>,
    /// The driver, when it has nothing to do.
    driver: AtomicWaker,
    recorder: OnceLock<FileRecorder>,
}

#[derive(Debug)]
struct CachedFileState {
    prefetcher: Box<dyn Prefetcher>,
    /// In the cache.
    entry: u64,
    /// The number of the opening, which is also the owner of ranges in flight.
    opened: u64,
    /// A read has been served: the version is settled.
    bound: bool,
    conditions: PrefetchContext,
    work: DriverWork,
    driving: bool,
    closed: bool,
}

impl fmt::Debug for CachedFileInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedFileInner").field("source", &self.source).finish_non_exhaustive()
    }
}

/// A prefetcher without advice.
#[derive(Debug)]
struct NoPrefetch;

impl Prefetcher for NoPrefetch {
    fn observe(&mut self, _: &Access, _: &PrefetchContext) -> Advice {
        Advice::default()
    }
}

/// Start of a read.
#[derive(Debug)]
pub enum ReadStart {
    /// The read is complete: number of bytes copied, fewer than requested at the end of the file.
    Done(usize),
    /// It has to wait.
    Waiting(PendingRead),
}

/// Maximum size of a file that takes one request when it is read whole, and whose reads are not
/// spread over connections: for a server, a request costs more than the bytes. 1 MiB, and the bytes
/// that may precede a chunk of that size.
pub(crate) const MAX_SMALL_FILE_BYTES: u64 = (1 << 20) + (64 << 10);

/// Maximum total length of a vector of ranges; more is not a read but a copy. 1 GiB.
pub const MAX_READ_BYTES: u64 = 1 << 30;

impl CachedFile {
    /// Replaces the prefetcher.
    pub fn set_prefetcher(&self, prefetcher: Box<dyn Prefetcher>) {
        lock(&self.shared().state).prefetcher = prefetcher;
    }

    /// Records every further read. Can be called once.
    pub fn set_recorder(&self, recorder: FileRecorder) {
        drop(self.shared().recorder.set(recorder));
    }

    /// The file, without keeping it open.
    #[must_use]
    pub fn downgrade(&self) -> WeakFile {
        WeakFile { open: Arc::downgrade(&self.open) }
    }

    /// The source of its bytes.
    #[must_use]
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.shared().source
    }

    /// Size in bytes, if it is known: from the first response on.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        let state = lock(&self.shared().state);
        self.shared().cache.snapshot(state.entry).size
    }

    /// The version of the file that is read; none before the first response.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        let state = lock(&self.shared().state);
        self.shared().cache.version(state.entry, state.opened).0
    }

    /// The version of the file, if a server has confirmed it since the file was opened.
    #[must_use]
    pub fn confirmed_version(&self) -> Option<Version> {
        let state = lock(&self.shared().state);
        let (version, confirmed) = self.shared().cache.version(state.entry, state.opened);
        version.filter(|_| confirmed)
    }

    /// Adopts the version of the file, and bytes of it, that another request has just received from
    /// the server. To be called first after opening.
    pub fn adopt(&self, version: &Version, pieces: &[(u64, Bytes)]) {
        let file = self.shared();
        let mut state = lock(&file.state);
        if let Err(error) = file.cache.learn(state.entry, version) {
            if state.bound {
                return;
            }
            // The bytes in the cache are older than the response of the server.
            file.cache.change(state.entry, &error);
            file.open_anew(&mut state);
            drop(file.cache.learn(state.entry, version));
        }
        for (offset, bytes) in pieces {
            file.cache.insert(state.entry, &Part { offset: *offset, bytes: bytes.clone() });
        }
        file.cache.confirm(state.entry, state.opened);
    }

    /// Adopts the version of bytes that were read past the cache: all further reads of the file are
    /// of this version.
    pub fn settle(&self, version: &Version) {
        self.adopt(version, &[]);
        lock(&self.shared().state).bound = true;
    }

    /// Takes over the version of the file, and bytes of it, as stored earlier. Requests then carry
    /// the validator from the start, and ranges that will be read are requested immediately; but
    /// nothing is served before a response of the server has confirmed the version. To be called
    /// first after opening.
    pub fn expect(&self, version: &Version, pieces: &[(u64, Bytes)]) {
        let file = self.shared();
        let state = lock(&file.state);
        if file.cache.learn(state.entry, version).is_ok() {
            for (offset, bytes) in pieces {
                file.cache.insert(state.entry, &Part { offset: *offset, bytes: bytes.clone() });
            }
        }
    }

    /// Announces that `ranges` will be read, in this order, about `when` from now. They are
    /// prefetched as far as there is room, together with other prefetches.
    pub fn hint(&self, ranges: &[Range<u64>], when: Duration) -> HintId {
        let file = self.shared();
        let due = file.source.clock().now().saturating_add(when);
        let mut state = lock(&file.state);
        let id = state.work.queue.add_hint(ranges, due);
        state.work.prefetches_due = true;
        file.drive(&mut state);
        id
    }

    /// Cancels a hint: its unsent ranges that no other hint names will not be requested.
    pub fn cancel(&self, hint: HintId) {
        let file = self.shared();
        let mut state = lock(&file.state);
        let unwanted = state.work.queue.cancel(hint);
        file.cancel_prefetches(&mut state, unwanted);
    }

    /// Begins to read as many bytes as `target` holds, from `offset` on, or to the end of the file
    /// if that comes first. Bytes that are present are copied immediately.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`] if the file is no longer the version that was opened.
    pub fn begin(&self, offset: u64, target: &mut [u8]) -> Result<ReadStart> {
        let file = self.shared();
        let at = file.source.clock().now();
        let mut state = lock(&file.state);
        let end = offset.saturating_add(target.len() as u64);
        let range = file.within(&state, offset..end);
        // The end of a file whose version has not been confirmed is not known.
        let is_end = range.end == end || state.bound || file.is_confirmed(&state);
        if is_end && range.is_empty() {
            return Ok(ReadStart::Done(0));
        }
        let wanted = usize::try_from(range::len(&range)).unwrap_or(0);
        let mut lookup = Lookup::UNCONFIRMED;
        let mut advice = Advice::default();
        if !range.is_empty() {
            let target = target.get_mut(..wanted).filter(|_| is_end);
            lookup = file.cache.read(state.entry, state.opened, &range, target);
            advice = state.accessed(&range, at, &lookup, false, file);
            file.cache.counts().began(range::len(&range), &lookup);
        }
        if lookup.found == CacheStatus::Hit && is_end {
            file.served(state, &range, at, &lookup, &advice);
            return Ok(ReadStart::Done(wanted));
        }
        let pending = self.wait_for(&mut state, vec![offset..end], &[(advice, lookup)], at)?;
        Ok(ReadStart::Waiting(pending))
    }

    /// Reads as [`CachedFile::begin`] does if all bytes are present, and returns their number. None
    /// otherwise; then nothing was read.
    pub fn read_present(&self, offset: u64, target: &mut [u8]) -> Option<usize> {
        let file = self.shared();
        let at = file.source.clock().now();
        let mut state = lock(&file.state);
        let range = file.within(&state, offset..offset.saturating_add(target.len() as u64));
        if range.is_empty() {
            return None;
        }
        let target = target.get_mut(..usize::try_from(range::len(&range)).ok()?)?;
        let wanted = target.len();
        let lookup = file.cache.read(state.entry, state.opened, &range, Some(target));
        if lookup.found != CacheStatus::Hit {
            return None;
        }
        let advice = state.accessed(&range, at, &lookup, false, file);
        file.cache.counts().began(range::len(&range), &lookup);
        file.served(state, &range, at, &lookup, &advice);
        Some(wanted)
    }

    /// Reads as many bytes as `target` holds, from `offset` on; fewer at the end of the file.
    /// Returns how many.
    ///
    /// # Errors
    ///
    /// The error of fetching them; [`ErrorKind::Changed`] if the file is no longer the version that
    /// was opened.
    pub async fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        match self.begin(offset, target)? {
            ReadStart::Done(bytes) => Ok(bytes),
            ReadStart::Waiting(pending) => pending.into_slice(target).await,
        }
    }

    /// The bytes of `range`, which is not empty, as far as the file goes. For a file whose size is
    /// not known: allocates no more memory than there are bytes.
    ///
    /// # Errors
    ///
    /// As [`CachedFile::read_at`].
    pub async fn read_unsized(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let pending = self.begin_ranges(std::slice::from_ref(&range), vec![range.clone()])?;
        pending.into_vec().await
    }

    /// The bytes of `ranges`, in the order of the argument; overlaps, duplicates and empty ranges
    /// are allowed.
    ///
    /// # Errors
    ///
    /// As [`CachedFile::read_at`]; [`ErrorKind::Corrupt`] for ranges beyond the end of the file,
    /// [`ErrorKind::Invalid`] for more than [`MAX_READ_BYTES`] in all.
    pub async fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if range::total_bytes(ranges) > MAX_READ_BYTES {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "a read of more than {MAX_READ_BYTES} bytes is not supported: copy the file instead"
                ),
            ));
        }
        let wanted = range::merged(ranges, 0);
        if wanted.is_empty() {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        self.check_size(&wanted)?;
        let pending = self.begin_ranges(ranges, wanted)?;
        pending.into_bytes(ranges).await
    }

    /// As [`CachedFile::read_ranges`], for a read that is not the program's: the prefetcher does
    /// not see it, it is neither counted nor recorded, and it does not determine the version of the
    /// file that the program reads.
    ///
    /// # Errors
    ///
    /// As [`CachedFile::read_ranges`].
    pub async fn read_untracked(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let wanted = range::merged(ranges, 0);
        if wanted.is_empty() || range::total_bytes(&wanted) > MAX_READ_BYTES {
            return self.read_ranges(ranges).await;
        }
        self.check_size(&wanted)?;
        let pending = {
            let file = self.shared();
            let mut state = lock(&file.state);
            self.wait_for(&mut state, wanted, &[], file.source.clock().now())?.aside()
        };
        pending.into_bytes(ranges).await
    }

    /// Fails if a read goes beyond the end, where the size is known.
    fn check_size(&self, wanted: &[Range<u64>]) -> Result<()> {
        let file = self.shared();
        let state = lock(&file.state);
        match file.cache.snapshot(state.entry).size {
            Some(size) if file.is_confirmed(&state) => {
                pending_read::check_within(wanted, size, file)
            }
            _ => Ok(()),
        }
    }

    fn begin_ranges(&self, ranges: &[Range<u64>], wanted: Vec<Range<u64>>) -> Result<PendingRead> {
        let file = self.shared();
        let at = file.source.clock().now();
        let mut state = lock(&file.state);
        let shown = ranges.iter().filter(|range| range.start < range.end);
        let planned = ranges.len() > 1;
        let lookups: Vec<_> = shown
            .map(|range| {
                let lookup = file.cache.read(state.entry, state.opened, range, None);
                let advice = state.accessed(range, at, &lookup, planned, file);
                file.cache.counts().began(range::len(range), &lookup);
                (advice, lookup)
            })
            .collect();
        self.wait_for(&mut state, wanted, &lookups, at)
    }

    /// Starts a read that cannot be served immediately.
    fn wait_for(
        &self,
        state: &mut CachedFileState,
        ranges: Vec<Range<u64>>,
        lookups: &[(Advice, Lookup)],
        at: Duration,
    ) -> Result<PendingRead> {
        let file = self.shared();
        let (entry, waiter) = file.claim(state, &ranges)?;
        for (advice, lookup) in lookups {
            if lookup.found == CacheStatus::Miss && !advice.same_request.is_empty() {
                let (along, _) =
                    file.cache.claim_ahead(entry, state.opened, &advice.same_request, u64::MAX);
                state.work.urgent.extend(along);
            }
            file.apply_advice(state, advice, at, &lookup.snapshot);
        }
        file.drive(state);
        let lookups = lookups.iter().map(|(_, lookup)| lookup);
        let absent_bytes = lookups.clone().map(|lookup| lookup.absent_bytes).sum();
        let found = lookups.map(|lookup| lookup.found).max_by_key(|found| match found {
            CacheStatus::Hit => 0,
            CacheStatus::InFlight => 1,
            CacheStatus::Miss => 2,
        });
        let found = found.unwrap_or(CacheStatus::Hit);
        Ok(PendingRead::new(self.clone(), ranges, entry, waiter, at, (found, absent_bytes)))
    }

    fn shared(&self) -> &Arc<CachedFileInner> {
        &self.open.file
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let file = &self.file;
        let mut state = lock(&file.state);
        state.closed = true;
        state.work.forget_requests();
        state.work.queue.clear();
        file.cache.abandon(state.entry, state.opened);
        file.cache.close(state.entry);
        drop(state);
        file.driver.wake();
    }
}
