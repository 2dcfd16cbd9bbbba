//! Names that collide at a destination: because they differ only in case (Windows, macOS, many
//! WebDAV servers) or in their Unicode normalization form (macOS; UAX #15), or because the
//! destination replaces characters or removes dots and spaces at the end.
//!
//! The second one of such a pair would replace the first. Pairs are found by the coarsest rule
//! ([`coarse`]). Where a directory has a pair, the destination is tested with the characters in
//! which the two names differ, before the second file moves: a file is made there under one name,
//! and its metadata are requested under the other. Each directory is tested once for each
//! difference: another file system may be mounted below it, and some file systems have a rule for
//! each directory (ext4, NTFS). A directory that is still to be made follows the rule of its
//! parent.

use crate::destination::{CopyPath, Target};
use crate::file::target::partial_file;
use bytes::Bytes;
use hither_checksum::{Algorithm, Hasher};
use hither_core::storage::{PutOptions, file_name, join, parent, read_back, unique_partial_name};
use hither_core::{Error, ErrorKind, Result, RetryPolicy, Storage};
use icu_normalizer::ComposingNormalizerBorrowed;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use tracing::warn;

/// The largest number of names of a directory that are searched for pairs: at most 40 MB.
const MAX_NAMES: usize = 1 << 21;

/// The names of a directory so far, as far as they may be pairs.
#[derive(Debug, Default)]
pub(crate) struct SeenNames {
    hashes: HashSet<u64>,
    keys: RandomState,
    cache: FoldingCache,
    /// The names of the source that may collide, by their coarse forms, once they were listed.
    alike: Option<HashMap<String, Vec<String>>>,
}

/// The differences of names that one directory of the destination ignores, as far as it was tested.
#[derive(Debug, Default)]
pub(crate) struct FoldingCache(HashMap<Difference, bool>);

/// The characters in which two names differ.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Difference {
    one: String,
    other: String,
    is_at_end: bool,
}

/// The names of the directories on the way to the last path of a walk. Finds names that would
/// collide at some destination.
#[derive(Debug, Default)]
pub struct SeenPaths(Vec<(String, SeenNames)>);

/// Returns true if the existing directory `directory` would take two names for one.
///
/// # Errors
///
/// Those of the test: a file is made under one name.
pub async fn is_one_name(directory: &CopyPath, name: &str, other: &str) -> Result<bool> {
    FoldingCache::default().is_one(name, other, &directory.target()).await
}

/// Returns the characters in which two names differ, and true if their last ones do. A directory
/// takes either all or none of the pairs with the same difference for one.
#[must_use]
pub fn name_difference(name: &str, other: &str) -> (String, String, bool) {
    let Difference { one, other, is_at_end } = Difference::of(name, other);
    (one, other, is_at_end)
}

/// Returns a text that is equal for all names that collide at some destination. It ignores case, by
/// full case folding and by upper case (exFAT), compatibility forms (NFKC), the kinds of characters
/// that destinations replace, and dots and spaces at the end.
#[must_use]
pub fn coarse(name: &str) -> String {
    let kept = name.trim_end_matches(['.', ' ']);
    let kept = if kept.is_empty() { name } else { kept };
    let replaced = |c: char| if c.is_alphanumeric() || is_plain_mark(c) { c } else { '_' };
    if kept.is_ascii() {
        return kept.chars().map(|c| replaced(c).to_ascii_uppercase()).collect();
    }
    let compatible = ComposingNormalizerBorrowed::new_nfkc();
    let cased = compatible.normalize(kept).to_lowercase().to_uppercase();
    compatible.normalize(&cased).chars().map(replaced).collect()
}

/// Returns true for a name that every destination lists as it was written, but for its case.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || is_plain_mark(c);
    !name.ends_with('.') && name.chars().all(is_plain)
}

fn is_plain_mark(c: char) -> bool {
    matches!(c, '.' | '-' | '_')
}

