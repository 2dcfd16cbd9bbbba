//! Reads: from wanted ranges to requests, bytes in memory, and predictions of the next reads.
//!
//! - A [`Reader`] executes reads of one [`Source`](hither_core::Source): a queue of planned
//!   requests, a byte budget, connections in use, retries ([`schedule`]).
//! - A [`CachedFile`] serves positional reads of an open file through a [`Cache`] that files share:
//!   each byte is requested once, however many reads wait for it ([`cache`]).
//! - A [`Prefetcher`] predicts reads from past ones ([`prefetch`]): [`ReadAhead`] by offsets,
//!   [`prefetch::columnar`] by columns and entries.
//!
//! This crate makes decisions and no I/O: it uses no sockets, no disk, no runtime and no wall
//! clock. The source opens connections; the crate replicas, which is a source itself, chooses among
//! several servers.
//!
//! # Where to start reading
//!
//! - how reads of bytes are served: `src/cache.rs`, `src/cache/file.rs` and
//!   `src/cache/file/driver.rs`;
//! - more connections of a read where each is limited: `src/schedule/trial.rs`,
//!   `crates/tune/src/tuner.rs`;
//! - prediction of the reads of a tree: `src/prefetch/columnar.rs`.

pub mod cache;
pub mod prefetch;
pub mod schedule;
mod sync;

pub use cache::file::CachedFile;
pub use cache::{Cache, CacheConfig, CacheKey};
pub use prefetch::{Access, Advice, PrefetchContext, Prefetcher, ReadAhead, ReadAheadConfig};
pub use schedule::{Reader, ReaderConfig};
