//! Columns that programs read together, learned in one run for the next.

use crate::prefetch::layout::ColumnarLayout;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Maximum number of names in a set.
const MAX_NAMES: usize = 20_000;
/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// Branches of a tree that a program reads together, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedSet {
    /// Branches that are read for every entry.
    pub steady: Vec<String>,
    /// Branches that are read for some entries only, but then together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub now_and_then: Vec<String>,
}

impl LearnedSet {
    /// Returns true if this set could have been learned: it names branches, none twice, and all
    /// names are plausible.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let names = || self.steady.iter().chain(&self.now_and_then);
        let number = names().count();
        (1..=MAX_NAMES).contains(&number)
            && names().all(|name| is_plausible_name(name))
            && names().collect::<HashSet<_>>().len() == number
    }

    /// Returns true if more than half of the branches of both sets are common to both.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        fn names(set: &LearnedSet) -> HashSet<&str> {
            set.steady.iter().chain(&set.now_and_then).map(String::as_str).collect()
        }
        let these = names(self);
        let those = names(other);
        let common = these.intersection(&those).count();
        2 * common > these.len() + those.len() - common
    }
}

/// Returns true if a branch or a tree could have this name: not empty, of bounded length, and
/// without control characters, since names are printed on terminals.
#[must_use]
pub fn is_plausible_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

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
