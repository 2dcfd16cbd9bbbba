//! A read that waits.

use crate::cache::file::{CachedFile, CachedFileInner};
use crate::cache::{Collected, WaitOutcome};
use crate::sync::lock;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_trace::{CacheStatus, ReadTimes};
use std::future::poll_fn;
use std::ops::Range;
use std::time::Duration;

/// A read that has to wait. Dropping it before its end cancels it.
#[derive(Debug)]
pub struct PendingRead {
    file: CachedFile,
    /// Sorted and disjoint.
    ranges: Vec<Range<u64>>,
    entry: u64,
    waiter: u64,
    /// It has been taken out of the cache.
    over: bool,
    /// The read is not the program's.
    aside: bool,
    submitted: Duration,
    found: CacheStatus,
    absent_bytes: u64,
}

/// Maximum restarts of a read whose bytes another file stopped fetching, or whose file changed.
const MAX_ANEW: usize = 8;

impl PendingRead {
    pub(crate) fn new(
        file: CachedFile,
        ranges: Vec<Range<u64>>,
        entry: u64,
        waiter: u64,
        submitted: Duration,
        (found, absent_bytes): (CacheStatus, u64),
    ) -> Self {
        let over = false;
        let aside = false;
        Self { file, ranges, entry, waiter, over, aside, submitted, found, absent_bytes }
    }

    /// Marks a read as not the program's: it is not recorded, and does not determine the version.
    pub(crate) fn aside(mut self) -> Self {
        self.aside = true;
        self
    }

    /// Waits, and copies the bytes to `target`, which must be the one that the read began with.
    /// Returns the number of bytes before the end of the file.
    ///
    /// # Errors
    ///
    /// As [`CachedFile::read_at`].
    pub async fn into_slice(mut self, target: &mut [u8]) -> Result<usize> {
        let (collected, completed) = self.wait().await?;
        let size = self.size();
        let Some(range) = self.ranges.first() else { return Ok(0) };
        let end = size.map_or(range.end, |size| range.end.min(size));
        let bytes = collected.get(&(range.start.min(end)..end)).unwrap_or_default();
        if let Some(target) = target.get_mut(..bytes.len()) {
            target.copy_from_slice(bytes);
        }
        self.record(completed);
        Ok(bytes.len())
    }

    /// Waits, and returns the bytes of the only range that the read began with, up to the end of
    /// the file.
    ///
    /// # Errors
    ///
    /// As [`CachedFile::read_at`].
    pub async fn into_vec(mut self) -> Result<Vec<u8>> {
        let (collected, completed) = self.wait().await?;
        self.record(completed);
        Ok(collected.into_vec())
    }

    /// Waits, and returns the bytes of `ranges`, which must be those that the read began with.
    ///
    /// # Errors
    ///
    /// As [`CachedFile::read_ranges`].
    pub async fn into_bytes(mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (collected, completed) = self.wait().await?;
        if let Some(size) = self.size() {
            check_within(&self.ranges, size, self.file.shared())?;
        }
        let bytes = |range: &Range<u64>| {
            if range.is_empty() {
                return Bytes::new();
            }
            Bytes::copy_from_slice(collected.get(range).unwrap_or_default())
        };
        let found = ranges.iter().map(bytes).collect();
        self.record(completed);
        Ok(found)
    }

    fn size(&self) -> Option<u64> {
        self.file.shared().cache.snapshot(self.entry).size
    }

    fn record(&self, completed: Duration) {
        let file = self.file.shared();
        if let (Some(recorder), false) = (file.recorder.get(), self.aside) {
            let consumed = file.source.clock().now();
            let times = ReadTimes { submitted: self.submitted, completed, consumed };
            recorder.record(&self.ranges, times, self.found, self.absent_bytes);
        }
    }

    /// The bytes, and the time when the last of them arrived. They are of the version that the open
    /// file reads at that time: another read of it may have noticed a change in between, and have
    /// been served from the new version.
    async fn wait(&mut self) -> Result<(Collected, Duration)> {
        for _ in 0..MAX_ANEW {
            let entry = self.entry;
            let waiter = self.waiter;
            let cache = &self.file.shared().cache;
            let (outcome, collected) = poll_fn(|cx| cache.poll(entry, waiter, cx)).await;
            self.over = true;
            match outcome {
                WaitOutcome::Ready if self.settles() => {
                    let completed = self.file.shared().source.clock().now();
                    if !self.aside {
                        cache.counts().waited(completed.saturating_sub(self.submitted));
                    }
                    return Ok((collected, completed));
                }
                WaitOutcome::Failed(error) => return Err(error),
                WaitOutcome::Changed(error) if self.was_served_from() => return Err(error),
                WaitOutcome::Ready | WaitOutcome::Changed(_) | WaitOutcome::Again => self.anew()?,
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{}: the file changes faster than it can be read",
                self.file.shared().source.name()
            ),
        ))
    }

    /// Settles the version that the open file reads, if it is the one of this read; returns true if
    /// so.
    fn settles(&self) -> bool {
        let mut state = lock(&self.file.shared().state);
        let current = state.entry == self.entry;
        state.bound |= current && !self.aside;
        current
    }

    /// Returns true if the program has been served bytes of the version that this read waited for.
    fn was_served_from(&self) -> bool {
        let state = lock(&self.file.shared().state);
        state.bound && state.entry == self.entry
    }

    /// Claims all ranges again.
    fn anew(&mut self) -> Result<()> {
        let file = self.file.shared();
        let mut state = lock(&file.state);
        (self.entry, self.waiter) = file.claim(&mut state, &self.ranges)?;
        self.over = false;
        file.drive(&mut state);
        Ok(())
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        if !self.over {
            self.file.shared().cache.forget(self.entry, self.waiter);
        }
    }
}

/// Fails if any of `ranges` lies beyond the end of the file.
pub(crate) fn check_within(ranges: &[Range<u64>], size: u64, file: &CachedFileInner) -> Result<()> {
    match ranges.iter().find(|range| range.end > size) {
        Some(beyond) => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{} has {size} bytes, but bytes {}..{} of it are wanted",
                file.source.name(),
                beyond.start,
                beyond.end
            ),
        )),
        None => Ok(()),
    }
}
