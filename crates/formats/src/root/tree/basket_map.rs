//! Which basket the bytes at an offset belong to.
//!
//! A program that reads a tree through the byte interface asks for offsets. The map turns them back into what the
//! program is after: a tree, a branch, a basket and its entries, so that somebody can guess what it will ask for next.
//!
//! All baskets of all trees are in one list, sorted by offset, of 16 bytes each: where a basket begins, and which it is.
//! How long it is and which entries it holds stays in the tables of the branches, which the map shares with the trees it
//! was made from. A file of a million baskets thus costs 16 MB beyond what its trees take anyway, and finding a basket 20
//! steps.
//!
//! Where baskets overlap, which no writer does, an offset belongs to the one that begins last before it.

use crate::root::tree::Tree;
use crate::root::tree::basket_table::BasketTable;
use crate::root::tree::clusters::Clusters;
use std::ops::Range;
use std::sync::Arc;

/// Common borders of baskets are looked for with so many steps at most.
const MAX_BORDER_CHECKS: usize = 1 << 20;

/// The baskets of a file's trees, by offset and by column.
#[derive(Debug, Default)]
pub struct BasketMap {
    trees: Vec<MappedTree>,
    columns: Vec<MappedColumn>,
    /// By offset.
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    start: u64,
    column: u32,
    index: u32,
}

/// A tree in the map.
#[derive(Debug)]
pub struct MappedTree {
    name: String,
    entries: u64,
    columns: Range<usize>,
    clusters: Clusters,
}

/// A branch in the map. The leaves of a branch have their baskets in common and are one column here.
#[derive(Debug)]
pub struct MappedColumn {
    tree: usize,
    name: String,
    baskets: Arc<BasketTable>,
}

/// A basket in the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasketRef {
    /// Position of the tree among those that the map was made from.
    pub tree: usize,
    /// Position of the column in the map.
    pub column: usize,
    /// Number of the basket in its branch.
    pub index: usize,
    /// Where it is in the file, in bytes.
    pub range: Range<u64>,
    /// The entries that it holds.
    pub entries: Range<u64>,
}

impl BasketMap {
    /// The map of `trees`. Baskets without entries, and those inside the tree's object, are left out.
    #[must_use]
    pub fn new(trees: &[&Tree]) -> Self {
        let mut map = Self::default();
        for tree in trees {
            let columns =
                tree.branches().map(|branch| (branch.name().to_owned(), branch.shared_baskets()));
            map.append(tree.name(), tree.entries(), tree.clusters().clone(), columns);
        }
        map.slots.sort_unstable();
        map
    }

    /// Adds a tree: its branches' names and baskets. Where its clusters are unknown, they are derived from borders that the
    /// baskets of all branches have in common.
    pub fn add(
        &mut self,
        name: &str,
        entries: u64,
        clusters: Clusters,
        columns: impl IntoIterator<Item = (String, Arc<BasketTable>)>,
    ) {
        self.append(name, entries, clusters, columns);
        self.slots.sort_unstable();
    }

    fn append(
        &mut self,
        name: &str,
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
        self.trees.push(MappedTree { name: name.to_owned(), entries, columns, clusters });
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

    /// The trees, in the order in which they were given.
    #[must_use]
    pub fn trees(&self) -> &[MappedTree] {
        &self.trees
    }

    /// The columns of all trees, one tree after the other.
    #[must_use]
    pub fn columns(&self) -> &[MappedColumn] {
        &self.columns
    }

    /// Number of baskets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The basket that the byte at `offset` belongs to.
    #[must_use]
    pub fn locate(&self, offset: u64) -> Option<BasketRef> {
        let after = self.slots.partition_point(|slot| slot.start <= offset);
        let found = self.at(after.checked_sub(1)?)?;
        (offset < found.range.end).then_some(found)
    }

    /// The baskets that any byte of `range` belongs to, by offset.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = BasketRef> {
        let (start, end) = (range.start, range.end);
        let after = self.slots.partition_point(|slot| slot.start <= start);
        (after.saturating_sub(1)..self.slots.len())
            .map_while(move |at| self.at(at).filter(|basket| basket.range.start < end))
            .filter(move |basket| basket.range.end > start && start < end)
    }

    /// Basket `index` of a column.
    #[must_use]
    pub fn basket(&self, column: usize, index: usize) -> Option<BasketRef> {
        let layout = self.columns.get(column)?;
        Some(BasketRef {
            tree: layout.tree,
            column,
            index,
            range: layout.baskets.range(index)?,
            entries: layout.baskets.entries(index),
        })
    }

    /// The baskets of a column that hold `entries`.
    #[must_use]
    pub fn baskets_of(&self, column: usize, entries: &Range<u64>) -> Range<usize> {
        self.columns.get(column).map_or(0..0, |layout| layout.baskets.holding(entries))
    }

    fn at(&self, slot: usize) -> Option<BasketRef> {
        let slot = self.slots.get(slot)?;
        self.basket(slot.column as usize, slot.index as usize)
    }
}

