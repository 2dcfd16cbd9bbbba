//! A file below every cache: its source, its key in caches and store, and its stored metadata.

use crate::client::context::ClientContext;
use crate::url_path::{decoded, refuse_directory};
use hither_core::error::Result;
use hither_core::storage::Storage;
use hither_core::{Endpoint, ReplicaSet, Source, SourceReport};
use hither_read::cache::Version;
use hither_read::cache::file::Spawn;
use hither_read::{CacheKey, Reader};
use hither_replicas::Replicas;
use hither_store::{FileMetadata, MetadataKey};
use hither_trace::{CacheStatus, FileRecorder, ReadTimes};
use hither_transport::{LocalSource, Location, Protocol, ReplicaList, WebDavStorage};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// The location of a file.
pub(crate) enum FileLocation {
    /// On this machine.
    Local(PathBuf),
    /// In an object store.
    #[cfg(feature = "s3")]
    Object { object: hither_transport::S3Object, mirrors: Vec<Location> },
    /// On HTTP or XRootD servers.
    Servers {
        first: Location,
        /// Further replicas from a Metalink document.
        listed: Option<ReplicaList>,
        mirrors: Vec<Location>,
    },
}

/// A file below every cache.
#[derive(Debug, Clone)]
pub(crate) struct FileOrigin {
    pub(crate) context: Arc<ClientContext>,
    pub(crate) source: Arc<dyn Source>,
    kind: OriginKind,
    /// Records reads in the trace, if there is one.
    pub(crate) recorder: Option<FileRecorder>,
}

#[derive(Debug, Clone)]
enum OriginKind {
    Local {
        size: u64,
    },
    Servers {
        replicas: Arc<Replicas>,
        /// The first server.
        server: String,
        key: FileKey,
    },
}

/// The key of a file in caches and store.
#[derive(Debug, Clone)]
enum FileKey {
    #[cfg(feature = "s3")]
    Known(MetadataKey),
    /// Computed when it is first needed, because a credential command may have to run.
    Of(Location, Arc<OnceLock<MetadataKey>>),
}

impl FileOrigin {
    /// # Errors
    ///
    /// The error of opening a local file. No request is sent to a server.
    pub(crate) fn open(context: &Arc<ClientContext>, location: FileLocation) -> Result<Self> {
        let (source, kind): (Arc<dyn Source>, _) = match location {
            FileLocation::Local(path) => {
                let source = LocalSource::open(&path, Arc::clone(context.counters()))?;
                let size = source.size();
                (Arc::new(source), OriginKind::Local { size })
            }
            #[cfg(feature = "s3")]
            FileLocation::Object { object, mirrors } => {
                let hither_transport::S3Object { replica, url, identity } = object;
                let server = replica.server.clone();
                let health = Arc::clone(&context.health);
                let replicas = context.network.config().replicas;
                let replicas = Arc::new(Replicas::new(replica, health, replicas));
                for mirror in mirrors {
                    replicas.add(context.network.replica(mirror));
                }
                let key = FileKey::Known(MetadataKey { url, identity });
                (Arc::clone(&replicas) as _, OriginKind::Servers { replicas, server, key })
            }
            FileLocation::Servers { first, listed, mirrors } => {
                let network = &context.network;
                let replicas = network.replicated(&first, Arc::clone(&context.health));
                if let Some(listed) = listed {
                    network.enlist(&replicas, listed);
                }
                mirrors.into_iter().for_each(|mirror| replicas.add(network.replica(mirror)));
                let source = Arc::clone(&replicas) as Arc<dyn Source>;
                let server = first.origin();
                let key = FileKey::Of(first, Arc::default());
                (source, OriginKind::Servers { replicas, server, key })
            }
        };
        let recorder = context.trace.as_ref().map(|it| it.recorder(&source.name(), source.clock()));
        Ok(Self { context: Arc::clone(context), source, kind, recorder })
    }

    /// Fails if the server reports that this is a directory: GET does not distinguish a page about
    /// a directory from a file.
    pub(crate) async fn check_no_directory(&self) -> Result<()> {
        let OriginKind::Servers { key: FileKey::Of(location, _), .. } = &self.kind else {
            return Ok(());
        };
        if location.protocol() != Protocol::Http {
            return Ok(());
        }
        let path = decoded(location.path())?;
        let network = Arc::clone(&self.context.network);
        let storage = WebDavStorage::new(location.root(), network);
        match storage.stat(&path).await {
            Ok(entry) => refuse_directory(entry.kind, location),
            Err(_) => Ok(()),
        }
    }

    /// The same file, for reads that the program has not made.
    pub(crate) fn unrecorded(&self) -> Self {
        Self { recorder: None, ..self.clone() }
    }

    /// The size of a local file; none for others.
    pub(crate) fn local_size(&self) -> Option<u64> {
        match self.kind {
            OriginKind::Local { size } => Some(size),
            OriginKind::Servers { .. } => None,
        }
    }

    /// The URL or path, without secrets.
    pub(crate) fn name(&self) -> String {
        self.source.name()
    }

