//! Files over HTTP, WebDAV, `root://`, S3, and on local disks.
//!
//! A [`Network`] holds the connections of a client, one [`Pool`] per endpoint, which are reused by
//! all files. A source, such as [`HttpSource`] or [`XrootdSource`], reads one file; a storage, such
//! as [`WebDavStorage`], lists and writes a tree of files. The HTTP codecs live in `hither-http`,
//! the XRootD protocol in `hither-xrd`; `hither-core` decides which bytes to request.
//!
//! # Where to start reading
//!
//! - what happens to a `PUT` or another change whose connection broke: `src/http/call/change.rs`;
//!   small uploads: `crates/transfer/src/copy/resources/unseen.rs`;
//! - where a credential is attached to a request: `src/http/request.rs`; where it is withheld:
//!   `src/location/secrets.rs`; its renewal: `src/layers/credential.rs`;
//! - what happens to a request that is redirected, rejected, refused, too large, or loses its
//!   connection: `src/layers.rs`, which names the file for each;
//! - `root://` on the client: `src/xrootd.rs`, `src/xrootd/session_pool.rs`,
//!   `src/xrootd/driver.rs`;
//! - several requests on one connection: `src/pool/http2_pool.rs`,
//!   `crates/read/src/schedule/concurrency.rs`;
//! - how `pelican://` finds its servers: `src/network/pelican.rs`,
//!   `src/location/pelican_role.rs`; as a director: `crates/server/src/referral/pelican.rs`;
//! - how connections use several network interfaces: `src/connect/source_addresses.rs`.

mod authorization;
mod config;
pub(crate) mod connect;
mod context;
mod counters;
pub(crate) mod http;
pub(crate) mod layers;
pub(crate) mod local;
mod location;
mod network;
mod pool;
mod replica_discovery;
#[cfg(feature = "s3")]
mod s3;
mod webdav;
mod xrootd;

pub use crate::connect::dns::{Resolve, SystemResolver};
pub use crate::connect::egress_filter::EgressFilter;
pub use crate::connect::proxy::Proxies;
pub use crate::connect::source_addresses::{SourceAddress, SourceTraffic};
pub use crate::connect::tcp_info::{SocketGuard, SocketRef, TcpInfo};
pub use crate::connect::tls::identity::Identity;
pub use crate::http::call::change::ChangeOutcome;
pub use crate::http::call::{HttpRequest, HttpResponse};
pub use crate::http::custom_fields::CustomFields;
pub use crate::http::request_body::{RequestBody, StreamedBody};
pub use crate::http::source::HttpSource;
pub use crate::http::spooled_download::SpoolSpace;
pub use crate::http::tape::{FileLocality, TapeApi};
pub use crate::local::source::LocalSource;
pub use crate::local::storage::LocalStorage;
pub use config::{PageChecksums, TlsConfig, TransportConfig};
pub use context::MonotonicClock;
pub use counters::activity::ActivityRecorder;
pub use counters::{TransferCounters, TransferTotals};
pub use location::secrets::redact_url;
pub use location::{Location, Protocol, http_form};
pub use network::Network;
pub use network::lots::{Lot, LotsApi};
pub use network::third_party::{ThirdPartyCopy, ThirdPartyMode};
pub use pool::Pool;
pub use replica_discovery::{ReplicaFinder, ReplicaList, is_metalink};
#[cfg(feature = "s3")]
pub use s3::{S3Config, S3Object, S3Storage};
pub use webdav::WebDavStorage;
pub use xrootd::{
    ExtendedAttribute, PrepareAction, ReplicaServer, XrootdPath, XrootdSource, XrootdStorage,
};
