//! A source whose bytes are cached on disk, for other processes and later runs.
//!
//! It lies between the cache in memory and the server. Bytes on disk of the version that is read
//! are taken from there; the rest is requested from the server, and written to the disk when it has
//! arrived. No byte is taken from the disk before the server has named the version of the file
//! since it was opened: the first request always goes to the server, unless opening ahead has
//! validated the file. Disks are read and written on threads that may block. A disk that fails only
//! costs the requests that it would have saved.

use crate::client::write_behind::WriteBehindQueue;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hither_core::error::Result;
use hither_core::sync::lock;
use hither_core::{
    Clock, Endpoint, Limits, LinkEstimate, Part, PartSink, Request, ResponseMeta, Source, range,
};
use hither_read::cache::Version;
use hither_store::{DiskCache, DiskCacheFile, DiskCacheKey, MetadataKey};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// Bytes of the first request of a file: they show whether the version on disk is the server's.
const MAX_FIRST_BYTES: u64 = 128 << 10;

/// The disk cache of a client.
#[derive(Debug)]
pub(crate) struct DiskCacheSlot {
    store: DiskCache,
    writes: Arc<WriteBehindQueue>,
}

impl DiskCacheSlot {
    pub(crate) fn new(store: DiskCache, writes: Arc<WriteBehindQueue>) -> Arc<Self> {
        Arc::new(Self { store, writes })
    }
}

/// A source with the disk cache in front of it.
#[derive(Debug)]
pub(crate) struct DiskCacheSource {
    inner: Arc<dyn Source>,
    disk: Arc<DiskCacheSlot>,
    file: MetadataKey,
    confirmed: Mutex<Option<Confirmed>>,
}

/// The version of the file that the server has named.
#[derive(Debug, Clone)]
struct Confirmed {
    validator: String,
    /// None if the disk cache cannot hold the version.
    blocks: Option<Arc<DiskCacheFile>>,
}

/// Parts that have arrived, with their offsets.
type Arrived = Arc<Mutex<Vec<(u64, Bytes)>>>;

impl DiskCacheSource {
    /// The disk cache over the source of the file with this key.
    pub(crate) fn over(
        disk: &Arc<DiskCacheSlot>,
        inner: Arc<dyn Source>,
        file: MetadataKey,
    ) -> Arc<Self> {
        Arc::new(Self { inner, disk: Arc::clone(disk), file, confirmed: Mutex::default() })
    }

    /// Opens the blocks of the version that the server has named.
    pub(crate) async fn validate(&self, version: &Version) {
        let (Some(size), Some(validator)) = (version.size, version.validator.clone()) else {
            return;
        };
        if self.confirmed().as_ref().is_some_and(|it| it.validator == validator) {
            return;
        }
        let disk = Arc::clone(&self.disk);
        let key = DiskCacheKey { file: self.file.clone(), size, validator: validator.clone() };
        let open = move || disk.store.file(&key, SystemTime::now());
        let blocks = spawn_blocking(open).await.ok().flatten().map(Arc::new);
        *self.confirmed() = Some(Confirmed { validator, blocks });
    }

    /// The blocks of the version that a request asks for.
    fn blocks(&self, request: &Request) -> Option<Arc<DiskCacheFile>> {
        let validator = request.validator.as_ref().filter(|_| request.tail == 0)?;
        let confirmed = self.confirmed();
        confirmed.as_ref().filter(|it| it.validator == *validator)?.blocks.clone()
    }

    async fn fetch_tiered(&self, request: Request, mut sink: PartSink) -> Result<ResponseMeta> {
        let mut rest = request.clone();
        if let Some(blocks) = self.blocks(&request) {
            let wanted = request.ranges.clone();
            let found = spawn_blocking(move || blocks.read(&wanted)).await.unwrap_or_default();
            let present: Vec<_> =
                found.iter().map(|(at, bytes)| *at..at + bytes.len() as u64).collect();
            let missing = range::difference(&request.ranges, &range::merged(&present, 0));
            if missing.is_empty() || self.inner.limits().allow(&missing) {
                found.into_iter().for_each(|(offset, bytes)| sink(Part { offset, bytes }));
                rest.ranges = missing;
            }
            if rest.ranges.is_empty() {
                let validator = request.validator;
                return Ok(ResponseMeta {
                    size: request.size,
                    validator,
                    ..ResponseMeta::default()
                });
            }
        }
        let arrived = Arrived::default();
        let into = Arc::clone(&arrived);
        let tee: PartSink = Box::new(move |part| {
            lock(&into).push((part.offset, part.bytes.clone()));
            sink(part);
        });
        let response = self.inner.fetch(rest, tee).await?;
        let validator = response.validator.clone().or(request.validator);
        let size = response.size.or(request.size);
        self.validate(&Version { size, validator: validator.clone() }).await;
        let kept = self
            .confirmed()
            .as_ref()
            .filter(|it| Some(&it.validator) == validator.as_ref())
            .cloned();
        if let Some(blocks) = kept.and_then(|kept| kept.blocks) {
            // The reader does not wait for the disk.
            let arrived = std::mem::take(&mut *lock(&arrived));
            let bytes = arrived.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            let write = move || keep(&blocks, arrived);
            self.disk.writes.enqueue(&Handle::current(), bytes, write);
        }
        Ok(response)
    }

    fn confirmed(&self) -> MutexGuard<'_, Option<Confirmed>> {
        lock(&self.confirmed)
    }
}

/// Writes parts that have arrived, adjacent ones together.
fn keep(blocks: &DiskCacheFile, mut arrived: Vec<(u64, Bytes)>) {
    arrived.sort_by_key(|(offset, _)| *offset);
    let mut run: (u64, Vec<u8>) = (0, Vec::new());
    for (offset, bytes) in arrived {
        if run.0 + run.1.len() as u64 != offset {
            blocks.write(run.0, &run.1, SystemTime::now());
            run = (offset, Vec::new());
        }
        run.1.extend_from_slice(&bytes);
    }
    blocks.write(run.0, &run.1, SystemTime::now());
}

impl Source for DiskCacheSource {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn link(&self) -> LinkEstimate {
        self.inner.link()
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }

    fn endpoint(&self) -> Endpoint {
        self.inner.endpoint()
    }

    fn max_connections(&self) -> usize {
        self.inner.max_connections()
    }

    fn max_requests(&self) -> usize {
        self.inner.max_requests()
    }

    fn idle_connections(&self) -> usize {
        self.inner.idle_connections()
    }

    fn is_one_server(&self) -> bool {
        self.inner.is_one_server()
    }

    fn preconnect(&self, connections: usize) {
        self.inner.preconnect(connections);
    }

    fn max_first_bytes(&self) -> u64 {
        MAX_FIRST_BYTES
    }

    fn forget_version(&self) {
        self.inner.forget_version();
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(self.fetch_tiered(request, sink))
    }
}
