//! Index of a file's baskets by offset, by column and by entry.
//!
//! A program that reads a tree as a plain file requests offsets. The map resolves them to a tree, a
//! branch, a basket and its entries, from which a prefetcher predicts the next requests.
//!
//! All baskets of all trees are in one list of 16 bytes each, sorted by offset: the start of a
//! basket, and its column and index. Its length and entries stay in the tables of the branches,
//! which the map shares with its trees. So a file of a million baskets takes 16 MB more than its
//! trees, and finding a basket takes 20 steps.
//!
//! If baskets overlap, which no writer produces, an offset belongs to the last basket that begins
//! before it.

use crate::root::tree::Tree;
use crate::root::tree::basket_table::BasketTable;
use crate::root::tree::clusters::Clusters;
use hither_core::layout::{BasketRef, ColumnarLayout};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of steps in the search for common ends of baskets.
const MAX_END_CHECKS: usize = 1 << 20;

/// The baskets of a file's trees, by offset and by column.
#[derive(Debug, Default)]
pub struct BasketMap {
    trees: Vec<MappedTree>,
    columns: Vec<MappedColumn>,
    /// Sorted by offset.
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    start: u64,
    column: u32,
    index: u32,
}

#[derive(Debug)]
struct MappedTree {
    entries: u64,
    columns: Range<usize>,
    /// Clusters as the tree states them, otherwise derived from common ends of baskets.
    clusters: Clusters,
}

/// A branch in the map. The leaves of a branch share their baskets and are one column here.
#[derive(Debug)]
struct MappedColumn {
    tree: usize,
    /// Path of the branch in the tree, or of its first leaf.
    name: String,
    baskets: Arc<BasketTable>,
}

impl BasketMap {
    /// Maps `trees`. Omits baskets without entries, and those inside the tree's object.
    #[must_use]
    pub fn new(trees: &[&Tree]) -> Self {
        let mut map = Self::default();
        for tree in trees {
            let columns =
                tree.branches().map(|branch| (branch.name().to_owned(), branch.shared_baskets()));
            map.append(tree.entries(), tree.clusters().clone(), columns);
        }
        map.slots.sort_unstable();
        map
    }

    /// Appends a tree: names and baskets of its branches. The caller sorts `slots` after the last
    /// tree.
    fn append(
        &mut self,
        entries: u64,
        mut clusters: Clusters,
        columns: impl IntoIterator<Item = (String, Arc<BasketTable>)>,
    ) {
        let from = self.columns.len();
        for (name, baskets) in columns {
            self.append_column(name, baskets);
        }
        let columns = from..self.columns.len();
        if clusters.is_unknown() {
            let added = self.columns.get(columns.clone()).unwrap_or_default();
            clusters = Clusters::ending_at(common_ends(added, entries), entries);
        }
        self.trees.push(MappedTree { entries, columns, clusters });
    }

    fn append_column(&mut self, name: String, baskets: Arc<BasketTable>) {
        let tree = self.trees.len();
        let last = self.columns.last();
        if last.is_some_and(|last| last.tree == tree && Arc::ptr_eq(&last.baskets, &baskets)) {
            return;
        }
        let Ok(column) = u32::try_from(self.columns.len()) else { return };
        let numbered = (0_u32..).zip(0..baskets.len());
        self.slots.extend(numbered.filter_map(|(index, basket)| {
            let range = baskets.range(basket).filter(|range| !range.is_empty())?;
            let start = range.start;
            (!baskets.entries(basket).is_empty()).then_some(Slot { start, column, index })
        }));
        self.columns.push(MappedColumn { tree, name, baskets });
    }

    fn basket_at(&self, slot: usize) -> Option<BasketRef> {
        let slot = self.slots.get(slot)?;
        let column = slot.column as usize;
        let index = slot.index as usize;
        let layout = self.columns.get(column)?;
        Some(BasketRef {
            tree: layout.tree,
            column,
            index,
            range: layout.baskets.range(index)?,
            entries: layout.baskets.entries(index),
        })
    }
}

impl ColumnarLayout for BasketMap {
    fn trees(&self) -> usize {
        self.trees.len()
    }

    fn entries(&self, tree: usize) -> u64 {
        self.trees.get(tree).map_or(0, |tree| tree.entries)
    }

    fn columns(&self, tree: usize) -> Range<usize> {
        self.trees.get(tree).map_or(0..0, |tree| tree.columns.clone())
    }

    fn cluster(&self, tree: usize, entry: u64) -> Option<Range<u64>> {
        self.trees.get(tree)?.clusters.holding(entry)
    }

    fn column_name(&self, column: usize) -> Option<&str> {
        self.columns.get(column).map(|column| column.name.as_str())
    }

    fn column_bytes(&self, column: usize) -> u64 {
        self.columns.get(column).map_or(0, |column| column.baskets.compressed_bytes())
    }

    fn baskets(&self, column: usize) -> usize {
        self.columns.get(column).map_or(0, |column| column.baskets.len())
    }

    fn basket_range(&self, column: usize, index: usize) -> Option<Range<u64>> {
        self.columns.get(column)?.baskets.range(index)
    }

    fn basket_entries(&self, column: usize, index: usize) -> Range<u64> {
        self.columns.get(column).map_or(0..0, |column| column.baskets.entries(index))
    }

