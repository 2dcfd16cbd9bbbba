//! The slots of running copies, which clients share, and the slot of one, whose end counts its
//! outcome.
//!
//! A client that gets no slot may come back after [`RETRY_AFTER`], and counts as waiting for some
//! time. While clients wait, the others get no slots beyond their share: all slots divided by
//! the clients that have some or wait. The last free slot is for a client that has none, so that it
//! need not wait for the end of another client's long copy.

use crate::monitoring::copy_counters::CopyCounters;
use hither_core::error::Result;
use hither_core::sync::lock;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;

/// The time after which a client that got no slot may try again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The time for which that client counts as waiting.
const WAITING: Duration = Duration::from_secs(30);
/// The maximum number of clients that are known at a time.
const MAX_CLIENTS: usize = 1024;

/// The slots of a server.
#[derive(Debug)]
pub(crate) struct CopySlots {
    count: usize,
    clients: Mutex<HashMap<String, SlotUse>>,
}

/// The slots of one client.
#[derive(Debug, Default)]
struct SlotUse {
    held: usize,
    refused: Option<Instant>,
}

impl SlotUse {
    fn is_waiting(&self) -> bool {
        self.refused.is_some_and(|refused| refused.elapsed() < WAITING)
    }
}

/// A slot that a client holds until this is dropped.
#[derive(Debug)]
pub(crate) struct SlotPermit {
    slots: Arc<CopySlots>,
    client: String,
}

impl CopySlots {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, clients: Mutex::default() }
    }

    /// Takes a slot for a client; none if all are in use, or others wait for those that are not.
    pub(crate) fn take(self: &Arc<Self>, client: &str) -> Option<SlotPermit> {
        let mut clients = lock(&self.clients);
        clients.retain(|_, slots| slots.held > 0 || slots.is_waiting());
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(client) {
            return None;
        }
        let free = self.count.saturating_sub(clients.values().map(|slots| slots.held).sum());
        clients.entry(client.to_owned()).or_default();
        let do_others_wait =
            clients.iter().any(|(name, slots)| name != client && slots.is_waiting());
        let share = self.count.div_ceil(clients.len());
        let slots = clients.get_mut(client)?;
        let may_take = match slots.held {
            0 => free > 0,
            held => free > 1 && (held < share || !do_others_wait),
        };
        slots.refused = (!may_take).then(Instant::now);
        slots.held += usize::from(may_take);
        let permit = || SlotPermit { slots: Arc::clone(self), client: client.to_owned() };
        may_take.then(permit)
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        if let Some(slots) = lock(&self.slots.clients).get_mut(&self.client) {
            slots.held -= 1;
        }
    }
}

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
    _permit: SlotPermit,
}

impl CopySlot {
    pub(crate) fn new(
        counters: &Arc<CopyCounters>,
        direction: CopyDirection,
        permit: SlotPermit,
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    /// Takes slots as long as there are some.
    fn take_all(slots: &Arc<CopySlots>, client: &str) -> Vec<SlotPermit> {
        std::iter::from_fn(|| slots.take(client)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_wait_get_their_share_of_the_slots() {
        let slots = Arc::new(CopySlots::new(16));
        let mut alice = take_all(&slots, "alice");
        assert_eq!(alice.len(), 15, "the last one is for a client that has none");
        let mut bob = take_all(&slots, "bob");
        assert_eq!(bob.len(), 1);
        // Whenever a copy of hers ends, Bob gets its slot until both have as many.
        while alice.pop().is_some() && alice.len() >= 8 {
            assert!(slots.take("alice").is_none(), "{} while Bob waits", alice.len());
            bob.extend(take_all(&slots, "bob"));
        }
        assert_eq!((alice.len(), bob.len()), (7, 7));
        drop(bob);
        advance(WAITING).await;
        assert_eq!(take_all(&slots, "alice").len(), 8, "nobody waits any more");
    }

    #[test]
    fn a_single_slot_is_for_anybody() {
        let slots = Arc::new(CopySlots::new(1));
        let held = slots.take("alice").unwrap();
        assert!(slots.take("bob").is_none());
        drop(held);
        assert!(slots.take("alice").is_some());
    }

    #[test]
    fn clients_that_are_refused_take_a_bounded_amount_of_memory() {
        let slots = Arc::new(CopySlots::new(1));
        let _held = slots.take("alice").unwrap();
        for n in 0..2 * MAX_CLIENTS {
            assert!(slots.take(&n.to_string()).is_none());
        }
        assert_eq!(lock(&slots.clients).len(), MAX_CLIENTS);
    }
}
