//! A range with page checksums. A page is delivered if its checksum matches; a damaged page is
//! reported and affects no other. Pages that lie in one piece of the input are not copied.

use super::{Outcome, Sink};
use crate::wire::{
    FileHandle, Request, StatusHead, StatusKind, WireError, page_end, request_code, unpaged_length,
};
use bytes::{Bytes, BytesMut};
use std::ops::Range;

const CHECKSUM_BYTES: usize = 4;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::client) struct Pages {
    /// Ranges that no frame has covered, ascending.
    missing: Vec<Range<u64>>,
    /// Ranges that arrived damaged, ascending within a frame; neighbours are joined.
    damaged: Vec<Range<u64>>,
    /// The range arrived damaged before.
    again: bool,
    /// The range of the frame's data, without checksums, that is still to arrive; `None` if its
    /// bytes are dropped.
    frame: Option<Range<u64>>,
    /// A page and its checksum, as far as they have arrived. Invariant: at most a page and 4 bytes.
    unit: BytesMut,
}

impl Pages {
    /// Maximum range of one request.
    pub(in crate::client) const MAX_BYTES: u64 = 1 << 30;

    pub(in crate::client) fn new(range: Range<u64>, again: bool) -> Self {
        Self {
            missing: vec![range],
            damaged: Vec::new(),
            again,
            frame: None,
            unit: BytesMut::new(),
        }
    }

    /// The request for the first missing range. Several can be missing only if a server that reads
    /// in the background was interrupted: the others are reported as missing at the end.
    pub(super) fn request(&mut self, handle: FileHandle) -> Request {
        self.missing = self.missing();
        self.damaged.clear();
        self.frame = None;
        self.unit.clear();
        let Range { start, end } = self.missing.first().cloned().unwrap_or_default();
        let length = u32::try_from(end - start).unwrap_or(u32::MAX);
        Request::ReadPages { handle, offset: start, length, again: self.again }
    }

    pub(super) fn begin(&mut self, status: &StatusHead) -> Result<(), WireError> {
        self.frame = None;
        if status.code != request_code::PGREAD {
            let expected = "pgread, which was asked";
            return Err(WireError::number(
                "the request that a status frame answers",
                status.code,
                expected,
            ));
        }
        if status.kind == StatusKind::Progress || status.data_bytes == 0 {
            return Ok(());
        }
        let length = unpaged_length(status.offset, status.data_bytes.into())?;
        let range = status.offset..status.offset.saturating_add(length);
        let holder =
            self.missing.iter().position(|hole| hole.start <= range.start && range.end <= hole.end);
        let Some(hole) =
            holder.and_then(|index| self.missing.get(index).cloned().map(|hole| (index, hole)))
        else {
            let seen = format!("{}..{}", range.start, range.end);
            return Err(WireError::number(
                "the range of a frame of pages",
                seen,
                "what was asked for",
            ));
        };
        let (index, hole) = hole;
        let around = [hole.start..range.start, range.end..hole.end];
        self.missing.splice(index..=index, around.into_iter().filter(|rest| !rest.is_empty()));
        self.frame = Some(range);
        Ok(())
    }

    pub(super) fn has_use_for_data(&self) -> bool {
        self.frame.is_some()
    }

    pub(super) fn data(&mut self, mut bytes: Bytes, sink: &mut Sink<'_>) -> Result<(), WireError> {
        while !bytes.is_empty() {
            let Some(frame) = self.frame.clone().filter(|frame| !frame.is_empty()) else {
                return Ok(());
            };
            let page = frame.start..frame.end.min(page_end(frame.start));
            let unit_bytes = usize::try_from(page.end - page.start).unwrap_or(0) + CHECKSUM_BYTES;
            let unit = if self.unit.is_empty() && bytes.len() >= unit_bytes {
                bytes.split_to(unit_bytes)
            } else {
                let count = (unit_bytes - self.unit.len()).min(bytes.len());
                self.unit.extend_from_slice(&bytes.split_to(count));
                if self.unit.len() < unit_bytes {
                    return Ok(());
                }
                self.unit.split().freeze()
            };
            self.frame = Some(page.end..frame.end);
            self.check(page, unit, sink);
        }
        Ok(())
    }

    fn check(&mut self, page: Range<u64>, mut unit: Bytes, sink: &mut Sink<'_>) {
        let stated = unit.split_to(CHECKSUM_BYTES.min(unit.len()));
        if stated[..] == crc32c::crc32c(&unit).to_be_bytes() {
            sink.data(page.start, unit);
            return;
        }
        match self.damaged.last_mut() {
            Some(last) if last.end == page.start => last.end = page.end,
            _ => self.damaged.push(page),
        }
    }

    /// Invariant: a frame has exactly the bytes that its head states, so nothing is left of its
    /// range.
    pub(super) fn end(&mut self) -> Result<(), WireError> {
        match self.frame.take() {
            Some(left) if !left.is_empty() => Err(WireError::number(
                "the data of a frame of pages",
                left.start,
                "all that it states",
            )),
            _ => Ok(()),
        }
    }

    /// The ranges that were not delivered, including damaged pages and the rest of an interrupted
    /// frame.
    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        let mut missing = self.missing.clone();
        missing.extend(self.damaged.iter().cloned());
        missing.extend(self.frame.clone().filter(|frame| !frame.is_empty()));
        missing.sort_by_key(|range| range.start);
        missing
    }

    pub(super) fn finish(self) -> Outcome {
        Outcome::Read { missing: self.missing, damaged: self.damaged }
    }
}
