//! Sources: bytes over HTTP and from local files.
//!
//! A [`Network`] holds a client's connections, one [`Pool`] per endpoint, recycled across files and calls; an
//! [`HttpSource`] is one file behind one of them. Codecs and what a server's answers mean live in `hither-http`; what to ask for is `core`'s.

mod access;
mod account;
mod addresses;
mod body;
mod call;
mod config;
mod connect;
mod delivery;
mod dialer;
mod exchange;
mod file_digest;
mod file_source;
mod fresh_name;
mod gate;
mod http_source;
mod lane;
mod local_storage;
mod location;
mod misdirected;
mod monotonic;
mod multiplexed;
mod network;
mod outgoing;
mod pool;
mod proxy;
mod put_off;
mod racing;
mod request;
mod respond;
#[cfg(feature = "s3")]
mod s3;
mod server;
mod stream;
mod tail;
mod tls;
mod tunnel;
mod webdav;
mod welcome;
mod whereabouts;
mod whole_file;
mod xrootd;

pub use account::{TransferCounters, TransferTotals};
pub use addresses::{Resolve, SystemResolver};
pub use call::{HttpRequest, HttpResponse};
pub use config::{PageChecksums, TransportConfig};
pub use file_source::LocalSource;
pub use gate::EgressFilter;
pub use http_source::HttpSource;
pub use local_storage::LocalStorage;
pub use location::{Location, Protocol};
pub use monotonic::MonotonicClock;
pub use network::Network;
pub use outgoing::{RequestBody, StreamedBody};
pub use pool::Pool;
pub use proxy::Proxies;
#[cfg(feature = "s3")]
pub use s3::{S3Config, S3Storage};
pub use tls::{Identity, TlsConfig};
pub use webdav::WebDavStorage;
pub use whereabouts::{ReplicaList, is_metalink};
pub use xrootd::{
    ExtendedAttribute, PrepareAction, ReplicaServer, XrootdPath, XrootdSource, XrootdStorage,
};
