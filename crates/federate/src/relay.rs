//! Files that the federation reads for clients that cannot be sent to them.
//!
//! Bytes are fetched in pieces from the best holder, a few pieces ahead of the client, and are not
//! kept. If a piece fails, the next holder is asked for it; the size was agreed upon when the file
//! was looked up, and every piece has to be of a file of that size.

use crate::merge::{EndpointId, MergedEntry};
use crate::name_space::NameSpace;
use crate::referral::{Outcome, backend_error, metadata};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream;
use hither_core::checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::{Part, Request, VersionBinding};
use hither_server::{
    BackendError, BackendErrorKind, BackendFuture, ChecksumMode, EntryMetadata, FileRanges,
    FileReader, RangeData,
};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The size of a piece, and the number of pieces in memory for one client.
const PIECE_BYTES: u64 = 1 << 20;
const PIECES_AHEAD: usize = 3;

/// A file that is relayed, or a directory, of which only the metadata is used.
#[derive(Debug)]
pub(crate) struct RelayedFile {
    metadata: EntryMetadata,
    size: u64,
    names: Arc<NameSpace>,
    path: Arc<str>,
    /// The holders, those that are up first.
    holders: Vec<EndpointId>,
    /// The version at each holder.
    versions: Vec<VersionBinding>,
}

impl RelayedFile {
    pub(crate) fn open(names: &Arc<NameSpace>, path: &str, entry: &MergedEntry) -> Outcome<Self> {
        let mut holders = entry.holders.clone();
        let is_down = |id: &EndpointId| {
            names.endpoint(*id).is_none_or(|endpoint| names.health.is_down(&endpoint.name))
        };
        holders.sort_by_key(is_down);
        if !names.settings.relay && !metadata(entry).is_directory() {
            let what = "this federation does not relay files";
            return Err(BackendError::new(BackendErrorKind::PermissionDenied, what));
        }
        let Some(size) = entry.facts.size else {
            let what = "the endpoint does not tell the size of the file";
            return Err(BackendError::new(BackendErrorKind::Unavailable, what));
        };
        let versions = holders.iter().map(|_| VersionBinding::default()).collect();
        let names = Arc::clone(names);
        Ok(Self { metadata: metadata(entry), size, names, path: path.into(), holders, versions })
    }
}

impl FileReader for RelayedFile {
    fn metadata(&self) -> &EntryMetadata {
        &self.metadata
    }

    fn ranges(&self, ranges: &[Range<u64>]) -> FileRanges {
        let mut pieces = Vec::new();
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start.saturating_add(PIECE_BYTES));
                pieces.push(start..end);
                start = end;
            }
        }
        let holders: Vec<_> = self.holders.iter().copied().zip(self.versions.clone()).collect();
        let holders: Arc<[(EndpointId, VersionBinding)]> = holders.into();
        let size = self.size;
        let names = Arc::clone(&self.names);
        let path = Arc::clone(&self.path);
        let fetch = move |range| {
            let names = Arc::clone(&names);
            let path = Arc::clone(&path);
            let holders = Arc::clone(&holders);
            async move {
                let fetched = fetch_anywhere(&names, &path, size, &holders, range).await;
                fetched.map(RangeData::Bytes).map_err(backend_error)
            }
        };
        FileRanges::Stream(Box::pin(stream::iter(pieces).map(fetch).buffered(PIECES_AHEAD)))
    }

    fn checksum(&self, _: Algorithm, _: ChecksumMode) -> BackendFuture<'_, Option<Checksum>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        Box::pin(std::future::ready(Ok(true)))
    }
}

/// Fetches a piece from the first holder that has it.
async fn fetch_anywhere(
    names: &NameSpace,
    path: &str,
    size: u64,
    holders: &[(EndpointId, VersionBinding)],
    range: Range<u64>,
) -> Result<Bytes> {
    let mut last = Error::new(ErrorKind::NotFound, "no endpoint has the file");
    for (id, version) in holders {
        let Some(endpoint) = names.endpoint(*id) else { continue };
        let Some(target) = endpoint.storage_path(path) else { continue };
        let fetch = async {
            let source = endpoint.storage.source(&target)?;
            let received = Arc::new(Mutex::new(Piece::new(range.clone())));
            let request = Request {
                ranges: vec![range.clone()],
                size: Some(size),
                version: version.clone(),
                failover: holders.len() > 1,
                ..Request::default()
            };
            let filled = Arc::clone(&received);
            source.fetch(request, Box::new(move |part| lock(&filled).add(&part))).await?;
            let piece = std::mem::take(&mut lock(&received).bytes);
            Ok(piece.freeze())
        };
        match fetch.await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => {
                names.health.record_error(&endpoint.name, &error);
                last = error;
            }
        }
    }
    Err(last)
}

/// A piece that is arriving.
#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: BytesMut,
}

impl Piece {
    fn new(range: Range<u64>) -> Self {
        let length = usize::try_from(range.end - range.start).unwrap_or_default();
        Self { start: range.start, bytes: BytesMut::zeroed(length) }
    }

    /// Puts a part where it belongs. A source delivers what was requested and nothing else.
    fn add(&mut self, part: &Part) {
        let from = part.offset.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let slot = from.and_then(|from| self.bytes.get_mut(from..from + part.bytes.len()));
        if let Some(slot) = slot {
            slot.copy_from_slice(&part.bytes);
        }
    }
}
