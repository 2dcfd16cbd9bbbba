//! Files that a job moves, and the limits of how many move at a time.

use super::tuners::TunedPath;
use crate::tuner::TunedKnob;
use hither_core::{ReplicaSet, Source};
use std::sync::Arc;

/// Size from which on a file is large, in bytes.
const LARGE_BYTES: u64 = 64 << 20;

/// The properties of files that move between the same servers in the same way, by the file that was
/// opened last.
#[derive(Debug)]
pub struct MovedFiles<'a> {
    /// Where it comes from.
    pub source: &'a Arc<dyn Source>,
    /// The source with its replicas, where there may be several.
    pub replicas: Option<&'a dyn ReplicaSet>,
    /// The names of the two servers.
    pub servers: String,
    /// Its size in bytes.
    pub size: u64,
    /// The size of its blocks in bytes.
    pub block_bytes: u64,
    /// The largest number of workers that the bandwidth limit keeps busy; [`usize::MAX`] without
    /// one.
    pub by_bandwidth: usize,
    /// The largest number of blocks that its target takes at a time; 1 if the target has no limit.
    pub target_blocks: usize,
    /// The number that is tuned for such files; none if only the rule for the link applies.
    pub knob: Option<TunedKnob>,
}

/// Limits of the concurrent small files that move in the same way as one that was opened.
#[derive(Debug)]
pub struct SmallFileLimits {
    /// The largest number that the target takes; [`usize::MAX`] if it has no limit.
    pub by_target: usize,
    /// They are on this machine.
    pub is_local: bool,
}

impl MovedFiles<'_> {
    pub(super) fn class(&self) -> &'static str {
        if self.size >= LARGE_BYTES { "large" } else { "medium" }
    }

    pub(super) fn path(&self) -> TunedPath {
        TunedPath::Source(Arc::clone(self.source))
    }
}
