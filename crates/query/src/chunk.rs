//! A chunk of entries: the columns that an expression is evaluated on.

use hither_core::error::suggest::Suggestion;
use hither_core::{Error, ErrorKind};
use hither_formats::Column;
use std::collections::HashMap;

/// Consecutive entries of a tree: the columns of the branches that an expression names.
#[derive(Debug, Clone)]
pub struct Chunk<'a> {
    first_entry: u64,
    entries: usize,
    tree_entries: u64,
    columns: HashMap<&'a str, &'a Column>,
}

impl<'a> Chunk<'a> {
    /// A chunk of `entries` entries without columns, whose first is number `first_entry` of the
    /// tree.
    #[must_use]
    pub fn new(first_entry: u64, entries: usize) -> Self {
        let end = first_entry.saturating_add(entries as u64);
        Self { first_entry, entries, tree_entries: end, columns: HashMap::new() }
    }

    /// Sets the number of entries of the tree, which is the value of `Entries$`. The default is the
    /// end of the chunk.
    #[must_use]
    pub fn of_tree(mut self, tree_entries: u64) -> Self {
        self.tree_entries = tree_entries;
        self
    }

    /// Adds the column of the branch `name`, with as many entries as the chunk.
    #[must_use]
    pub fn with(mut self, name: &'a str, column: &'a Column) -> Self {
        self.columns.insert(name, column);
        self
    }

    /// The number of the first entry within the tree.
    #[must_use]
    pub fn first_entry(&self) -> u64 {
        self.first_entry
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Number of entries of the whole tree.
    pub(crate) fn tree_entries(&self) -> u64 {
        self.tree_entries
    }

    /// The column called `name`.
    pub(crate) fn column(&self, name: &str) -> Result<&'a Column, Error> {
        self.columns.get(name).copied().ok_or_else(|| {
            let suggestion = Suggestion::similar(name, self.columns.keys().copied());
            Error::new(ErrorKind::NotFound, format!("no branch `{name}`{suggestion}"))
        })
    }
}
