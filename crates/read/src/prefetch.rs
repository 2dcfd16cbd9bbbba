//! Prefetching: predictions of what a program will read.
//!
//! A program that opens a file and reads here and there does not announce its reads; its past reads
//! predict them. Every read of an open file is shown to the file's [`Prefetcher`], as an
//! [`Access`], together with the [`PrefetchContext`] of the moment. The prefetcher returns
//! [`Advice`]: ranges to add to the request if the read has to go to the server anyway, ranges that
//! will be read soon, and ranges that will not be read after all. It decides and never waits; the
//! caller knows what is present, what is in flight and how much memory is free, and fetches
//! accordingly.
//!
//! - [`ReadAhead`] uses only offsets: sequential runs, strides, blocks.
//! - [`columnar`] uses the layout of the file's trees: columns and their baskets.

mod block_rounding;
pub mod columnar;
mod config;
mod cursor;
mod read_ahead;
mod region;
mod strides;
mod waste;

pub use config::ReadAheadConfig;
pub(crate) use read_ahead::MAX_WHOLE_BYTES;
pub use read_ahead::ReadAhead;

use hither_core::{Limits, LinkEstimate};
use hither_trace::CacheStatus;
use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

/// One read of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The range that is read, within the file; not empty.
    pub range: Range<u64>,
    /// The time of the read, by the clock of the source.
    pub at: Duration,
    /// Cache status of its bytes.
    pub found: CacheStatus,
    /// One of several ranges that the program requested together: it has planned its reads itself.
    pub planned: bool,
}

/// Circumstances of a read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefetchContext {
    /// Size of the file in bytes, once it is known.
    pub size: Option<u64>,
    /// The path to the server.
    pub link: LinkEstimate,
    /// Limits of one request, and the cost of one more range.
    pub limits: Limits,
    /// Bytes of this file that were prefetched, or are in flight, and have not been read yet.
    pub ahead_bytes: u64,
    /// Maximum of [`PrefetchContext::ahead_bytes`], given the available memory.
    pub ahead_budget_bytes: u64,
    /// Bytes of this file that were prefetched and dropped unread, since it was opened.
    pub wasted_bytes: u64,
    /// Bytes of this file that were fetched, since it was opened.
    pub fetched_bytes: u64,
}

/// Advice on the bytes around a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Fetched in the same request as the read, if that has to wait for a request anyway.
    pub same_request: Vec<Range<u64>>,
    /// Prefetched, in this order, as far as there is room. Ranges that are present or in flight may
    /// be named again at no cost.
    pub will_need: Vec<Range<u64>>,
    /// Named before, and no longer wanted. Requests for them that have not been sent are cancelled.
    pub dont_need: Vec<Range<u64>>,
    /// Bytes that will be prefetched next if the reader continues, so that connections for them can
    /// be opened meanwhile; 0 if that is not known.
    pub next_bytes: u64,
}

/// Predicts reads from past ones. One per open file.
pub trait Prefetcher: Send + Debug {
    /// Observes a read and returns advice. Called before the read is served, in the order in which
    /// reads begin. Must be fast: a cache hit takes less than a microsecond, including this call.
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice;
}