    fn baskets_of(&self, column: usize, entries: &Range<u64>) -> Range<usize> {
        self.columns.get(column).map_or(0..0, |column| column.baskets.holding(entries))
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = BasketRef> {
        let Range { start, end } = *range;
        let after = self.slots.partition_point(|slot| slot.start <= start);
        (after.saturating_sub(1)..self.slots.len())
            .map_while(move |at| self.basket_at(at).filter(|basket| basket.range.start < end))
            .filter(move |basket| basket.range.end > start && start < end)
    }
}

/// Entries at which baskets of all columns end, without the end of the tree. Columns of a single
/// basket are ignored.
fn common_ends(columns: &[MappedColumn], entries: u64) -> Vec<u64> {
    let tables = columns.iter().map(|column| &*column.baskets);
    let mut several: Vec<&BasketTable> = tables.filter(|baskets| baskets.len() > 1).collect();
    several.sort_by_key(|baskets| baskets.len());
    let Some((fewest, others)) = several.split_first() else { return Vec::new() };
    if fewest.len().saturating_mul(others.len()) > MAX_END_CHECKS {
        return Vec::new();
    }
    let ends_at = |baskets: &BasketTable, end: u64| {
        let holding = baskets.holding(&(end.saturating_sub(1)..end));
        holding.last().is_some_and(|last| baskets.entries(last).end == end)
    };
    (0..fewest.len())
        .map(|index| fewest.entries(index).end)
        .filter(|end| (1..entries).contains(end))
        .filter(|end| others.iter().all(|baskets| ends_at(baskets, *end)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Column = (String, Arc<BasketTable>);

    /// A column of baskets at these ranges, with `each` entries each.
    fn column(name: &str, places: &[(u64, u32)], each: u64) -> Column {
        let starts = (0..=places.len() as u64).map(|n| n * each).collect();
        (name.to_owned(), Arc::new(BasketTable::in_file(places, starts).unwrap()))
    }

    fn map(trees: impl IntoIterator<Item = (u64, Vec<Column>)>) -> BasketMap {
        let mut map = BasketMap::default();
        for (entries, columns) in trees {
            map.append(entries, Clusters::default(), columns);
        }
        map.slots.sort_unstable();
        map
    }

    fn two_trees() -> BasketMap {
        let first = vec![column("a", &[(100, 10), (200, 10)], 10), column("b", &[(110, 20)], 20)];
        map([(20, first), (5, vec![column("a", &[(150, 50)], 5)])])
    }

    fn at(map: &BasketMap, offset: u64) -> Option<BasketRef> {
        map.overlapping(&(offset..offset + 1)).next()
    }

    #[test]
    fn a_basket_is_found_by_offset() {
        let map = two_trees();
        assert_eq!((map.slots.len(), map.trees(), map.columns(1)), (4, 2, 2..3));
        let found = at(&map, 129).unwrap();
        assert_eq!((found.tree, found.column, found.index, found.entries), (0, 1, 0, 0..20));
        assert_eq!(at(&map, 99), None);
        assert_eq!(at(&map, 130), None, "between two baskets");
        assert_eq!(at(&map, 199).unwrap().tree, 1);
        assert_eq!(at(&map, 209).unwrap().entries, 10..20);
        assert_eq!(at(&map, 210), None);
    }

    #[test]
    fn all_baskets_that_overlap_a_range_are_found() {
        let map = two_trees();
        let touched = |range: Range<u64>| {
            map.overlapping(&range).map(|found| found.range.start).collect::<Vec<_>>()
        };
        assert_eq!(touched(105..151), [100, 110, 150]);
        assert_eq!(touched(130..150), [0_u64; 0]);
        assert_eq!(touched(0..u64::MAX), [100, 110, 150, 200]);
        assert_eq!(touched(200..200), [0_u64; 0]);
    }

    #[test]
    fn baskets_are_found_by_entry_and_column() {
        let map = two_trees();
        assert_eq!(map.baskets_of(0, &(9..11)), 0..2);
        assert_eq!(map.baskets_of(7, &(9..11)), 0..0);
        assert_eq!(map.basket_range(0, 1), Some(200..210));
        assert_eq!(map.basket_range(0, 2), None);
        assert_eq!(map.basket_range(9, 0), None);
    }

    #[test]
    fn basket_ends_common_to_all_columns_are_cluster_ends() {
        let a = column("a", &[(1, 1), (2, 1), (3, 1), (4, 1)], 10);
        let b = column("b", &[(5, 1), (6, 1)], 20);
        let once = column("c", &[(7, 1)], 40);
        let shared = map([(40, vec![a, b, once])]);
        assert_eq!(shared.cluster(0, 5), Some(0..20));
        assert_eq!(shared.cluster(0, 39), Some(20..40));
        let a = column("a", &[(1, 1), (2, 1), (3, 1)], 7);
        let b = column("b", &[(5, 1), (6, 1)], 10);
        assert_eq!(map([(21, vec![a, b])]).cluster(0, 5), None);
    }

    #[test]
    fn leaves_in_the_same_baskets_are_one_column() {
        let (name, baskets) = column("event.run", &[(1, 1)], 10);
        let leaves = vec![(name, Arc::clone(&baskets)), ("event.lumi".to_owned(), baskets)];
        let map = map([(10, leaves)]);
        assert_eq!(map.columns(0), 0..1);
        assert_eq!(map.column_name(0), Some("event.run"));
    }

    proptest! {
        #[test]
        fn a_basket_found_at_an_offset_contains_it(
            places in prop::collection::vec((1_u64..2000, 0_u32..300), 0..60),
            offset in 0_u64..2400,
        ) {
            let map = map([(1000, vec![column("a", &places, 3)])]);
            let byte = offset..offset + 1;
            let mut found = map.overlapping(&byte);
            prop_assert!(found.all(|basket| basket.range.contains(&offset)));
        }
    }
}
