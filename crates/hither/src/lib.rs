//! hither: remote scientific data, read as if it were local.
//!
//! A program that reads remote data waits a round trip for each request that it makes alone. hither
//! predicts which bytes will be read, fetches them in as few round trips as the protocol allows,
//! over as many open connections as help, and decodes while the rest is in flight.
//!
//! ```no_run
//! use hither::{Client, ClientConfig, DrawRequest, ScanProgress, TreeUrl};
//!
//! let client = Client::new(ClientConfig::default())?;
//! let target = TreeUrl::parse("http://host/path/file.root:T");
//! let request = DrawRequest::new("rawtr", Some("E33>5"));
//! let drawing = client.draw(&target, &request, &ScanProgress::default())?;
//! println!("{} values, mean {}", drawing.histogram.selected, drawing.histogram.mean);
//! # Ok::<(), hither::Error>(())
//! ```
//!
//! This crate re-exports the items of other crates that its functions take and return.
//!
//! # Where to start reading
//!
//! - a positional read: `src/file/read_path.rs`, then `crates/read/src/cache/file.rs`;
//! - opening many files: `src/open_ahead.rs`, then its folder;
//! - a query from the top: `src/tree/draw.rs`, `src/tree/root_opener.rs`, `src/tree/scan.rs`;
//! - columns as arrays: `src/tree/arrays.rs`;
//! - how a cluster copies a tree, and what late nodes cannot do: decision 0060, then
//!   `python/hither/cluster/_manifest.py`, `python/hither/cluster/_coordinator.py`,
//!   `python/hither/cluster/_destination.py`, `src/mover.rs`, `src/mover/take_over.rs`; how
//!   they share connections and bandwidth: `python/hither/cluster/_shares.py`,
//!   `src/mover/share.rs`.

mod client;
mod copy;
mod defect;
mod explanation;
mod file;
mod mover;
mod namespace;
pub(crate) mod open_ahead;
mod path_profile;
mod per_process;
mod report;
pub mod trace;
mod tree;
mod tree_cache;
mod url_path;

pub use crate::open_ahead::open_many::OpenMany;
pub use client::Client;
pub use client::checksum::UrlChecksum;
pub use client::config::{ClientConfig, DiskCacheConfig};
pub use client::credentials::password_prompt::ask_password;
pub use client::mirrors::{Mirror, Mirrors};
pub use client::options::units::{byte_size, duration, seconds};
pub use client::options::{ClientOption, ClientOptions, OptionShape, OptionValue};
pub use client::put::Replaceable;
pub use client::staging::StagingRequest;
pub use client::stat::UrlStat;
pub use client::storage_path::StoragePath;
pub use copy::local_time::{bandwidth_limiter, minute_of_week};
pub use copy::third_party::ThirdParty;
pub use defect::defect;
pub use explanation::{Explanation, MeasuredJob};
pub use file::open_options::OpenOptions;
pub use file::{FileStat, RemoteFile};
pub use hither_auth::{
    AuthError, Basic, CertificateSource, CredentialConfig, Credentials, Environment, HostPattern,
    Secret, TokenSource,
};
pub use hither_checksum::{Algorithm, Checksum};
pub use hither_core::error::suggest::Suggestion;
pub use hither_core::layout::LearnedSet;
pub use hither_core::storage::{
    DirEntry, FileKind, Listing, PutOptions, StagingState, Storage, Upload,
};
pub use hither_core::{Error, ErrorKind, Retry, SourceReport};
pub use hither_explain::{Bottleneck, Diagnosis, EvidenceItem, StageSeconds};
pub use hither_formats::root::{ListKind, RecordType};
pub use hither_formats::{Column, FormatError, Strings, Values};
pub use hither_load::bandwidth::BandwidthTimetable;
pub use hither_query::{Expression, Histogram, Selection};
pub use hither_read::ReadAheadConfig;
pub use hither_read::cache::CacheConfig;
pub use hither_read::cache::file::{HintId, ReadTotals};
pub use hither_store::LearnedTree;
pub use hither_transfer::{
    BandwidthLimit, BandwidthLimiter, CheckOptions, CheckSummary, CompareBy, CopyControl,
    CopyFailure, CopyOptions, CopyPath, CopyProgress, CopyStages, CopySummary, DifferenceKind,
    FileChecksum, Filter, FilterOptions, OverwritePolicy, ProgressSnapshot, SyncOptions,
    TreeDifference, Verify,
};
#[cfg(feature = "s3")]
pub use hither_transport::S3Config;
pub use hither_transport::{
    ExtendedAttribute, FileLocality, Identity, Lot, LotsApi, MonotonicClock, PageChecksums,
    Proxies, ReplicaServer, Resolve, SourceAddress, SourceTraffic, TlsConfig, TransportConfig,
};
pub use hither_tune::{StageTimes, TunedKnob, TuningDecision};
pub use namespace::tree_walk::{WalkEvent, WalkOptions};
pub use namespace::url_pattern::{UrlMatches, url_below};
pub use path_profile::{BandwidthStep, PathLimit, PathProfile};
pub use per_process::PerProcess;
pub use report::{ReadReport, Report};
pub use tree::RemoteTree;
pub use tree::arrays::{Arrays, ArraysIterator, ArraysRequest, ArraysStep};
pub use tree::draw::{DrawRequest, DrawResult};
pub use tree::listing::{BranchListing, FileListing, TreeListing};
pub use tree::progress::{ScanPhase, ScanProgress};
pub use tree::tree_url::TreeUrl;
pub use tree_cache::TreeCacheConfig;
pub use tree_cache::learned_sets::{LearnedExport, LearnedListing};
