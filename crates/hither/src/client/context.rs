//! Connections, caches and threads that the files of a client share.

use crate::client::config::{ClientConfig, DiskCacheConfig};
use crate::client::write_behind::WriteBehindQueue;
use crate::file::disk_cache::DiskCacheSlot;
use crate::trace::recorder::TraceFileSink;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Endpoint, EndpointStore, SlotClaim};
use hither_read::Cache;
use hither_replicas::Health;
use hither_store::{DiskCache, FileMetadata, Store, StoreConfig};
use hither_transport::{MonotonicClock, Network, TransferCounters};
use hither_tune::ReadTrial;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle;

/// The part of a client that its files keep.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) config: ClientConfig,
    pub(crate) network: Arc<Network>,
    pub(crate) health: Arc<Health>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) decoders: rayon::ThreadPool,
    pub(crate) disk_cache: Option<Arc<DiskCacheSlot>>,
    pub(crate) writes: Arc<WriteBehindQueue>,
    /// The trace that is being written.
    pub(crate) trace: Option<Arc<TraceFileSink>>,
    /// The reason why a configured store is not used.
    pub(crate) store_error: Option<Error>,
}

impl ClientContext {
    /// The context of a client with this configuration.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if threads cannot be started, or the trace file cannot be written.
    pub(crate) fn new(mut config: ClientConfig, runtime: &Handle) -> Result<Self> {
        config.reader.trial.get_or_insert(ReadTrial::begin);
        config.reader.retry.busy_timeout = config.transport.retry_policy().busy_timeout;
        let decoders = rayon::ThreadPoolBuilder::new()
            .num_threads(config.decode_threads)
            .thread_name(|n| format!("hither-decode-{n}"))
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Local, format!("cannot start decoding threads: {error}"))
            })?;
        let writes = Arc::new(WriteBehindQueue::default());
        let opened = config.store.as_deref().map(|it| open_store(it, config.disk_cache, &writes));
        let (store, disk_cache, store_error) = match opened {
            None => (None, None, None),
            Some(Ok((store, disk_cache))) => (Some(store), disk_cache, None),
            Some(Err(error)) => (None, None, Some(error)),
        };
        let endpoints =
            store.clone().map(|store| Arc::new(StoredEndpoints(store)) as Arc<dyn EndpointStore>);
        Ok(Self {
            network: Network::new(config.transport.clone(), runtime.clone(), endpoints),
            health: Health::new(Arc::new(MonotonicClock::start())),
            trace: config.trace.as_deref().map(TraceFileSink::start).transpose()?.map(Arc::new),
            cache: Arc::new(Cache::new(config.cache)),
            store,
            disk_cache,
            store_error,
            decoders,
            writes,
            config,
        })
    }

    /// The transfer counters of all files.
    pub(crate) fn counters(&self) -> &Arc<TransferCounters> {
        self.network.counters()
    }

    /// Returns true if stored metadata is recent enough to be used without validation.
    pub(crate) fn is_fresh(&self, known: &FileMetadata) -> bool {
        let age = SystemTime::now().duration_since(known.learned).unwrap_or(Duration::MAX);
        known.validator.is_some() && age < self.config.staleness
    }
}

/// Opens the store and the disk cache in it.
fn open_store(
    path: &Path,
    disk_cache: Option<DiskCacheConfig>,
    writes: &Arc<WriteBehindQueue>,
) -> Result<(Arc<Store>, Option<Arc<DiskCacheSlot>>)> {
    let store = Store::open(path, StoreConfig::default())?;
    let blocks = disk_cache.map(|it| DiskCache::open(&path.join("blocks"), it.bytes));
    Ok((Arc::new(store), blocks.transpose()?.map(|it| DiskCacheSlot::new(it, Arc::clone(writes)))))
}

/// The store, as the storage of server properties.
#[derive(Debug)]
struct StoredEndpoints(Arc<Store>);

impl EndpointStore for StoredEndpoints {
    fn get(&self, origin: &str) -> Option<Endpoint> {
        self.0.endpoint(origin, SystemTime::now())
    }

    fn put(&self, origin: &str, endpoint: &Endpoint) {
        self.0.put_endpoint(origin, endpoint, SystemTime::now());
    }

    fn claim_slot(&self, origin: &str, max: usize) -> SlotClaim {
        self.0.claim_slot(origin, max)
    }
}
