//! The client: everything that files share.
//!
//! A [`Client`] owns one runtime for I/O, one pool of threads for decoding (which never runs on the I/O threads: a busy
//! task would delay the sockets), the connections, the books, and what is remembered on disk. Two clients in one process
//! do not meet.

pub(crate) mod config_file;
pub(crate) mod credentials;
pub(crate) mod mirrors;
pub(crate) mod options;
pub(crate) mod proxies;
pub(crate) mod put;
pub(crate) mod runtime;
pub(crate) mod stat;
pub(crate) mod storage_path;
pub(crate) mod write_behind;
pub(crate) mod xrootd;
use crate::client::mirrors::Mirrors;
use crate::client::write_behind::WriteBehindQueue;
use crate::file::RemoteFile;
use crate::file::disk_cache::DiskCacheSlot;
use crate::open_ahead::queue::OpenAheadQueue;
use crate::trace::recorder::TraceFileSink;
use crate::tree_cache::TreeCacheConfig;
use hither_core::cache::file::ReadTotals;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{
    Cache, CacheConfig, Endpoint, EndpointStore, Health, ReadAheadConfig, ReaderConfig, Report,
    SlotClaim,
};
use hither_store::{ConnectionClaim, DiskCache, FileMetadata, Store, StoreConfig};
use hither_transport::{
    LocalSource, Location, MonotonicClock, Network, TransferCounters, TransportConfig, is_metalink,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How a client works.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Connections and clocks.
    pub transport: TransportConfig,
    /// Memory for what is on its way.
    pub reader: ReaderConfig,
    /// Memory for what was read, or will be, through [`RemoteFile::read_at`] and its like.
    pub cache: CacheConfig,
    /// What is fetched ahead for programs that read so and say nothing.
    pub read_ahead: ReadAheadConfig,
    /// How reads of trees are foreseen when a program reads so.
    pub tree_cache: TreeCacheConfig,
    /// Where to remember servers and files between runs; nothing is remembered if none. By default none: the command
    /// gives one.
    pub store: Option<PathBuf>,
    /// Where to keep parts of files that were read, for other processes and later runs; needs a store. By default
    /// nowhere.
    pub disk_cache: Option<DiskCacheConfig>,
    /// For how long after a file was last confirmed to be unchanged what the store has of it is used without asking whether
    /// it still is. By default 0: it is always asked about, which takes one round trip.
    pub staleness: Duration,
    /// Where else files are.
    pub mirrors: Mirrors,
    /// The object store that `s3://` means, and the key to it.
    #[cfg(feature = "s3")]
    pub s3: hither_transport::S3Config,
    /// Threads that decode; 0 for one per processor.
    pub decode_threads: usize,
    /// Where to write a trace of all reads, in place of what may be there; none by default. [`crate::trace`] reads it.
    pub trace: Option<PathBuf>,
}

/// Parts of files on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCacheConfig {
    /// Most bytes; those that were not used for longest go first.
    pub bytes: u64,
}

/// Opens files and runs queries.
#[derive(Debug)]
pub struct Client {
    pub(crate) shared: Arc<ClientContext>,
    runtime: tokio::runtime::Runtime,
}

/// What files keep of their client.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) config: ClientConfig,
    pub(crate) network: Arc<Network>,
    pub(crate) health: Arc<Health>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) decoders: rayon::ThreadPool,
    pub(crate) opener: Arc<OpenAheadQueue>,
    /// Parts of files on disk.
    pub(crate) blocks: Option<Arc<DiskCacheSlot>>,
    /// What is being written to disk.
    pub(crate) writes: Arc<WriteBehindQueue>,
    /// The trace that is written.
    pub(crate) recording: Option<Arc<TraceFileSink>>,
    /// Why there is no store although one was wanted.
    store_error: Option<Error>,
}

/// Threads that drive sockets. Parsing and handing on 10 Gbit/s takes less than one.
const IO_THREADS: usize = 2;