impl Difference {
    fn of(one: &str, other: &str) -> Self {
        let a: Vec<char> = one.chars().collect();
        let b: Vec<char> = other.chars().collect();
        let is_at_end = a.last() != b.last();
        if a.len() == b.len() {
            // Each difference once. All letters of ASCII stand for each other.
            let differing = a.into_iter().zip(b).filter(|(a, b)| a != b);
            let is_ascii_case = |a: char, b: char| a.eq_ignore_ascii_case(&b);
            let differing =
                differing.map(|(a, b)| if is_ascii_case(a, b) { ('a', 'A') } else { (a, b) });
            let (one, other) = differing.collect::<BTreeSet<_>>().into_iter().unzip();
            return Self { one, other, is_at_end };
        }
        let first = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        let a = a.get(first..).unwrap_or_default();
        let b = b.get(first..).unwrap_or_default();
        let last = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
        let inner = |chars: &[char]| chars.iter().take(chars.len() - last).collect();
        Self { one: inner(a), other: inner(b), is_at_end }
    }

    /// Returns true if only case or Unicode form differ.
    fn is_of_letters(&self) -> bool {
        let form = ComposingNormalizerBorrowed::new_nfc();
        let [one, other] = [&self.one, &self.other].map(|it| it.to_lowercase());
        form.normalize(&one) == form.normalize(&other)
    }
}

impl SeenNames {
    /// Adds a name, and returns true if it may collide with an earlier one at a destination.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        let hash = self.keys.hash_one(coarse(name));
        if self.hashes.len() >= MAX_NAMES {
            return self.hashes.contains(&hash);
        }
        !self.hashes.insert(hash)
    }

    /// Fails if `path` would replace another name of its source directory in the existing directory
    /// `target`. These are the names of that source directory so far.
    pub(crate) async fn check(
        &mut self,
        source: &dyn Storage,
        path: &str,
        target: &Target,
    ) -> Result<()> {
        let name = file_name(path);
        let alike = match &mut self.alike {
            Some(alike) => alike,
            None => self.alike.insert(alike_names(source, parent(path)).await?),
        };
        for other in alike.get(&coarse(name)).into_iter().flatten() {
            if other != name && self.cache.is_one(name, other, target).await? {
                return Err(clash(name, other, target));
            }
        }
        Ok(())
    }
}

/// The names of a directory that may collide at a destination, by their coarse forms.
async fn alike_names(source: &dyn Storage, path: &str) -> Result<HashMap<String, Vec<String>>> {
    let mut alike: HashMap<String, Vec<String>> = HashMap::new();
    for entry in source.list(path).await?.entries {
        let name = file_name(&entry.path);
        alike.entry(coarse(name)).or_default().push(name.to_owned());
    }
    alike.retain(|_, names| names.len() > 1);
    Ok(alike)
}

impl SeenPaths {
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
            self.0.push((directory.to_owned(), SeenNames::default()));
        }
        self.0.last_mut().is_some_and(|(_, seen)| seen.add(file_name(path)))
    }

    /// The names of the directory of the last path.
    pub(crate) fn last(&mut self) -> Option<&mut SeenNames> {
        self.0.last_mut().map(|(_, seen)| seen)
    }
}

