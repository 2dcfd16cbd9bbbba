//! The target of a pull: a storage for one copy, into which one file is written.
//!
//! Space is taken as for a PUT: before the client gets its response, if the size is already known,
//! else as bytes arrive, also where all of them have to arrive before the size is known.
//! Blocks may be written in any order. Progress counts what is on disk, not in the kernel's memory.

use crate::backend::path::NamespacePath;
use crate::backend::{CommitOptions, CreateOptions, FileWriter, Precondition};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::no_parent;
use crate::method::put::{not_committed, too_large};
use crate::method::unfinished_files::UnfinishedFile;
use crate::third_party::copier::local_error;
use crate::third_party::perf_markers::CopyProgress;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hither_checksum::Checksum;
use hither_core::Source;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{CommittedFile, DirEntry, FileKind, PutOptions, Storage, Upload};
use hither_core::sync::lock;
use hither_transport::{HttpSource, SpoolSpace};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const OVER: &str = "the copy has already ended";

/// The target of a pull.
#[derive(Debug)]
pub(crate) struct PullTarget {
    context: Arc<ServerContext>,
    path: NamespacePath,
    counted: UnfinishedFile,
    /// Blocks written at a time.
    streams: usize,
    state: Mutex<State>,
    /// Bytes that have arrived before the size is known.
    spooled_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The file being written; kept when it has its path.
    open: Option<Open>,
    /// The checksum of the written bytes, when they are complete.
    sum: Option<Checksum>,
}

/// A file being written.
#[derive(Debug, Clone)]
struct Open {
    /// None for a file that was begun before its size was known.
    size: Option<u64>,
    writer: Arc<dyn FileWriter>,
    written: Arc<AtomicU64>,
}

impl PullTarget {
    /// A file for `path`, written by `streams` workers.
    pub(crate) fn new(
        context: Arc<ServerContext>,
        path: NamespacePath,
        counted: UnfinishedFile,
        streams: usize,
    ) -> Self {
        let spooled_bytes = AtomicU64::default();
        Self { context, path, counted, streams, state: Mutex::default(), spooled_bytes }
    }

    /// The path that the file will have.
    pub(crate) fn path(&self) -> &str {
        self.path.path()
    }

    /// Begins a file of `size` bytes, and takes the space for it.
    pub(crate) async fn begin(&self, size: Option<u64>) -> Result<(), HttpError> {
        self.count_bytes(size.unwrap_or_default()).await?;
        let options = CreateOptions { size, ..CreateOptions::default() };
        let created = self.context.backend.create(self.path.path(), options).await;
        let writer = created.map_err(no_parent)?;
        let open = Open { size, writer, written: Arc::default() };
        lock(&self.state).open = Some(open);
        Ok(())
    }

    /// Counts a file of `bytes`. Fails if it may not be that large.
    async fn count_bytes(&self, bytes: u64) -> Result<(), HttpError> {
        let limit = self.context.limits().file_bytes.unwrap_or(u64::MAX);
        if bytes > limit {
            return Err(too_large(limit));
        }
        self.counted.count(&self.context, bytes).await
    }

    /// Takes the space for the first `bytes` of the file that was begun, or for the whole of it.
    async fn reserve(&self, bytes: u64, is_whole: bool) -> Result<(), HttpError> {
        self.count_bytes(bytes).await?;
        let over = || HttpError::new(http::StatusCode::CONFLICT, OVER);
        let open = self.open().ok_or_else(over)?;
        Ok(open.writer.reserve(bytes, is_whole).await?)
    }

    /// The number of bytes that have arrived before the size was known.
    pub(crate) fn spooled_bytes(&self) -> u64 {
        self.spooled_bytes.load(Ordering::Relaxed)
    }

    /// The written file and its checksum; none if it is not complete.
    pub(crate) fn written(&self) -> Option<(Arc<dyn FileWriter>, Vec<Checksum>)> {
        let state = lock(&self.state);
        Some((Arc::clone(&state.open.as_ref()?.writer), vec![state.sum.clone()?]))
    }

