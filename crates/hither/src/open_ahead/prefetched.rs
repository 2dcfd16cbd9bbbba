//! The prefetched ends of a file that was opened ahead: size, validator, head and tail.

use crate::open_ahead::access_pattern::{MAX_READS, PrefetchRanges};
use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::queue::{MemoryReservation, OpenAheadQueue};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::range;
use hither_core::sync::lock;
use hither_formats::SparseBytes;
use hither_read::cache::Version;
use hither_store::FileMetadata;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The prefetched ends of one file, and the use that the program makes of them.
#[derive(Debug)]
pub(crate) struct PrefetchedEnds {
    /// The size of the file in bytes, if the server sends it.
    pub(crate) size: Option<u64>,
    /// The entity tag or date of the version.
    pub(crate) validator: Option<String>,
    bytes: Mutex<SparseBytes>,
    pub(crate) reservation: MemoryReservation,
    /// The ranges that were prefetched because of an access pattern.
    pattern: Mutex<PatternRanges>,
    /// The number of reads of the file so far; not counted far beyond [`MAX_READS`].
    reads: Arc<AtomicUsize>,
    is_recorded: AtomicBool,
}

#[derive(Debug, Default)]
struct PatternRanges {
    folder: Option<Arc<FolderAccess>>,
    ranges: Vec<Range<u64>>,
    read: bool,
}

impl PrefetchedEnds {
    pub(crate) fn new(
        queue: &Arc<OpenAheadQueue>,
        mut known: FileMetadata,
        size: Option<u64>,
    ) -> Self {
        if !queue.has_room() {
            known.pieces.clear();
        }
        let total = known.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut bytes = SparseBytes::new();
        known.pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
        Self {
            size,
            validator: known.validator,
            bytes: Mutex::new(bytes),
            reservation: queue.reserve(total),
            pattern: Mutex::default(),
            reads: Arc::default(),
            is_recorded: AtomicBool::new(true),
        }
    }

    /// The same ends, with ranges that were prefetched because of the pattern of `folder`.
    pub(crate) fn with_pattern(self, folder: &Arc<FolderAccess>, ranges: &[Range<u64>]) -> Self {
        self.add_pattern(folder, ranges);
        self
    }

    pub(crate) fn add_pattern(&self, folder: &Arc<FolderAccess>, ranges: &[Range<u64>]) {
        if !ranges.is_empty() {
            let mut pattern = self.pattern();
            pattern.folder = Some(Arc::clone(folder));
            pattern.ranges.extend_from_slice(ranges);
        }
    }

    /// Counts reads, and returns the number of the first.
    pub(crate) fn count_reads(&self, ranges: &[Range<u64>]) -> usize {
        let first = self.reads.fetch_add(ranges.len(), Ordering::Relaxed);
        if first.saturating_add(ranges.len()) >= MAX_READS {
            self.is_recorded.store(false, Ordering::Relaxed);
        }
        let mut pattern = self.pattern();
        pattern.read |= ranges
            .iter()
            .any(|read| pattern.ranges.iter().any(|it| it.start < read.end && read.start < it.end));
        first
    }

    /// The counter of reads. It stays readable when the file is closed.
    pub(crate) fn read_counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.reads)
    }

    /// Returns true if any of the ranges are missing.
    pub(crate) fn lacks(&self, wanted: &PrefetchRanges) -> bool {
        !self.missing(wanted).is_empty()
    }

    pub(crate) fn missing(&self, wanted: &PrefetchRanges) -> Vec<Range<u64>> {
        missing(&self.bytes(), wanted)
    }

    fn pattern(&self) -> MutexGuard<'_, PatternRanges> {
        lock(&self.pattern)
    }

    /// Hands over all bytes and ends their reservation.
    pub(crate) fn take_pieces(&self) -> Vec<(u64, Bytes)> {
        let bytes = std::mem::take(&mut *self.bytes());
        self.reservation.release();
        bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect()
    }

    /// The version of the file.
    pub(crate) fn version(&self) -> Version {
        Version { size: self.size, validator: self.validator.clone() }
    }

    /// Returns true while reads of the file are recorded in the access pattern.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Relaxed)
    }

    /// Checks that ranges lie within the file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if one does not.
    pub(crate) fn check_within(&self, ranges: &[Range<u64>], name: &str) -> Result<()> {
        let Some(size) = self.size else { return Ok(()) };
        let beyond =
            ranges.iter().filter(|range| range::len(range) > 0 && range.end > size).count();
        match beyond {
            0 => Ok(()),
            count => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{name}: {count} of the requested ranges lie beyond its end"),
            )),
        }
    }

    pub(crate) fn bytes(&self) -> MutexGuard<'_, SparseBytes> {
        lock(&self.bytes)
    }
}

/// The ranges that are missing of a file of known size.
pub(crate) fn missing(bytes: &SparseBytes, wanted: &PrefetchRanges) -> Vec<Range<u64>> {
    let present: Vec<_> =
        bytes.pieces().map(|(at, piece)| at..at.saturating_add(piece.len() as u64)).collect();
    range::difference(&range::merged(&wanted.ranges, 0), &range::merged(&present, 0))
}

impl Drop for PrefetchedEnds {
    fn drop(&mut self) {
        let pattern = std::mem::take(&mut *self.pattern());
        if let Some(folder) = pattern.folder {
            folder.record_drop(pattern.read);
        }
    }
}
