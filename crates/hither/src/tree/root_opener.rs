//! Opens a tree in as few flights as its file allows.
//!
//! Cold, there are two: head and tail of the file, then the tree's object, striped over the connections that were opened
//! meanwhile. The bytes that the reader of the format asked for are kept in the store, so that the next process replays
//! the same opening without a round trip; whether the file is still the same is told by the first request for data, which
//! carries the validator.

use crate::file::assembly::Assembly;
use crate::file::origin::FileOrigin;
use hither_core::cache::Version;
use hither_core::cache::file::{CachedFile, WeakFile};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::tune::connections;
use hither_core::tune::link::INITIAL_WINDOW_BYTES;
use hither_core::{CacheStatus, ResponseMeta, range};
use hither_formats::root::{RootFile, Tree};
use hither_formats::{DecodeResult, NeededRanges, SparseBytes};
use hither_store::FileMetadata;
use std::sync::Arc;
use std::time::SystemTime;

/// A tree and what belongs to it.
#[derive(Debug)]
pub(crate) struct OpenTree {
    pub(crate) tree: Arc<Tree>,
    /// The validator that data must carry.
    pub(crate) validator: Option<String>,
    /// Size of the file in bytes.
    pub(crate) size: u64,
    /// Bytes of the file that the opening needed.
    pub(crate) bytes_used: u64,
    /// Whether the store spared the round trips.
    pub(crate) from_store: bool,
    /// And whether it is taken for true unasked.
    pub(crate) is_fresh: bool,
    /// To be kept once there is time for it; none if it came from the store.
    pub(crate) keep: Option<FileMetadata>,
}

/// Flights that opening may take before the file counts as hostile: head and tail, keys, directories, tree, descriptions.
const MAX_FLIGHTS: usize = 64;

/// What a server may send at once on a connection that has brought the ends of a file: half as much again as at first.
const WINDOW_AFTER_ENDS_BYTES: u64 = INITIAL_WINDOW_BYTES * 3 / 2;

/// Bytes of one file's metadata that are worth keeping.
const MAX_KEPT_BYTES: u64 = 64 << 20;

pub(crate) struct RootOpener<'a> {
    file: &'a FileOrigin,
    bytes: SparseBytes,
    validator: Option<String>,
    /// It comes from the store, and is taken for true unasked.
    is_fresh: bool,
    bytes_used: u64,
    flights: usize,
    /// The file as a program reads it at the same time.
    through: Option<WeakFile>,
}

impl<'a> RootOpener<'a> {
    pub(crate) fn new(file: &'a FileOrigin) -> Self {
        let bytes = SparseBytes::new();
        Self {
            file,
            bytes,
            validator: None,
            is_fresh: false,
            bytes_used: 0,
            flights: 0,
            through: None,
        }
    }

    /// Reads what it needs together with a program: nothing of it is fetched twice, as long as the program has the file
    /// open.
    pub(crate) fn through(mut self, file: WeakFile) -> Self {
        self.through = Some(file);
        self
    }

    /// What the store has of the file, if it has.
    pub(crate) fn with_store(mut self) -> (Self, bool) {
        let Some(known) = self.file.stored_metadata() else { return (self, false) };
        self.is_fresh = self.file.context.is_fresh(&known);
        self.bytes.set_size(known.size);
        self.validator = known.validator;
        for (offset, piece) in known.pieces {
            self.bytes.insert(offset, piece);
        }
        (self, true)
    }

    /// What tells this version of the file from others.
    pub(crate) fn validator(&self) -> Option<String> {
        self.validator.clone()
    }

    /// Whether what the store has of the file is taken for true unasked.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// What is known of the file so far.
    pub(crate) fn bytes(&self) -> &SparseBytes {
        &self.bytes
    }

    /// Opens the file.
    pub(crate) async fn root(&mut self) -> Result<RootFile> {
        loop {
            match RootFile::open(&self.bytes).map_err(|error| self.at_fault(error))? {
                DecodeResult::Data(root) => return Ok(root),
                DecodeResult::NeedsData(need) => self.fetch(need).await?,
            }
        }
    }

    /// Opens a tree of the file, by path; the only one if none is named.
    pub(crate) async fn tree(&mut self, root: &RootFile, path: Option<&str>) -> Result<Tree> {
        loop {
            match root.tree(path, &self.bytes).map_err(|error| self.at_fault(error))? {
                DecodeResult::Data(tree) => return Ok(tree),
                DecodeResult::NeedsData(need) => self.fetch(need).await?,
            }
        }
    }

    /// Everything that was fetched, for data to follow.
    pub(crate) fn finish(self, tree: Tree, from_store: bool) -> OpenTree {
        // A store that had only part of it was topped up: that counts as cold.
        let from_store = from_store && self.flights == 0;
        let keep = self.metadata_to_keep(from_store);
        OpenTree {
            tree: Arc::new(tree),
            size: self.bytes.size().unwrap_or(0),
            validator: self.validator,
            bytes_used: self.bytes_used,
            from_store,
            is_fresh: self.is_fresh,
            keep,
        }
    }

