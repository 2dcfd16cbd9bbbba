//! The requests that open a file ahead: size, validator, head and tail in one request, or from the
//! store.
//!
//! Stored metadata is validated before it is used: one byte with the validator, which is one round
//! trip. Metadata younger than [`crate::ClientConfig::staleness`] is used without validation.

use crate::open_ahead::prefetched::{PrefetchedEnds, missing};
use crate::open_ahead::queue::OpenAheadQueue;
use crate::open_ahead::task::OpenAheadTask;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Reader, ResponseMeta, range};
use hither_formats::root::RootFile;
use hither_formats::{DecodeResult, NeededRanges, SparseBytes};
use hither_store::{FileMetadata, MetadataKey, Store};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;

/// Opens a file: from the store if that has it and it is still the same, else from its server.
pub(crate) async fn open(
    file: &Arc<OpenAheadTask>,
    opener: &Arc<OpenAheadQueue>,
) -> Result<PrefetchedEnds> {
    let (key, known) = remembered(file).await;
    if let Some(known) = known {
        if file.origin.context.is_fresh(&known) {
            let size = Some(known.size);
            return Ok(PrefetchedEnds::new(opener, known, size));
        }
        match confirm(file, known).await {
            Ok((known, more)) => {
                if !more.is_empty() || !file.origin.context.config.staleness.is_zero() {
                    keep(file, key, known.clone());
                }
                let size = Some(known.size);
                return Ok(
                    PrefetchedEnds::new(opener, known, size).with_along(file.dataset(), &more)
                );
            }
            // It is another one now: what it is replaces what it was.
            Err(error) if error.kind() == ErrorKind::Changed => {}
            Err(error) => return Err(error),
        }
    }
    let (need, wanted) = (first_need(), file.dataset().wanted(None));
    let (first, tail) =
        ([&*need.required, &*wanted.ranges].concat(), need.tail.max(wanted.tail).max(file.tail()));
    let (pieces, answer) = fetch(file, None, |reader| reader.push_tail(&first, tail)).await?;
    let learned = SystemTime::now();
    let size = answer.size.unwrap_or_default();
    let found = FileMetadata { size, validator: answer.validator, pieces, learned };
    if answer.size.is_some() && found.validator.is_some() {
        keep(file, key, found.clone());
    }
    Ok(PrefetchedEnds::new(opener, found, answer.size).with_along(file.dataset(), &wanted.ranges))
}

/// Fetches what is wanted of a file that is open, by what the habit has become.
pub(crate) async fn more(file: &Arc<OpenAheadTask>, opened: &PrefetchedEnds) -> Result<()> {
    let dataset = file.dataset();
    let missing = opened.missing(&dataset.wanted(opened.size));
    if missing.is_empty() {
        return Ok(());
    }
    let ask = |reader: &mut Reader<'_>| reader.push(&missing, 1);
    let (pieces, _) = fetch(file, opened.validator.clone(), ask).await?;
    opened.held.add(pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum());
    opened.bring_along(dataset, &missing);
    let found = {
        let mut bytes = opened.bytes();
        pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
        FileMetadata {
            size: opened.size.unwrap_or_default(),
            validator: opened.validator.clone(),
            pieces: bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect(),
            learned: SystemTime::now(),
        }
    };
    if opened.size.is_some() && found.validator.is_some() && file.origin.context.store.is_some() {
        let file_of = Arc::clone(file);
        let key = spawn_blocking(move || file_of.origin.metadata_key()).await.unwrap_or_default();
        keep(file, key, found);
    }
    Ok(())
}

/// Whether the store has anything of the file.
pub(crate) async fn is_remembered(file: &Arc<OpenAheadTask>) -> bool {
    remembered(file).await.1.is_some()
}

/// What the store has of the file, and under which name.
async fn remembered(file: &Arc<OpenAheadTask>) -> (Option<MetadataKey>, Option<FileMetadata>) {
    let Some(store) = file.origin.context.store.clone() else { return (None, None) };
    let file = Arc::clone(file);
    let look = move || {
        let key = file.origin.metadata_key();
        let known = key.as_ref().and_then(|key| store.metadata(key, SystemTime::now()));
        (key, known.filter(|known| known.validator.is_some()))
    };
    spawn_blocking(look).await.unwrap_or_default()
}

/// Asks whether the file is still the one that is known, and for what is wanted of it besides; returns both.
async fn confirm(
    file: &OpenAheadTask,
    mut known: FileMetadata,
) -> Result<(FileMetadata, Vec<Range<u64>>)> {
    let mut bytes = SparseBytes::new();
    known.pieces.drain(..).for_each(|(offset, piece)| bytes.insert(offset, piece));
    let more = missing(&bytes, &file.dataset().wanted(Some(known.size)));
    let byte = [0..known.size.min(1)];
    let asked = range::merged(if more.is_empty() { &byte } else { &more }, 0);
    if asked.is_empty() {
        return Err(Error::new(ErrorKind::Changed, "nothing is known of an empty file"));
    }
    let ask = |reader: &mut Reader<'_>| reader.push(&asked, 1);
    let (pieces, answer) = fetch(file, known.validator.clone(), ask).await?;
    if answer.size.is_some_and(|size| size != known.size) {
        return Err(Error::new(ErrorKind::Changed, "the file has another size now"));
    }
    pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
    known.pieces = bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect();
    Ok((known, more))
}

/// One request, sent once.
async fn fetch(
    file: &OpenAheadTask,
    validator: Option<String>,
    ask: impl FnOnce(&mut Reader<'_>),
) -> Result<(Vec<(u64, Bytes)>, ResponseMeta)> {
    let mut config = file.origin.context.config.reader;
    (config.attempts, config.staging_timeout) = (1, Duration::ZERO);
    let mut reader = Reader::new(&*file.origin.source, validator, config);
    ask(&mut reader);
    let mut found = SparseBytes::new();
    while let Some(part) = reader.next().await {
        let part = part?;
        reader.release(part.bytes.len() as u64);
        found.insert(part.offset, part.bytes);
    }
    let pieces = found.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect();
    Ok((pieces, reader.answer().clone()))
}

/// What a reader of ROOT files wants first of a file that it knows nothing of. Others begin in the same way: formats have
/// their directories in front or at the end.
fn first_need() -> NeededRanges {
    match RootFile::open(&SparseBytes::new()) {
        Ok(DecodeResult::NeedsData(need)) => need,
        _ => NeededRanges { required: vec![0..1], ..NeededRanges::default() },
    }
}

/// Starts writing what is known of a file into the store; nobody needs to know whether it worked.
fn keep(file: &OpenAheadTask, key: Option<MetadataKey>, found: FileMetadata) {
    let (Some(store), Some(key)) = (file.origin.context.store.clone(), key) else { return };
    let bytes = found.held_bytes();
    let write = move || Store::put_metadata(&store, &key, &found, SystemTime::now());
    file.origin.context.writes.enqueue(file.origin.context.network.runtime(), bytes, write);
}
