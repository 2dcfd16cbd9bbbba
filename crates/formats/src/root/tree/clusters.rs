//! Clusters: runs of entries after which a writer has flushed the baskets of all branches.

use crate::root::object::class_members::Field;
use std::ops::Range;

/// The clusters of a tree.
///
/// `TTree` stores them as ranges of entries with clusters of one size each, and the size of the
/// clusters after the last range, which is `fAutoFlush`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clusters {
    /// Ends of the ranges, ascending, and the size of the clusters in each; size 0 means one
    /// cluster.
    stretches: Vec<(u64, u64)>,
    /// Size of the clusters after them; 0 if unknown.
    size: u64,
    entries: u64,
}

/// The members of a tree that describe its clusters.
#[derive(Debug, Default)]
pub(crate) struct RawClusters {
    last_entries: Vec<u64>,
    sizes: Vec<u64>,
    auto_flush: u64,
}

impl RawClusters {
    pub(crate) fn set(&mut self, member: &str, field: Field<'_>) {
        let numbers = |field: Field<'_>| match field {
            Field::Array { size: 8, bytes } => {
                let (chunks, _) = bytes.as_chunks::<8>();
                chunks.iter().map(|chunk| u64::from_be_bytes(*chunk)).collect()
            }
            _ => Vec::new(),
        };
        match member {
            "fClusterRangeEnd" => self.last_entries = numbers(field),
            "fClusterSize" => self.sizes = numbers(field),
            // Negative numbers are bytes; the writer replaces them by entries at the first flush.
            "fAutoFlush" => self.auto_flush = field.unsigned(),
            _ => {}
        }
    }
}

impl Clusters {
    /// The clusters of a tree of `entries`; unknown if the members contradict each other.
    pub(crate) fn new(raw: &RawClusters, entries: u64) -> Self {
        let ends = raw.last_entries.iter().map(|last| last.saturating_add(1).min(entries));
        let stretches: Vec<_> = ends.zip(raw.sizes.iter().copied()).collect();
        let ascending = stretches.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        if !ascending {
            return Self { entries, ..Self::default() };
        }
        Self { stretches, size: raw.auto_flush, entries }
    }

    /// Clusters that end at `ends`, ascending, and at the end of the tree of `entries`.
    pub(crate) fn ending_at(ends: Vec<u64>, entries: u64) -> Self {
        let mut stretches: Vec<_> = ends.into_iter().map(|end| (end, 0)).collect();
        if !stretches.is_empty() {
            stretches.push((entries, 0));
        }
        Self { stretches, size: 0, entries }
    }

    /// Clusters of `size` entries each, in a tree of `entries`; a size of 0 means unknown.
    #[must_use]
    pub fn of_size(size: u64, entries: u64) -> Self {
        Self { stretches: Vec::new(), size, entries }
    }

    /// Returns true if the clusters are unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.stretches.is_empty() && self.size == 0
    }

    /// The entries of the cluster that contains `entry`; `None` if unknown.
    #[must_use]
    pub fn holding(&self, entry: u64) -> Option<Range<u64>> {
        if entry >= self.entries {
            return None;
        }
        let at = self.stretches.partition_point(|(end, _)| *end <= entry);
        let from = at.checked_sub(1).and_then(|before| self.stretches.get(before));
        let from = from.map_or(0, |(end, _)| *end);
        let (to, size) = match self.stretches.get(at) {
            Some(&(end, 0)) => return Some(from..end),
            Some(&stretch) => stretch,
            None if self.size == 0 => return None,
            None => (self.entries, self.size),
        };
        let start = from + (entry - from) / size * size;
        Some(start..start.saturating_add(size).min(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(last: &[u64], sizes: &[u64], auto_flush: u64, entries: u64) -> Clusters {
        let raw = RawClusters { last_entries: last.to_vec(), sizes: sizes.to_vec(), auto_flush };
        Clusters::new(&raw, entries)
    }

    #[test]
    fn clusters_of_one_size_are_found() {
        let found = clusters(&[], &[], 100, 250);
        assert_eq!(found.holding(0), Some(0..100));
        assert_eq!(found.holding(199), Some(100..200));
        assert_eq!(found.holding(249), Some(200..250), "the last is cut short");
        assert_eq!(found.holding(250), None);
    }

    #[test]
    fn cluster_sizes_can_change_within_a_tree() {
        let found = clusters(&[99, 199], &[30, 0], 40, 300);
        assert_eq!(found.holding(95), Some(90..100));
        assert_eq!(found.holding(100), Some(100..200), "size 0 is one cluster");
        assert_eq!(found.holding(245), Some(240..280));
    }

    #[test]
    fn contradictory_clusters_are_unknown() {
        assert!(clusters(&[199, 99], &[10, 10], 40, 300).is_unknown());
        assert_eq!(clusters(&[], &[], 0, 300).holding(5), None);
        assert_eq!(clusters(&[u64::MAX], &[u64::MAX], 0, 300).holding(5), Some(0..300));
    }

    #[test]
    fn cluster_borders_make_clusters() {
        let found = Clusters::ending_at(vec![10, 30], 50);
        assert_eq!(found.holding(9), Some(0..10));
        assert_eq!(found.holding(30), Some(30..50));
        assert!(Clusters::ending_at(Vec::new(), 50).is_unknown());
    }
}
