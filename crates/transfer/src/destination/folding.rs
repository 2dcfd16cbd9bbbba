//! Names that collide at a destination, because they differ only in case (Windows, macOS, many
//! WebDAV servers) or in their Unicode normalization form (macOS; UAX #15).
//!
//! The second one of such a pair would replace the first. So where a directory has a pair, the
//! destination is tested before the second file moves: a file is made there under one name, and its
//! metadata are requested under the other. Each directory with a pair is tested once: another file
//! system may be mounted below it, and some file systems have a rule for each directory (ext4,
//! NTFS). A directory that is still to be made follows the rule of its parent.

use crate::destination::Target;
use crate::file::target::partial_file;
use hither_core::storage::{PutOptions, file_name, join, parent, unique_partial_name};
use hither_core::{Error, ErrorKind, Result, Storage};
use icu_normalizer::ComposingNormalizerBorrowed;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::warn;

/// The largest number of names of a directory that are searched for pairs: at most 40 MB.
const MAX_NAMES: usize = 1 << 21;
/// Pairs of a job for which the source is listed again, to name the other file in the error.
const MAX_LISTINGS: usize = 100;

/// Differences between names that a destination ignores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Folding {
    case: bool,
    form: bool,
}

/// The names of a directory so far, as far as they may be pairs.
#[derive(Debug, Default)]
pub(crate) struct MetNames {
    hashes: HashSet<u64>,
    keys: RandomState,
    answers: DirectoryAnswers,
}

/// The differences that one directory of the destination ignores, as far as it was tested.
#[derive(Debug, Default)]
pub(crate) struct DirectoryAnswers {
    ignores_case: Option<bool>,
    ignores_form: Option<bool>,
}

/// The names of the directories on the way to the last path of a walk. Finds names that would
/// collide at some destination.
#[derive(Debug, Default)]
pub struct MetPaths(Vec<(String, MetNames)>);

/// The check of the pairs of a job, which counts its listings.
#[derive(Debug, Default)]
pub(crate) struct PairCheck(AtomicUsize);

impl Folding {
    /// All differences that some destination ignores.
    pub(crate) const ALL: Self = Self { case: true, form: true };

    /// The normalized text of a name: equal for all names that collide at such a destination.
    pub(crate) fn fold(self, name: &str) -> String {
        let cased = if self.case && !name.is_ascii() {
            name.to_lowercase()
        } else if self.case {
            name.to_ascii_lowercase()
        } else {
            name.to_owned()
        };
        if self.form && !cased.is_ascii() {
            return ComposingNormalizerBorrowed::new_nfc().normalize(&cased).into_owned();
        }
        cased
    }
}

impl MetNames {
    /// Adds a name, and returns true if it may collide with an earlier one at a destination.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        let hash = self.keys.hash_one(Folding::ALL.fold(name));
        if self.hashes.len() >= MAX_NAMES {
            return self.hashes.contains(&hash);
        }
        !self.hashes.insert(hash)
    }
}

