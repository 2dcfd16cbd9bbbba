//! A permit of a small file to be fetched or uploaded concurrently with others, and its share of
//! the memory budget.

use crate::copy::resources::memory_budget::MemoryBudget;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The small files that are being fetched or uploaded.
#[derive(Debug, Default)]
pub(crate) struct SmallSlots {
    taken: AtomicUsize,
    changed: Notify,
}

/// The slot of one small file, until it is dropped.
#[derive(Debug)]
pub(crate) struct SmallSlot {
    slots: Arc<SmallSlots>,
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl SmallSlots {
    /// The number of slots that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Takes a slot for a file of `bytes`.
    pub(crate) fn take(self: &Arc<Self>, budget: &Arc<MemoryBudget>, bytes: u64) -> SmallSlot {
        self.taken.fetch_add(1, Ordering::AcqRel);
        budget.hold(bytes);
        SmallSlot { slots: Arc::clone(self), budget: Arc::clone(budget), bytes }
    }

    /// Wakes those who wait for a small file to take.
    pub(crate) fn notify(&self) {
        self.changed.notify_one();
    }

    /// Completes when there may be one more small file to take.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for SmallSlot {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
        self.slots.taken.fetch_sub(1, Ordering::AcqRel);
        self.slots.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_slot_that_is_dropped_makes_room_and_wakes_the_next_file() {
        let budget = Arc::new(MemoryBudget::new(10));
        let slots = Arc::new(SmallSlots::default());
        let first = slots.take(&budget, 6);
        let second = slots.take(&budget, 6);
        assert_eq!((slots.taken(), budget.has_room()), (2, false));
        assert!(slots.changed().now_or_never().is_none());
        drop(first);
        assert_eq!((slots.taken(), budget.has_room()), (1, true));
        assert!(slots.changed().now_or_never().is_some());
        drop(second);
        assert_eq!(slots.taken(), 0);
    }
}
