//! Prefix mapping: from paths of the federation to paths of an endpoint.
//!
//! An endpoint has rules, each from a directory of the federation to a directory of the endpoint.
//! Of the rules that a path is below, the deepest one applies, so that a rule for `/store/test` can
//! override a part of the rule for `/store`. Paths above all rules do not exist at the endpoint;
//! the federation shows them as directories that lead to the rules.

use hither_core::storage::join;
use std::borrow::Cow;

/// A rule: the directory `path` of the federation is the directory `target` of the endpoint. Both
/// are without slashes at the ends; the root is the empty path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixRule {
    /// The directory in the federation.
    pub path: String,
    /// The directory at the endpoint, below the root of its storage.
    pub target: String,
    /// The names of endpoints that have all files that this one has below `path`.
    pub copy_of: Vec<String>,
}

/// The rules of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixMap {
    /// The deepest first.
    rules: Vec<PrefixRule>,
}

impl PrefixMap {
    /// A map with these rules.
    #[must_use]
    pub fn new(mut rules: Vec<PrefixRule>) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.path.len()));
        Self { rules }
    }

    /// The path at the endpoint; none if no rule leads there.
    #[must_use]
    pub fn resolve<'a>(&'a self, path: &'a str) -> Option<Cow<'a, str>> {
        self.rules.iter().find_map(|rule| {
            let below = below(&rule.path, path)?;
            Some(match (&*rule.target, below) {
                ("", below) => below.into(),
                (target, "") => target.into(),
                (target, below) => join(target, below).into(),
            })
        })
    }

    /// The rule that leads from a path.
    #[must_use]
    pub fn rule(&self, path: &str) -> Option<&PrefixRule> {
        self.rules.iter().find(|rule| below(&rule.path, path).is_some())
    }

    /// Returns true if a rule is below a directory, and not at it.
    #[must_use]
    pub fn has_rule_below(&self, path: &str) -> bool {
        let strictly = |rule: &PrefixRule| below(path, &rule.path).is_some_and(|it| !it.is_empty());
        self.rules.iter().any(strictly)
    }

    /// The names in the directory `path` of the federation that lead to rules below it.
    pub fn leading_names<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let below = self.rules.iter().filter_map(move |rule| below(path, &rule.path));
        below.filter_map(|rest| rest.split('/').next()).filter(|name| !name.is_empty())
    }

    /// Returns true if `path` is a directory because rules are below it, or begin at it.
    #[must_use]
    pub fn leads_below(&self, path: &str) -> bool {
        self.rules.iter().any(|rule| below(path, &rule.path).is_some())
    }
}

/// The part of `path` below `directory`, empty for the directory itself; none if it is elsewhere.
fn below<'a>(directory: &str, path: &'a str) -> Option<&'a str> {
    if directory.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(directory)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rules: &[(&str, &str)]) -> PrefixMap {
        let rule = |(path, target): &(&str, &str)| PrefixRule {
            path: (*path).to_owned(),
            target: (*target).to_owned(),
            copy_of: Vec::new(),
        };
        PrefixMap::new(rules.iter().map(rule).collect())
    }

    #[test]
    fn the_deepest_rule_rewrites_a_path() {
        let map = map(&[("store", "data/cms"), ("store/test", "scratch"), ("", "all")]);
        for (path, at_endpoint) in [
            ("store", "data/cms"),
            ("store/a/b", "data/cms/a/b"),
            ("store/test/x", "scratch/x"),
            ("store/testing", "data/cms/testing"),
            ("stores", "all/stores"),
            ("", "all"),
        ] {
            assert_eq!(map.resolve(path).as_deref(), Some(at_endpoint), "{path}");
        }
        assert_eq!(self::map(&[("store", "")]).resolve("store/a").as_deref(), Some("a"));
        assert_eq!(self::map(&[("store", "")]).resolve("other"), None);
    }

    #[test]
    fn directories_above_the_rules_lead_to_them() {
        let map = map(&[("a/b/c", ""), ("a/d", ""), ("x", "")]);
        assert_eq!(map.leading_names("").collect::<Vec<_>>(), ["a", "a", "x"]);
        assert_eq!(map.leading_names("a").collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(map.leading_names("a/d").count(), 0);
        assert!(map.leads_below("a/b") && map.leads_below("a/b/c") && !map.leads_below("a/bc"));
    }
}
