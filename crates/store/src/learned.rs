//! Learned sets: the branches that programs read of a dataset's trees, kept under the schema of the
//! tree. Files of one dataset share the schema, so one file's set serves all.
//!
//! Different programs read different branches of the same trees. A schema therefore has several
//! sets, the last used first. A set replaces one that is similar to it.

use crate::record::Record;
use hither_core::layout::{LearnedSet, is_plausible_name};
use serde::{Deserialize, Serialize};

/// The number of sets per schema.
const MAX_SETS: usize = 8;
/// The number of hexadecimal digits of a schema.
const SCHEMA_DIGITS: usize = 32;

/// The sets of a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedTree {
    /// The schema: 32 hexadecimal digits.
    pub schema: String,
    /// The name of the tree, for display.
    pub tree: String,
    /// The sets, newest first.
    pub sets: Vec<LearnedSet>,
}

impl LearnedTree {
    /// Returns true for a value that could have been written.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        self.schema.len() == SCHEMA_DIGITS
            && self.schema.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && is_plausible_name(&self.tree)
            && self.sets.len() <= MAX_SETS
            && self.sets.iter().all(LearnedSet::is_plausible)
    }

    /// Puts a set first, in place of a similar one. The least recently used sets are dropped.
    pub fn put(&mut self, set: LearnedSet) {
        self.sets.retain(|known| !known.is_like(&set));
        self.sets.insert(0, set);
        self.sets.truncate(MAX_SETS);
    }

    /// Decodes a record; `None` unless it is valid.
    pub(crate) fn of(entry: &Record, schema: &str) -> Option<Self> {
        let tree: Self = serde_json::from_slice(&entry.record).ok()?;
        (tree.schema == schema && entry.payload.is_empty() && tree.is_plausible()).then_some(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn set(names: &[&str]) -> LearnedSet {
        LearnedSet {
            steady: names.iter().map(|name| (*name).to_owned()).collect(),
            now_and_then: Vec::new(),
        }
    }

    fn tree() -> LearnedTree {
        LearnedTree { schema: "0".repeat(32), tree: "T".into(), sets: vec![set(&["a", "b"])] }
    }

    #[test]
    fn a_set_replaces_a_similar_one() {
        let mut tree = tree();
        tree.put(set(&["a", "b", "c"]));
        assert_eq!(tree.sets, [set(&["a", "b", "c"])]);
        tree.put(set(&["a", "x", "y", "z"]));
        assert_eq!(tree.sets.len(), 2);
        assert_eq!(tree.sets[0], set(&["a", "x", "y", "z"]), "the newest is the first");
        for n in 0..20 {
            tree.put(set(&[&format!("n{n}")]));
        }
        assert_eq!(tree.sets.len(), MAX_SETS);
        assert_eq!(tree.sets[0], set(&["n19"]));
    }

    #[test]
    fn invalid_sets_are_an_error() {
        let of = |record: &str| {
            let record = Bytes::copy_from_slice(record.as_bytes());
            let entry = Record { learned: 0, record, payload: Bytes::new() };
            LearnedTree::of(&entry, &"0".repeat(32))
        };
        let zeros = "0".repeat(32);
        let long = "x".repeat(1025);
        assert_eq!(of(&serde_json::to_string(&tree()).unwrap()), Some(tree()));
        for record in [
            String::new(),
            "[]".to_owned(),
            format!(r#"{{"schema":"{}","tree":"T","sets":[]}}"#, "1".repeat(32)),
            format!(r#"{{"schema":"{zeros}","tree":"","sets":[]}}"#),
            format!(r#"{{"schema":"{zeros}","tree":"T","sets":[{{"steady":[]}}]}}"#),
            format!(r#"{{"schema":"{zeros}","tree":"T","sets":[{{"steady":["a","a"]}}]}}"#),
            format!(r#"{{"schema":"{zeros}","tree":"T","sets":[{{"steady":["\u001b[2J"]}}]}}"#),
            format!(r#"{{"schema":"{zeros}","tree":"T","sets":[{{"steady":["{long}"]}}]}}"#),
            format!(r#"{{"schema":"{zeros}","tree":"T","sets":[{{"steady":["a"],"more":1}}]}}"#),
        ] {
            assert_eq!(of(&record), None, "{record}");
        }
    }
}
