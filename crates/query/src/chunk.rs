//! The entries on which an expression is evaluated.

use crate::suggestion::suggestion;
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
    /// A chunk of `entries` entries from number `first_entry` of the tree on, without columns.
    #[must_use]
    pub fn new(first_entry: u64, entries: usize) -> Self {
        let end = first_entry.saturating_add(entries as u64);
        Self { first_entry, entries, tree_entries: end, columns: HashMap::new() }
    }

    /// Sets the number of entries of the whole tree, the value of `Entries$`. Without this, it is
    /// the end of the chunk.
    #[must_use]
    pub fn of_tree(mut self, tree_entries: u64) -> Self {
        self.tree_entries = tree_entries;
        self
    }

    /// Adds the column of the branch `name`. It must have as many entries as the chunk.
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

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The number of entries of the whole tree.
    pub(crate) fn tree_entries(&self) -> u64 {
        self.tree_entries
    }

    /// The column called `name`.
    pub(crate) fn column(&self, name: &str) -> Result<&'a Column, Error> {
        self.columns.get(name).copied().ok_or_else(|| {
            let near = suggestion(name, self.columns.keys().copied());
            Error::new(ErrorKind::NotFound, format!("there is no branch `{name}`{near}"))
        })
    }
}
