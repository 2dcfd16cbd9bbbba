//! Names that a destination takes for one: those that differ in case (Windows, macOS, many WebDAV
//! servers), or in the Unicode form of their characters (macOS; the forms are those of UAX #15).
//!
//! The second one of such a pair would replace the first. So where a directory has a pair, the
//! destination is asked before the second one moves: a file is made there under one name, and
//! looked for under the other. Each directory with a pair is asked, once: below it another file
//! system may be mounted, and some keep the rule for each directory (ext4, NTFS). One that is still
//! to be made is like the one that it will be in.

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

/// Names of a directory among which pairs are looked for: 40 MB at the most.
const MAX_NAMES: usize = 1 << 21;
/// Pairs of a job for which the source is listed once more, to tell the other name.
const MAX_LISTINGS: usize = 100;

/// Differences between names that a destination ignores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Folding {
    case: bool,
    form: bool,
}

/// The names of a directory that were met so far, as far as they may be pairs.
#[derive(Debug, Default)]
pub(crate) struct MetNames {
    hashes: HashSet<u64>,
    keys: RandomState,
    answers: DirectoryAnswers,
}

/// The differences that one directory of the destination ignores, as far as it was asked.
#[derive(Debug, Default)]
pub(crate) struct DirectoryAnswers {
    ignores_case: Option<bool>,
    ignores_form: Option<bool>,
}

/// The names of the directories on the way to the last path of a walk: finds those that some
/// destination takes for one.
#[derive(Debug, Default)]
pub struct MetPaths(Vec<(String, MetNames)>);

/// The check of the pairs of a job, which counts its listings.
#[derive(Debug, Default)]
pub(crate) struct PairCheck(AtomicUsize);

impl Folding {
    /// Everything that any destination ignores.
    pub(crate) const ALL: Self = Self { case: true, form: true };

    /// The text that all names have in common that are one for such a destination.
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
    /// Adds a name, and returns true if a destination may take it for one that was met before.
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
    /// Returns true if a destination may take it for another one in its directory.
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
    /// The differences in `name` that the directory `target` ignores, which is there.
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
    /// Fails if `path`, of which another name in its directory of the source may be a pair, would
    /// replace that one in `target`, a directory that is there, of which `met` has the names.
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

/// Returns true if a file that is made in a directory under one name is there under another one.
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
                // The answer is known: servers that take files need not let them be removed.
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
