//! The layout of a scan: chunks, groups, and the baskets of each.

use crate::tree::scan::{GROUP_BYTES, GROUP_DECODED_BYTES};
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::FormatError;
use hither_formats::root::Tree;
use std::num::NonZeroU64;
use std::ops::Range;

/// The number of entries after which a chunk ends at the next end of a basket: enough to outweigh
/// the cost of a task, few enough that evaluation keeps up with arrival.
const CHUNK_ENTRIES: u64 = 4096;

/// The baskets of a scan.
#[derive(Debug)]
pub(crate) struct ScanLayout {
    /// Per column: position of its branch in the tree.
    pub(crate) branches: Vec<usize>,
    /// All baskets, column after column, each in order of entries.
    pub(crate) baskets: Vec<Basket>,
    /// Per column: its baskets in `baskets`.
    columns: Vec<Range<usize>>,
    /// Entries of the chunks, ascending, without holes.
    pub(crate) chunks: Vec<Range<u64>>,
    /// The baskets that are requested together.
    pub(crate) groups: Vec<Group>,
}

/// Baskets that are requested together.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Baskets, as ids. Every basket is in exactly one group.
    pub(crate) baskets: Vec<usize>,
    /// The end of the chunks that need this group and earlier ones only.
    pub(crate) chunks_end: usize,
}

/// One basket.
#[derive(Debug, Clone)]
pub(crate) struct Basket {
    pub(crate) column: usize,
    /// Number of the basket in its branch.
    pub(crate) index: usize,
    /// Its range in the file; none if it is embedded in the tree's object.
    pub(crate) range: Option<Range<u64>>,
    pub(crate) entries: Range<u64>,
}

impl ScanLayout {
    /// The layout of the `entries` of `columns`. A chunk ends after every `step_entries` entries,
    /// if that is given.
    pub(crate) fn new(
        tree: &Tree,
        columns: &[String],
        entries: Range<u64>,
        step_entries: Option<NonZeroU64>,
    ) -> Result<Self, FormatError> {
        let mut layout = Self {
            branches: Vec::new(),
            baskets: Vec::new(),
            columns: Vec::new(),
            chunks: Vec::new(),
            groups: Vec::new(),
        };
        let mut decoded_per_entry = 0.0;
        for (column, name) in columns.iter().enumerate() {
            let branch = tree.branch(name)?;
            branch.column_type()?;
            let position = tree.branches().position(|other| std::ptr::eq(other, branch));
            layout.branches.extend(position);
            let baskets = branch.baskets();
            #[expect(clippy::cast_precision_loss, reason = "an average")]
            if tree.entries() > 0 {
                decoded_per_entry += baskets.uncompressed_bytes() as f64 / tree.entries() as f64;
            }
            let first = layout.baskets.len();
            let holding = baskets.holding(&entries).map(|index| Basket {
                column,
                index,
                range: baskets.range(index),
                entries: baskets.entries(index),
            });
            // Writers leave baskets without entries behind when they are closed and reopened.
            layout.baskets.extend(holding.filter(|basket| !basket.entries.is_empty()));
            layout.columns.push(first..layout.baskets.len());
        }
        layout.make_chunks(entries);
        if let Some(step) = step_entries {
            layout.cut_chunks(step);
        }
        layout.make_groups(decoded_per_entry);
        Ok(layout)
    }

    fn make_chunks(&mut self, entries: Range<u64>) {
        let ends = self.columns.first().cloned().unwrap_or(0..0);
        let mut start = entries.start;
        for basket in &self.baskets[ends] {
            let end = basket.entries.end.min(entries.end);
            if end >= start.saturating_add(CHUNK_ENTRIES) {
                self.chunks.push(start..end);
                start = end;
            }
        }
        // Without columns there is no basket to end a chunk.
        while self.columns.is_empty() && entries.end.saturating_sub(start) > CHUNK_ENTRIES {
            self.chunks.push(start..start + CHUNK_ENTRIES);
            start += CHUNK_ENTRIES;
        }
        if start < entries.end {
            self.chunks.push(start..entries.end);
        }
    }

    /// Cuts chunks after every `step` entries, counted from the first one.
    fn cut_chunks(&mut self, step: NonZeroU64) {
        let first = self.chunks.first().map_or(0, |chunk| chunk.start);
        for mut chunk in std::mem::take(&mut self.chunks) {
            while !chunk.is_empty() {
                let done = (chunk.start - first) / step;
                let end = (done + 1).saturating_mul(step.get()).saturating_add(first);
                let cut = chunk.start..end.min(chunk.end);
                chunk.start = cut.end;
                self.chunks.push(cut);
            }
        }
    }

    fn make_groups(&mut self, decoded_per_entry: f64) {
        let mut taken = vec![false; self.baskets.len()];
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut decoded = 0.0;
        for (number, chunk) in self.chunks.clone().into_iter().enumerate() {
            for column in 0..self.columns.len() {
                for id in self.baskets_of(column, &chunk) {
                    if !std::mem::replace(&mut taken[id], true) {
                        bytes += self.baskets[id].range.as_ref().map_or(0, hither_core::range::len);
                        group.push(id);
                    }
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            {
                decoded += decoded_per_entry * (chunk.end - chunk.start) as f64;
                if bytes >= GROUP_BYTES || decoded >= GROUP_DECODED_BYTES as f64 {
                    let baskets = std::mem::take(&mut group);
                    self.groups.push(Group { baskets, chunks_end: number + 1 });
                    bytes = 0;
                    decoded = 0.0;
                }
            }
        }
        if !group.is_empty() {
            self.groups.push(Group { baskets: group, chunks_end: self.chunks.len() });
        }
    }

    /// The baskets of `column` that hold any of `entries`, as ids.
    pub(crate) fn baskets_of(&self, column: usize, entries: &Range<u64>) -> Range<usize> {
        let range = self.columns.get(column).cloned().unwrap_or(0..0);
        let baskets = &self.baskets[range.clone()];
        let from = baskets.partition_point(|basket| basket.entries.end <= entries.start);
        let to = baskets.partition_point(|basket| basket.entries.start < entries.end);
        range.start + from..range.start + to.max(from)
    }

    /// The chunks that need basket `id`.
    pub(crate) fn chunks_of(&self, id: usize) -> Range<usize> {
        let Some(basket) = self.baskets.get(id) else { return 0..0 };
        let from = self.chunks.partition_point(|chunk| chunk.end <= basket.entries.start);
        let to = self.chunks.partition_point(|chunk| chunk.start < basket.entries.end);
        from..to.max(from)
    }

    /// Returns true if basket `id` is embedded in the tree's object.
    pub(crate) fn is_embedded(&self, id: usize) -> bool {
        self.baskets.get(id).is_some_and(|basket| basket.range.is_none())
    }

    /// The compressed bytes of all baskets that have to be fetched; embedded ones came with the
    /// tree.
    pub(crate) fn remote_bytes(&self) -> u64 {
        self.baskets.iter().filter_map(|b| b.range.as_ref()).map(hither_core::range::len).sum()
    }

    /// Checks that all baskets lie within the `size` bytes of the file. This bounds every
    /// allocation for fetched bytes.
    pub(crate) fn check_within(&self, size: u64, name: &str) -> Result<()> {
        let beyond = self.baskets.iter().find_map(|b| b.range.clone().filter(|r| r.end > size));
        match beyond {
            Some(range) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{name} is truncated: a basket lies at bytes {}..{}, but the file has only {size}",
                    range.start, range.end
                ),
            )),
            None => Ok(()),
        }
    }
}
