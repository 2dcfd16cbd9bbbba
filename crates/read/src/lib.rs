//! Reads: from the ranges that somebody wants to requests, bytes in memory, and what is read next.
//!
//! - A [`Reader`] executes reads of one [`Source`](hither_core::Source): a queue of planned
//!   requests, a byte budget, connections in use, retries ([`schedule`]).
//! - A [`CachedFile`] serves positional reads of an open file through a [`Cache`] that files share:
//!   each byte is requested once, whoever waits for it ([`cache`]).
//! - A [`Prefetcher`] says what will be read, from what was read ([`prefetch`]): [`ReadAhead`] by
//!   offsets, [`prefetch::columnar`] by columns and entries.
//!
//! This crate decides and never does: it knows no sockets, no disk, no runtime and no wall clock.
//! Which connections exist is the source's matter, and which of several servers is asked that of
//! the crate replicas, which is a source itself.
//!
//! # Where to start reading
//!
//! - how reads of bytes are served: `src/cache.rs`, `src/cache/file.rs` and
//!   `src/cache/file/driver.rs`;
//! - more connections of a read where each is limited: `src/schedule/trial.rs`,
//!   `crates/tune/src/tuner.rs`;
//! - what will be read of a tree: `src/prefetch/columnar.rs`.

pub mod cache;
pub mod prefetch;
pub mod schedule;
mod sync;

pub use cache::file::CachedFile;
pub use cache::{Cache, CacheConfig, CacheKey};
pub use prefetch::{Access, Advice, PrefetchContext, Prefetcher, ReadAhead, ReadAheadConfig};
pub use schedule::{Reader, ReaderConfig};
