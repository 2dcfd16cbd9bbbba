//! Filters: which files of a tree take part in a copy, a sync or a check.
//!
//! The rules are rclone's. A path, relative to the root of the tree, is compared with one rule
//! after the other; the first that matches decides, and a path that none matches is included. Rules
//! for directories follow from those for files, so that a directory in which nothing can be
//! included is not listed.

mod glob;

use crate::summary::CopyFailure;
use hither_core::storage::check_path;
use hither_core::{Error, ErrorKind, Result};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Filters as a user gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// Patterns of files to include. If there is one, everything else is excluded.
    pub include: Vec<String>,
    /// Patterns of files to exclude, which come after those to include.
    pub exclude: Vec<String>,
    /// Rules `+ PATTERN` and `- PATTERN`, which come after both, and `!`, which removes all rules
    /// before it.
    pub rules: Vec<String>,
    /// Paths of the only files to take, from the root of the tree. They take the place of all
    /// rules.
    pub files: Option<Vec<String>>,
}

/// The most patterns and names of a filter: more is a mistake, such as a data file given as a list.
const MAX_RULES: usize = 10_000_000;

impl FilterOptions {
    /// The lines of a file of rules or names: without blank ones, comments (`#` or `;` at the
    /// beginning), and space around them.
    pub fn lines(text: &str) -> impl Iterator<Item = String> {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).map(str::to_owned)
    }
}

/// A filter of paths.
#[derive(Debug, Default)]
pub struct Filter {
    files: Vec<Rule>,
    directories: Vec<Rule>,
    named: Option<NamedFiles>,
}

#[derive(Debug)]
struct Rule {
    pattern: Regex,
    includes: bool,
}

/// Files named one by one.
#[derive(Debug, Default)]
struct NamedFiles {
    /// The files, and true for those that were found.
    files: BTreeMap<String, AtomicBool>,
    directories: BTreeSet<String>,
}

impl Filter {
    /// The filter of these options.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a pattern or a rule that is malformed, and for rules together
    /// with a list of files.
    pub fn new(options: &FilterOptions) -> Result<Self> {
        let FilterOptions { include, exclude, rules, files } = options;
        let given = include.len() + exclude.len() + rules.len();
        if given + files.as_ref().map_or(0, Vec::len) > MAX_RULES {
            let what = format!("a filter of more than {MAX_RULES} patterns and names");
            return Err(Error::new(ErrorKind::TooLarge, what));
        }
        if let Some(files) = files {
            if given > 0 {
                let what = "a list of files takes the place of patterns: give one or the other";
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            return Ok(Self { named: Some(NamedFiles::new(files)?), ..Self::default() });
        }
        let mut filter = Self::default();
        for pattern in include {
            filter.add(true, pattern)?;
        }
        for pattern in exclude {
            filter.add(false, pattern)?;
        }
        for rule in rules {
            filter.add_rule(rule)?;
        }
        if !include.is_empty() {
            filter.add(false, "/**")?;
        }
        Ok(filter)
    }

    /// Returns true if every path is included.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty() && self.named.is_none()
    }

    /// Returns true if the file at `path` is included.
    #[must_use]
    pub fn includes_file(&self, path: &str) -> bool {
        match &self.named {
            Some(named) => named.files.contains_key(path),
            None => decide(&self.files, path),
        }
    }

    /// Returns true if files below the directory at `path` may be included.
    #[must_use]
    pub fn includes_directory(&self, path: &str) -> bool {
        match &self.named {
            Some(named) => named.directories.contains(path),
            None => self.directories.is_empty() || decide(&self.directories, &format!("{path}/")),
        }
    }

    /// Records that the source has the file at `path`.
    pub(crate) fn met(&self, path: &str) {
        if let Some(met) = self.named.as_ref().and_then(|named| named.files.get(path)) {
            met.store(true, Ordering::Relaxed);
        }
    }

    /// The files of the list that were not found, as failures.
    pub(crate) fn missing(&self) -> impl Iterator<Item = CopyFailure> {
        let files = self.named.iter().flat_map(|named| &named.files);
        files.filter(|(_, met)| !met.load(Ordering::Relaxed)).map(|(path, _)| {
            let message = format!("{path} is on the list of files, but not in the source");
            CopyFailure { source: path.clone(), error: Error::new(ErrorKind::NotFound, message) }
        })
    }

    fn add_rule(&mut self, rule: &str) -> Result<()> {
        if rule == "!" {
            self.files.clear();
            self.directories.clear();
            return Ok(());
        }
        match rule.split_at_checked(2) {
            Some(("+ ", pattern)) => self.add(true, pattern),
            Some(("- ", pattern)) => self.add(false, pattern),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("filter rule {rule:?}: expected \"+ PATTERN\", \"- PATTERN\" or \"!\""),
            )),
        }
    }

    fn add(&mut self, includes: bool, pattern: &str) -> Result<()> {
        let is_directory = pattern.ends_with('/');
        // Without a directory goes all that is in it.
        let whole = if is_directory && !includes { format!("{pattern}**") } else { pattern.into() };
        let spans = whole.contains("**");
        if !is_directory || spans {
            self.files.push(Rule { pattern: glob::compile(&whole)?, includes });
            // The exclusion of a file does not exclude its directory, unless every file is
            // excluded.
            if includes || whole == "*" {
                for directory in glob::directories(&whole).iter().filter(|it| *it != "/") {
                    self.directories.push(Rule { pattern: glob::compile(directory)?, includes });
                }
            }
        }
        if is_directory || spans {
            self.directories.push(Rule { pattern: glob::compile(&whole)?, includes });
        }
        Ok(())
    }
}

