//! Opening of a tree in as few round trips as its file allows.
//!
//! Without stored metadata there are two: head and tail of the file, then the tree's object,
//! striped over the connections that were opened meanwhile. The bytes that the format reader needed
//! are kept in the store, so that the next process repeats the opening without a round trip. The
//! first request for data, which carries the validator, shows whether the file is still the same.

use crate::file::assembly::Assembly;
use crate::file::origin::FileOrigin;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::source::link::INITIAL_WINDOW_BYTES;
use hither_core::{ResponseMeta, range};
use hither_formats::root::{RootFile, Tree};
use hither_formats::{DecodeResult, NeededRanges, SparseBytes};
use hither_load::connections;
use hither_read::cache::Version;
use hither_read::cache::file::{CachedFile, WeakFile};
use hither_store::FileMetadata;
use hither_trace::CacheStatus;
use std::sync::Arc;
use std::time::SystemTime;

/// An open tree and the facts of its opening.
#[derive(Debug)]
pub(crate) struct OpenTree {
    pub(crate) tree: Arc<Tree>,
    /// The validator that data must carry.
    pub(crate) validator: Option<String>,
    /// Size of the file in bytes.
    pub(crate) size: u64,
    /// Bytes of the file that the opening needed.
    pub(crate) bytes_used: u64,
    /// True if the store had all bytes of the opening.
    pub(crate) from_store: bool,
    /// True if the stored metadata may be used without validation.
    pub(crate) is_fresh: bool,
    /// The metadata to store; none if they came from the store.
    pub(crate) keep: Option<FileMetadata>,
}

/// The largest number of round trips of an opening (head and tail, keys, directories, tree,
/// descriptions); a file that needs more is corrupt.
const MAX_ROUND_TRIPS: usize = 64;

/// The bytes that a server may send at once on a connection that has delivered the ends of a file:
/// 1.5 times the initial window.
const WINDOW_AFTER_ENDS_BYTES: u64 = INITIAL_WINDOW_BYTES * 3 / 2;

/// The largest metadata of one file that are stored, in bytes.
const MAX_KEPT_BYTES: u64 = 64 << 20;

pub(crate) struct RootOpener<'a> {
    file: &'a FileOrigin,
    bytes: SparseBytes,
    validator: Option<String>,
    /// True if the metadata come from the store and may be used without validation.
    is_fresh: bool,
    bytes_used: u64,
    round_trips: usize,
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
            round_trips: 0,
            through: None,
        }
    }

    /// Reads through the open file of a program, so that no byte is fetched twice while the program
    /// has the file open.
    pub(crate) fn through(mut self, file: WeakFile) -> Self {
        self.through = Some(file);
        self
    }

    /// Adds the stored metadata of the file. Returns true if there are any.
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

    /// The validator of this version of the file.
    pub(crate) fn validator(&self) -> Option<String> {
        self.validator.clone()
    }

    /// Returns true if the stored metadata may be used without validation.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The bytes of the file that are known.
    pub(crate) fn bytes(&self) -> &SparseBytes {
        &self.bytes
    }

    /// Opens the file.
    pub(crate) async fn root(&mut self) -> Result<RootFile> {
        loop {
            match RootFile::open(&self.bytes).map_err(|error| self.in_file(error))? {
                DecodeResult::Data(root) => return Ok(root),
                DecodeResult::NeedsData(need) => self.fetch(need).await?,
            }
        }
    }

    /// Opens a tree of the file by path, or its only tree if none is named.
    pub(crate) async fn tree(&mut self, root: &RootFile, path: Option<&str>) -> Result<Tree> {
        loop {
            match root.tree(path, &self.bytes).map_err(|error| self.in_file(error))? {
                DecodeResult::Data(tree) => return Ok(tree),
                DecodeResult::NeedsData(need) => self.fetch(need).await?,
            }
        }
    }

    /// Ends the opening of `tree`.
    pub(crate) fn finish(self, tree: Tree, from_store: bool) -> OpenTree {
        // If the store had only a part of the bytes, the opening counts as cold.
        let from_store = from_store && self.round_trips == 0;
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

    /// The metadata to store; none if all came `from_store`.
    pub(crate) fn metadata_to_keep(&self, from_store: bool) -> Option<FileMetadata> {
        if (from_store && self.round_trips == 0) || self.validator.is_none() {
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
        self.round_trips += 1;
        if self.round_trips > MAX_ROUND_TRIPS {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: the file is corrupt: opening it takes more than {MAX_ROUND_TRIPS} round trips",
                    self.file.name()
                ),
            ));
        }
        let submitted = self.file.source.clock().now();
        let mut wanted = range::merged(&need.required, 0);
        if let Some(size) = self.bytes.size() {
            self.check_within(&wanted, size)?;
            let prefetch: Vec<_> =
                need.prefetch.iter().map(|r| r.start.min(size)..r.end.min(size)).collect();
            wanted = range::merged(&[wanted, prefetch].concat(), 0);
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
                // Only the response shows where the tail begins. Both ends are small and are kept
                // unchanged.
                self.bytes.insert(part.offset, part.bytes);
                continue;
            }
            assembly.accept(&part, |id, bytes| {
                if let Some(range) = wanted.get(id) {
                    self.bytes.insert(range.start, bytes);
                }
            });
        }
        let ResponseMeta { size, validator, .. } = reader.response().clone();
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
        let closed = || {
            Error::new(ErrorKind::Cancelled, format!("{}: the file was closed", self.file.name()))
        };
        self.through.as_ref().map(|file| file.upgrade().ok_or_else(closed)).transpose()
    }

    /// The number of connections over which a tree's object of `bytes` is striped.
    ///
    /// With many connections, all that will carry data: the bytes that they carry now open their
    /// windows evenly. With few, the limits of the server decide how many requests the data need,
    /// and the tree should not double them. A small object fits into the window that the first
    /// response has opened: where many files are opened in parallel, each request that is saved
    /// leaves its connection to another file.
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

    pub(crate) fn in_file(&self, error: hither_formats::FormatError) -> Error {
        Error::from(error).context(self.file.name())
    }
}
