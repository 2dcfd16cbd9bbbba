//! The prefetch queue: hints of the program and advice of the prefetcher that have not been
//! requested yet.

use hither_core::range;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

/// The identity of a hint, to cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HintId(u64);

/// Ranges to prefetch, in the order in which they are due.
#[derive(Debug, Default)]
pub(crate) struct PrefetchQueue {
    /// Items by due time, then by number.
    waiting: BTreeMap<(Duration, u64), PrefetchItem>,
    /// All ranges of hints that may not have been sent yet.
    hints: HashMap<u64, Vec<Range<u64>>>,
    next: u64,
    bytes: u64,
}

#[derive(Debug)]
struct PrefetchItem {
    /// Ranges in the order of the hint or the advice.
    ranges: Vec<Range<u64>>,
    /// True for a hint, false for advice.
    hint: bool,
}

/// Maximum number of items from the prefetcher; the oldest is dropped, since it is obsolete by
/// then.
const MAX_ADVISED: usize = 256;

impl PrefetchQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of all items.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn count(&mut self) {
        let all = self.waiting.values().map(|item| range::total_bytes(&item.ranges));
        self.bytes = all.fold(0, u64::saturating_add);
    }

    /// Adds a hint: ranges that the program will read, and when.
    pub(crate) fn add_hint(&mut self, ranges: &[Range<u64>], due: Duration) -> HintId {
        let ranges: Vec<_> = ranges.iter().filter(|it| it.start < it.end).cloned().collect();
        let id = self.add(PrefetchItem { ranges: ranges.clone(), hint: true }, due);
        self.hints.insert(id, range::merged(&ranges, 0));
        HintId(id)
    }

    /// Adds ranges that the prefetcher expects to be read, except those in the queue. Returns true
    /// if anything was added.
    pub(crate) fn add_advice(&mut self, soon: &[Range<u64>], now: Duration) -> bool {
        let advised = || self.waiting.iter().filter(|(_, item)| !item.hint);
        let known: Vec<_> = advised().flat_map(|(_, item)| item.ranges.iter().cloned()).collect();
        let known = range::merged(&known, 0);
        let new = soon.iter().filter(|it| it.start < it.end);
        let ranges: Vec<_> =
            new.flat_map(|it| range::difference(std::slice::from_ref(it), &known)).collect();
        if ranges.is_empty() {
            return false;
        }
        let oldest =
            advised().next().map(|(key, _)| *key).filter(|_| advised().count() >= MAX_ADVISED);
        if let Some(oldest) = oldest {
            self.waiting.remove(&oldest);
        }
        self.add(PrefetchItem { ranges, hint: false }, now);
        true
    }

    fn add(&mut self, item: PrefetchItem, due: Duration) -> u64 {
        self.next += 1;
        if !item.ranges.is_empty() {
            self.waiting.insert((due, self.next), item);
            self.count();
        }
        self.next
    }

    /// Removes ranges that the prefetcher no longer expects. Returns those that are in no hint.
    pub(crate) fn remove_advice(&mut self, never: &[Range<u64>]) -> Vec<Range<u64>> {
        let never = range::merged(never, 0);
        for item in self.waiting.values_mut().filter(|item| !item.hint) {
            let left = item.ranges.iter();
            item.ranges =
                left.flat_map(|it| range::difference(std::slice::from_ref(it), &never)).collect();
        }
        self.waiting.retain(|_, item| !item.ranges.is_empty());
        self.count();
        self.unhinted(&never)
    }

    /// Cancels a hint. Returns the ranges that are in no other hint.
    pub(crate) fn cancel(&mut self, id: HintId) -> Vec<Range<u64>> {
        self.waiting.retain(|(_, it), _| *it != id.0);
        self.count();
        let ranges = self.hints.remove(&id.0).unwrap_or_default();
        self.unhinted(&ranges)
    }

    fn unhinted(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        if self.hints.is_empty() {
            return ranges.to_vec();
        }
        let hinted: Vec<_> = self.hints.values().flatten().cloned().collect();
        range::difference(ranges, &range::merged(&hinted, 0))
    }

    /// Takes items from the front. `claim` returns the ranges that it took, and those for which
    /// there was no memory; the latter end the loop.
    pub(crate) fn take(
        &mut self,
        mut claim: impl FnMut(&[Range<u64>]) -> (Vec<Range<u64>>, Vec<Range<u64>>),
    ) -> Vec<Range<u64>> {
        let mut taken = Vec::new();
        while let Some(mut first) = self.waiting.first_entry() {
            let (claimed, later) = claim(&first.get().ranges);
            taken.extend(claimed);
            if !later.is_empty() {
                first.get_mut().ranges = later;
                break;
            }
            first.remove();
        }
        self.count();
        taken
    }

    /// Records that all ranges taken have been requested.
    pub(crate) fn all_sent(&mut self) {
        let waiting: Vec<_> = self.waiting.keys().map(|(_, id)| *id).collect();
        self.hints.retain(|id, _| waiting.contains(id));
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.hints.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn all(queue: &mut PrefetchQueue) -> Vec<Range<u64>> {
        queue.take(|ranges| (ranges.to_vec(), Vec::new()))
    }

    #[test]
    fn prefetches_are_taken_in_order_of_due_time() {
        let mut queue = PrefetchQueue::default();
        queue.add_hint(&[10..20], 5 * S);
        queue.add_advice(&[50..60, 40..45], 2 * S);
        queue.add_hint(&[0..5], S);
        assert_eq!(all(&mut queue), [0..5, 50..60, 40..45, 10..20]);
        assert!(queue.is_empty());
    }

    #[test]
    fn prefetches_beyond_the_memory_wait() {
        let mut queue = PrefetchQueue::default();
        queue.add_hint(&[0..100, 200..300], S);
        let taken = queue.take(|_| (vec![0..60], vec![60..100, 200..300]));
        assert_eq!(taken, [0..60]);
        assert_eq!(queue.bytes(), 140);
        assert_eq!(all(&mut queue), [60..100, 200..300]);
    }

    #[test]
    fn a_range_is_prefetched_once() {
        let mut queue = PrefetchQueue::default();
        assert!(queue.add_advice(&[0..100], S));
        assert!(!queue.add_advice(&[0..100], S));
        assert!(queue.add_advice(&[50..150], S));
        assert_eq!(all(&mut queue), [0..100, 100..150]);
    }

    #[test]
    fn cancelling_a_hint_keeps_the_hints_of_others() {
        let mut queue = PrefetchQueue::default();
        let one = queue.add_hint(&[0..100], S);
        queue.add_hint(&[50..150], S);
        assert_eq!(queue.cancel(one), [0..50]);
        assert_eq!(queue.remove_advice(&[40..60]), [40..50]);
        assert_eq!(all(&mut queue), [50..150]);
    }

    #[test]
    fn the_length_of_the_queue_is_bounded() {
        let mut queue = PrefetchQueue::default();
        for i in 0..1000 {
            queue.add_advice(&[i * 10..i * 10 + 1], S);
        }
        assert_eq!(all(&mut queue).len(), MAX_ADVISED);
    }
}
