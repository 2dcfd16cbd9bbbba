//! Ranges to prefetch that have not been requested yet: hints and advice.

use crate::range;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

/// The name of a hint, for taking it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HintId(u64);

/// Wishes in the order in which they will be due. Those of the program are hints, those of the
/// advisor are not.
#[derive(Debug, Default)]
pub(crate) struct PrefetchQueue {
    /// By when they are due, then by their number.
    waiting: BTreeMap<(Duration, u64), PrefetchItem>,
    /// All ranges of hints that may not have been sent yet.
    hints: HashMap<u64, Vec<Range<u64>>>,
    next: u64,
    bytes: u64,
}

#[derive(Debug)]
struct PrefetchItem {
    /// In the order in which they were named.
    ranges: Vec<Range<u64>>,
    hint: bool,
}

/// Wishes of an advisor that are kept; older ones have been overtaken by then.
const MAX_ADVISED: usize = 256;

impl PrefetchQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of all that waits.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn count(&mut self) {
        let all = self.waiting.values().map(|wish| range::total_bytes(&wish.ranges));
        self.bytes = all.fold(0, u64::saturating_add);
    }

    /// A program says what it will read, and when.
    pub(crate) fn add_hint(&mut self, ranges: &[Range<u64>], due: Duration) -> HintId {
        let ranges: Vec<_> = ranges.iter().filter(|it| it.start < it.end).cloned().collect();
        let id = self.add(PrefetchItem { ranges: ranges.clone(), hint: true }, due);
        self.hints.insert(id, range::merged(&ranges, 0));
        HintId(id)
    }

    /// An advisor says what will be read. What it has said before is not said twice; tells whether
    /// anything was new.
    pub(crate) fn add_advice(&mut self, soon: &[Range<u64>], now: Duration) -> bool {
        let advised = || self.waiting.iter().filter(|(_, wish)| !wish.hint);
        let known: Vec<_> = advised().flat_map(|(_, wish)| wish.ranges.iter().cloned()).collect();
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

    fn add(&mut self, wish: PrefetchItem, due: Duration) -> u64 {
        self.next += 1;
        if !wish.ranges.is_empty() {
            self.waiting.insert((due, self.next), wish);
            self.count();
        }
        self.next
    }

    /// An advisor takes back what it said; what of it no hint wants.
    pub(crate) fn remove_advice(&mut self, never: &[Range<u64>]) -> Vec<Range<u64>> {
        let never = range::merged(never, 0);
        for wish in self.waiting.values_mut().filter(|wish| !wish.hint) {
            let left = wish.ranges.iter();
            wish.ranges =
                left.flat_map(|it| range::difference(std::slice::from_ref(it), &never)).collect();
        }
        self.waiting.retain(|_, wish| !wish.ranges.is_empty());
        self.count();
        self.unhinted(&never)
    }

    /// A program takes a hint back; what of it no other hint wants.
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

    /// Takes wishes from the front. `claim` says what of the ranges it took, and what it had no
    /// room for; that ends it.
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

    /// Everything that was taken has been sent.
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

    fn all(wishes: &mut PrefetchQueue) -> Vec<Range<u64>> {
        wishes.take(|ranges| (ranges.to_vec(), Vec::new()))
    }

    #[test]
    fn prefetches_are_taken_in_order_of_due_time() {
        let mut wishes = PrefetchQueue::default();
        wishes.add_hint(&[10..20], 5 * S);
        wishes.add_advice(&[50..60, 40..45], 2 * S);
        wishes.add_hint(&[0..5], S);
        assert_eq!(all(&mut wishes), [0..5, 50..60, 40..45, 10..20]);
        assert!(wishes.is_empty());
    }

    #[test]
    fn prefetches_beyond_the_memory_wait() {
        let mut wishes = PrefetchQueue::default();
        wishes.add_hint(&[0..100, 200..300], S);
        let taken = wishes.take(|_| (vec![0..60], vec![60..100, 200..300]));
        assert_eq!(taken, [0..60]);
        assert_eq!(wishes.bytes(), 140);
        assert_eq!(all(&mut wishes), [60..100, 200..300]);
    }

    #[test]
    fn a_range_is_prefetched_once() {
        let mut wishes = PrefetchQueue::default();
        assert!(wishes.add_advice(&[0..100], S));
        assert!(!wishes.add_advice(&[0..100], S));
        assert!(wishes.add_advice(&[50..150], S));
        assert_eq!(all(&mut wishes), [0..100, 100..150]);
    }

    #[test]
    fn cancelling_a_hint_keeps_the_hints_of_others() {
        let mut wishes = PrefetchQueue::default();
        let one = wishes.add_hint(&[0..100], S);
        wishes.add_hint(&[50..150], S);
        assert_eq!(wishes.cancel(one), [0..50]);
        assert_eq!(wishes.remove_advice(&[40..60]), [40..50]);
        assert_eq!(all(&mut wishes), [50..150]);
    }

    #[test]
    fn the_length_of_the_queue_is_bounded() {
        let mut wishes = PrefetchQueue::default();
        for i in 0..1000 {
            wishes.add_advice(&[i * 10..i * 10 + 1], S);
        }
        assert_eq!(all(&mut wishes).len(), MAX_ADVISED);
    }
}
