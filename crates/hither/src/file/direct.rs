//! Reads that bypass the caches.

use crate::file::assembly::Assembly;
use crate::file::origin::FileOrigin;
use crate::file::read_path::CachedReads;
use crate::file::{RemoteFile, SMALL_BYTES, WINDOW_BYTES};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::source::link::INITIAL_REQUEST_BYTES;
use hither_core::{Part, ResponseMeta, range};
use hither_read::Reader;
use hither_read::cache::Version;
use hither_trace::CacheStatus;
use std::ops::Range;

/// Reads of more bytes than this are compared with the size of the file before anything is planned
/// or allocated for them.
const UNCHECKED_BYTES: u64 = 64 << 20;

impl RemoteFile {
    /// The bytes of `ranges`, as [`RemoteFile::read_ranges`] returns them, bypassing the caches.
    pub(crate) async fn read_past_cache(
        &self,
        cached: &CachedReads,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        if let (Some(ends), Some(open_ahead)) = (cached.prefetched(), self.path.open_ahead()) {
            ends.check_within(ranges, &self.name())?;
            open_ahead.record_reads(ends, ranges);
        }
        let known = cached.file.confirmed_version().unwrap_or_default();
        let read = self.origin.fetch_ranges(ranges, known).await;
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
        let known = Version { size: Some(size), validator: None };
        let (found, _) = self.origin.fetch_ranges(std::slice::from_ref(&range), known).await?;
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
        self.response_to(validator, |reader| reader.push(std::slice::from_ref(&(0..1)), 1)).await
    }

    /// The size of a file whose server does not state it: the position of its last byte. From a
    /// server that sends only whole files, all of the file is read and kept.
    pub(crate) async fn last_byte(&self, validator: Option<String>) -> Result<ResponseMeta> {
        self.response_to(validator, |reader| reader.push_tail(&[], 1)).await
    }

    async fn response_to(
        &self,
        validator: Option<String>,
        ask: impl FnOnce(&mut Reader<'_>),
    ) -> Result<ResponseMeta> {
        let mut reader = self.reader(validator);
        ask(&mut reader);
        while let Some(part) = reader.next().await {
            // An empty file has no first byte, and its response has shown that.
            if let (Err(error), true) = (part, reader.response().size != Some(0)) {
                return Err(error);
            }
        }
        Ok(reader.response().clone())
    }

    /// The bytes of `ranges`, in the version that is `known`, if any.
    ///
    /// Large reads are requested in windows, as a stream is: shares of the whole read would be so
    /// large that the slowest connection determines the time. 100 MB at 20 ms and 1 Gbit/s took 1.5
    /// to 3.3 s in one plan, 1.1 to 1.7 s in windows, and 1.1 s on one connection.
    pub(crate) async fn fetch_ranges(
        &self,
        ranges: &[Range<u64>],
        known: Version,
    ) -> Result<(Vec<Bytes>, ResponseMeta)> {
        let wanted = range::total_bytes(ranges);
        let submitted = self.source.clock().now();
        if wanted > SMALL_BYTES {
            self.source.expect_bulk();
        }
        if wanted > UNCHECKED_BYTES {
            self.check_within(ranges, &known).await?;
        }
        let mut found = vec![Bytes::new(); ranges.len()];
        let mut missing = ranges.iter().filter(|range| range::len(range) > 0).count();
        let mut assembly = Assembly::new(
            ranges.iter().cloned().enumerate().filter(|(_, range)| range::len(range) > 0),
        );
        // The first bytes of a response show the round-trip time and the limits of the server for
        // one request. Planning everything without them costs more than the round trip.
        let unmeasured = self.is_unmeasured() && wanted > SMALL_BYTES;
        let first = if unmeasured { INITIAL_REQUEST_BYTES } else { WINDOW_BYTES };
        let (window, mut rest) = range::divided(&range::merged(ranges, 0), first);
        let mut in_flight = range::total_bytes(&window);
        let mut reader = self.reader(known.validator);
        reader.push(&window, usize::MAX);
        while let Some(part) = reader.next().await {
            let part: Part = part?;
            in_flight = in_flight.saturating_sub(part.bytes.len() as u64);
            if in_flight < WINDOW_BYTES && !rest.is_empty() {
                let (window, later) = range::divided(&rest, WINDOW_BYTES);
                in_flight += range::total_bytes(&window);
                reader.push(&window, usize::MAX);
                rest = later;
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

    /// Fails if any of `ranges` lies beyond the end of the file. One round trip, unless the size is
    /// known.
    async fn check_within(&self, ranges: &[Range<u64>], known: &Version) -> Result<()> {
        let size = match known.size {
            Some(size) => Some(size),
            None => self.first_byte(known.validator.clone()).await?.size,
        };
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
