//! Decisions on what to read, when, and how much at a time.
//!
//! This crate decides; it never does. It knows no sockets, no disk, no runtime, no file format and
//! no wall clock: every byte comes in through a [`Source`], every instant through a [`Clock`].

pub mod endpoint;
pub mod error;
pub mod layout;
pub mod plan;
pub mod range;
pub mod source;
pub mod storage;
pub mod sync;
pub mod trace;
pub mod tune;

pub use crate::endpoint::limit_discovery::LearnedLimit;
pub use crate::source::link::LinkEstimate;
pub use crate::tune::concurrency_limit::{ConcurrencyLimit, RequestOutcome};
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
pub use trace::{CacheStatus, FileRecorder, ReadEvent, ReadTimes, TraceSink};