    /// Gives the file its path, with its checksums, if `precondition` still holds;
    /// replaces an existing file only if `replace`. Returns the file's size.
    pub(crate) async fn publish(
        &self,
        precondition: Precondition,
        replace: bool,
        checksums: Vec<Checksum>,
    ) -> Result<u64, HttpError> {
        let Some(open) = self.open() else {
            return Err(HttpError::new(http::StatusCode::CONFLICT, OVER));
        };
        let options = CommitOptions { replace, checksums, modified: None, precondition };
        let committed = open.writer.commit(options).await;
        let committed = committed.map_err(|error| not_committed(error, replace))?;
        Ok(committed.metadata.open_bytes())
    }

    /// Discards the file and releases its space.
    pub(crate) fn give_up(&self) {
        let open = std::mem::take(&mut *lock(&self.state));
        // Freeing a large file takes the file system some time.
        tokio::task::spawn_blocking(move || drop(open));
    }

    fn open(&self) -> Option<Open> {
        lock(&self.state).open.clone()
    }
}

impl SpoolSpace for PullTarget {
    fn take(&self, bytes: u64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.spooled_bytes.store(bytes, Ordering::Relaxed);
            // Not a response that is too large: no smaller request helps.
            let full = |error: HttpError| Error::new(ErrorKind::NoSpace, error.what);
            self.reserve(bytes, false).await.map_err(full)
        })
    }
}

/// The progress of a pull.
pub(crate) struct PullProgress {
    pub(crate) target: Arc<PullTarget>,
    pub(crate) source: Arc<HttpSource>,
}

impl CopyProgress for PullProgress {
    fn count(&self) -> BoxFuture<'static, u64> {
        let open = self.target.open();
        Box::pin(async move {
            let Some(open) = open else { return 0 };
            open.writer.sync().await.unwrap_or_default()
        })
    }

    fn address(&self) -> Option<SocketAddr> {
        self.source.address()
    }
}

/// The writing end.
#[derive(Debug)]
struct Writing {
    target: Arc<PullTarget>,
    open: Open,
}

#[async_trait]
impl Upload for Writing {
    fn parallel(&self) -> usize {
        self.target.streams
    }

    fn takes_any_bytes(&self) -> bool {
        true
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let open = &self.open;
        let size = bytes.len() as u64;
        let written = open.writer.write(offset, vec![bytes]).await;
        written.map_err(|error| local_error(error.into()))?;
        open.written.fetch_add(size, Ordering::AcqRel);
        Ok(())
    }

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<CommittedFile> {
        let (path, size) = {
            let mut state = lock(&self.target.state);
            state.sum = checksum;
            (self.target.path.path().to_owned(), self.open.written.load(Ordering::Acquire))
        };
        Ok(DirEntry::new(path, FileKind::File, size).into())
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.target.give_up();
        Ok(())
    }
}

/// A landing as a storage.
#[derive(Debug)]
pub(crate) struct PullTargetStorage(pub(crate) Arc<PullTarget>);

#[async_trait]
impl Storage for PullTargetStorage {
    fn name(&self) -> String {
        String::new()
    }

    async fn put(&self, _: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        let target = Arc::clone(&self.0);
        match target.open().map(|open| open.size) {
            // Without a spool no bytes have been written: the size is allocated as announced.
            Some(None) if target.spooled_bytes() > 0 => {
                target.reserve(options.size, true).await.map_err(local_error)?
            }
            Some(Some(size)) if size == options.size => {}
            // Servers that generate a page for each request state 0 where they do not know it.
            Some(Some(size)) if size > 0 => {
                let seen = options.size;
                let what = format!("the source states {size} bytes, and sends a file of {seen}");
                return Err(Error::new(ErrorKind::Changed, what));
            }
            _ => target.begin(Some(options.size)).await.map_err(local_error)?,
        }
        let over = || Error::new(ErrorKind::Cancelled, OVER);
        let open = target.open().ok_or_else(over)?;
        Ok(Box::new(Writing { target, open }) as Box<dyn Upload>)
    }

    async fn stat(&self, _: &str) -> Result<DirEntry> {
        Err(Error::new(ErrorKind::Unsupported, "the target of a pull cannot be read"))
    }

    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "the target of a pull cannot be read"))
    }
}
