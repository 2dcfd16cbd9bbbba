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

mod access;
mod access_log;
mod ahead;
mod answer;
mod arriving;
mod authorizer;
mod block;
mod body;
mod client_verifier;
mod clocked;
mod collection;
mod discovery;
mod disk;
mod get;
mod guard;
mod health;
mod held;
mod iso_date;
mod keyring;
mod listener;
mod listing;
mod loan;
mod lot_api;
mod lot_settings;
mod lots;
mod meters;
mod metrics;
mod monitor;
mod network;
mod note;
mod page;
mod patch;
mod pieces;
mod place;
mod properties;
mod propfind;
mod put;
mod query;
mod recent;
mod refusal;
mod reload;
mod relocate;
mod replicas;
mod rules;
mod server;
mod settings;
mod shortcut;
mod site;
mod space;
mod status;
mod sums;
mod tcp_info;
mod third_party;
mod third_party_settings;
mod tls;
mod tree;
mod watched;

pub use access::{Allowed, AuthSettings, CertificateSettings, GroupSettings, IssuerSettings};
pub use authorizer::{Action, Asking, Authorizer, Decision, Open, Prepared};
pub use lot_settings::LotSettings;
pub use network::NetworkSettings;
pub use reload::Reloader;
pub use replicas::ReplicaSettings;
pub use server::{Server, Stopper};
pub use settings::{Limits, Settings, TlsFiles};
pub use third_party_settings::ThirdPartySettings;
