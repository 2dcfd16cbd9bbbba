//! A storage that answers as a test has written down, and a worker that carries out all tasks of a
//! copy, one after the other.

use crate::copy::attempt;
use crate::copy::context::CopyContext;
use crate::copy::queue::{NextTask, Queue};
use crate::copy::resources::job_clock::JobClock;
use crate::destination::{CopyPath, Target};
use crate::file::item::CopyItem;
use crate::options::CopyOptions;
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use hither_core::sync::lock;
use hither_core::{
    Clock, DirEntry, Endpoint, Error, ErrorKind, FileKind, Limits, LinkEstimate, Listing, Part,
    PartSink, Request, ResponseMeta, Result, Source, Storage,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The content of [`item`].
pub(crate) const CONTENT: &[u8] = b"content";

/// The answers of a server.
#[derive(Debug)]
struct Script {
    /// To requests for bytes: what is sent, and the error after that.
    bytes: Mutex<VecDeque<(Bytes, Option<Error>)>>,
    /// To requests for metadata.
    stats: Mutex<VecDeque<Result<DirEntry>>>,
    /// To requests for listings, by path.
    listings: BTreeMap<&'static str, Result<Listing>>,
    /// The requests for bytes so far.
    requests: Mutex<Vec<Range<u64>>>,
    clock: JobClock,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            bytes: Mutex::default(),
            stats: Mutex::default(),
            listings: BTreeMap::new(),
            requests: Mutex::default(),
            clock: JobClock::start(),
        }
    }
}

/// A server with a script.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted(Arc<Script>);

/// An answer with these bytes.
pub(crate) fn sends(bytes: &'static [u8]) -> (Bytes, Option<Error>) {
    (Bytes::from_static(bytes), None)
}

/// An answer that is an error.
pub(crate) fn fails(error: Error) -> (Bytes, Option<Error>) {
    (Bytes::new(), Some(error))
}

/// The entry of a file with this size.
pub(crate) fn entry(size: usize) -> DirEntry {
    DirEntry::new("file", FileKind::File, size as u64)
}

impl Scripted {
    /// A server with these answers to requests for bytes and metadata.
    pub(crate) fn new(
        bytes: impl IntoIterator<Item = (Bytes, Option<Error>)>,
        stats: impl IntoIterator<Item = Result<DirEntry>>,
    ) -> Self {
        let bytes = Mutex::new(bytes.into_iter().collect());
        let stats = Mutex::new(stats.into_iter().collect());
        Self(Arc::new(Script { bytes, stats, ..Script::default() }))
    }

    /// A server with these answers to requests for listings and metadata.
    pub(crate) fn with_listings(
        listings: BTreeMap<&'static str, Result<Listing>>,
        stats: impl IntoIterator<Item = Result<DirEntry>>,
    ) -> Self {
        let stats = Mutex::new(stats.into_iter().collect());
        Self(Arc::new(Script { listings, stats, ..Script::default() }))
    }

    /// The requests for bytes so far.
    pub(crate) fn requests(&self) -> Vec<Range<u64>> {
        lock(&self.0.requests).clone()
    }

    /// A name of this server.
    pub(crate) fn path(&self, path: &str) -> CopyPath {
        let storage = Arc::new(self.clone());
        let path = path.to_owned();
        CopyPath { storage, path, local: None, is_directory: false, contents: false }
    }

    /// A file with [`CONTENT`] that was listed.
    pub(crate) fn item(&self, target: Target) -> CopyItem {
        CopyItem::new(self.path("file"), Some(entry(CONTENT.len())), target)
    }
}

#[async_trait]
impl Storage for Scripted {
    fn name(&self) -> String {
        "scripted:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        let unknown = || Err(Error::new(ErrorKind::NotFound, format!("{path} is not there")));
        lock(&self.0.stats).pop_front().unwrap_or_else(unknown)
    }
    async fn list(&self, path: &str) -> Result<Listing> {
        self.0.listings.get(path).cloned().unwrap_or_else(|| Ok(Listing::default()))
    }
    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.clone()))
    }
}

impl Source for Scripted {
    fn name(&self) -> String {
        "scripted:file".to_owned()
    }
    fn limits(&self) -> Limits {
        Limits::unlimited()
    }
    fn link(&self) -> LinkEstimate {
        LinkEstimate::default()
    }
    fn clock(&self) -> &dyn Clock {
        &self.0.clock
    }
    fn endpoint(&self) -> Endpoint {
        Endpoint::default()
    }
    fn max_connections(&self) -> usize {
        4
    }
    fn idle_connections(&self) -> usize {
        4
    }
    fn preconnect(&self, _: usize) {}
    fn fetch(&self, request: Request, mut sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let range = request.ranges[0].clone();
        let offset = range.start;
        lock(&self.0.requests).push(range);
        let (bytes, error) = lock(&self.0.bytes).pop_front().expect("no answer is left");
        if !bytes.is_empty() {
            sink(Part { offset, bytes });
        }
        Box::pin(std::future::ready(error.map_or_else(|| Ok(ResponseMeta::default()), Err)))
    }
}

/// A copy that finds no more files.
pub(crate) fn context(options: CopyOptions) -> Arc<CopyContext> {
    CopyContext::new("job", options, Queue::new(64, 0), None, Arc::default())
}

/// Copies a file, and all that is queued after it, with one worker.
pub(crate) async fn copy(shared: &CopyContext, item: CopyItem) {
    shared.queue.found(item).await;
    loop {
        match shared.queue.take(shared.work_request(1), shared.concurrency.file_limits()) {
            NextTask::Open(item) => attempt::begin(shared, *item).await,
            NextTask::Piece(file, piece) => attempt::fetch_piece(shared, 1, &file, &piece).await,
            NextTask::Over => return,
            task @ (NextTask::Batch(_) | NextTask::Wait) => panic!("{task:?}"),
        }
    }
}

/// The kinds of the errors of files that could not be copied.
pub(crate) fn failures(shared: &CopyContext) -> Vec<ErrorKind> {
    shared.results().summary().failures.iter().map(|failure| failure.error.kind()).collect()
}
