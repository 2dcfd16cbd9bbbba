//! What opening a file ahead brings: size, validator, head and tail; from its server in one request, or from the store.
//!
//! What the store has is asked about before it is believed: one byte, with the validator, which is one round trip. Where
//! the caller accepts that a file may have changed within a stated time ([`crate::ClientConfig::staleness`]), what was
//! confirmed within that time is not asked about at all.

use crate::open_ahead::access_pattern::{MAX_READS, PrefetchRanges};
use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::queue::{MemoryReservation, OpenAheadQueue};
use crate::open_ahead::task::OpenAheadTask;
use bytes::Bytes;
use hither_core::cache::Version;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Reader, ResponseMeta, range};
use hither_formats::root::RootFile;
use hither_formats::{DecodeResult, NeededRanges, SparseBytes};
use hither_store::{FileMetadata, MetadataKey, Store};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;

/// A file that was opened ahead.
#[derive(Debug)]
pub(crate) struct PrefetchedEnds {
    /// Its size in bytes, if the server tells.
    pub(crate) size: Option<u64>,
    /// What tells its version.
    pub(crate) validator: Option<String>,
    bytes: Mutex<SparseBytes>,
    held: MemoryReservation,
    /// What was brought along because of a habit, and whether any of it was read.
    along: Mutex<Along>,
    /// Reads of the file so far; up to [`MAX_READS`] or a few more.
    reads: Arc<AtomicUsize>,
    is_telling: AtomicBool,
}

#[derive(Debug, Default)]
struct Along {
    dataset: Option<Arc<FolderAccess>>,
    ranges: Vec<Range<u64>>,
    read: bool,
}

impl PrefetchedEnds {
    fn new(opener: &Arc<OpenAheadQueue>, mut known: FileMetadata, size: Option<u64>) -> Self {
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
            held: opener.hold(total),
            along: Mutex::default(),
            reads: Arc::default(),
            is_telling: AtomicBool::new(true),
        }
    }

    /// Notes what was brought along because of the habit with a dataset.
    fn with_along(self, dataset: &Arc<FolderAccess>, ranges: &[Range<u64>]) -> Self {
        self.bring_along(dataset, ranges);
        self
    }

    fn bring_along(&self, dataset: &Arc<FolderAccess>, ranges: &[Range<u64>]) {
        if !ranges.is_empty() {
            let mut along = self.along();
            along.dataset = Some(Arc::clone(dataset));
            along.ranges.extend_from_slice(ranges);
        }
    }

    /// Counts reads; returns the number of the first.
    pub(crate) fn reads(&self, ranges: &[Range<u64>]) -> usize {
        let first = self.reads.fetch_add(ranges.len(), Ordering::Relaxed);
        if first.saturating_add(ranges.len()) >= MAX_READS {
            self.is_telling.store(false, Ordering::Relaxed);
        }
        let mut along = self.along();
        along.read |= ranges
            .iter()
            .any(|read| along.ranges.iter().any(|it| it.start < read.end && read.start < it.end));
        first
    }

    /// Counts them, also when the file is closed.
    pub(crate) fn count_of_reads(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.reads)
    }

    /// Whether something of it is missing.
    pub(crate) fn lacks(&self, wanted: &PrefetchRanges) -> bool {
        !self.missing(wanted).is_empty()
    }

    fn missing(&self, wanted: &PrefetchRanges) -> Vec<Range<u64>> {
        missing(&self.bytes(), wanted)
    }

    fn along(&self) -> MutexGuard<'_, Along> {
        self.along.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of each range that are there.
    pub(crate) fn get(&self, ranges: &[Range<u64>]) -> Vec<Option<Bytes>> {
        let bytes = self.bytes();
        ranges.iter().map(|range| bytes.get(range.clone())).collect()
    }

    /// All bytes that are there, for somebody who keeps them from now on.
    pub(crate) fn take_pieces(&self) -> Vec<(u64, Bytes)> {
        let bytes = std::mem::take(&mut *self.bytes());
        self.held.release();
        bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone())).collect()
    }

    /// Which version of the file it is.
    pub(crate) fn version(&self) -> Version {
        Version { size: self.size, validator: self.validator.clone() }
    }

    /// Whether its next read still tells something about the habit.
    pub(crate) fn is_telling(&self) -> bool {
        self.is_telling.load(Ordering::Relaxed)
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
pub(crate) async fn open(
    file: &Arc<OpenAheadTask>,
    opener: &Arc<OpenAheadQueue>,
) -> Result<PrefetchedEnds> {
    let (key, known) = remembered(file).await;
    if let Some(known) = known {
        if file.shared.is_fresh(&known) {
            let size = Some(known.size);
            return Ok(PrefetchedEnds::new(opener, known, size));
        }
        match confirm(file, known).await {
            Ok((known, more)) => {
                if !more.is_empty() || !file.shared.config.staleness.is_zero() {
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
    if opened.size.is_some() && found.validator.is_some() && file.shared.store.is_some() {
        let file_of = Arc::clone(file);
        let key = spawn_blocking(move || file_of.key()).await.unwrap_or_default();
        keep(file, key, found);
    }
    Ok(())
}

/// What of it is not there, in a file whose size is known.
fn missing(bytes: &SparseBytes, wanted: &PrefetchRanges) -> Vec<Range<u64>> {
    let there: Vec<_> =
        bytes.pieces().map(|(at, piece)| at..at.saturating_add(piece.len() as u64)).collect();
    range::difference(&range::merged(&wanted.ranges, 0), &range::merged(&there, 0))
}

/// Whether the store has anything of the file.
pub(crate) async fn is_remembered(file: &Arc<OpenAheadTask>) -> bool {
    remembered(file).await.1.is_some()
}

/// What the store has of the file, and under which name.
async fn remembered(file: &Arc<OpenAheadTask>) -> (Option<MetadataKey>, Option<FileMetadata>) {
    let Some(store) = file.shared.store.clone() else { return (None, None) };
    let file = Arc::clone(file);
    let look = move || {
        let key = file.key();
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
fn first_need() -> NeededRanges {
    match RootFile::open(&SparseBytes::new()) {
        Ok(DecodeResult::NeedsData(need)) => need,
        _ => NeededRanges { required: vec![0..1], ..NeededRanges::default() },
    }
}

/// Starts writing what is known of a file into the store; nobody needs to know whether it worked.
fn keep(file: &OpenAheadTask, key: Option<MetadataKey>, found: FileMetadata) {
    let (Some(store), Some(key)) = (file.shared.store.clone(), key) else { return };
    let bytes = found.held_bytes();
    let write = move || Store::remember_metadata(&store, &key, &found, SystemTime::now());
    file.shared.writes.enqueue(file.shared.network.runtime(), bytes, write);
}

impl Drop for PrefetchedEnds {
    fn drop(&mut self) {
        let along = std::mem::take(self.along.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Some(dataset) = along.dataset {
            dataset.ended(along.read);
        }
    }
}
