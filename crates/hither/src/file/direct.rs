//! Reads that bypass the caches.

use crate::file::assembly::Assembly;
use crate::file::origin::FileOrigin;
use crate::file::read_path::CachedReads;
use crate::file::{RemoteFile, SMALL_BYTES};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::tune::link::INITIAL_REQUEST_BYTES;
use hither_core::{CacheStatus, Part, ResponseMeta, range};
use std::ops::Range;

/// Reads of more bytes than this are compared with the size of the file before anything is planned
/// or allocated for them.
const UNCHECKED_BYTES: u64 = 64 << 20;

impl RemoteFile {
    /// The bytes of `ranges`, as [`RemoteFile::read_ranges`] returns them, past the caches.
    pub(crate) async fn read_past_cache(
        &self,
        cached: &CachedReads,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        if let (Some(ends), Some(open_ahead)) = (cached.prefetched(), self.path.open_ahead()) {
            ends.check_within(ranges, &self.name())?;
            open_ahead.record_reads(ends, ranges);
        }
        let read = self.origin.fetch_ranges(ranges, cached.validator()).await;
        if let Ok((_, response)) = &read {
            cached.settle(response);
        }
        Ok(cached.check(&self.origin, read)?.0)
    }

    /// A read of a local file of `size` bytes.
    pub(crate) async fn read_direct(
        &self,
        size: u64,
        offset: u64,
        target: &mut [u8],
    ) -> Result<usize> {
        let end = size.min(offset.saturating_add(target.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        let range = offset..end;
        let (found, _) = self.origin.fetch_ranges(std::slice::from_ref(&range), None).await?;
        let bytes = found.first().map(Bytes::as_ref).unwrap_or_default();
        if let Some(target) = target.get_mut(..bytes.len()) {
            target.copy_from_slice(bytes);
        }
        Ok(bytes.len())
    }
}

impl FileOrigin {
    /// The smallest request that every server answers with size and validator. Fails with
    /// [`ErrorKind::Changed`] if the file no longer has `validator`.
    pub(crate) async fn first_byte(&self, validator: Option<String>) -> Result<ResponseMeta> {
        if self.local_size() == Some(0) {
            return Ok(ResponseMeta { size: Some(0), ..ResponseMeta::default() });
        }
        let mut reader = self.reader(validator);
        reader.push(std::slice::from_ref(&(0..1)), 1);
        while let Some(part) = reader.next().await {
            // An empty file has no first byte, and its response has said so.
            if let (Err(error), true) = (part, reader.response().size != Some(0)) {
                return Err(error);
            }
        }
        Ok(reader.response().clone())
    }

    pub(crate) async fn fetch_ranges(
        &self,
        ranges: &[Range<u64>],
        validator: Option<String>,
    ) -> Result<(Vec<Bytes>, ResponseMeta)> {
        let wanted = range::total_bytes(ranges);
        let submitted = self.source.clock().now();
        if wanted > SMALL_BYTES {
            self.source.expect_bulk();
        }
        if wanted > UNCHECKED_BYTES {
            self.check_within(ranges, validator.clone()).await?;
        }
        let mut found = vec![Bytes::new(); ranges.len()];
        let mut missing = ranges.iter().filter(|range| range::len(range) > 0).count();
        let mut assembly = Assembly::new(
            ranges.iter().cloned().enumerate().filter(|(_, range)| range::len(range) > 0),
        );
        // The first bytes of a response tell the round-trip time and what the server takes in one
        // request. Planning everything without that costs more than the round trip.
        let (first, rest) = if self.is_unmeasured() && wanted > SMALL_BYTES {
            range::divided(ranges, INITIAL_REQUEST_BYTES)
        } else {
            (ranges.to_vec(), Vec::new())
        };
        let mut reader = self.reader(validator);
        reader.push(&first, usize::MAX);
        let mut rest = Some(rest).filter(|rest| !rest.is_empty());
        while let Some(part) = reader.next().await {
            let part: Part = part?;
            if let Some(rest) = rest.take() {
                reader.push(&rest, usize::MAX);
            }
            assembly.accept(&part, |id, bytes| {
                missing -= 1;
                if let Some(slot) = found.get_mut(id) {
                    *slot = bytes;
                }
            });
            reader.release(part.bytes.len() as u64);
        }
        if missing > 0 {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{}: {missing} of the requested ranges lie beyond its end", self.name()),
            ));
        }
        self.record(ranges, submitted, CacheStatus::Miss, range::total_bytes(ranges));
        Ok((found, reader.response().clone()))
    }

    /// Fails if any of `ranges` lies beyond the end of the file. One round trip.
    async fn check_within(&self, ranges: &[Range<u64>], validator: Option<String>) -> Result<()> {
        let size = self.first_byte(validator).await?.size;
        match ranges.iter().find(|range| size.is_some_and(|size| range.end > size)) {
            Some(beyond) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{} has {} bytes, but bytes {}..{} are requested",
                    self.name(),
                    size.unwrap_or_default(),
                    beyond.start,
                    beyond.end
                ),
            )),
            None => Ok(()),
        }
    }
}
