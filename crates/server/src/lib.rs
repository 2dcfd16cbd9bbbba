//! The data server: HTTP/1.1 and HTTP/2, WebDAV, and many ranges in one request, over a directory tree.
//!
//! Any client of HTTP can use it; ours asks for all the ranges of a job in one `QUERY` ([`hither_http::vector`]).
//! `hither serve DIR` is this crate with flags.
//!
//! ```no_run
//! use hither_server::{Server, Settings};
//!
//! let server = Server::start(Settings::new("/data"))?;
//! println!("{}", server.urls().join(" "));
//! server.wait();
//! # Ok::<(), hither_core::Error>(())
//! ```

mod answer;
mod connection;
mod files;
mod iso_date;
mod method;
mod monitoring;
mod refusal;
mod reload;
mod replicas;
mod rights;
mod rules;
mod sending;
mod server;
mod settings;
mod site;
mod space;
mod third_party;

pub use connection::network::NetworkSettings;
pub use reload::Reloader;
pub use replicas::ReplicaSettings;
pub use rights::access::{
    AllowedAction, AuthSettings, CertificateSettings, GroupSettings, IssuerSettings,
};
pub use rights::authorizer::{
    AccessRequest, Action, AllowAll, Authorizer, Decision, PrepareFuture,
};
pub use server::{Server, ShutdownHandle};
pub use settings::{ServerLimits, Settings, TlsFiles};
pub use space::lot_settings::LotSettings;
pub use third_party::settings::ThirdPartySettings;
