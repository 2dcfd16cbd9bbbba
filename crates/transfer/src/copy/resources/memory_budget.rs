//! Limit on the memory of a job: bytes that have arrived and are not written yet.
//!
//! A sink cannot refuse bytes. So a worker asks before it lets its connection deliver more
//! ([`MemoryBudget::poll_room`]). While the budget is used up, no worker reads its socket, the
//! kernel's buffer fills up, and TCP stops the server. Each worker may exceed the limit by one or
//! two reads of its socket. Small files, hundreds of which are in flight on one connection, reserve
//! their memory before they are requested.

use hither_core::sync::lock;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit_bytes: u64,
    held_bytes: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

impl MemoryBudget {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, held_bytes: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// `bytes` have arrived.
    pub(crate) fn hold(&self, bytes: u64) {
        self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// `bytes` are written or discarded.
    pub(crate) fn release(&self, bytes: u64) {
        let before = self.held_bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before >= self.limit_bytes && before.saturating_sub(bytes) < self.limit_bytes {
            let waiting = std::mem::take(&mut *self.waiting());
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Ready when more may arrive.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        drop(waiting);
        // Memory that became free in between has woken no worker.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until more may arrive.
    pub(crate) async fn room(&self) {
        poll_fn(|context| self.poll_room(context)).await;
    }

    /// Returns true if more may arrive.
    pub(crate) fn has_room(&self) -> bool {
        self.held_bytes.load(Ordering::Acquire) < self.limit_bytes
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        lock(&self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;

    #[test]
    fn written_bytes_free_the_budget() {
        let budget = MemoryBudget::new(100);
        let mut context = Context::from_waker(noop_waker_ref());
        budget.hold(99);
        assert!(budget.poll_room(&mut context).is_ready());
        budget.hold(50);
        assert!(budget.poll_room(&mut context).is_pending());
        assert_eq!(budget.waiting().len(), 1);
        budget.release(60);
        assert!(budget.poll_room(&mut context).is_ready());
        assert!(budget.waiting().is_empty());
    }
}
