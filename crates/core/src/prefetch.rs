//! What to fetch before it is asked for.
//!
//! A program that opens a file and reads here and there does not say what it will read; what it has read tells. Every
//! read of an open file is shown to the file's [`Prefetcher`], as an [`Access`], together with the [`PrefetchContext`] of the
//! moment. The advisor answers with [`Advice`]: what to bring along if the read has to go to the server anyway, what will
//! be read soon, what will not be read after all. It decides and never waits: whether and when any of it is fetched is up
//! to who asked, who knows what is present, what is in flight and how much memory there is.

mod block_rounding;
pub mod columnar;
mod config;
mod cursor;
pub mod layout;
mod read_ahead;
mod region;
mod strides;
mod waste;

pub use config::ReadAheadConfig;
pub use read_ahead::ReadAhead;

use crate::{Limits, LinkEstimate};
use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

/// How a read found its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// All present: the program did not wait.
    Hit,
    /// Some were still on their way, none had to be asked for: the program was faster than the fetching.
    InFlight,
    /// Some had to be asked for.
    Miss,
}

/// One read of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What is read, within the file; not empty.
    pub range: Range<u64>,
    /// When, by the clock of the source.
    pub at: Duration,
    /// How it found its bytes.
    pub found: CacheStatus,
    /// One of several ranges that the program named together: it has planned what it wants itself.
    pub planned: bool,
}

/// How things stand at the time of a read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefetchContext {
    /// Size of the file in bytes, once it is known.
    pub size: Option<u64>,
    /// The path to the server.
    pub link: LinkEstimate,
    /// What one request may hold, and what one more range costs.
    pub limits: Limits,
    /// Bytes of this file that were fetched ahead, or are on their way, and have not been read yet.
    pub ahead_bytes: u64,
    /// The most that [`PrefetchContext::ahead_bytes`] should grow to, given the memory there is.
    pub ahead_budget_bytes: u64,
    /// Bytes of this file that were fetched ahead and dropped without having been read, since it was opened.
    pub wasted_bytes: u64,
    /// Bytes of this file that were fetched, since it was opened.
    pub fetched_bytes: u64,
}

/// What to do about the bytes around a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Fetched in one go with the read, if that has to wait for a request anyway.
    pub same_request: Vec<Range<u64>>,
    /// Fetched ahead, in this order, as far as there is room. What is present or in flight costs nothing to name again.
    pub will_need: Vec<Range<u64>>,
    /// Named before, and not wanted any more. What has not been sent yet is not sent.
    pub dont_need: Vec<Range<u64>>,
}

/// Says what will be read, from what was read. One per open file.
pub trait Prefetcher: Send + Debug {
    /// Looks at a read. Called before it is served, in the order in which reads begin. Must be quick: a read that finds
    /// its bytes takes less than a microsecond, and this is part of it.
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice;
}