impl MetPaths {
    /// Adds a path; those of a directory come one after the other, but for what is below them.
    /// Returns true if it may collide with another name of its directory at a destination.
    pub fn add(&mut self, path: &str) -> bool {
        let directory = parent(path);
        let leads_to = |above: &str| {
            above.is_empty()
                || directory
                    .strip_prefix(above)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        while self.0.pop_if(|(last, _)| !leads_to(last)).is_some() {}
        if self.0.last().is_none_or(|(last, _)| last != directory) {
            self.0.push((directory.to_owned(), MetNames::default()));
        }
        self.0.last_mut().is_some_and(|(_, met)| met.add(file_name(path)))
    }

    /// The names of the directory of the last path.
    pub(crate) fn last(&mut self) -> Option<&mut MetNames> {
        self.0.last_mut().map(|(_, met)| met)
    }
}

impl DirectoryAnswers {
    /// The differences in `name` that the existing directory `target` ignores.
    pub(crate) async fn folding(&mut self, name: &str, target: &Target) -> Result<Folding> {
        let base = unique_partial_name(name);
        let case = match self.ignores_case {
            Some(case) => case,
            None => is_one(target, &base, &base.to_ascii_uppercase()).await?,
        };
        self.ignores_case = Some(case);
        if name.is_ascii() {
            return Ok(Folding { case, form: false });
        }
        let form = match self.ignores_form {
            Some(form) => form,
            None => is_one(target, &format!("{base}\u{e9}"), &format!("{base}e\u{301}")).await?,
        };
        self.ignores_form = Some(form);
        Ok(Folding { case, form })
    }
}

impl PairCheck {
    /// Fails if `path` would replace another name of its source directory in the existing directory
    /// `target`. `met` has the names of that source directory so far.
    pub(crate) async fn check(
        &self,
        source: &dyn Storage,
        path: &str,
        target: &Target,
        met: &mut MetNames,
    ) -> Result<()> {
        let name = file_name(path);
        let folding = met.answers.folding(name, target).await.map_err(|error| {
            let what = "another name differs only in case or form, which may be one for the server";
            error.context(format!("{name}: {what}"))
        })?;
        if folding == Folding::default() {
            return Ok(());
        }
        if self.0.fetch_add(1, Ordering::Relaxed) >= MAX_LISTINGS {
            return Err(clash(name, "another name", target));
        }
        let folded = folding.fold(name);
        let listing = source.list(parent(path)).await?;
        let other = listing.entries.iter().map(|entry| file_name(&entry.path));
        match other.filter(|other| *other != name).find(|other| folding.fold(other) == folded) {
            Some(other) => Err(clash(name, other, target)),
            None => Ok(()),
        }
    }
}

/// The error of a name that would replace another one of the same directory.
pub(crate) fn clash(name: &str, other: &str, target: &Target) -> Error {
    let what = format!(
        "{other} and {name} would be one file in {}, which ignores the difference: rename one",
        target.name()
    );
    Error::new(ErrorKind::Invalid, what)
}

/// Returns true if a file that is made in a directory under one name also exists under another.
async fn is_one(directory: &Target, name: &str, other: &str) -> Result<bool> {
    match directory {
        Target::Output | Target::Discard => Ok(false),
        Target::Local(directory) => {
            let path = directory.join(name);
            std::fs::File::create_new(&path)
                .map_err(|error| partial_file::failed("cannot make", &path, error))?;
            let is_one = std::fs::symlink_metadata(directory.join(other)).is_ok();
            std::fs::remove_file(&path)
                .map_err(|error| partial_file::failed("cannot remove", &path, error))?;
            Ok(is_one)
        }
        Target::Remote(storage, directory) => {
            let path = join(directory, name);
            storage.put(&path, PutOptions::default()).await?.commit(None).await?;
            let seen = storage.stat(&join(directory, other)).await;
            if let Err(error) = storage.remove(&path).await {
                // The result is known: servers that accept files need not allow their removal.
                warn!(path, %error, "an empty partial file is left");
            }
            match seen {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_as_far_as_a_destination_ignores_their_differences() {
        let [case, form] =
            [Folding { case: true, form: false }, Folding { case: false, form: true }];
        for (a, b, by_case, by_form) in [
            ("A.root", "a.ROOT", true, false),
            ("\u{c9}", "\u{e9}", true, false),
            ("\u{e9}", "e\u{301}", false, true),
            ("\u{c9}", "e\u{301}", false, false),
            ("a", "b", false, false),
        ] {
            let is_one = |folding: Folding| folding.fold(a) == folding.fold(b);
            assert_eq!((is_one(case), is_one(form)), (by_case, by_form), "{a} {b}");
            assert_eq!(is_one(Folding::ALL), a != "a", "{a} {b}");
            assert!(!is_one(Folding::default()));
        }
    }

    #[test]
    fn pairs_are_found_within_their_directories() {
        let mut met = MetPaths::default();
        let paths = ["a", "d", "d/A", "d/a", "d/e", "d/e/A", "d/E", "f", "f/a", "A", "D"];
        let pairs: Vec<_> = paths.into_iter().filter(|path| met.add(path)).collect();
        assert_eq!(pairs, ["d/a", "d/E", "A", "D"]);
    }
}
