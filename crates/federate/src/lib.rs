//! One name space over many storages: listings are merged, and clients are redirected to the best
//! replica.
//!
//! ```text
//!  server (HTTP)     Backend::locate, list, stat …
//!     │
//!  federation        the name space in force, probes              backend, relay
//!     │
//!  name_space        lookups, shared by waiting clients            single_flight
//!     │   ╰─────── referral: the endpoint for each client
//!     │
//!  prefix_map, merge, name_cache, sites, choice                    pure
//!     │
//!  endpoint          core::Storage: HTTP, WebDAV, XRootD, S3, …
//! ```
//!
//! The pure parts use neither sockets nor clocks. Endpoints are [`hither_core::Storage`]s that the
//! caller opens, and the federation is a [`hither_server::Backend`]: nothing here depends on HTTP,
//! or on any other protocol.
//!
//! # Where to start reading
//!
//! - how a federation merges names and redirects clients to replicas: `src/name_space.rs`,
//!   `src/merge.rs`, `src/choice.rs`, `crates/server/src/referral.rs`.

mod backend;
mod choice;
mod endpoint;
mod federation;
mod merge;
mod name_cache;
mod name_space;
mod prefix_map;
mod referral;
mod relay;
mod settings;
mod single_flight;
mod sites;

pub use choice::{Candidate, LoadMeter, RecentReferrals, rank};
pub use endpoint::Endpoint;
pub use federation::Federation;
pub use merge::{EndpointId, EntryFacts, ListingMerger, MergedEntry, MergedListing, merge_entry};
pub use name_cache::NameCache;
pub use name_space::{MergedLookup, NameSpace, Need};
pub use prefix_map::{PrefixMap, PrefixRule};
pub use settings::{
    Agreement, DeletePolicy, EndpointCredentials, EndpointSettings, FederationConfig,
    FederationSettings, PrefixSettings,
};
pub use sites::{FAR, SiteSettings, Sites};
