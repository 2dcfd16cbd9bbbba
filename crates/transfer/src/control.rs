//! Limits of a copy that may be changed while it runs.
//!
//! Workers beyond the limit are parked when they have finished their piece: they hold no request,
//! and their connections stay open in the pool. They continue when the limit rises.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The largest number of workers, files and writes that can be set.
const MAX: usize = 1024;

/// A handle on the limits of a running copy. A limit that is not set is chosen by the copy, within
/// its options.
#[derive(Debug, Default)]
pub struct CopyControl {
    /// 0 for not set, as in the others.
    workers: AtomicUsize,
    transfers: AtomicUsize,
    /// 0 for not set. An upper limit only: the copy may use fewer.
    max_workers: AtomicUsize,
    io_depth: AtomicUsize,
    writing: AtomicUsize,
    is_part: AtomicBool,
    pub(crate) changed: Notify,
    written: Notify,
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

    /// Sets the most files that are copied at a time, 1 to 1024.
    pub fn set_transfers(&self, files: usize) {
        self.set(&self.transfers, files);
    }

    /// Sets the most writes to local files at a time, 1 to 1024.
    pub fn set_io_depth(&self, writes: usize) {
        self.set(&self.io_depth, writes);
        self.written.notify_waiters();
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

    /// The number of files at a time that was set.
    pub(crate) fn transfers(&self) -> Option<usize> {
        Some(self.transfers.load(Ordering::Acquire)).filter(|files| *files > 0)
    }

    /// Waits until one more write may begin.
    pub(crate) async fn begin_write(&self) -> WritePermit<'_> {
        loop {
            let mut written = std::pin::pin!(self.written.notified());
            // Enabled before the number is read, so that no write that ends in between is missed.
            written.as_mut().enable();
            let most = match self.io_depth.load(Ordering::Acquire) {
                0 => usize::MAX,
                most => most,
            };
            let begin = |writing: usize| (writing < most).then(|| writing + 1);
            if self.writing.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_ok() {
                return WritePermit(self);
            }
            written.await;
        }
    }
}

/// A write that is under way.
#[derive(Debug)]
pub(crate) struct WritePermit<'a>(&'a CopyControl);

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::AcqRel);
        self.0.written.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn writes_wait_for_the_depth_and_go_on_when_it_rises() {
        let control = CopyControl::default();
        let first = control.begin_write().now_or_never().unwrap();
        let second = control.begin_write().now_or_never().unwrap();
        control.set_io_depth(2);
        let mut third = Box::pin(control.begin_write());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        let third = third.now_or_never().unwrap();
        let mut fourth = Box::pin(control.begin_write());
        assert!(fourth.as_mut().now_or_never().is_none());
        control.set_io_depth(3);
        assert!(fourth.now_or_never().is_some());
        drop((second, third));
    }
}
