//! Columns that programs read together, learned in one run for the next.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

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
