//! Files that a job moves, and what limits how many of them move at a time.

use super::tuners::TunedPath;
use crate::tuner::TunedKnob;
use hither_core::{ReplicaSet, Source};
use std::sync::Arc;

/// Size from which on a file is large, in bytes.
const LARGE_BYTES: u64 = 64 << 20;

/// Files that move alike, by the one that was opened last.
#[derive(Debug)]
pub struct MovedFiles<'a> {
    /// Where it comes from.
    pub source: &'a Arc<dyn Source>,
    /// The same, where there may be further replicas.
    pub replicas: Option<&'a dyn ReplicaSet>,
    /// The names of the two servers.
    pub servers: String,
    /// Its size in bytes.
    pub size: u64,
    /// The size of its blocks in bytes.
    pub block_bytes: u64,
    /// Most workers that the limit of bandwidth keeps going; [`usize::MAX`] without one.
    pub by_bandwidth: usize,
    /// Most blocks that its target takes at a time; 1 if the target does not care.
    pub target_blocks: usize,
    /// The number that is tuned for such files; none if the rule for the link is all there is.
    pub knob: Option<TunedKnob>,
}

/// Limits of the small files at a time that move like one that was opened.
#[derive(Debug)]
pub struct SmallFileLimits {
    /// Most that the target takes; [`usize::MAX`] if it does not care.
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
