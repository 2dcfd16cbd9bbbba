//! The interfaces between the other crates, and the values that pass through them.
//!
//! - [`Error`] with its kind, and the one decision on retries ([`retry`]);
//! - [`range`](mod@range): sets of byte ranges; [`Plan`]: the requests that fetch them;
//! - [`Source`]: a file that is read by ranges, its [`Limits`], its [`LinkEstimate`];
//! - [`Storage`]: a name space to list, read and write; [`ReplicaSet`]: a file of several servers;
//! - [`Endpoint`]: learned capabilities of a server; [`layout`]: the positions of a file's columns;
//! - [`Clock`]: time and randomness, as values.
//!
//! It uses no sockets, no disk, no runtime, no file format and no wall clock: every byte comes from
//! a [`Source`], every instant from a [`Clock`]. The crate read schedules and caches reads; the
//! crates load and tune choose the number of connections.
//!
//! # Where to start reading
//!
//! - how requests are made: `src/plan.rs`, `crates/read/src/schedule.rs`,
//!   `crates/load/src/lib.rs`;
//! - where a retry is decided: `src/error/retry/decision.rs`;
//! - pauses, attempts and deadlines of retries: `src/error/retry.rs`; those of reads:
//!   `crates/read/src/schedule/retry.rs`;
//! - how files are written and listed: `src/storage.rs`, then `crates/transport/src/webdav.rs`;
//! - when a listing is complete: `src/storage/listing.rs`; gaps over WebDAV:
//!   `crates/transport/src/webdav/listing.rs`; in S3: `crates/http/src/xml/object_list.rs`; in a
//!   federation: `crates/federate/src/merge.rs`.

pub mod endpoint;
pub mod error;
pub mod layout;
pub mod plan;
pub mod range;
pub mod source;
pub mod storage;
pub mod sync;
pub mod text;

pub use crate::endpoint::limit_discovery::LearnedLimit;
pub use crate::source::link::LinkEstimate;
pub use endpoint::store::{EndpointStore, SlotClaim, SlotGuard};
pub use endpoint::{Endpoint, NamespaceSupport, RangeSupport};
pub use error::retry::{self, Backoff, RetryPolicy};
pub use error::{Delivery, Effect, Error, ErrorKind, Failure, Result, Retry};
pub use plan::{Plan, PlanConfig};
pub use source::clock::Clock;
pub use source::limits::Limits;
pub use source::{
    Part, PartSink, Request, ResponseMeta, Source, VersionBinding, is_entity_tag, validators_differ,
};
pub use storage::replica_set::{PieceChecksums, ReplicaSet, SourceReport};
pub use storage::{CommittedFile, DirEntry, FileKind, Listing, PutOptions, Storage, Upload};
