//! A server whose files are in memory. It records the requests that it gets, in order.

use crate::copy::resources::job_clock::JobClock;
use crate::destination::{CopyPath, Target};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::{CommittedFile, parent};
use hither_core::sync::lock;
use hither_core::{
    Clock, DirEntry, Endpoint, Error, ErrorKind, FileKind, Limits, LinkEstimate, Listing, Part,
    PartSink, PutOptions, Request, ResponseMeta, Result, Source, Storage, Upload,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The differences from a server that responds at once, states sizes only, and loses nothing.
#[derive(Debug, Default)]
pub(crate) struct Behaviour {
    /// Paths that no listing shows.
    pub(crate) hidden: &'static [&'static str],
    /// Names of files are the same in any case.
    pub(crate) ignores_case: bool,
    /// Its metadata state this size for every file.
    pub(crate) stated_size: Option<u64>,
    /// It states entity tags.
    pub(crate) states_tags: bool,
    /// It states checksums.
    pub(crate) states_checksums: bool,
    /// All files are labelled as pages of HTML.
    pub(crate) labels_pages: bool,
    /// The time that each request for bytes takes, in tests whose clock is `start_paused`.
    pub(crate) delay: Duration,
    /// The token of uploads.
    pub(crate) token: Option<&'static str>,
    /// The bytes of an upload can be read before it has its name.
    pub(crate) shows_written: bool,
    /// After this request it has lost these bytes of the upload, and closed the connection.
    pub(crate) loses: Option<(&'static str, Range<usize>)>,
}

#[derive(Debug)]
struct State {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    directories: Mutex<BTreeSet<String>>,
    requests: Mutex<Vec<String>>,
    /// The errors of requests.
    failures: Mutex<BTreeMap<&'static str, Error>>,
    behaviour: Behaviour,
    interruptions: AtomicU64,
    /// Requests for bytes under way, and the most of them at a time.
    reading: AtomicUsize,
    most_reading: AtomicUsize,
    clock: JobClock,
}

/// A server in memory. Its clones are the same server.
#[derive(Debug, Clone)]
pub(crate) struct MemoryServer(Arc<State>);

impl MemoryServer {
    /// A server with these files, and with the directories that they are in.
    pub(crate) fn new(behaviour: Behaviour, files: &[(&str, &[u8])]) -> Self {
        let server = Self(Arc::new(State {
            files: Mutex::default(),
            directories: Mutex::new(BTreeSet::from([String::new()])),
            requests: Mutex::default(),
            failures: Mutex::default(),
            behaviour,
            interruptions: AtomicU64::new(0),
            reading: AtomicUsize::new(0),
            most_reading: AtomicUsize::new(0),
            clock: JobClock::start(),
        }));
        files.iter().for_each(|(path, content)| server.store(path, content));
        server
    }

    /// Puts a file on the server, without a request.
    pub(crate) fn store(&self, path: &str, content: &[u8]) {
        self.make(parent(path));
        lock(&self.0.files).insert(path.to_owned(), content.to_owned());
    }

    /// Makes a directory, without a request.
    pub(crate) fn make(&self, path: &str) {
        let above = std::iter::successors(Some(path), |above| Some(parent(above)));
        let above = above.take_while(|above| !above.is_empty()).map(str::to_owned);
        lock(&self.0.directories).extend(above);
    }

    /// Lets a request fail.
    pub(crate) fn fail(&self, request: &'static str, kind: ErrorKind) {
        lock(&self.0.failures).insert(request, Error::new(kind, "it failed"));
    }

    /// The content of a file, if it is there.
    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.0.files).get(path).cloned()
    }

    /// The requests so far; takes them.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0.requests))
    }

    /// The most requests for bytes at a time.
    pub(crate) fn most_reading(&self) -> usize {
        self.0.most_reading.load(Ordering::Relaxed)
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    /// A name of this server.
    pub(crate) fn path(&self, path: &str) -> CopyPath {
        let path = path.to_owned();
        let storage = self.storage();
        CopyPath { storage, path, local: None, is_directory: false, contents: false }
    }

    pub(crate) fn target(&self, path: &str) -> Target {
        self.path(path).target()
    }

    fn request(&self, request: String) -> Result<()> {
        let error = lock(&self.0.failures).get(&*request).cloned();
        lock(&self.0.requests).push(request);
        error.map_or(Ok(()), Err)
    }

    fn find(&self, path: &str) -> Result<Vec<u8>> {
        if lock(&self.0.directories).contains(path) {
            return Err(Error::new(ErrorKind::Invalid, format!("{path} is a directory")));
        }
        let missing = || Error::new(ErrorKind::NotFound, format!("{path} is not there"));
        let is_it = |name: &str| {
            name == path || self.0.behaviour.ignores_case && name.eq_ignore_ascii_case(path)
        };
        let files = lock(&self.0.files);
        files.iter().find(|(name, _)| is_it(name)).map(|it| it.1.clone()).ok_or_else(missing)
    }

    fn tag(&self, content: &[u8]) -> Option<String> {
        let tag = || format!("\"{}\"", Hasher::of(Algorithm::Crc32c, content).hex());
        self.0.behaviour.states_tags.then(tag)
    }

    fn entry(&self, path: &str, content: &[u8]) -> DirEntry {
        let size = self.0.behaviour.stated_size.unwrap_or(content.len() as u64);
        DirEntry { validator: self.tag(content), ..DirEntry::new(path, FileKind::File, size) }
    }
}