impl MappedTree {
    /// The tree's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Positions of its columns in the map.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// Its clusters, as the tree states them or as the borders show that the baskets of all branches have in common.
    #[must_use]
    pub fn clusters(&self) -> &Clusters {
        &self.clusters
    }
}

impl MappedColumn {
    /// Position of its tree in the map.
    #[must_use]
    pub fn tree(&self) -> usize {
        self.tree
    }

    /// Path in the tree of the branch, or of its first leaf.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its data are.
    #[must_use]
    pub fn baskets(&self) -> &BasketTable {
        &self.baskets
    }
}

/// Entries at which baskets of all columns end, the end of the tree excepted. Columns of a single basket have no say.
fn common_ends(columns: &[MappedColumn], entries: u64) -> Vec<u64> {
    let mut several: Vec<&BasketTable> =
        columns.iter().map(MappedColumn::baskets).filter(|baskets| baskets.len() > 1).collect();
    several.sort_by_key(|baskets| baskets.len());
    let Some((fewest, others)) = several.split_first() else { return Vec::new() };
    if fewest.len().saturating_mul(others.len()) > MAX_BORDER_CHECKS {
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

    /// A column of baskets at these places, of so many entries each.
    fn column(name: &str, places: &[(u64, u32)], each: u64) -> (String, Arc<BasketTable>) {
        let starts = (0..=places.len() as u64).map(|n| n * each).collect();
        (name.to_owned(), Arc::new(BasketTable::in_file(places, starts).unwrap()))
    }

    fn two_trees() -> BasketMap {
        let mut map = BasketMap::default();
        let columns = [column("a", &[(100, 10), (200, 10)], 10), column("b", &[(110, 20)], 20)];
        map.add("T", 20, Clusters::default(), columns);
        map.add("U", 5, Clusters::default(), [column("a", &[(150, 50)], 5)]);
        map
    }

    #[test]
    fn bytes_are_found_by_offset() {
        let map = two_trees();
        assert_eq!((map.len(), map.trees().len(), map.columns().len()), (4, 2, 3));
        let found = map.locate(129).unwrap();
        assert_eq!((found.tree, found.column, found.index, found.entries), (0, 1, 0, 0..20));
        assert_eq!(map.locate(99), None);
        assert_eq!(map.locate(130), None, "between two baskets");
        assert_eq!(map.locate(199).unwrap().tree, 1);
        assert_eq!(map.locate(209).unwrap().entries, 10..20);
        assert_eq!(map.locate(210), None);
    }

    #[test]
    fn a_range_finds_all_that_it_touches() {
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
    fn entries_find_baskets_by_column() {
        let map = two_trees();
        assert_eq!(map.baskets_of(0, &(9..11)), 0..2);
        assert_eq!(map.baskets_of(7, &(9..11)), 0..0);
        assert_eq!(map.basket(0, 1).unwrap().range, 200..210);
        assert_eq!(map.basket(0, 2), None);
        assert_eq!(map.basket(9, 0), None);
    }

    #[test]
    fn borders_that_all_baskets_share_are_clusters() {
        let mut map = BasketMap::default();
        let a = column("a", &[(1, 1), (2, 1), (3, 1), (4, 1)], 10);
        let b = column("b", &[(5, 1), (6, 1)], 20);
        let once = column("c", &[(7, 1)], 40);
        map.add("T", 40, Clusters::default(), [a, b, once]);
        assert_eq!(map.trees()[0].clusters().holding(5), Some(0..20));
        assert_eq!(map.trees()[0].clusters().holding(39), Some(20..40));
        let mut odd = BasketMap::default();
        let a = column("a", &[(1, 1), (2, 1), (3, 1)], 7);
        let b = column("b", &[(5, 1), (6, 1)], 10);
        odd.add("T", 21, Clusters::default(), [a, b]);
        assert!(odd.trees()[0].clusters().is_unknown());
    }

    #[test]
    fn baskets_shared_by_leaves_are_one_column() {
        let (name, baskets) = column("event.run", &[(1, 1)], 10);
        let mut map = BasketMap::default();
        let leaves = [(name, Arc::clone(&baskets)), ("event.lumi".to_owned(), baskets)];
        map.add("T", 10, Clusters::default(), leaves);
        assert_eq!(map.columns().len(), 1);
        assert_eq!(map.columns()[0].name(), "event.run");
    }

    proptest! {
        #[test]
        fn whatever_overlaps_it_answers(
            places in prop::collection::vec((1_u64..2000, 0_u32..300), 0..60),
            offset in 0_u64..2400,
        ) {
            let mut map = BasketMap::default();
            map.add("T", 1000, Clusters::default(), [column("a", &places, 3)]);
            let holds = |range: &Range<u64>| range.contains(&offset);
            if let Some(found) = map.locate(offset) {
                prop_assert!(holds(&found.range));
            }
            let all: Vec<_> = map.overlapping(&(offset..offset + 1)).collect();
            prop_assert!(all.iter().all(|found| holds(&found.range)));
        }
    }
}
