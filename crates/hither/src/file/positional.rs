//! Positional reads and vector reads through the caches, and hints.
//!
//! All files that a client has open under one name and identity share their bytes in memory
//! ([`hither_read::cache`]). `read_path` has the layers below.

use crate::client::Client;
use crate::file::read_path::{CachedReads, SeededPath};
use crate::file::{RemoteFile, SMALL_BYTES};
use bytes::Bytes;
use futures_util::future::FutureExt;
use hither_core::error::Result;
use hither_core::range;
use hither_read::cache::Version;
use hither_read::cache::file::{HintId, ReadStart};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Larger reads are split off as vector reads, which may bypass the caches and are compared with
/// the size of the file first.
const LARGE_BYTES: u64 = 8 << 20;

impl RemoteFile {
    /// Reads from `offset` until `target` is full or the file ends, and returns the number of
    /// bytes. A hit in memory takes less than a microsecond.
    ///
    /// All reads of an open file are of one version of it; see `docs/semantics.md`.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stat`]; [`ErrorKind::Changed`] if the file has changed since it was first
    /// read.
    ///
    /// [`ErrorKind::Changed`]: hither_core::ErrorKind::Changed
    pub fn read_at(&self, client: &Client, offset: u64, target: &mut [u8]) -> Result<usize> {
        let mut read = pin!(self.read_at_async(offset, target));
        // A hit needs no runtime.
        if self.path.is_seeded()
            && let Some(done) = read.as_mut().now_or_never()
        {
            return done;
        }
        client.block_on(read)
    }

    /// Reads as [`RemoteFile::read_at`] does if all bytes are in memory, without the runtime, and
    /// returns their number. None otherwise, and for local files; then nothing was read.
    #[must_use]
    pub fn read_present(&self, offset: u64, target: &mut [u8]) -> Option<usize> {
        let cached = self.path.is_seeded().then(|| self.path.cached()).flatten()?;
        let read = cached.file.read_present(offset, target)?;
        self.learn(std::slice::from_ref(&(offset..offset.saturating_add(target.len() as u64))));
        Some(read)
    }

    /// Async version of [`RemoteFile::read_at`], for the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_at`].
    pub async fn read_at_async(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        let cached = match self.path.seeded(&self.origin).await? {
            SeededPath::Cached(cached) => cached,
            SeededPath::Direct { size } => return self.read_direct(size, offset, target).await,
        };
        let end = offset.saturating_add(target.len() as u64);
        self.learn(std::slice::from_ref(&(offset..end)));
        let read = match cached.file.begin(offset, target) {
            Ok(ReadStart::Done(bytes)) => return Ok(bytes),
            Ok(ReadStart::Waiting(pending)) => {
                cached.on_wait(offset, 1);
                pending.into_slice(target).await
            }
            Err(error) => Err(error),
        };
        cached.check(&self.origin, read)
    }

    /// Returns `length` bytes from `offset`, or fewer at the end of the file. Takes no more memory
    /// than the bytes that exist. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_at`].
    pub async fn read_async(&self, offset: u64, length: u64) -> Result<Bytes> {
        if let (Ok(small), true) = (usize::try_from(length), length <= LARGE_BYTES) {
            if let SeededPath::Cached(cached) = self.path.seeded(&self.origin).await?
                && cached.file.size().is_none()
                && length > 0
            {
                let range = offset..offset.saturating_add(length);
                self.learn(std::slice::from_ref(&range));
                let read = on_wait(cached, offset, 1, cached.file.read_unsized(range)).await;
                return cached.check(&self.origin, read.map(Bytes::from));
            }
            let mut target = vec![0; small];
            let read = self.read_at_async(offset, &mut target).await?;
            target.truncate(read);
            return Ok(target.into());
        }
        let size = self.stat_async().await?.size;
        let range = offset.min(size)..offset.saturating_add(length).min(size);
        let mut found = self.read_ranges_async(std::slice::from_ref(&range)).await?;
        Ok(found.pop().unwrap_or_default())
    }

    /// Returns the bytes of `ranges` in the order given; overlaps, duplicates and empty ranges are
    /// allowed. A read of more than a quarter of the cache bypasses it.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_at`]; [`ErrorKind::Corrupt`] for ranges beyond the end of the file.
    ///
    /// [`ErrorKind::Corrupt`]: hither_core::ErrorKind::Corrupt
    pub fn read_ranges(&self, client: &Client, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        client.block_on(self.read_ranges_async(ranges))
    }

    /// Async version of [`RemoteFile::read_ranges`], for the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read_ranges`].
    pub async fn read_ranges_async(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let wanted = range::total_bytes(ranges);
        let small = wanted <= self.origin.context.config.cache.budget_bytes / 4;
        let cached = match self.path.seeded(&self.origin).await? {
            SeededPath::Cached(cached) if small => cached,
            SeededPath::Cached(cached) => return self.read_past_cache(cached, ranges).await,
            SeededPath::Direct { .. } => {
                return Ok(self.origin.fetch_ranges(ranges, Version::default()).await?.0);
            }
        };
        self.learn(ranges);
        if wanted > SMALL_BYTES {
            self.origin.source.expect_bulk();
        }
        let offset = ranges.first().map_or(0, |range| range.start);
        let read = on_wait(cached, offset, ranges.len(), cached.file.read_ranges(ranges)).await;
        cached.check(&self.origin, read)
    }