impl FoldingCache {
    /// Returns true if the existing directory `target` would take two names for one.
    pub(crate) async fn is_one(
        &mut self,
        name: &str,
        other: &str,
        target: &Target,
    ) -> Result<bool> {
        let difference = Difference::of(name, other);
        if let Some(known) = self.0.get(&difference) {
            return Ok(*known);
        }
        let is_one = is_one(target, &difference).await.map_err(|error| {
            error.context(format!("{name}: the destination may take it for {other}"))
        })?;
        self.0.insert(difference, is_one);
        Ok(is_one)
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

/// Returns true if a file that is made in a directory under one name also exists under another one.
async fn is_one(directory: &Target, difference: &Difference) -> Result<bool> {
    let Difference { one, other, is_at_end } = difference;
    let base = unique_partial_name(one);
    let rest = if *is_at_end { "" } else { "x" };
    let [one, other] = [one, other].map(|differing| format!("{base}{differing}{rest}"));
    match directory {
        Target::Output | Target::Discard => Ok(false),
        Target::Local(directory) => {
            let path = directory.join(one);
            std::fs::File::create_new(&path)
                .map_err(|error| partial_file::failed("cannot make", &path, error))?;
            let is_one = std::fs::symlink_metadata(directory.join(other)).is_ok();
            std::fs::remove_file(&path)
                .map_err(|error| partial_file::failed("cannot remove", &path, error))?;
            Ok(is_one)
        }
        Target::Remote(storage, directory) => {
            let [one, other] = [one, other].map(|name| join(directory, &name));
            let is_one = match put(&**storage, &one, "1").await {
                Err(error) => Err(error),
                Ok(()) => match storage.stat(&other).await {
                    Ok(_) => Ok(true),
                    // A server may refuse other characters.
                    Err(_) if !difference.is_of_letters() => {
                        is_replaced(&**storage, &one, &other).await
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(error),
                },
            };
            // It may be there even if the server has not said so.
            remove(&**storage, &one).await;
            is_one
        }
    }
}

/// Returns true if a file at `other` replaces the one at `path`: a server that caches names, as
/// rclone does, describes a file only under the name with which it was written.
async fn is_replaced(storage: &dyn Storage, path: &str, other: &str) -> Result<bool> {
    // A name that the server refuses is no other file's name.
    if put(storage, other, "2").await.is_err() {
        return Ok(false);
    }
    let policy = RetryPolicy::default();
    let source = storage.source(path)?;
    let seen = read_back(&*source, 0..1, Algorithm::Crc32c, &policy).await;
    remove(storage, other).await;
    Ok(seen? == Hasher::of(Algorithm::Crc32c, b"2"))
}

async fn put(storage: &dyn Storage, path: &str, text: &'static str) -> Result<()> {
    // The name is random: only the test itself can have a file of it.
    let size = text.len() as u64;
    let options = PutOptions { size, overwrite: true, ..PutOptions::default() };
    let upload = storage.put(path, options).await?;
    upload.write(0, Bytes::from_static(text.as_bytes())).await?;
    upload.commit(None).await?;
    Ok(())
}

async fn remove(storage: &dyn Storage, path: &str) {
    if let Err(error) = storage.remove(path).await {
        // The result is known: servers that accept files need not allow their removal.
        warn!(path, %error, "a partial file of a test is left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_destination_takes_for_one_are_alike() {
        for (a, b, is_alike) in [
            ("A.root", "a.ROOT", true),
            ("\u{c9}", "\u{e9}", true),
            ("\u{e9}", "e\u{301}", true),
            ("\u{c9}", "e\u{301}", true),
            ("\u{3bb}\u{3bf}\u{3c2}.dat", "\u{3bb}\u{3bf}\u{3c3}.dat", true),
            ("strasse", "stra\u{df}e", true),
            ("10\u{b5}m", "10\u{3bc}m", true),
            ("run7.", "run7", true),
            ("run7. .", "RUN7", true),
            ("a\tb", "a\u{2409}b", true),
            ("12:00", "12_00", true),
            ("a+b", "a b", true),
            ("a_b", "a-b", false),
            ("a.b", "ab", false),
            ("...", "..", false),
            ("a", "b", false),
        ] {
            assert_eq!(coarse(a) == coarse(b), is_alike, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_destination_is_tested_with_the_characters_that_differ() {
        for (one, other, expected) in [
            ("Run1.Dat", "run1.dat", ("a", "A", false)),
            ("run", "ruN", ("a", "A", true)),
            ("a b c", "a_b_c", (" ", "_", false)),
            ("run7", "run7.", ("", ".", true)),
            ("stra\u{df}e", "strasse", ("\u{df}", "ss", false)),
            ("a\u{e9}", "ae\u{301}", ("\u{e9}", "e\u{301}", true)),
        ] {
            let Difference { one, other, is_at_end } = Difference::of(one, other);
            assert_eq!((&*one, &*other, is_at_end), expected);
        }
    }

    #[test]
    fn names_of_letters_digits_and_three_marks_are_listed_as_they_are_written() {
        for (name, expected) in [
            ("Run-1_a.root", true),
            (".hidden", true),
            ("run7.", false),
            ("a b", false),
            ("12:00", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_plain(name), expected, "{name:?}");
        }
    }

    #[test]
    fn pairs_are_found_within_their_directories() {
        let mut seen = SeenPaths::default();
        let paths = ["a", "d", "d/A", "d/a", "d/e", "d/e/A", "d/E", "f", "f/a", "A", "D"];
        let pairs: Vec<_> = paths.into_iter().filter(|path| seen.add(path)).collect();
        assert_eq!(pairs, ["d/a", "d/E", "A", "D"]);
    }
}