impl Client {
    /// A client. A store that cannot be used is left out; [`Client::store_error`] says why.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if threads cannot be started, or a trace cannot be begun.
    pub fn new(config: ClientConfig) -> Result<Self> {
        let local = |what: &str, error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Local, format!("cannot start {what} threads: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("hither-io")
            .enable_all()
            .build()
            .map_err(|error| local("I/O", &error))?;
        let decoders = rayon::ThreadPoolBuilder::new()
            .num_threads(config.decode_threads)
            .thread_name(|n| format!("hither-decode-{n}"))
            .build()
            .map_err(|error| local("decoding", &error))?;
        let writes = Arc::new(WriteBehindQueue::default());
        let (store, blocks, store_error) = match &config.store {
            None => (None, None, None),
            Some(path) => match open_store(path, config.disk_cache, &writes) {
                Ok((store, blocks)) => (Some(store), blocks, None),
                Err(error) => (None, None, Some(error)),
            },
        };
        let ledger =
            store.clone().map(|store| Arc::new(StoreLedger(store)) as Arc<dyn EndpointStore>);
        let network = Network::new(config.transport.clone(), runtime.handle().clone(), ledger);
        let health = Health::new(Arc::new(MonotonicClock::start()));
        let opener = OpenAheadQueue::new(runtime.handle().clone());
        let recording =
            config.trace.as_deref().map(TraceFileSink::start).transpose()?.map(Arc::new);
        let cache = Arc::new(Cache::new(config.cache));
        let shared = ClientContext {
            network,
            health,
            store,
            cache,
            decoders,
            opener,
            blocks,
            writes,
            recording,
            store_error,
            config,
        };
        Ok(Self { shared: Arc::new(shared), runtime })
    }

    /// Opens a file by URL (`http://…`) or local path (also `file://…`). Returns at once, except for a Metalink document
    /// (`….meta4`, `….metalink`, `…?metalink`), which is fetched to learn where the file is.
    ///
    /// Programs that open many files before they use them have them opened in the background, side by side: as soon as a
    /// file is opened before the one opened last on the same server was used, size, version, head and tail of both and of
    /// all that follow are fetched, in this order and bounded per server. The first use of a file waits for that. A
    /// single file, or one that is used before the next is opened, is asked for nothing but what is read.
    ///
    /// # Errors
    ///
    /// As [`Client::file`]. That a remote file does not exist shows when it is first used, that a local one does not shows
    /// here.
    pub fn open(&self, url: &str) -> Result<RemoteFile> {
        let file = self.file(url)?;
        file.open_ahead();
        Ok(file)
    }

    /// A file by URL or local path, as [`Client::open`], but never opened ahead: nothing is asked for but what is read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] or [`ErrorKind::Unsupported`] for what is no URL of a known scheme. That a remote file does
    /// not exist shows when it is first used, that a local one does not shows here.
    pub fn file(&self, url: &str) -> Result<RemoteFile> {
        if url.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "the URL is empty: name a file"));
        }
        let shared = Arc::clone(&self.shared);
        if let Some(path) = local_path(url) {
            let source = LocalSource::open(&path, Arc::clone(shared.network.account()))?;
            return Ok(RemoteFile::local(shared, source));
        }
        #[cfg(feature = "s3")]
        if url.starts_with("s3://") {
            let (storage, path) = self.storage(url)?;
            return Ok(RemoteFile::stored(shared, storage.source(&path)?));
        }
        let location = Location::parse(url)?;
        let mut places = shared.config.mirrors.of(url).into_iter();
        let others = places.try_fold(Vec::new(), |mut all, url| {
            all.push(Location::parse(&url)?);
            Ok::<_, Error>(all)
        })?;
        if is_metalink(&location) {
            let found = self.wait(shared.network.discover_replicas(&location))?;
            return RemoteFile::described(shared, found, others);
        }
        Ok(RemoteFile::remote(shared, location, others))
    }

    /// How it works.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.shared.config
    }

    /// The books of all files of this client.
    #[must_use]
    pub fn counters(&self) -> &TransferCounters {
        self.shared.network.account()
    }

    /// The account of everything that was read as bytes so far, by [`RemoteFile::read_at`] and its like. Requests and bytes
    /// are those of all that this client has done; times, retries and places are left empty.
    #[must_use]
    pub fn report(&self) -> Report {
        let (totals, reads) = (self.counters().totals(), self.reads());
        Report {
            requests: totals.requests,
            round_trips: totals.flights,
            connections: totals.connections,
            bytes_requested: totals.bytes_requested,
            bytes_received: totals.bytes_received,
            bytes_payload: totals.bytes_payload,
            bytes_used: reads.bytes_used,
            whole_file_downloads: totals.whole_files,
            connect_seconds: Duration::from_micros(totals.connect_micros).as_secs_f64(),
            reads: reads.into(),
            ..Report::default()
        }
    }

    /// What reads through the cache found, and what has become of what was fetched for them.
    #[must_use]
    pub fn reads(&self) -> ReadTotals {
        self.shared.cache.totals()
    }

    /// Writes what the trace of this client still holds. It does that by itself when the client and its files are gone,
    /// and every second or so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if the trace could not be written, now or before; it ends there.
    pub fn flush_trace(&self) -> Result<()> {
        self.shared.recording.as_ref().map_or(Ok(()), |recording| recording.flush())
    }

    /// Why nothing is remembered although a store was configured.
    #[must_use]
    pub fn store_error(&self) -> Option<&Error> {
        self.shared.store_error.as_ref()
    }

    /// Runs a future on the client's runtime, on the current thread, and waits for it.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Waits for a future on the client's runtime.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl ClientContext {
    /// Whether the caller takes what the store has of a file for true, unasked.
    pub(crate) fn is_fresh(&self, known: &FileMetadata) -> bool {
        let age = SystemTime::now().duration_since(known.learned).unwrap_or(Duration::MAX);
        known.validator.is_some() && age < self.config.staleness
    }
}

