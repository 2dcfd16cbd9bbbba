//! Learned sets of columns, by their positions in a tree.

use hither_core::layout::{ColumnarLayout, LearnedSet};
use std::collections::HashMap;

/// A learned set by the positions of the columns in their tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LearnedColumns {
    /// Read basket by basket; ascending.
    pub(super) steady: Vec<u32>,
    /// Read now and then; ascending.
    pub(super) now_and_then: Vec<u32>,
}

impl LearnedColumns {
    pub(super) fn contains(&self, id: usize) -> bool {
        let Ok(id) = u32::try_from(id) else { return false };
        self.steady.binary_search(&id).is_ok() || self.now_and_then.binary_search(&id).is_ok()
    }

    /// The columns of `tree` that `set` names; none if the tree has none of them.
    pub(super) fn from_names(
        set: &LearnedSet,
        layout: &impl ColumnarLayout,
        tree: usize,
    ) -> Option<Self> {
        let names = layout.columns(tree).map(|column| layout.column_name(column));
        let by_name: HashMap<&str, u32> =
            (0..).zip(names).filter_map(|(id, name)| Some((name?, id))).collect();
        let ids = |names: &[String]| {
            let mut ids: Vec<u32> =
                names.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let found = Self { steady: ids(&set.steady), now_and_then: ids(&set.now_and_then) };
        let empty = found.steady.is_empty() && found.now_and_then.is_empty();
        (!empty).then_some(found)
    }

    /// The same set by name.
    pub(super) fn to_names(&self, layout: &impl ColumnarLayout, tree: usize) -> LearnedSet {
        let first = layout.columns(tree).start;
        let names = |ids: &[u32]| {
            let names = ids.iter().filter_map(|id| layout.column_name(first + *id as usize));
            names.map(str::to_owned).collect()
        };
        LearnedSet { steady: names(&self.steady), now_and_then: names(&self.now_and_then) }
    }
}
