//! The slot of a running copy, whose end counts its outcome.

use crate::monitoring::copy_counters::CopyCounters;
use hither_core::error::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

/// The direction of a copy, seen from this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyDirection {
    Pull,
    Push,
}

/// A running copy. If it is dropped before [`CopySlot::finish`], it counts as cancelled.
#[derive(Debug)]
pub(crate) struct CopySlot {
    counters: Arc<CopyCounters>,
    direction: CopyDirection,
    is_counted: bool,
    _permit: OwnedSemaphorePermit,
}

impl CopySlot {
    pub(crate) fn new(
        counters: &Arc<CopyCounters>,
        direction: CopyDirection,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        counters.active.fetch_add(1, Ordering::Relaxed);
        debug!(?direction, "third-party copy begins");
        Self { counters: Arc::clone(counters), direction, is_counted: false, _permit: permit }
    }

    /// Counts the outcome: the bytes that were moved, or a failure.
    pub(crate) fn finish(mut self, outcome: &Result<u64>) {
        self.is_counted = true;
        let counters = &self.counters;
        let (files, bytes) = match self.direction {
            CopyDirection::Pull => (&counters.pulled, &counters.bytes_pulled),
            CopyDirection::Push => (&counters.pushed, &counters.bytes_pushed),
        };
        match outcome {
            Ok(moved) => {
                debug!(direction = ?self.direction, bytes = moved, "third-party copy done");
                files.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(*moved, Ordering::Relaxed);
            }
            Err(error) => {
                debug!(direction = ?self.direction, %error, "third-party copy failed");
                counters.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for CopySlot {
    fn drop(&mut self) {
        self.counters.active.fetch_sub(1, Ordering::Relaxed);
        if !self.is_counted {
            debug!(direction = ?self.direction, "third-party copy cancelled");
            self.counters.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}
