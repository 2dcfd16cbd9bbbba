//! Reads of a scan that are not complete, for the trace.

use crate::file::origin::FileOrigin;
use hither_core::range;
use hither_trace::CacheStatus;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Vector reads of a file that are not complete. A read is recorded when as many bytes have arrived
/// as were requested up to its end.
#[derive(Debug, Default)]
pub(crate) struct OutstandingReads {
    /// Bytes requested up to the end of each read, its ranges, and its time of submission.
    reads: VecDeque<(u64, Vec<Range<u64>>, Duration)>,
    requested_bytes: u64,
    arrived_bytes: u64,
}

impl OutstandingReads {
    /// Adds a read.
    pub(crate) fn add(&mut self, file: &FileOrigin, ranges: &[Range<u64>]) {
        if file.recorder.is_none() || ranges.is_empty() {
            return;
        }
        self.requested_bytes += range::total_bytes(ranges);
        self.reads.push_back((self.requested_bytes, ranges.to_vec(), file.source.clock().now()));
    }

    /// Counts bytes that have arrived.
    pub(crate) fn arrived(&mut self, file: &FileOrigin, bytes: u64) {
        self.arrived_bytes += bytes;
        while let Some((end, ..)) = self.reads.front()
            && *end <= self.arrived_bytes
            && let Some((_, ranges, submitted)) = self.reads.pop_front()
        {
            file.record(&ranges, submitted, CacheStatus::Miss, range::total_bytes(&ranges));
        }
    }
}
