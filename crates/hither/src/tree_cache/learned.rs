//! What was learned about a tree, for the next time.

use hither_formats::root::{BasketMap, Tree};
use hither_store::LearnedSet;
use std::collections::HashMap;
use xxhash_rust::xxh64::Xxh64;

/// Columns of a tree that are read together, by their position in the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LearnedColumns {
    /// Read basket by basket; ascending.
    pub(super) steady: Vec<u32>,
    /// Read now and then; ascending.
    pub(super) now_and_then: Vec<u32>,
}

impl LearnedColumns {
    pub(super) fn holds(&self, id: usize) -> bool {
        let Ok(id) = u32::try_from(id) else { return false };
        self.steady.binary_search(&id).is_ok() || self.now_and_then.binary_search(&id).is_ok()
    }

    /// The columns of tree `tree` that `set` names; none if it has none of them.
    pub(super) fn of(set: &LearnedSet, map: &BasketMap, tree: usize) -> Option<Self> {
        let columns = map.trees().get(tree)?.columns();
        let layouts = map.columns().get(columns)?;
        let by_name: HashMap<&str, u32> =
            (0..).zip(layouts).map(|(id, layout)| (layout.name(), id)).collect();
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

    /// With names instead of positions.
    pub(super) fn named(&self, map: &BasketMap, tree: usize) -> Option<LearnedSet> {
        let layout = map.trees().get(tree)?;
        let columns = map.columns().get(layout.columns())?;
        let names = |ids: &[u32]| {
            let named = ids.iter().filter_map(|id| columns.get(*id as usize));
            named.map(|column| column.name().to_owned()).collect()
        };
        Some(LearnedSet { steady: names(&self.steady), now_and_then: names(&self.now_and_then) })
    }
}

/// A name for the schema of a tree: the same for all files of a dataset, another as soon as a branch or its type differs.
pub(crate) fn schema_hash(tree: &Tree) -> String {
    // Two seeds make 128 bits: enough that no two schemas are taken for one by chance.
    let mut halves = [Xxh64::new(0), Xxh64::new(1)];
    let mut add = |text: &str| {
        for half in &mut halves {
            half.update(&(text.len() as u64).to_le_bytes());
            half.update(text.as_bytes());
        }
    };
    add(tree.name());
    for branch in tree.branches() {
        add(branch.name());
        add(&branch.type_name());
    }
    halves.iter().map(|half| format!("{:016x}", half.digest())).collect()
}