impl NamedFiles {
    fn new(names: &[String]) -> Result<Self> {
        let mut named = Self::default();
        for name in names {
            // `find .` begins names so.
            let path = name.strip_prefix("./").unwrap_or(name).trim_matches('/');
            check_path(path)?;
            let ends = path.match_indices('/').map(|(end, _)| end);
            named.directories.extend(ends.filter_map(|end| path.get(..end)).map(str::to_owned));
            named.files.insert(path.to_owned(), AtomicBool::new(false));
        }
        Ok(named)
    }
}

fn decide(rules: &[Rule], path: &str) -> bool {
    rules.iter().find(|rule| rule.pattern.is_match(path)).is_none_or(|rule| rule.includes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn rules(texts: &[&str]) -> Filter {
        Filter::new(&FilterOptions { rules: owned(texts), ..FilterOptions::default() }).unwrap()
    }

    fn files<'a>(filter: &Filter, paths: &[&'a str]) -> Vec<&'a str> {
        paths.iter().copied().filter(|path| filter.includes_file(path)).collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let text = "# a sample\n- secret*.jpg\n+ *.jpg\n+ *.png\n; more\n\n  + file2.avi\n- /dir/Trash/**\n+ /dir/**\n- *\n";
        let lines: Vec<_> = FilterOptions::lines(text).collect();
        assert_eq!(lines.len(), 7);
        let filter = Filter::new(&FilterOptions { rules: lines, ..FilterOptions::default() });
        let filter = filter.unwrap();
        let paths =
            ["secret1.jpg", "file1.jpg", "a/b.png", "file2.avi", "dir/Trash/x", "dir/a/y", "z"];
        let kept = ["file1.jpg", "a/b.png", "file2.avi", "dir/a/y"];
        assert_eq!(files(&filter, &paths), kept);
        // A JPEG in it is included by an earlier rule.
        assert!(filter.includes_directory("dir/Trash") && filter.includes_file("dir/Trash/a.jpg"));
    }

    #[test]
    fn an_exclamation_mark_removes_the_rules_before_it() {
        let filter = rules(&["+ *.jpg", "!", "+ 42.doc", "- *"]);
        assert_eq!(files(&filter, &["a.jpg", "42.doc"]), ["42.doc"]);
    }

    #[test]
    fn includes_exclude_everything_else() {
        let options = |include: &[&str], exclude: &[&str]| FilterOptions {
            include: owned(include),
            exclude: owned(exclude),
            ..FilterOptions::default()
        };
        let filter = Filter::new(&options(&["/a/*.jpg"], &[])).unwrap();
        assert_eq!(files(&filter, &["a/x.jpg", "x.jpg", "a/b/x.jpg"]), ["a/x.jpg"]);
        assert!(filter.includes_directory("a"));
        assert!(!filter.includes_directory("b") && !filter.includes_directory("a/b"));
        let filter = Filter::new(&options(&[], &["*.bak"])).unwrap();
        assert_eq!(files(&filter, &["a.bak", "b/c"]), ["b/c"]);
        assert!(filter.includes_directory("b"));
    }

    #[test]
    fn excluded_directories_need_no_listing() {
        for (given, directory, listed) in [
            (["- /dir1/", "+ *.pdf", "- **"], "dir1", false),
            (["- /dir1/", "+ *.pdf", "- **"], "dir2", true),
            (["- dir1/", "+ *", "- **"], "a/dir1", false),
            (["- dir1/**", "+ *", "- **"], "a/dir1/b", false),
            (["- dir1/*", "+ *", "- **"], "dir1", true),
            (["+ /a/b/*.c", "- *", "+ *"], "a/b", true),
            (["+ /a/b/*.c", "- *", "+ *"], "x", false),
        ] {
            assert_eq!(
                rules(&given).includes_directory(directory),
                listed,
                "{given:?} {directory}"
            );
        }
    }

    #[test]
    fn a_list_of_files_takes_these_and_notes_which_were_met() {
        let named = FilterOptions {
            files: Some(owned(&["/a", "./sub/deep/b", "c"])),
            ..FilterOptions::default()
        };
        let filter = Filter::new(&named).unwrap();
        assert_eq!(files(&filter, &["a", "b", "sub/deep/b", "sub"]), ["a", "sub/deep/b"]);
        assert!(filter.includes_directory("sub/deep") && !filter.includes_directory("other"));
        filter.met("a");
        assert_eq!(filter.missing().map(|it| it.source).collect::<Vec<_>>(), ["c", "sub/deep/b"]);
        let both = FilterOptions { exclude: owned(&["x"]), ..named };
        assert_eq!(Filter::new(&both).unwrap_err().kind(), ErrorKind::Invalid);
        let leaving = FilterOptions { files: Some(owned(&["../x"])), ..FilterOptions::default() };
        assert_eq!(Filter::new(&leaving).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn malformed_rules_are_errors() {
        for rule in ["*.jpg", "+*.jpg", "", "+ {", "é"] {
            let options = FilterOptions { rules: owned(&[rule]), ..FilterOptions::default() };
            assert_eq!(Filter::new(&options).unwrap_err().kind(), ErrorKind::Invalid, "{rule}");
        }
    }
}
