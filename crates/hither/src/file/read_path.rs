//! The layers between a positional read and the bytes of a file.
//!
//! ```text
//! RemoteFile::read_at
//!     │
//! CachedReads::file      memory, shared by all open files of one name, identity and version
//!     │   ╰─ prefetchers: columns of trees, else offsets behind a gate
//! CachedReads::disk      blocks on disk, if the client keeps any and the file has a key
//!     │
//! FileOrigin::source     replicas, or one object
//! ```
//!
//! [`compose`] puts the caches above the origin, which has the replicas below it. A local
//! file has no layer: the page cache of the system serves it. Sequential reads, large reads and
//! trees use the origin directly.
//!
//! The layers are built at the first read or hint, because the key of the caches may need a token.
//! The first read then seeds them, once: with the bytes that opening ahead has prefetched, else
//! with stored metadata. Reads that are concurrent with it wait. If opening ahead failed, the first
//! read returns that error, and the next one asks the server.

use crate::client::context::ClientContext;
use crate::file::disk_cache::DiskCacheSource;
use crate::file::open_options::OpenOptions;
use crate::file::origin::{FileLocation, FileOrigin, version_of};
use crate::open_ahead::gate::{GatedPrefetcher, ReadAheadGate};
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::open_ahead::queue::OpenAheadQueue;
use crate::open_ahead::task::OpenAheadTask;
use crate::tree_cache::LazyTreeOpener;
use crate::tree_cache::learning::attach;
use hither_core::error::{ErrorKind, Result};
use hither_core::{ResponseMeta, Source};
use hither_read::cache::Version;
use hither_read::{CachedFile, ReadAhead};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use tokio::sync::OnceCell;

/// The layers of one open file.
pub(crate) enum ReadPath {
    /// No layer: a local file.
    Direct { size: u64 },
    /// Memory, and the disk if there is a disk cache.
    Cached { open_ahead: Arc<OpenAheadTask>, cached: LazyCached },
}

/// The layers of a read that can begin.
pub(crate) enum SeededPath<'a> {
    Direct { size: u64 },
    Cached(&'a CachedReads),
}

/// Layers that are built when they are first needed.
type LazyCached = LazyLock<CachedReads, Box<dyn FnOnce() -> CachedReads + Send>>;

/// A file that is read through the cache.
pub(crate) struct CachedReads {
    pub(crate) file: CachedFile,
    disk: Option<Arc<DiskCacheSource>>,
    gate: ReadAheadGate,
    /// Opens the trees of the file, if it has any.
    trees: Option<LazyTreeOpener>,
    /// The prefetched ends that the caches were seeded with, if the file was opened ahead.
    seeded: OnceCell<Option<Arc<PrefetchedEnds>>>,
    /// The caches were seeded with stored metadata that no server has confirmed yet.
    unvalidated: AtomicBool,
}

/// Builds the origin of a file and the layers above it.
///
/// # Errors
///
/// As [`FileOrigin::open`].
pub(crate) fn compose(
    context: &Arc<ClientContext>,
    queue: &Arc<OpenAheadQueue>,
    location: FileLocation,
    options: OpenOptions,
) -> Result<(Arc<FileOrigin>, ReadPath)> {
    let origin = Arc::new(FileOrigin::open(context, location)?);
    if let Some(size) = origin.local_size() {
        return Ok((origin, ReadPath::Direct { size }));
    }
    let open_ahead = OpenAheadTask::new(Arc::clone(&origin), Arc::clone(queue));
    let below = Arc::clone(&origin);
    let cached: LazyCached = LazyLock::new(Box::new(move || {
        let disk = below.context.disk_cache.as_ref().and_then(|disk| {
            let key = below.metadata_key()?;
            Some(DiskCacheSource::over(disk, Arc::clone(&below.source), key))
        });
        let source = match &disk {
            Some(disk) => Arc::clone(disk) as Arc<dyn Source>,
            None => Arc::clone(&below.source),
        };
        let config = &below.context.config;
        let cache = Arc::clone(&below.context.cache);
        let file = CachedFile::new(source, cache, below.cache_key(), config.reader, below.spawn());
        CachedReads::new(&below, file, disk, options)
    }));
    Ok((origin, ReadPath::Cached { open_ahead, cached }))
}

impl ReadPath {
    /// The open-ahead task of a file that is not local.
    pub(crate) fn open_ahead(&self) -> Option<&Arc<OpenAheadTask>> {
        match self {
            Self::Direct { .. } => None,
            Self::Cached { open_ahead, .. } => Some(open_ahead),
        }
    }

    /// The layers of a file that is not local, not seeded yet. A credential command may have to
    /// run.
    pub(crate) fn cached(&self) -> Option<&CachedReads> {
        match self {
            Self::Direct { .. } => None,
            Self::Cached { cached, .. } => Some(cached),
        }
    }

    /// The layers of the same file, opened once more in the version that is read.
    ///
    /// # Errors
    ///
    /// The error of the request for the version, if nothing was read yet.
    pub(crate) async fn open_again(
        &self,
        origin: &Arc<FileOrigin>,
        options: OpenOptions,
    ) -> Result<Self> {
        let (open_ahead, first) = match (self, self.seeded(origin).await?) {
            (Self::Cached { open_ahead, .. }, SeededPath::Cached(first)) => (open_ahead, first),
            (&Self::Direct { size }, _) | (_, SeededPath::Direct { size }) => {
                return Ok(Self::Direct { size });
            }
        };
        if first.file.confirmed_version().is_none() {
            first.settle(&origin.first_byte(None).await?);
        }
        let cached = CachedReads::new(origin, first.file.open_again(), first.disk.clone(), options);
        // The seeds of the first open file are in the cache that both share.
        cached.seeded.set(None).ok();
        let cached: LazyCached = LazyLock::new(Box::new(move || cached));
        LazyLock::force(&cached);
        let open_ahead = OpenAheadTask::new(Arc::clone(origin), Arc::clone(&open_ahead.queue));
        Ok(Self::Cached { open_ahead, cached })
    }