    /// The server in whose queue the file waits to be opened ahead.
    pub(crate) fn server(&self) -> String {
        match &self.kind {
            OriginKind::Servers { server, .. } => server.clone(),
            OriginKind::Local { .. } => self.folder(),
        }
    }

    /// The name up to its last slash.
    pub(crate) fn folder(&self) -> String {
        let name = self.name();
        name.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.source.endpoint()
    }

    /// Reports of the replicas, and the reasons why some are no longer used.
    pub(crate) fn replicas(&self) -> (Vec<SourceReport>, Vec<String>) {
        match &self.kind {
            OriginKind::Servers { replicas, .. } => (replicas.reports(), replicas.notices()),
            OriginKind::Local { .. } => Default::default(),
        }
    }

    /// A reader that bypasses all caches.
    pub(crate) fn reader(&self, validator: Option<String>) -> Reader<'_> {
        Reader::new(&*self.source, validator, self.context.config.reader)
    }

    /// Returns true if no round trip to the server was measured yet.
    pub(crate) fn is_unmeasured(&self) -> bool {
        matches!(self.kind, OriginKind::Servers { .. }) && self.source.link().rtt.is_none()
    }

    /// The key under which store and disk cache know the file; none for local files. Bytes are
    /// never shared between identities. A credential command may have to run first.
    pub(crate) fn metadata_key(&self) -> Option<MetadataKey> {
        let OriginKind::Servers { key, .. } = &self.kind else { return None };
        let (first, key) = match key {
            #[cfg(feature = "s3")]
            FileKey::Known(key) => return Some(key.clone()),
            FileKey::Of(first, key) => (first, key),
        };
        let find = || {
            let network = &self.context.network;
            let identity = tokio::task::block_in_place(|| network.identity(first));
            MetadataKey { url: first.cache_key(), identity }
        };
        Some(key.get_or_init(find).clone())
    }

    /// The key under which the cache in memory knows the file.
    pub(crate) fn cache_key(&self) -> CacheKey {
        match self.metadata_key() {
            Some(key) => CacheKey { name: key.url, identity: key.identity },
            None => CacheKey { name: self.name(), identity: String::new() },
        }
    }

    /// Runs futures on the client's runtime.
    pub(crate) fn spawn(&self) -> Spawn {
        let runtime = self.context.network.runtime().clone();
        Arc::new(move |future| drop(runtime.spawn(future)))
    }

    /// Records a read that is complete, with the bytes that the server sent for it.
    pub(crate) fn record(
        &self,
        ranges: &[Range<u64>],
        submitted: Duration,
        found: CacheStatus,
        fetched: u64,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let now = self.source.clock().now();
        let times = ReadTimes { submitted, completed: now, consumed: now };
        recorder.record(ranges, times, found, fetched);
    }

    /// Stores the learned properties of servers for the next run.
    pub(crate) fn remember_endpoint(&self) {
        if matches!(self.kind, OriginKind::Servers { .. }) {
            self.context.network.remember_all();
        }
    }

    /// The stored metadata of the file, if it has a validator.
    pub(crate) fn stored_metadata(&self) -> Option<FileMetadata> {
        let store = self.context.store.as_ref()?;
        let known = store.metadata(&self.metadata_key()?, SystemTime::now());
        known.filter(|known| known.validator.is_some())
    }

    /// The stored metadata of the file, if it may be used without validation.
    pub(crate) fn fresh_metadata(&self) -> Option<FileMetadata> {
        if self.context.config.staleness.is_zero() {
            return None;
        }
        self.stored_metadata().filter(|known| self.context.is_fresh(known))
    }

    /// Starts writing metadata to the store. The client waits for it when it is dropped.
    pub(crate) fn keep(&self, metadata: Option<FileMetadata>) {
        let Some(metadata) = metadata else { return };
        let (Some(store), Some(key)) = (self.context.store.clone(), self.metadata_key()) else {
            return;
        };
        let runtime = self.context.network.runtime();
        self.context.writes.enqueue(runtime, metadata.held_bytes(), move || {
            store.put_metadata(&key, &metadata, SystemTime::now());
        });
    }

    /// Renews stored metadata with this validator: a server has just confirmed it.
    pub(crate) fn renew_metadata(&self, validator: Option<String>) {
        if self.context.config.staleness.is_zero() {
            return;
        }
        let (Some(store), Some(key)) = (self.context.store.clone(), self.metadata_key()) else {
            return;
        };
        self.context.writes.enqueue(self.context.network.runtime(), 0, move || {
            let now = SystemTime::now();
            if let Some(known) = store.metadata(&key, now).filter(|it| it.validator == validator) {
                store.put_metadata(&key, &known, now);
            }
        });
    }

    /// Removes the stored metadata. Returns false without a store.
    pub(crate) fn forget_metadata(&self) -> bool {
        match (&self.context.store, self.metadata_key()) {
            (Some(store), Some(key)) => {
                store.remove_metadata(&key);
                true
            }
            _ => false,
        }
    }
}

/// The version of the file that stored metadata describes.
pub(crate) fn version_of(known: &FileMetadata) -> Version {
    Version { size: Some(known.size), validator: known.validator.clone() }
}
