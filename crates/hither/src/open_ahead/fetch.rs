//! The requests that open a file ahead: size, validator, head and tail in one request, or from the
//! store.
//!
//! Stored metadata is validated before it is used: one byte with the validator, which is one round
//! trip. Metadata younger than [`crate::ClientConfig::staleness`] is used without validation.

use crate::open_ahead::prefetched::{PrefetchedEnds, missing};
use crate::open_ahead::task::OpenAheadTask;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{ResponseMeta, RetryPolicy, range};
use hither_formats::root::RootFile;
use hither_formats::{DecodeResult, NeededRanges, SparseBytes};
use hither_read::Reader;
use hither_store::{FileMetadata, MetadataKey, Store};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::spawn_blocking;

/// Opens a file: from the store if the stored metadata are still valid, else from its server.
pub(crate) async fn open(file: &Arc<OpenAheadTask>) -> Result<PrefetchedEnds> {
    let queue = &file.queue;
    let (key, known) = stored(file).await;
    if let Some(known) = known {
        if file.origin.context.is_fresh(&known) {
            let size = Some(known.size);
            return Ok(PrefetchedEnds::new(queue, known, size));
        }
        match validate(file, known).await {
            Ok((known, more)) => {
                if !more.is_empty() || !file.origin.context.config.staleness.is_zero() {
                    store_metadata(file, key, known.clone());
                }
                let size = Some(known.size);
                return Ok(
                    PrefetchedEnds::new(queue, known, size).with_pattern(file.folder(), &more)
                );
            }
            // The file has changed: open it anew.
            Err(error) if error.kind() == ErrorKind::Changed => {}
            Err(error) => return Err(error),
        }
    }
    let need = initial_ranges();
    let wanted = file.folder().prefetch_ranges(None);
    let first = [&*need.required, &*wanted.ranges].concat();
    let tail = need.tail.max(wanted.tail).max(file.tail());
    let (pieces, answer) = fetch(file, None, |reader| reader.push_tail(&first, tail)).await?;
    let learned = SystemTime::now();
    let size = answer.size.unwrap_or_default();
    let found = FileMetadata { size, validator: answer.validator, pieces, learned };
    if answer.size.is_some() && found.validator.is_some() {
        store_metadata(file, key, found.clone());
    }
    Ok(PrefetchedEnds::new(queue, found, answer.size).with_pattern(file.folder(), &wanted.ranges))
}

/// Fetches the ranges that a file lacks of a pattern that has changed since it was opened.
pub(crate) async fn fetch_missing(file: &Arc<OpenAheadTask>, ends: &PrefetchedEnds) -> Result<()> {
    let folder = file.folder();
    let missing = ends.missing(&folder.prefetch_ranges(ends.size));
    if missing.is_empty() {
        return Ok(());
    }
    let ask = |reader: &mut Reader<'_>| reader.push(&missing, 1);
    let (pieces, _) = fetch(file, ends.validator.clone(), ask).await?;
    ends.reservation.add(pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum());
    ends.add_pattern(folder, &missing);
    let found = {
        let mut bytes = ends.bytes();
        pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
        FileMetadata {
            size: ends.size.unwrap_or_default(),
            validator: ends.validator.clone(),
            pieces: bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect(),
            learned: SystemTime::now(),
        }
    };
    if ends.size.is_some() && found.validator.is_some() && file.origin.context.store.is_some() {
        let origin = Arc::clone(&file.origin);
        let key = spawn_blocking(move || origin.metadata_key()).await.unwrap_or_default();
        store_metadata(file, key, found);
    }
    Ok(())
}

/// Returns true if the store has metadata of the file.
pub(crate) async fn is_stored(file: &Arc<OpenAheadTask>) -> bool {
    stored(file).await.1.is_some()
}

/// The key of a file in the store, and its metadata.
async fn stored(file: &Arc<OpenAheadTask>) -> (Option<MetadataKey>, Option<FileMetadata>) {
    let Some(store) = file.origin.context.store.clone() else { return (None, None) };
    let file = Arc::clone(file);
    let load = move || {
        let key = file.origin.metadata_key();
        let known = key.as_ref().and_then(|key| store.metadata(key, SystemTime::now()));
        (key, known.filter(|known| known.validator.is_some()))
    };
    spawn_blocking(load).await.unwrap_or_default()
}

/// Validates stored metadata, together with a request for the missing ranges of the pattern.
/// Returns the metadata with those ranges, and the ranges.
async fn validate(
    file: &OpenAheadTask,
    mut known: FileMetadata,
) -> Result<(FileMetadata, Vec<Range<u64>>)> {
    let mut bytes = SparseBytes::new();
    known.pieces.drain(..).for_each(|(offset, piece)| bytes.insert(offset, piece));
    let more = missing(&bytes, &file.folder().prefetch_ranges(Some(known.size)));
    let byte = [0..known.size.min(1)];
    let ranges = range::merged(if more.is_empty() { &byte } else { &more }, 0);
    if ranges.is_empty() {
        return Err(Error::new(ErrorKind::Changed, "an empty file cannot be validated"));
    }
    let ask = |reader: &mut Reader<'_>| reader.push(&ranges, 1);
    let (pieces, answer) = fetch(file, known.validator.clone(), ask).await?;
    if answer.size.is_some_and(|size| size != known.size) {
        return Err(Error::new(ErrorKind::Changed, "the size of the file has changed"));
    }
    pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
    known.pieces = bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect();
    Ok((known, more))
}

/// Sends one request, without retries.
async fn fetch(
    file: &OpenAheadTask,
    validator: Option<String>,
    ask: impl FnOnce(&mut Reader<'_>),
) -> Result<(Vec<(u64, Bytes)>, ResponseMeta)> {
    let mut config = file.origin.context.config.reader;
    config.retry = RetryPolicy::once();
    let mut reader = Reader::new(&*file.origin.source, validator, config);
    ask(&mut reader);
    let mut found = SparseBytes::new();
    while let Some(part) = reader.next().await {
        let part = part?;
        reader.release(part.bytes.len() as u64);
        found.insert(part.offset, part.bytes);
    }
    let pieces = found.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect();
    Ok((pieces, reader.response().clone()))
}

/// The ranges that a reader of ROOT files needs first. Other formats begin in the same way: their
/// directories are at the head or the tail.
fn initial_ranges() -> NeededRanges {
    match RootFile::open(&SparseBytes::new()) {
        Ok(DecodeResult::NeedsData(need)) => need,
        _ => NeededRanges { required: vec![0..1], ..NeededRanges::default() },
    }
}

/// Starts writing metadata to the store. Errors are ignored: the store is a cache.
fn store_metadata(file: &OpenAheadTask, key: Option<MetadataKey>, found: FileMetadata) {
    let (Some(store), Some(key)) = (file.origin.context.store.clone(), key) else { return };
    let bytes = found.held_bytes();
    let write = move || Store::put_metadata(&store, &key, &found, SystemTime::now());
    file.origin.context.writes.enqueue(file.origin.context.network.runtime(), bytes, write);
}
