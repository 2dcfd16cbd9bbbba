//! A record of which replica sent which bytes of a file.

use hither_core::range;
use std::collections::BTreeMap;
use std::ops::Range;

/// Origins of the bytes of a file. Later bytes replace earlier ones.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// Ends and replicas by the start of runs. Invariant: disjoint; neighbours differ in replica.
    runs: BTreeMap<u64, (u64, usize)>,
}

impl Origins {
    /// Records that `replica` sent `range`.
    pub(super) fn record(&mut self, range: &Range<u64>, replica: usize) {
        if range.is_empty() {
            return;
        }
        self.remove(range);
        let mut whole = range.clone();
        if let Some((&start, &(end, before))) = self.runs.range(..range.start).next_back()
            && end == range.start
            && before == replica
        {
            whole.start = start;
        }
        if let Some(&(end, after)) = self.runs.get(&range.end)
            && after == replica
        {
            self.runs.remove(&range.end);
            whole.end = end;
        }
        self.runs.insert(whole.start, (whole.end, replica));
    }

    fn remove(&mut self, range: &Range<u64>) {
        let first = self.runs.range(..range.start).next_back();
        let first = first.filter(|(_, (end, _))| *end > range.start).map(|(start, _)| *start);
        let within = self.runs.range(range.clone()).map(|(start, _)| *start);
        let touched: Vec<u64> = first.into_iter().chain(within).collect();
        for start in touched {
            let Some((end, replica)) = self.runs.remove(&start) else { continue };
            for rest in range::difference(&[start..end], std::slice::from_ref(range)) {
                self.runs.insert(rest.start, (rest.end, replica));
            }
        }
    }

    /// The replicas that sent parts of `range`, each once, ascending.
    pub(super) fn of(&self, range: &Range<u64>) -> Vec<usize> {
        let first = self.runs.range(..=range.start).next_back().into_iter();
        let within = self.runs.range(range.clone());
        let all = first
            .chain(within)
            .filter(|(start, (end, _))| **start < range.end && *end > range.start);
        let mut found: Vec<usize> = all.map(|(_, (_, replica))| *replica).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_sender_of_each_byte_is_found(
            sent in prop::collection::vec((0_u64..60, 0_u64..20, 0_usize..3), 0..30),
            asked in (0_u64..60, 1_u64..30),
        ) {
            let mut origins = Origins::default();
            let mut bytes = [None; 90];
            for (start, len, replica) in sent {
                origins.record(&(start..start + len), replica);
                for at in start..start + len {
                    bytes[usize::try_from(at).unwrap()] = Some(replica);
                }
            }
            let (start, len) = asked;
            let mut expected: Vec<usize> = (start..start + len)
                .filter_map(|at| bytes[usize::try_from(at).unwrap()])
                .collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(origins.of(&(start..start + len)), expected);
            let runs: Vec<_> = origins.runs.iter().collect();
            for pair in runs.windows(2) {
                let ((_, (end, before)), (start, (_, after))) = (pair[0], pair[1]);
                prop_assert!(end < start || (end == start && before != after));
            }
        }
    }
}