/// The store, and beside it the parts of files, if they are to be kept.
fn open_store(
    path: &Path,
    disk_cache: Option<DiskCacheConfig>,
    writes: &Arc<WriteBehindQueue>,
) -> Result<(Arc<Store>, Option<Arc<DiskCacheSlot>>)> {
    let store = Store::open(path, StoreConfig::default())?;
    let blocks = disk_cache.map(|it| DiskCache::open(&path.join("blocks"), it.bytes));
    Ok((Arc::new(store), blocks.transpose()?.map(|it| DiskCacheSlot::new(it, Arc::clone(writes)))))
}

/// What was learned about servers by reads that did not come to an end, or did not last long enough to keep it, is kept
/// now. What is being written of files is waited for, a few seconds at most.
impl Drop for Client {
    fn drop(&mut self) {
        self.shared.network.remember_all();
        self.shared.writes.flush();
    }
}

/// The store as the memory of servers.
#[derive(Debug)]
struct StoreLedger(Arc<Store>);

impl EndpointStore for StoreLedger {
    fn get(&self, origin: &str) -> Option<Endpoint> {
        self.0.endpoint(origin, SystemTime::now())
    }

    fn put(&self, origin: &str, endpoint: &Endpoint) {
        self.0.remember_endpoint(origin, endpoint, SystemTime::now());
    }

    fn claim_slot(&self, origin: &str, most: usize) -> SlotClaim {
        match self.0.claim_slot(origin, most) {
            ConnectionClaim::Granted(held) => SlotClaim::Granted(Box::new(held)),
            ConnectionClaim::Full => SlotClaim::Full,
            ConnectionClaim::Unknown => SlotClaim::Granted(Box::new(())),
        }
    }
}

/// The path of a local file, if `url` is one: `file:` URLs, and everything without a scheme.
pub(crate) fn local_path(url: &str) -> Option<PathBuf> {
    if let Some(rest) = url.strip_prefix("file:") {
        let path = rest
            .strip_prefix("//")
            .map_or(rest, |rest| rest.strip_prefix("localhost").unwrap_or(rest));
        return Some(PathBuf::from(path));
    }
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let is_url = scheme.is_some_and(|scheme| {
        !scheme.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    });
    (!is_url).then(|| PathBuf::from(url))
}
