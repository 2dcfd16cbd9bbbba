//! The ranges that one response delivered, compared with those that were requested.

use crate::location::Location;
use crate::pool::Pool;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Failure};
use hither_core::{Part, PartSink, ResponseMeta, range};
use std::ops::Range;
use std::sync::Arc;

/// The ranges that one response delivered.
pub(crate) struct Delivery<'a> {
    pub(crate) wanted: &'a [Range<u64>],
    pub(crate) received: Vec<Range<u64>>,
    /// Received bytes of the file that were not requested.
    pub(crate) dropped_bytes: u64,
    /// Size of the file, once known.
    pub(crate) size: Option<u64>,
    /// No response stated it: an end showed it.
    pub(crate) is_size_counted: bool,
    location: &'a Location,
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) sink: &'a mut PartSink,
}

impl<'a> Delivery<'a> {
    /// A delivery without any bytes yet.
    pub(crate) fn new(
        wanted: &'a [Range<u64>],
        location: &'a Location,
        pool: &'a Arc<Pool>,
        sink: &'a mut PartSink,
    ) -> Self {
        Self {
            wanted,
            received: Vec::new(),
            dropped_bytes: 0,
            size: None,
            is_size_counted: false,
            location,
            pool,
            sink,
        }
    }

    /// Delivers bytes that arrived from the server.
    pub(crate) fn deliver(&mut self, offset: u64, bytes: Bytes) {
        self.pool.counters().payload(bytes.len() as u64);
        self.deliver_kept(offset, bytes);
    }

    /// Delivers bytes that arrived earlier.
    pub(crate) fn deliver_kept(&mut self, offset: u64, bytes: Bytes) {
        let end = offset.saturating_add(bytes.len() as u64);
        match self.received.last_mut() {
            Some(last) if last.end == offset => last.end = end,
            _ => self.received.push(offset..end),
        }
        (self.sink)(Part { offset, bytes });
    }

    /// Delivers the parts of a chunk at `offset` that lie in one of `ranges`, which are ascending.
    /// Counts all of it.
    pub(crate) fn deliver_within(&mut self, ranges: &[Range<u64>], offset: u64, chunk: &Bytes) {
        let end = offset.saturating_add(chunk.len() as u64);
        let first = ranges.partition_point(|range| range.end <= offset);
        let mut delivered = 0;
        for range in ranges.iter().skip(first).take_while(|range| range.start < end) {
            let from = range.start.max(offset);
            let to = range.end.min(end);
            if let (Ok(a), Ok(b)) = (usize::try_from(from - offset), usize::try_from(to - offset)) {
                delivered += to - from;
                self.deliver(from, chunk.slice(a..b));
            }
        }
        let dropped = chunk.len() as u64 - delivered;
        self.dropped_bytes += dropped;
        self.pool.counters().payload(dropped);
    }

    /// Bytes of the file that were delivered.
    pub(crate) fn received_bytes(&self) -> u64 {
        range::total_bytes(&self.received)
    }

    /// Returns whether everything requested has arrived, including the last `tail` bytes of the
    /// file.
    pub(crate) fn is_complete(&self, tail: u64) -> bool {
        let have = range::merged(&self.received, 0);
        let mut wanted = self.wanted.to_vec();
        match (tail, self.size) {
            (0, _) => {}
            (_, None) => return false,
            (tail, Some(size)) => {
                wanted.push(size.saturating_sub(tail)..size);
                for range in &mut wanted {
                    range.end = range.end.min(size);
                }
            }
        }
        range::difference(&range::merged(&wanted, 0), &have).is_empty()
    }

    /// Returns whether everything requested that lies in the file has arrived, apart from the tail.
    pub(crate) fn has_all_but_tail(&self) -> bool {
        self.lacking_bytes() == 0
    }

    /// Requested bytes that lie in the file and have not arrived, apart from the tail.
    fn lacking_bytes(&self) -> u64 {
        let have = range::merged(&self.received, 0);
        let size = self.size.unwrap_or(u64::MAX);
        let within: Vec<_> =
            self.wanted.iter().map(|r| r.start.min(size)..r.end.min(size)).collect();
        range::total_bytes(&range::difference(&range::merged(&within, 0), &have))
    }

    /// Returns whether bytes beyond the end of the file were requested.
    pub(crate) fn is_beyond(&self) -> bool {
        let end = self.wanted.last().map_or(0, |range| range.end);
        self.size.is_some_and(|size| end > size)
    }

    /// Returns whether some of the received bytes were requested.
    pub(crate) fn is_wanted(&self) -> bool {
        let have = range::merged(&self.received, 0);
        range::difference(self.wanted, &have) != self.wanted
    }

    /// Received bytes that are in no requested range, including those of a tail.
    pub(crate) fn unasked_bytes(&self) -> u64 {
        let have = range::merged(&self.received, 0);
        self.dropped_bytes + range::total_bytes(&range::difference(&have, self.wanted))
    }

    /// The result of an exchange that ended well; `tail` bytes of the end were requested by suffix.
    /// It is an error if requested bytes are lacking; where the size of the file is not known, they
    /// may lie beyond its end.
    pub(crate) fn complete(&self, tail: u64, reusable: bool) -> ExchangeResult {
        let lacking = self.size.map_or(0, |_| self.lacking_bytes());
        if lacking > 0 {
            let what = format!("{}: the response lacks {lacking} requested bytes", self.location);
            let error = Error::new(ErrorKind::Protocol, what).with_failure(Failure::Garbled);
            return ExchangeResult::new(Err(error), reusable);
        }
        let unasked_bytes = self.unasked_bytes().saturating_sub(tail);
        let &Self { size, is_size_counted, .. } = self;
        let answer =
            ResponseMeta { size, is_size_counted, unasked_bytes, ..ResponseMeta::default() };
        ExchangeResult::new(Ok(ExchangeOutcome::Complete(answer)), reusable)
    }
}
