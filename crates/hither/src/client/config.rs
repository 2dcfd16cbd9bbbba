//! The configuration of a client and of its disk cache.

use crate::client::mirrors::Mirrors;
use crate::tree_cache::TreeCacheConfig;
use hither_read::{CacheConfig, ReadAheadConfig, ReaderConfig};
use hither_transport::TransportConfig;
use std::path::PathBuf;
use std::time::Duration;

/// The configuration of a client.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Connections and time limits.
    pub transport: TransportConfig,
    /// Memory for data in flight, and retries. `transport` has the time for which requests to busy
    /// servers are repeated.
    pub reader: ReaderConfig,
    /// Memory for data that was read or prefetched through [`RemoteFile::read_at`] and its
    /// variants.
    ///
    /// [`RemoteFile::read_at`]: crate::RemoteFile::read_at
    pub cache: CacheConfig,
    /// Read-ahead for programs that give no hints.
    pub read_ahead: ReadAheadConfig,
    /// Prefetch of tree data for programs that read trees as bytes.
    pub tree_cache: TreeCacheConfig,
    /// The folder that stores properties of servers and files between runs. Default: none; the
    /// command sets one.
    pub store: Option<PathBuf>,
    /// Parts of files kept on disk for other processes and later runs; needs a store. Default:
    /// none.
    pub disk_cache: Option<DiskCacheConfig>,
    /// The age up to which stored metadata is used without validation, counted from the last
    /// validation. Default: 0, which validates always and costs one round trip.
    pub staleness: Duration,
    /// URL prefixes with replicas.
    pub mirrors: Mirrors,
    /// Endpoint, region and key of the object store behind `s3://`.
    #[cfg(feature = "s3")]
    pub s3: hither_transport::S3Config,
    /// The profile that completes `s3`. Default: none; the command sets one.
    #[cfg(feature = "s3")]
    pub s3_profile: Option<hither_auth::AwsProfileSource>,
    /// Number of threads that decode; 0 for one per processor.
    pub decode_threads: usize,
    /// The file to which a trace of all reads is written; it is replaced. Default: none.
    /// [`crate::trace`] reads it.
    pub trace: Option<PathBuf>,
}

/// The configuration of the disk cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCacheConfig {
    /// The largest size in bytes; the least recently used blocks are evicted first.
    pub bytes: u64,
}
