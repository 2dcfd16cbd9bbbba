//! Files that the federation reads for clients that cannot be redirected to them.
//!
//! Bytes are fetched in pieces from the best holder, a few pieces ahead of the client, and are not
//! cached. If a piece fails, it is requested from the next holder.
//!
//! **One version.** The first piece that arrives settles the version of the response. Pieces of its
//! holder are bound to that version. A piece of another holder is passed on only if its response
//! has the same strong entity tag or the same date of last modification
//! ([`VersionBinding::agrees_with`]); the size alone does not suffice. If no holder has that
//! version, the response is aborted.
//!
//! Where the best holder states the date of the file, the response has an entity tag made of date
//! and size, and the first piece has to have that date. So a client that reads a file by several
//! requests notices if responses come from holders of different versions.

use crate::endpoint::Endpoint;
use crate::merge::{EndpointId, MergedEntry};
use crate::name_space::NameSpace;
use crate::referral::{Outcome, backend_error, metadata};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::{Part, Request, VersionBinding, range};
use hither_http::conditions::Version;
use hither_server::{
    BackendError, BackendErrorKind, BackendFuture, ChecksumMode, EntryMetadata, FileRanges,
    FileReader, RangeData,
};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::warn;

/// The size of a piece, and the number of pieces in memory for one client.
const PIECE_BYTES: u64 = 1 << 20;
const PIECES_AHEAD: usize = 3;
/// Time after which no other version can have the same date.
const SETTLED: Duration = Duration::from_secs(2);
/// The end of the year 9999, after which HTTP has no dates.
const LAST_SECOND: u64 = 253_402_300_799;

/// A file that is relayed, or a directory, of which only the metadata is used.
#[derive(Debug)]
pub(crate) struct RelayedFile {
    metadata: EntryMetadata,
    replicas: Replicas,
}

/// The replicas of a file, of which one version is read.
#[derive(Debug, Clone)]
struct Replicas {
    names: Arc<NameSpace>,
    path: Arc<str>,
    size: u64,
    /// The holders, healthy ones first.
    holders: Arc<[Holder]>,
    /// The version that the response describes, if the date of the file is known.
    described: Option<VersionBinding>,
    /// The holder of the first piece that arrived, whose version all pieces have to be of.
    first: Arc<OnceLock<Holder>>,
}

/// An endpoint that has the file, and the version that its responses are bound to.
#[derive(Debug, Clone)]
struct Holder {
    id: EndpointId,
    version: VersionBinding,
}

