//! What opening a file ahead brings: size, validator, head and tail; from its server in one request, or from the store.
//!
//! What the store has is asked about before it is believed: one byte, with the validator, which is one round trip. Where
//! the caller accepts that a file may have changed within a stated time ([`crate::ClientConfig::staleness`]), what was
//! confirmed within that time is not asked about at all.

use crate::ahead::Ahead;
use crate::opener::{Held, Opener};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Answer, Reader, range};
use hither_formats::root::RootFile;
use hither_formats::{Need, SparseBytes, Step};
use hither_store::{FileMetadata, MetadataKey, Store};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;

/// A file that was opened ahead.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Its size in bytes, if the server tells.
    pub(crate) size: Option<u64>,
    /// What tells its version.
    pub(crate) validator: Option<String>,
    bytes: Mutex<SparseBytes>,
    _held: Held,
}

impl Opened {
    fn new(opener: &Arc<Opener>, mut known: FileMetadata, size: Option<u64>) -> Self {
        if !opener.has_room() {
            known.pieces.clear();
        }
        let total = known.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut bytes = SparseBytes::new();
        known.pieces.into_iter().for_each(|(offset, piece)| bytes.insert(offset, piece));
        Self {
            size,
            validator: known.validator,
            bytes: Mutex::new(bytes),
            _held: opener.hold(total),
        }
    }

    /// The bytes of each range that are there.
    pub(crate) fn get(&self, ranges: &[Range<u64>]) -> Vec<Option<Bytes>> {
        let bytes = self.bytes();
        ranges.iter().map(|range| bytes.get(range.clone())).collect()
    }

    /// All bytes that are there.
    pub(crate) fn pieces(&self) -> Vec<(u64, Bytes)> {
        self.bytes().pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect()
    }

    /// Fails for ranges beyond the end.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub(crate) fn check_within(&self, ranges: &[Range<u64>], name: &str) -> Result<()> {
        let Some(size) = self.size else { return Ok(()) };
        let beyond =
            ranges.iter().filter(|range| range::len(range) > 0 && range.end > size).count();
        match beyond {
            0 => Ok(()),
            count => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{name}: {count} of the ranges asked for lie beyond its end"),
            )),
        }
    }

    fn bytes(&self) -> MutexGuard<'_, SparseBytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a file: from the store if that has it and it is still the same, else from its server.
pub(crate) async fn open(file: &Arc<Ahead>, opener: &Arc<Opener>) -> Result<Opened> {
    let (key, known) = remembered(file).await;
    if let Some(known) = known {
        let age = SystemTime::now().duration_since(known.learned).unwrap_or(Duration::MAX);
        if age < file.shared.config.staleness {
            let size = Some(known.size);
            return Ok(Opened::new(opener, known, size));
        }
        match confirm(file, &known).await {
            Ok(()) => {
                if !file.shared.config.staleness.is_zero() {
                    keep(file, key, known.clone());
                }
                let size = Some(known.size);
                return Ok(Opened::new(opener, known, size));
            }
            // It is another one now: what it is replaces what it was.
            Err(error) if error.kind() == ErrorKind::Changed => {}
            Err(error) => return Err(error),
        }
    }
    let need = first_need();
    let (pieces, answer) =
        fetch(file, None, |reader| reader.push_tail(&need.now, need.tail)).await?;
    let learned = SystemTime::now();
    let size = answer.size.unwrap_or_default();
    let found = FileMetadata { size, validator: answer.validator, pieces, learned };
    if answer.size.is_some() && found.validator.is_some() {
        keep(file, key, found.clone());
    }
    Ok(Opened::new(opener, found, answer.size))
}

/// What the store has of the file, and under which name.
async fn remembered(file: &Arc<Ahead>) -> (Option<MetadataKey>, Option<FileMetadata>) {
    let Some(store) = file.shared.store.clone() else { return (None, None) };
    let file = Arc::clone(file);
    let look = move || {
        let key = file.key();
        let known = key.as_ref().and_then(|key| store.metadata(key, SystemTime::now()));
        (key, known.filter(|known| known.validator.is_some()))
    };
    spawn_blocking(look).await.unwrap_or_default()
}

/// Asks whether the file is still the one that is known.
async fn confirm(file: &Ahead, known: &FileMetadata) -> Result<()> {
    // The tail may be asked for whatever the size: an empty file has no first byte.
    let byte = 0..known.size.min(1);
    if byte.is_empty() {
        return Err(Error::new(ErrorKind::Changed, "nothing is known of an empty file"));
    }
    let ask = |reader: &mut Reader<'_>| reader.push(std::slice::from_ref(&byte), 1);
    let (_, answer) = fetch(file, known.validator.clone(), ask).await?;
    match answer.size.filter(|size| *size != known.size) {
        Some(_) => Err(Error::new(ErrorKind::Changed, "the file has another size now")),
        None => Ok(()),
    }
}

/// One request, sent once.
async fn fetch(
    file: &Ahead,
    validator: Option<String>,
    ask: impl FnOnce(&mut Reader<'_>),
) -> Result<(Vec<(u64, Bytes)>, Answer)> {
    let mut config = file.shared.config.reader;
    (config.attempts, config.patience) = (1, Duration::ZERO);
    let mut reader = Reader::new(&*file.source, validator, config);
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
fn first_need() -> Need {
    match RootFile::open(&SparseBytes::new()) {
        Ok(Step::Need(need)) => need,
        _ => Need { now: vec![0..1], ..Need::default() },
    }
}

/// Starts writing what is known of a file into the store; nobody needs to know whether it worked.
fn keep(file: &Ahead, key: Option<MetadataKey>, found: FileMetadata) {
    let (Some(store), Some(key)) = (file.shared.store.clone(), key) else { return };
    let write = move || Store::remember_metadata(&store, &key, &found, SystemTime::now());
    drop(file.shared.network.runtime().spawn_blocking(write));
}
