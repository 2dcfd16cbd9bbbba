//! hither: remote scientific data, read as if it were here.
//!
//! A job that reads from afar costs a round trip for everything that it asks for by itself. hither knows what will be
//! needed, asks for it in as few round trips as the protocol allows, over as many warm connections as pay, and decodes
//! while the rest is in flight.
//!
//! ```no_run
//! use hither::{Client, ClientConfig, DrawRequest, Progress, Target};
//!
//! let client = Client::new(ClientConfig::default())?;
//! let target = Target::parse("http://host/path/file.root:T");
//! let request = DrawRequest::new("rawtr", Some("E33>5"))?;
//! let drawing = client.draw(&target, &request, &Progress::default())?;
//! println!("{} values, mean {}", drawing.histogram.selected, drawing.histogram.mean);
//! # Ok::<(), hither::Error>(())
//! ```

mod ahead;
mod arrays;
mod assemble;
mod background;
mod byte_reads;
mod client;
mod dataset;
mod draw;
mod file;
mod glance;
mod habit;
mod holders;
mod last_writes;
mod learned;
mod listing;
mod look;
mod mirrors;
mod open_many;
mod opened;
mod opener;
mod opening;
mod progress;
pub mod query;
mod recording;
mod scan;
mod storage;
mod stream;
mod target;
mod tiered;
pub mod trace;
mod tree;
mod tree_cache;
mod upload;

pub use arrays::{Arrays, ArraysIterator, ArraysRequest, ArraysStep};
pub use client::{Client, ClientConfig, DiskCacheConfig};
pub use draw::{DrawRequest, DrawResult};
pub use file::{FileStat, RemoteFile};
pub use hither_auth::{
    AuthError, Basic, CertificateSource, CredentialConfig, Credentials, Environment, HostPattern,
    Secret, TokenSource,
};
pub use hither_core::cache::CacheConfig;
pub use hither_core::file::{HintId, ReadTotals};
pub use hither_core::storage::{DirEntry, FileKind, PutOptions, Storage, Upload};
pub use hither_core::{
    Algorithm, Checksum, Error, ErrorKind, Hasher, ReadAheadConfig, ReadReport, Report,
    SourceReport,
};
pub use hither_formats::{Column, FormatError, Strings, Values};
pub use hither_store::{LearnedSet, LearnedTree};
#[cfg(feature = "s3")]
pub use hither_transport::S3Config;
pub use hither_transport::{
    ExtendedAttribute, Identity, PageChecksums, PrepareAction, Proxies, ReplicaServer, Resolve,
    TlsConfig, TransportConfig,
};
pub use holders::PrepareReply;
pub use learned::{LearnedExport, LearnedListing};
pub use listing::{BranchListing, TreeListing};
pub use look::UrlStat;
pub use mirrors::{Mirror, Mirrors};
pub use open_many::OpenMany;
pub use progress::{ScanPhase, ScanProgress};
pub use query::{Expression, Histogram, Selection};
pub use storage::StoragePath;
pub use target::TreeUrl;
pub use tree::RemoteTree;
pub use tree_cache::{ColumnarPrefetcher, ColumnarPrefetcherHandle, TreeCacheConfig};
