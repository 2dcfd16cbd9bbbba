//! A layout made of given baskets, of any order and size.

use hither_core::layout::{BasketRef, ColumnarLayout};
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct SyntheticLayout {
    trees: Vec<SyntheticTree>,
    columns: Vec<SyntheticColumn>,
    /// Start, column and index of each basket, sorted.
    slots: Vec<(u64, usize, usize)>,
}

#[derive(Debug)]
struct SyntheticTree {
    entries: u64,
    /// Entries in a cluster; 0 if clusters are unknown.
    cluster: u64,
    columns: Range<usize>,
}

#[derive(Debug)]
pub(super) struct SyntheticColumn {
    tree: usize,
    name: String,
    ranges: Vec<Range<u64>>,
    /// First entry of each basket, and the end of the last.
    starts: Vec<u64>,
}

impl SyntheticColumn {
    /// A column named c`id`, with baskets at `places` (offset, bytes); one at offset 0 is embedded.
    pub(super) fn new(id: usize, places: &[(u64, u32)], starts: Vec<u64>) -> Self {
        let ranges = places.iter().map(|&(at, bytes)| at..at + u64::from(bytes)).collect();
        Self { tree: 0, name: format!("c{id}"), ranges, starts }
    }
}

impl SyntheticLayout {
    pub(super) fn add(
        &mut self,
        entries: u64,
        cluster: u64,
        columns: impl IntoIterator<Item = SyntheticColumn>,
    ) {
        let tree = self.trees.len();
        let first = self.columns.len();
        self.columns.extend(columns.into_iter().map(|column| SyntheticColumn { tree, ..column }));
        let columns = first..self.columns.len();
        for column in columns.clone() {
            let ranges = self.columns[column].ranges.iter().enumerate();
            let stored = ranges.filter(|(_, range)| range.start > 0 && !range.is_empty());
            self.slots.extend(stored.map(|(index, range)| (range.start, column, index)));
        }
        self.slots.sort_unstable();
        self.trees.push(SyntheticTree { entries, cluster, columns });
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

impl ColumnarLayout for SyntheticLayout {
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
        let tree = self.trees.get(tree).filter(|tree| tree.cluster > 0 && entry < tree.entries)?;
        let start = entry / tree.cluster * tree.cluster;
        Some(start..(start + tree.cluster).min(tree.entries))
    }

    fn column_name(&self, column: usize) -> Option<&str> {
        Some(&self.columns.get(column)?.name)
    }

    fn column_bytes(&self, column: usize) -> u64 {
        let ranges = self.columns.get(column).map_or(&[][..], |column| &column.ranges);
        ranges.iter().map(|range| range.end - range.start).sum()
    }

    fn baskets(&self, column: usize) -> usize {
        self.columns.get(column).map_or(0, |column| column.ranges.len())
    }

    fn basket_range(&self, column: usize, index: usize) -> Option<Range<u64>> {
        self.columns.get(column)?.ranges.get(index).filter(|range| range.start > 0).cloned()
    }

    fn basket_entries(&self, column: usize, index: usize) -> Range<u64> {
        let starts = self.columns.get(column).map_or(&[][..], |column| &column.starts);
        starts.get(index..index + 2).map_or(0..0, |pair| pair[0]..pair[1])
    }

    fn baskets_of(&self, column: usize, entries: &Range<u64>) -> Range<usize> {
        let Some(column) = self.columns.get(column) else { return 0..0 };
        let baskets = column.ranges.len();
        if entries.is_empty() || baskets == 0 {
            return 0..0;
        }
        let first = column.starts[1..].partition_point(|end| *end <= entries.start);
        let stop = column.starts[..baskets].partition_point(|start| *start < entries.end);
        first..stop.max(first)
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = BasketRef> {
        let Range { start, end } = *range;
        let after = self.slots.partition_point(|slot| slot.0 <= start);
        let slots = self.slots[after.saturating_sub(1)..].iter();
        slots
            .take_while(move |slot| slot.0 < end)
            .map(|&(_, column, index)| BasketRef {
                tree: self.columns[column].tree,
                column,
                index,
                range: self.columns[column].ranges[index].clone(),
                entries: self.basket_entries(column, index),
            })
            .filter(move |basket| basket.range.end > start && start < end)
    }
}
