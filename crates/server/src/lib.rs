//! The data server: HTTP/1.1 and HTTP/2, WebDAV, and requests for many ranges, over a directory
//! tree.
//!
//! Any HTTP client can use it; hither's own client requests all ranges of a job with one `QUERY`
//! ([`hither_http::vector`]). `hither serve DIR` is this crate with flags.
//!
//! ```no_run
//! use hither_server::{Server, Settings};
//!
//! let server = Server::start(Settings::new("/data"))?;
//! println!("{}", server.urls().join(" "));
//! server.wait();
//! # Ok::<(), hither_core::Error>(())
//! ```
//!
//! # Where to start reading
//!
//! - the server, from a connection to the disk: `src/server.rs`, `src/context.rs`,
//!   `src/backend.rs`, `src/response.rs`;
//! - reserved space: `src/lots.rs`;
//! - files on tape behind the server: `src/backend/tape.rs`;
//! - the record of a request: `src/monitoring/request_record.rs`, `src/monitoring/admin_server.rs`;
//! - copies between servers: `src/third_party.rs`, `crates/transport/src/http/third_party.rs`,
//!   `crates/transport/src/xrootd/storage/third_party.rs`.

mod authorization;
mod backend;
mod connection;
mod context;
mod http_error;
mod lots;
mod method;
mod monitoring;
mod referral;
mod request;
mod response;
mod router;
mod server;
mod settings;
mod third_party;

pub use authorization::authorizer::{
    AccessRequest, Action, AllowAll, Authorizer, Decision, PrepareFuture,
};
pub use authorization::settings::{
    AllowedAction, AuthSettings, CertificateSettings, CrlChecks, GroupSettings, IssuerSettings,
};
pub use backend::referral::{AvailableEntries, BackendServer, Intent, LocateRequest, Located};
pub use backend::tape::TapeHelper;
pub use backend::tape::command_runner::run_tape_helper;
pub use backend::tape::settings::TapeSettings;
pub use backend::{
    Backend, BackendError, BackendErrorKind, BackendFuture, BatchEntry, ChangeOptions,
    ChangePrecondition, ChecksumMode, CommitOptions, Committed, CreateOptions, DeadProperties,
    Described, Details, DirectoryEntry, DirectoryListing, EntryDescription, EntryMetadata,
    FileRanges, FileReader, FileVisitor, FileWriter, LinkFilter, Precondition, RangeData,
    SpaceUsage, VisitedFile,
};
pub use connection::socket_options::NetworkSettings;
pub use lots::settings::LotSettings;
pub use referral::relay_egress::RelayEgress;
pub use referral::replica_map::{ReplicaSettings, url_below};
pub use server::sandbox::confine;
pub use server::{Server, ShutdownHandle, raise_open_files};
pub use settings::reload::Reloader;
pub use settings::{ServerLimits, Settings, TlsFiles};
pub use third_party::cidr::Cidr;
pub use third_party::settings::ThirdPartySettings;