    /// The version that was read, if it is known with its size.
    pub(crate) fn version_read(&self) -> Option<Version> {
        let Self::Cached { cached, .. } = self else { return None };
        let version = LazyLock::get(cached)?.file.confirmed_version();
        version.filter(|version| version.size.is_some())
    }

    /// The layers of a file, seeded.
    ///
    /// # Errors
    ///
    /// The error of opening the file ahead, once.
    pub(crate) async fn seeded(&self, origin: &FileOrigin) -> Result<SeededPath<'_>> {
        let (open_ahead, cached) = match self {
            Self::Direct { size } => return Ok(SeededPath::Direct { size: *size }),
            Self::Cached { open_ahead, cached } => (open_ahead, &**cached),
        };
        cached.seeded.get_or_try_init(|| cached.seed(origin, open_ahead)).await?;
        Ok(SeededPath::Cached(cached))
    }

    /// Returns true if a read needs no seeding any more.
    pub(crate) fn is_seeded(&self) -> bool {
        let Self::Cached { cached, .. } = self else { return false };
        LazyLock::get(cached).is_some_and(|cached| cached.seeded.initialized())
    }
}

impl CachedReads {
    /// The layers above `file`, not seeded yet.
    fn new(
        origin: &Arc<FileOrigin>,
        file: CachedFile,
        disk: Option<Arc<DiskCacheSource>>,
        options: OpenOptions,
    ) -> Self {
        let config = &origin.context.config;
        if let Some(recorder) = &origin.recorder {
            file.set_recorder(recorder.clone());
        }
        let gate = ReadAheadGate::default();
        let by_offset = Box::new(ReadAhead::new(config.read_ahead));
        let by_offset = Box::new(GatedPrefetcher::new(by_offset, gate.clone()));
        let trees = if config.tree_cache.enabled && options.tree_cache {
            Some(attach(origin, &file, by_offset))
        } else {
            file.set_prefetcher(by_offset);
            None
        };
        let seeded = OnceCell::new();
        Self { file, disk, gate, trees, seeded, unvalidated: AtomicBool::new(false) }
    }

    /// Seeds disk cache and memory with prefetched ends, else with stored metadata.
    async fn seed(
        &self,
        origin: &FileOrigin,
        open_ahead: &Arc<OpenAheadTask>,
    ) -> Result<Option<Arc<PrefetchedEnds>>> {
        if let Some(ends) = open_ahead.first_use().await? {
            let version = ends.version();
            self.validate_disk(&version).await;
            self.gate.close(open_ahead.reads_before(&ends));
            self.file.adopt(&version, &ends.take_pieces());
            return Ok(Some(ends));
        }
        let Some(known) = origin.stored_metadata() else { return Ok(None) };
        let version = version_of(&known);
        if origin.context.is_fresh(&known) {
            self.validate_disk(&version).await;
            self.file.adopt(&version, &known.pieces);
        } else {
            self.file.expect(&version, &known.pieces);
            self.unvalidated.store(true, Ordering::Relaxed);
        }
        Ok(None)
    }

    /// The validator of the version that is read, if a server has confirmed it.
    pub(crate) fn validator(&self) -> Option<String> {
        self.file.confirmed_version()?.validator
    }

    /// Adopts the version in the response to a read that bypassed the caches.
    pub(crate) fn settle(&self, response: &ResponseMeta) {
        let ResponseMeta { size, validator, .. } = response.clone();
        if validator.is_some() {
            self.file.settle(&Version { size, validator });
        }
    }

    async fn validate_disk(&self, version: &Version) {
        if let Some(disk) = &self.disk {
            disk.validate(version).await;
        }
    }

    /// The prefetched ends that the caches were seeded with.
    pub(crate) fn prefetched(&self) -> Option<&Arc<PrefetchedEnds>> {
        self.seeded.get().and_then(Option::as_ref)
    }

    /// Records that a read of `ranges` ranges, the first at `offset`, has to wait: the trees may
    /// have to be opened now.
    pub(crate) fn on_wait(&self, offset: u64, ranges: usize) {
        if let Some(trees) = &self.trees {
            trees.on_wait(offset, ranges, self.prefetched().is_some());
        }
    }

    /// Renews stored metadata after the first good read, and forgets it if the file has changed.
    pub(crate) fn check<T>(&self, origin: &FileOrigin, read: Result<T>) -> Result<T> {
        match &read {
            Err(error) if error.kind() == ErrorKind::Changed => {
                origin.forget_metadata();
            }
            Ok(_) if self.unvalidated.swap(false, Ordering::Relaxed) => {
                origin.renew_metadata(self.file.version().and_then(|version| version.validator));
            }
            _ => {}
        }
        read
    }
}

impl fmt::Debug for ReadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { .. } => f.write_str("Direct"),
            Self::Cached { .. } => f.debug_struct("Cached").finish_non_exhaustive(),
        }
    }
}
