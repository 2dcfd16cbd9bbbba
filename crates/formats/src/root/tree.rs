//! Trees: their branches, and the lookup of a branch by name.

pub(crate) mod basket_map;
pub(crate) mod basket_table;
pub(crate) mod branch;
pub(crate) mod branch_members;
pub(crate) mod clusters;
pub(crate) mod leaf;
pub(crate) mod reader;
use super::codec::Decompressor;
use super::key::{Key, read_object};
use super::object::Buffer;
use crate::error::{FormatError, Result};
use crate::root::interpretation::record_type::RecordType;
use crate::root::object::streamer_info::StreamerInfos;
use crate::root::tree::branch::Branch;
use crate::root::tree::clusters::Clusters;
use crate::root::tree::reader::read_tree;
use bytes::Bytes;
use hither_core::error::suggest::Suggestion;
use std::collections::HashMap;

/// A table of entries (events) and branches (columns).
#[derive(Debug, Clone)]
pub struct Tree {
    name: String,
    title: String,
    entries: u64,
    clusters: Clusters,
    branches: Vec<Branch>,
    by_path: HashMap<String, usize>,
}

/// The parts of a decoded tree, before its branches are indexed.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) entries: u64,
    pub(super) clusters: Clusters,
    pub(super) branches: Vec<Branch>,
}

impl Tree {
    /// Reads the tree whose key and payload are `stored`, in a file of `file_end` bytes.
    pub(super) fn read(
        stored: &[u8],
        key: &Key,
        file_end: u64,
        streamers: &StreamerInfos<'_>,
    ) -> Result<Self> {
        let object = read_object(stored, &mut Decompressor::new(), "tree")?;
        let shared = Bytes::from(object.bytes);
        let buffer = Buffer { bytes: &shared, origin: object.origin, what: "tree" };
        let Parts { name, title, entries, clusters, branches } =
            read_tree(buffer, &shared, &key.class, file_end, streamers)?;
        let mut by_path = HashMap::with_capacity(branches.len());
        for (index, branch) in branches.iter().enumerate() {
            by_path.entry(branch.name().to_owned()).or_insert(index);
        }
        Ok(Self { name, title, entries, clusters, branches, by_path })
    }

    /// The tree's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tree's title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The entries after which the writer flushed all branches, as far as the tree states them.
    #[must_use]
    pub fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    /// All columns in the order of the file, and the groups of columns.
    pub fn branches(&self) -> impl Iterator<Item = &Branch> {
        self.branches.iter()
    }

    /// Returns true if `name` is the exact name of a column. [`Tree::branch`] resolves the columns
    /// of an expression in the same way.
    ///
    /// # Errors
    /// [`FormatError::Several`] if several columns have that name.
    pub fn has_branch(&self, name: &str) -> Result<bool> {
        match self.branch(name) {
            Ok(_) => Ok(true),
            Err(FormatError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Finds a column: by its path (`E33`, `event/tracks`, `branch.leaf`) or, if that is unique, by
    /// the name of the branch without its groups, or by the name of its leaf. `@name.size()` is the
    /// number of items of a split collection; for other collections, it finds the column whose
    /// outermost lists have to be counted.
    ///
    /// # Errors
    /// [`FormatError::NotFound`] with similar names, or [`FormatError::Several`];
    /// [`FormatError::Invalid`] for the size of a branch that is not a collection.
    pub fn branch(&self, name: &str) -> Result<&Branch> {
        if let Some(branch) = self.at_path(name) {
            return Ok(branch);
        }
        match name.strip_prefix('@').and_then(|name| name.strip_suffix(".size()")) {
            Some(collection) => self.first_list(collection),
            None => self.named(name),
        }
    }

    fn at_path(&self, path: &str) -> Option<&Branch> {
        self.by_path.get(path).and_then(|&index| self.branches.get(index))
    }

    /// The column that gives the sizes of the collection `name`: its count, or its first column of
    /// lists.
    fn first_list(&self, name: &str) -> Result<&Branch> {
        let branch = self.at_path(name).map_or_else(|| self.named(name), Ok)?;
        if let Some(count) = self.at_path(&format!("@{}.size()", branch.name())) {
            return Ok(count);
        }
        let column = match branch.record() {
            None => Some(branch),
            Some(record @ (RecordType::List(..) | RecordType::Map(_))) => {
                record.columns().first().and_then(|path| self.at_path(path))
            }
            Some(_) => None,
        };
        let is_list = |column: &&Branch| column.column_type().is_ok_and(|kind| kind.jagged);
        column.filter(is_list).ok_or_else(|| FormatError::Invalid {
            what: format!("`@{name}.size()`: `{name}` is not a collection"),
        })
    }

    fn named(&self, name: &str) -> Result<&Branch> {
        let with_leaf = |branch: &Branch| {
            name.strip_prefix(branch.name())
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|leaf| leaf == branch.leaf_name())
        };
        let leaf_of = |branch: &Branch| {
            let own = branch.name().strip_prefix(name);
            own.is_some_and(|rest| rest.strip_prefix('.') == Some(branch.leaf_name()))
        };
        let ways: [&dyn Fn(&Branch) -> bool; 4] =
            [&with_leaf, &|branch| branch.own_name() == name, &leaf_of, &|branch| {
                branch.leaf_name() == name
            }];
        for matches in ways {
            let found: Vec<&Branch> =
                self.branches.iter().filter(|branch| matches(branch)).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(one),
                several => {
                    let choices = several.iter().map(|branch| branch.name().to_owned()).collect();
                    return Err(FormatError::Several { kind: "branch", choices });
                }
            }
        }
        let names = self.branches.iter().map(Branch::name);
        let suggestion = Suggestion::similar_or_all(name, names);
        Err(FormatError::NotFound { kind: "branch", name: name.to_owned(), suggestion })
    }
}
