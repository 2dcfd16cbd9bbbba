//! The listings of one directory in two trees.

use super::Found;
use crate::destination::CopyPath;
use crate::filter::Filter;
use hither_core::storage::{check_path, file_name, join};
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Listing, Result};
use std::cmp::Ordering;
use std::collections::HashSet;

/// The listing of the directory `relative` of a tree, in the order of names; empty if it is not
/// there.
pub(super) async fn list(tree: &CopyPath, is_there: bool, relative: &str) -> Result<Listing> {
    if !is_there {
        return Ok(Listing::default());
    }
    let mut listing = tree.storage.list(&tree.below(relative).0).await?;
    for entry in &listing.entries {
        check_path(&entry.path)?;
    }
    listing.entries.sort_by(|a, b| file_name(&a.path).cmp(file_name(&b.path)));
    // Names that are not UTF-8 may differ in bytes that are shown as the same character.
    listing.entries.dedup_by(|a, b| {
        a.kind == FileKind::Unnamed && b.kind == FileKind::Unnamed && a.path == b.path
    });
    Ok(listing)
}

/// The names of two lists, each with its entries.
pub(super) type Merged = Vec<(String, Option<DirEntry>, Option<DirEntry>)>;

/// Merges two lists in the order of names.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if a list has a name twice.
pub(super) fn merge(source: Vec<DirEntry>, target: Vec<DirEntry>) -> Result<Merged> {
    for list in [&source, &target] {
        let twice = list.windows(2).find_map(|pair| match pair {
            [a, b] if file_name(&a.path) == file_name(&b.path) => Some(&a.path),
            _ => None,
        });
        if let Some(path) = twice {
            let what = format!("{path} is listed twice: the listing cannot be trusted");
            return Err(Error::new(ErrorKind::Protocol, what));
        }
    }
    let mut merged = Vec::with_capacity(source.len().max(target.len()));
    let mut source = source.into_iter().peekable();
    let mut target = target.into_iter().peekable();
    loop {
        let order = match (source.peek(), target.peek()) {
            (Some(a), Some(b)) => file_name(&a.path).cmp(file_name(&b.path)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(merged),
        };
        let a = if order.is_le() { source.next() } else { None };
        let b = if order.is_ge() { target.next() } else { None };
        let name = a.as_ref().or(b.as_ref()).map(|entry| file_name(&entry.path).to_owned());
        merged.push((name.unwrap_or_default(), a, b));
    }
}

/// Takes what two listings of a directory do not show, each by its path from the roots. A name that
/// cannot be used in one of them is taken out of both.
pub(super) fn take_missing(
    folder: &str,
    filter: &Filter,
    source: &mut Listing,
    target: &mut Listing,
) -> Vec<(String, Found)> {
    let mut missing = Vec::new();
    missing.extend(source.hidden.map(|why| (folder.to_owned(), Found::Hidden(why))));
    let mut failed_names = HashSet::new();
    for listing in [&mut *source, &mut *target] {
        let gaps = listing.gaps.drain(..);
        missing.extend(gaps.map(|gap| (folder.to_owned(), Found::Unknown(gap))));
        for (path, error) in listing.failed.drain(..) {
            let name = file_name(&path).to_owned();
            let path = join(folder, &name);
            if filter.includes_file(&path) || filter.includes_directory(&path) {
                missing.push((path, Found::Unknown(error)));
            }
            failed_names.insert(name);
        }
    }
    for listing in [source, target] {
        listing.entries.retain(|entry| !failed_names.contains(file_name(&entry.path)));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<DirEntry> {
        names.iter().map(|name| DirEntry::new(format!("d/{name}"), FileKind::File, 1)).collect()
    }

    #[test]
    fn lists_are_merged_by_name() {
        let merged = merge(listed(&["a", "b", "d"]), listed(&["b", "c"])).unwrap();
        let seen: Vec<_> =
            merged.iter().map(|(name, a, b)| (&**name, a.is_some(), b.is_some())).collect();
        let expected =
            [("a", true, false), ("b", true, true), ("c", false, true), ("d", true, false)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_list_with_a_name_twice_is_an_error() {
        let error = merge(listed(&["a", "a"]), Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }
}