#[async_trait]
impl Storage for MemoryServer {
    fn name(&self) -> String {
        "memory:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        self.request(format!("stat {path}"))?;
        if lock(&self.0.directories).contains(path) {
            return Ok(DirEntry::new(path, FileKind::Directory, 0));
        }
        Ok(self.entry(path, &self.find(path)?))
    }
    async fn list(&self, path: &str) -> Result<Listing> {
        self.request(format!("list {path}"))?;
        let is_listed = |name: &str| {
            !name.is_empty() && parent(name) == path && !self.0.behaviour.hidden.contains(&name)
        };
        let files = lock(&self.0.files);
        let files = files.iter().filter(|(name, _)| is_listed(name));
        let mut entries: Vec<_> = files.map(|(name, content)| self.entry(name, content)).collect();
        let directories = lock(&self.0.directories);
        let directories = directories.iter().filter(|name| is_listed(name));
        entries.extend(directories.map(|name| DirEntry::new(name, FileKind::Directory, 0)));
        Ok(entries.into())
    }
    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemorySource { server: self.clone(), path: path.to_owned() }))
    }
    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        let resume = options.resume.iter().map(|token| format!(" again {token}"));
        self.request(format!("put {path}{}", resume.collect::<String>()))?;
        let size = usize::try_from(options.size).unwrap();
        let server = self.clone();
        let upload = MemoryUpload { server, path: path.to_owned() };
        let mut files = lock(&self.0.files);
        files.entry(upload.part()).or_insert_with(|| vec![0; size]);
        Ok(Box::new(upload))
    }
    async fn remove(&self, path: &str) -> Result<()> {
        self.request(format!("remove {path}"))?;
        lock(&self.0.files).remove(path);
        lock(&self.0.directories).remove(path);
        Ok(())
    }
    async fn make_directory(&self, path: &str) -> Result<()> {
        self.request(format!("make {path}"))?;
        self.make(path);
        Ok(())
    }
    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        let content = self.find(path)?;
        Ok(self.0.behaviour.states_checksums.then(|| Hasher::of(algorithm, &content)))
    }
}

#[derive(Debug)]
struct MemorySource {
    server: MemoryServer,
    path: String,
}

impl Source for MemorySource {
    fn name(&self) -> String {
        format!("memory:{}", self.path)
    }
    fn limits(&self) -> Limits {
        Limits::unlimited()
    }
    fn link(&self) -> LinkEstimate {
        LinkEstimate::default()
    }
    fn clock(&self) -> &dyn Clock {
        &self.server.0.clock
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
        Box::pin(async move {
            let Self { server, path } = self;
            for range in &request.ranges {
                server.request(format!("read {path} {}..{}", range.start, range.end))?;
            }
            let State { reading, most_reading, behaviour, .. } = &*server.0;
            let number = reading.fetch_add(1, Ordering::Relaxed) + 1;
            most_reading.fetch_max(number, Ordering::Relaxed);
            server.0.clock.sleep(behaviour.delay).await;
            reading.fetch_sub(1, Ordering::Relaxed);
            let content = Bytes::from(server.find(path)?);
            if request.refuses_pages && behaviour.labels_pages {
                return Err(Error::new(ErrorKind::Protocol, "it is a page"));
            }
            for range in request.ranges {
                let at = |position: u64| content.len().min(usize::try_from(position).unwrap());
                let bytes = content.slice(at(range.start)..at(range.end));
                if !bytes.is_empty() {
                    sink(Part { offset: range.start, bytes });
                }
            }
            let size = Some(content.len() as u64);
            Ok(ResponseMeta { size, validator: server.tag(&content), ..ResponseMeta::default() })
        })
    }
}

#[derive(Debug)]
struct MemoryUpload {
    server: MemoryServer,
    path: String,
}

impl MemoryUpload {
    fn part(&self) -> String {
        format!("{}.part", self.path)
    }
}

#[async_trait]
impl Upload for MemoryUpload {
    fn parallel(&self) -> usize {
        4
    }
    fn token(&self) -> Option<String> {
        self.server.0.behaviour.token.map(str::to_owned)
    }
    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        let range = start..start + bytes.len();
        let request = format!("write {} {}..{}", self.path, range.start, range.end);
        let State { files, interruptions, behaviour, .. } = &*self.server.0;
        self.server.request(request.clone())?;
        let mut files = lock(files);
        let content = files.get_mut(&self.part()).unwrap();
        content[range].copy_from_slice(&bytes);
        if let Some((after, lost)) = &behaviour.loses
            && request == *after
        {
            interruptions.fetch_add(1, Ordering::Relaxed);
            content[lost.clone()].fill(0);
        }
        Ok(())
    }
    fn interruptions(&self) -> u64 {
        self.server.0.interruptions.load(Ordering::Relaxed)
    }
    async fn written_checksum(&self, algorithm: Algorithm) -> Result<Option<Checksum>> {
        self.server.checksum(&self.part(), algorithm).await
    }
    fn written_source(&self) -> Option<Arc<dyn Source>> {
        let source = || self.server.source(&self.part()).unwrap();
        self.server.0.behaviour.shows_written.then(source)
    }
    async fn commit(self: Box<Self>, _: Option<Checksum>) -> Result<CommittedFile> {
        self.server.request(format!("commit {}", self.path))?;
        let content = self.server.find(&self.part())?;
        lock(&self.server.0.files).remove(&self.part());
        self.server.store(&self.path, &content);
        Ok(self.server.entry(&self.path, &content).into())
    }
    async fn abort(self: Box<Self>) -> Result<()> {
        self.server.request(format!("abort {}", self.path))?;
        lock(&self.server.0.files).remove(&self.part());
        Ok(())
    }
}