impl RelayedFile {
    pub(crate) fn open(names: &Arc<NameSpace>, path: &str, entry: &MergedEntry) -> Outcome<Self> {
        if !names.settings.relay && !metadata(entry).is_directory() {
            let what = "this federation does not relay files";
            return Err(BackendError::new(BackendErrorKind::PermissionDenied, what));
        }
        let Some(size) = entry.facts.size else {
            let what = "the endpoint does not tell the size of the file";
            return Err(BackendError::new(BackendErrorKind::Unavailable, what));
        };
        let mut holders: Vec<_> = entry.dated_holders().collect();
        let is_down = |(id, _): &(EndpointId, _)| {
            names.endpoint(*id).is_none_or(|endpoint| names.health.is_down(&endpoint.name))
        };
        holders.sort_by_key(is_down);
        let mut metadata = metadata(entry);
        let date = holders.first().and_then(|(_, date)| *date);
        let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        let since = since.filter(|it| it.as_secs() <= LAST_SECOND && !metadata.is_directory());
        let described = since.map(|since| {
            let modified = UNIX_EPOCH + since;
            // Another version could have the date of this second, too.
            let weak = if SystemTime::now() < modified + SETTLED { "W/" } else { "" };
            let etag = format!("{weak}\"{:x}-{size:x}\"", since.as_secs());
            metadata.version = Version { etag, modified };
            let version = VersionBinding::default();
            version.note_modified(&httpdate::fmt_http_date(modified));
            version
        });
        let holder = |(id, _)| Holder { id, version: VersionBinding::default() };
        let replicas = Replicas {
            names: Arc::clone(names),
            path: path.into(),
            size,
            holders: holders.into_iter().map(holder).collect(),
            described,
            first: Arc::default(),
        };
        Ok(Self { metadata, replicas })
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
        let replicas = self.replicas.clone();
        let fetch = move |range| {
            let fetched = replicas.clone().fetch(range);
            async { fetched.await.map(RangeData::Bytes).map_err(backend_error) }
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

impl Replicas {
    /// Fetches a piece from the holder of the first one, or from another one that has the version
    /// of the first piece.
    async fn fetch(self, range: Range<u64>) -> Result<Bytes> {
        let mut last = Error::new(ErrorKind::NotFound, "no endpoint has the file");
        let first = self.first.get();
        let is_other = |holder: &&Holder| first.is_none_or(|first| first.id != holder.id);
        for holder in first.into_iter().chain(self.holders.iter().filter(is_other)) {
            let Some(endpoint) = self.names.endpoint(holder.id) else { continue };
            let Some(target) = endpoint.storage_path(&self.path) else { continue };
            match self.fetch_from(endpoint, &target, holder, &range).await {
                Ok(bytes) => match self.check_version(holder) {
                    Ok(()) => return Ok(bytes),
                    Err(error) => last = error,
                },
                Err(error) => {
                    self.names.health.record_error(&endpoint.name, &error);
                    last = error;
                }
            }
        }
        Err(last)
    }

    async fn fetch_from(
        &self,
        endpoint: &Endpoint,
        target: &str,
        holder: &Holder,
        range: &Range<u64>,
    ) -> Result<Bytes> {
        let source = endpoint.storage.source(target)?;
        let received = Arc::new(Mutex::new(Piece::new(range.clone())));
        let request = Request {
            ranges: vec![range.clone()],
            size: Some(self.size),
            version: holder.version.clone(),
            failover: self.holders.len() > 1,
            ..Request::default()
        };
        let filled = Arc::clone(&received);
        source.fetch(request, Box::new(move |part| lock(&filled).add(&part))).await?;
        let piece = std::mem::replace(&mut *lock(&received), Piece::new(0..0));
        piece.whole(range).ok_or_else(|| {
            let what = format!("{}: the response lacks requested bytes", source.name());
            Error::new(ErrorKind::Protocol, what)
        })
    }

    /// Fails if the responses of a holder have another date than the described version, or do not
    /// show the version of the first piece.
    fn check_version(&self, holder: &Holder) -> Result<()> {
        if let Some(described) = &self.described
            && let Some(date) = holder.version.modified()
            && !described.agrees_with(&holder.version)
        {
            self.names.forget(&self.path);
            let what = format!(
                "{} is of {date} at {}, not of {}",
                self.path,
                self.names.names_of(&[holder.id]),
                described.modified().unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::Changed, what));
        }
        let first = self.first.get_or_init(|| holder.clone());
        if first.id == holder.id || first.version.agrees_with(&holder.version) {
            return Ok(());
        }
        let what = format!(
            "{}: {} does not show that it has the version of which {} has sent a part: their \
             entity tags and their dates differ, or are missing",
            self.path,
            self.names.names_of(&[holder.id]),
            self.names.names_of(&[first.id]),
        );
        warn!("a relayed response breaks off: {what}");
        Err(Error::new(ErrorKind::Changed, what))
    }
}

/// A piece that has not arrived completely.
#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: BytesMut,
    received: Vec<Range<u64>>,
}

impl Piece {
    fn new(range: Range<u64>) -> Self {
        let length = usize::try_from(range.end - range.start).unwrap_or_default();
        Self { start: range.start, bytes: BytesMut::zeroed(length), received: Vec::new() }
    }

    /// Copies what a part has of the piece to its position.
    fn add(&mut self, part: &Part) {
        let end = part.offset.saturating_add(part.bytes.len() as u64);
        let from = part.offset.max(self.start);
        let to = end.min(self.start + self.bytes.len() as u64);
        let index = |at: u64, origin| usize::try_from(at.checked_sub(origin)?).ok();
        let within = |origin| Some(index(from, origin)?..index(to, origin)?);
        let bytes = within(part.offset).and_then(|range| part.bytes.get(range));
        let slot = within(self.start).and_then(|range| self.bytes.get_mut(range));
        if let (Some(slot), Some(bytes)) = (slot, bytes) {
            slot.copy_from_slice(bytes);
            self.received.push(from..to);
        }
    }

    /// The bytes of `range`, if all of them have arrived: a file that has become shorter ends
    /// before.
    fn whole(self, range: &Range<u64>) -> Option<Bytes> {
        let received = range::merged(&self.received, 0);
        let missing = range::difference(std::slice::from_ref(range), &received);
        missing.is_empty().then(|| self.bytes.freeze())
    }
}
