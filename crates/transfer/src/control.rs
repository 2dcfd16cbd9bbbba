//! Limits of a copy that may be changed while it runs.
//!
//! Workers beyond the limit are parked when they have finished their piece: they hold no request,
//! and their connections stay open in the pool. They continue when the limit rises.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The largest number of workers that can be set.
const MAX: usize = 1024;

/// A handle on the limits of a running copy. A limit that is not set is chosen by the copy, within
/// its options.
#[derive(Debug, Default)]
pub struct CopyControl {
    /// 0 for not set.
    workers: AtomicUsize,
    /// 0 for not set. An upper limit only: the copy may use fewer.
    max_workers: AtomicUsize,
    is_part: AtomicBool,
    pub(crate) changed: Notify,
}

impl CopyControl {
    /// Sets the number of workers, 1 to 1024. It replaces the number by the rule for the link and
    /// that of a tuner. A copy for which it is set from the beginning is not tuned.
    pub fn set_workers(&self, workers: usize) {
        self.set(&self.workers, workers);
    }

    /// Sets the most workers, 1 to 1024.
    pub fn set_max_workers(&self, workers: usize) {
        self.set(&self.max_workers, workers);
    }

    /// Sets whether the copy is a part of a larger job, whose other parts begin before it ends.
    /// Such a part is too short to be tuned. Its idle workers leave the path to other parts:
    /// splitting the last pieces for them would close warm connections.
    pub fn set_part(&self, is_part: bool) {
        self.is_part.store(is_part, Ordering::Release);
    }

    fn set(&self, limit: &AtomicUsize, value: usize) {
        let value = value.clamp(1, MAX);
        if limit.swap(value, Ordering::AcqRel) != value {
            self.changed.notify_one();
        }
    }

    /// The number of workers that was set.
    pub(crate) fn workers(&self) -> Option<usize> {
        Some(self.workers.load(Ordering::Acquire)).filter(|workers| *workers > 0)
    }

    /// The most workers that were set.
    pub(crate) fn max_workers(&self) -> usize {
        match self.max_workers.load(Ordering::Acquire) {
            0 => usize::MAX,
            most => most,
        }
    }

    pub(crate) fn is_part(&self) -> bool {
        self.is_part.load(Ordering::Acquire)
    }
}