    /// What the store should have of the file; none if it came `from_store` as it is.
    pub(crate) fn metadata_to_keep(&self, from_store: bool) -> Option<FileMetadata> {
        if (from_store && self.flights == 0) || self.validator.is_none() {
            return None;
        }
        let pieces = self.bytes.pieces().map(|(offset, bytes)| (offset, bytes.clone()));
        let kept = FileMetadata {
            size: self.bytes.size().unwrap_or(0),
            validator: self.validator.clone(),
            pieces: pieces.collect(),
            learned: SystemTime::now(),
        };
        (kept.held_bytes() <= MAX_KEPT_BYTES).then_some(kept)
    }

    pub(crate) async fn fetch(&mut self, need: NeededRanges) -> Result<()> {
        self.flights += 1;
        if self.flights > MAX_FLIGHTS {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{}: opening it takes more than {MAX_FLIGHTS} reads", self.file.name()),
            ));
        }
        let submitted = self.file.source.clock().now();
        let mut wanted = range::merged(&need.required, 0);
        if let Some(size) = self.bytes.size() {
            self.check_within(&wanted, size)?;
            let soon: Vec<_> =
                need.prefetch.iter().map(|r| r.start.min(size)..r.end.min(size)).collect();
            wanted = range::merged(&[wanted, soon].concat(), 0);
        }
        self.bytes_used += range::total_bytes(&need.required).saturating_add(need.tail);
        if need.tail == 0
            && let Some(file) = self.program()?
        {
            let found = file.read_untracked(&wanted).await?;
            let found = wanted.iter().zip(found);
            found.for_each(|(range, bytes)| self.bytes.insert(range.start, bytes));
            return Ok(());
        }
        let mut reader = self.file.reader(self.validator.clone());
        if need.tail > 0 {
            reader.push_tail(&wanted, need.tail);
        } else {
            reader.push(&wanted, self.stripes(range::total_bytes(&wanted)));
        }
        let mut assembly = Assembly::new(wanted.iter().cloned().enumerate());
        while let Some(part) = reader.next().await {
            let part = part?;
            reader.release(part.bytes.len() as u64);
            if need.tail > 0 {
                // Head and tail, and where the tail begins only the answer tells. They are small: kept as they come.
                self.bytes.insert(part.offset, part.bytes);
                continue;
            }
            assembly.accept(&part, |id, bytes| {
                if let Some(range) = wanted.get(id) {
                    self.bytes.insert(range.start, bytes);
                }
            });
        }
        let ResponseMeta { size, validator, .. } = reader.answer().clone();
        if let Some(size) = size {
            self.bytes.set_size(size);
            if need.tail > 0 {
                wanted.push(size.saturating_sub(need.tail)..size);
            }
        }
        self.validator = self.validator.take().or(validator);
        if let Some(file) = self.program()? {
            let pieces: Vec<_> =
                self.bytes.pieces().map(|(at, bytes)| (at, bytes.clone())).collect();
            file.adopt(&Version { size, validator: self.validator.clone() }, &pieces);
        } else {
            let fetched = range::total_bytes(&wanted);
            self.file.record(&wanted, submitted, CacheStatus::Miss, fetched);
        }
        Ok(())
    }

    /// The file as the program reads it, if there is one.
    fn program(&self) -> Result<Option<CachedFile>> {
        let closed =
            || Error::new(ErrorKind::Cancelled, format!("{}: was closed", self.file.name()));
        self.through.as_ref().map(|file| file.upgrade().ok_or_else(closed)).transpose()
    }

    /// Connections to stripe a tree's object of `bytes` over.
    ///
    /// All that will carry data, if they are many: what they carry now opens their windows, evenly, for then. If they are
    /// few it is the limits of the server that decide how many requests the data need, and the tree should not double
    /// them. A small one fits into what the first answer has opened the window to: where many files are opened side by side,
    /// every request that is not made leaves its connection to another file.
    fn stripes(&self, bytes: u64) -> usize {
        if bytes <= WINDOW_AFTER_ENDS_BYTES {
            return 1;
        }
        let source = &self.file.source;
        match connections::for_bytes(bytes, &source.link(), source.max_connections()) {
            few @ 0..8 => (2 * few).saturating_sub(11).max(1),
            many => many,
        }
    }

    fn check_within(&self, wanted: &[std::ops::Range<u64>], size: u64) -> Result<()> {
        match wanted.iter().find(|range| range.end > size) {
            Some(beyond) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{} is truncated: it refers to bytes {}..{}, but has only {size}",
                    self.file.name(),
                    beyond.start,
                    beyond.end
                ),
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn at_fault(&self, error: hither_formats::FormatError) -> Error {
        Error::from(error).context(self.file.name())
    }
}
