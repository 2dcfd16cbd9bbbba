//! The prefetched ends of a file that was opened ahead: size, validator, head and tail.

use crate::open_ahead::access_pattern::{MAX_READS, PrefetchRanges};
use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::queue::{MemoryReservation, OpenAheadQueue};
use bytes::Bytes;
use hither_core::cache::Version;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::range;
use hither_formats::SparseBytes;
use hither_store::FileMetadata;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file that was opened ahead.
#[derive(Debug)]
pub(crate) struct PrefetchedEnds {
    /// Its size in bytes, if the server tells.
    pub(crate) size: Option<u64>,
    /// What tells its version.
    pub(crate) validator: Option<String>,
    bytes: Mutex<SparseBytes>,
    pub(crate) held: MemoryReservation,
    /// What was brought along because of a habit, and whether any of it was read.
    along: Mutex<Along>,
    /// Reads of the file so far; up to [`MAX_READS`] or a few more.
    reads: Arc<AtomicUsize>,
    is_telling: AtomicBool,
}

#[derive(Debug, Default)]
struct Along {
    dataset: Option<Arc<FolderAccess>>,
    ranges: Vec<Range<u64>>,
    read: bool,
}

impl PrefetchedEnds {
    pub(crate) fn new(
        opener: &Arc<OpenAheadQueue>,
        mut known: FileMetadata,
        size: Option<u64>,
    ) -> Self {
        if !opener.has_room() {
            known.pieces.clear();
        }
        let total = known.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut bytes = SparseBytes::new();
        known.pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
        Self {
            size,
            validator: known.validator,
            bytes: Mutex::new(bytes),
            held: opener.hold(total),
            along: Mutex::default(),
            reads: Arc::default(),
            is_telling: AtomicBool::new(true),
        }
    }

    /// Notes what was brought along because of the habit with a dataset.
    pub(crate) fn with_along(self, dataset: &Arc<FolderAccess>, ranges: &[Range<u64>]) -> Self {
        self.bring_along(dataset, ranges);
        self
    }

    pub(crate) fn bring_along(&self, dataset: &Arc<FolderAccess>, ranges: &[Range<u64>]) {
        if !ranges.is_empty() {
            let mut along = self.along();
            along.dataset = Some(Arc::clone(dataset));
            along.ranges.extend_from_slice(ranges);
        }
    }

    /// Counts reads; returns the number of the first.
    pub(crate) fn reads(&self, ranges: &[Range<u64>]) -> usize {
        let first = self.reads.fetch_add(ranges.len(), Ordering::Relaxed);
        if first.saturating_add(ranges.len()) >= MAX_READS {
            self.is_telling.store(false, Ordering::Relaxed);
        }
        let mut along = self.along();
        along.read |= ranges
            .iter()
            .any(|read| along.ranges.iter().any(|it| it.start < read.end && read.start < it.end));
        first
    }

    /// Counts them, also when the file is closed.
    pub(crate) fn count_of_reads(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.reads)
    }

    /// Whether something of it is missing.
    pub(crate) fn lacks(&self, wanted: &PrefetchRanges) -> bool {
        !self.missing(wanted).is_empty()
    }

    pub(crate) fn missing(&self, wanted: &PrefetchRanges) -> Vec<Range<u64>> {
        missing(&self.bytes(), wanted)
    }

    fn along(&self) -> MutexGuard<'_, Along> {
        self.along.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes that are there, for somebody who keeps them from now on.
    pub(crate) fn take_pieces(&self) -> Vec<(u64, Bytes)> {
        let bytes = std::mem::take(&mut *self.bytes());
        self.held.release();
        bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect()
    }

    /// Which version of the file it is.
    pub(crate) fn version(&self) -> Version {
        Version { size: self.size, validator: self.validator.clone() }
    }

    /// Whether its next read still tells something about the habit.
    pub(crate) fn is_telling(&self) -> bool {
        self.is_telling.load(Ordering::Relaxed)
    }

    /// Fails for ranges beyond the end.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub(crate) fn check_within(&self, ranges: &[Range<u64>], name: &str) -> Result<()> {
        let Some(size) = self.size else { return Ok(()) };
        let beyond =
            ranges.iter().filter(|range| range::len(range) > 0 && range.end > size).count();
        match beyond {
            0 => Ok(()),
            count => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{name}: {count} of the ranges asked for lie beyond its end"),
            )),
        }
    }

    pub(crate) fn bytes(&self) -> MutexGuard<'_, SparseBytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of it is not there, in a file whose size is known.
pub(crate) fn missing(bytes: &SparseBytes, wanted: &PrefetchRanges) -> Vec<Range<u64>> {
    let there: Vec<_> =
        bytes.pieces().map(|(at, piece)| at..at.saturating_add(piece.len() as u64)).collect();
    range::difference(&range::merged(&wanted.ranges, 0), &range::merged(&there, 0))
}

impl Drop for PrefetchedEnds {
    fn drop(&mut self) {
        let along = std::mem::take(self.along.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Some(dataset) = along.dataset {
            dataset.ended(along.read);
        }
    }
}
