//! Layout of a file of trees, as prefetching needs it: columns, and the byte ranges and entries of
//! their baskets.
//!
//! A basket (ROOT's term) is a compressed run of consecutive entries of one column; the page of a
//! column chunk in Parquet is the same. The trait gives the positions of baskets and not their
//! encoding, so that a prefetcher of columns works for any columnar format.

mod learned_set;

pub use learned_set::{LearnedSet, is_plausible_name};
use std::fmt::Debug;
use std::ops::Range;

/// A basket of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasketRef {
    /// Position of the tree in the layout.
    pub tree: usize,
    /// Position of the column in the layout.
    pub column: usize,
    /// Index of the basket in its column.
    pub index: usize,
    /// Its bytes in the file.
    pub range: Range<u64>,
    /// The entries that it holds.
    pub entries: Range<u64>,
}

/// Trees of a file, their columns, and the baskets of each by index, by entry and by offset.
///
/// Columns are numbered over all trees. The columns of a tree are consecutive, and neighbours in
/// the tree have neighbouring numbers. For positions out of range methods return nothing; they
/// never panic. Every method is called on the path of a read, so none may allocate.
pub trait ColumnarLayout: Debug + Send + Sync {
    /// Number of trees.
    fn trees(&self) -> usize;

    /// Number of entries of a tree.
    fn entries(&self, tree: usize) -> u64;

    /// The columns of a tree.
    fn columns(&self, tree: usize) -> Range<usize>;

    /// The entries of the cluster that holds `entry`: a run after which the writer ended the
    /// baskets of all columns. None if clusters are unknown.
    fn cluster(&self, tree: usize, entry: u64) -> Option<Range<u64>>;

    /// Name of a column, unique in its tree.
    fn column_name(&self, column: usize) -> Option<&str>;

    /// Bytes of all baskets of a column, as stored.
    fn column_bytes(&self, column: usize) -> u64;

    /// Number of baskets of a column.
    fn baskets(&self, column: usize) -> usize;

    /// Bytes of a basket in the file; none if it is stored elsewhere or does not exist.
    fn basket_range(&self, column: usize, index: usize) -> Option<Range<u64>>;

    /// Entries of a basket; empty if it does not exist.
    fn basket_entries(&self, column: usize, index: usize) -> Range<u64>;

    /// The baskets of a column that hold any of `entries`.
    fn baskets_of(&self, column: usize, entries: &Range<u64>) -> Range<usize>;

    /// The baskets that any byte of `range` belongs to, by offset.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = BasketRef>;
}