    /// Announces that `ranges` will be read, in this order, about `when` from now. They are fetched
    /// before that, in few requests together with other reads and as far as memory allows, and
    /// evicted unread if the memory is needed. None for local files, which are not prefetched.
    pub fn hint(&self, ranges: &[Range<u64>], when: Duration) -> Option<HintId> {
        self.path.cached().map(|cached| cached.file.hint(ranges, when))
    }

    /// Takes a hint back: ranges that were not requested yet, and that no other hint names, will
    /// not be requested.
    pub fn cancel(&self, hint: HintId) {
        if let Some(cached) = self.path.cached() {
            cached.file.cancel(hint);
        }
    }

    /// Fetches size, version, head and at least `tail` bytes of the tail in one round trip, for a
    /// program that will read a few small ranges at both ends and then much in between. The first
    /// use waits for that.
    ///
    /// Does nothing for local files, for files that were used before, and for files whose ends are
    /// in the store.
    pub fn prefetch_ends(&self, tail: u64) {
        if let Some(task) = self.path.open_ahead() {
            task.set_tail(tail);
            self.origin.source.expect_bulk();
            task.queue.enqueue(task);
        }
    }

    /// Learns from the first reads of a file which ranges to prefetch of the files that follow.
    fn learn(&self, ranges: &[Range<u64>]) {
        if let (Some(task), Some(cached)) = (self.path.open_ahead(), self.path.cached())
            && let Some(ends) = cached.prefetched().filter(|ends| ends.is_recorded())
        {
            task.record_reads(ends, ranges);
        }
    }
}

/// Waits for a read of `ranges` ranges, the first at `offset`, and notifies the tree cache if it
/// does not complete at once.
async fn on_wait<T>(
    cached: &CachedReads,
    offset: u64,
    ranges: usize,
    read: impl Future<Output = T>,
) -> T {
    let mut read = pin!(read);
    match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
        Poll::Ready(done) => done,
        Poll::Pending => {
            cached.on_wait(offset, ranges);
            read.await
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, ClientConfig, OpenOptions};
    use hither_testkit::mock_http::MockHttpServer;

    #[test]
    fn a_read_from_memory_is_all_or_nothing_and_is_counted() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let peer = MockHttpServer::start(content.clone()).unwrap();
        let client = Client::new(ClientConfig::default()).unwrap();
        let file = client.file(&peer.url_of("/f")).unwrap();
        let mut found = [0; 100];
        assert_eq!(file.read_present(0, &mut found), None);
        assert!(peer.log().is_empty(), "{:?}", peer.log());
        file.read_at(&client, 199_000, &mut [0; 1000]).unwrap();
        for (offset, read) in
            [(199_000, Some(100)), (199_950, Some(50)), (198_999, None), (0, None), (200_000, None)]
        {
            assert_eq!(file.read_present(offset, &mut found), read, "{offset}");
            let start = usize::try_from(offset).unwrap();
            let read = read.unwrap_or_default();
            assert_eq!(found[..read], content[start..start + read]);
        }
        let reads = client.reads();
        assert_eq!((reads.reads, reads.hits), (3, 2));
    }

    #[test]
    fn a_read_of_unknown_size_returns_what_there_is() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let peer = MockHttpServer::start(content.clone()).unwrap();
        let client = Client::new(ClientConfig::default()).unwrap();
        for (offset, length) in [(0, 1 << 20), (199_990, 1 << 20), (5, 10), (5, 0), (1 << 30, 10)] {
            let file = client.file(&peer.url_of("/f")).unwrap();
            let start = content.len().min(offset);
            let found = client.block_on(file.read_async(offset as u64, length)).unwrap();
            let end = content.len().min(start + usize::try_from(length).unwrap());
            assert_eq!(found, content[start..end], "{offset} {length}");
        }
        let requests = peer.log();
        assert!(requests.iter().all(|it| it.payload_bytes <= 200_000), "{requests:?}");
    }

    #[test]
    fn both_ends_are_fetched_in_one_request_and_only_once() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let peer = MockHttpServer::start(content.clone()).unwrap();
        let client = Client::new(ClientConfig::default()).unwrap();
        let file =
            client.open_with(&peer.url_of("/f"), OpenOptions::default().tree_cache(false)).unwrap();
        file.prefetch_ends(20_000);
        for at in [0, 400, 180_000, 199_900] {
            let mut found = [0; 100];
            assert_eq!(file.read_at(&client, at, &mut found).unwrap(), 100);
            let at = usize::try_from(at).unwrap();
            assert_eq!(found, content[at..at + 100]);
        }
        assert_eq!(file.stat(&client).unwrap().size, 200_000);
        assert_eq!(peer.log().len(), 1, "{:?}", peer.log());
    }
}
