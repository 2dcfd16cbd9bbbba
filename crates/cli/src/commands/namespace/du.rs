//! `hither du`: total sizes of directories.

use crate::arguments::Du;
use crate::exit::CommandError;
use crate::output::{human_bytes, named_as, print_notices};
use crate::per_argument::{ArgumentResults, expand};
use hither::{Client, DirEntry, Error, FileKind, StoragePath, WalkEvent, WalkOptions};
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use serde_json::json;
use std::collections::BTreeMap;

pub(crate) fn run(client: &Client, request: &Du, json: bool) -> Result<(), CommandError> {
    let options = WalkOptions { max_levels: None, filter: request.filter.filter()? };
    let mut outcome = ArgumentResults::new(json);
    for url in expand(client, &request.urls, |url, error| outcome.failed(url, error)) {
        let named = match client.storage_path(&url) {
            Ok(named) => named,
            Err(error) => {
                outcome.failed(&redact_url(&url), error.into());
                continue;
            }
        };
        let mut sums =
            Sums { root: named.path.clone(), depth: request.max_depth, of: BTreeMap::new() };
        let walked = client.block_on(client.walk(&named, &options, |event| {
            match event {
                WalkEvent::Entry(entry, _) => sums.add(&entry),
                WalkEvent::LeftOut(path, why) => {
                    print_notices(&[format!("{}: {why}", named.display_url(&path))]);
                }
                WalkEvent::Failed(path, error) => {
                    outcome.failed(&named.display_url(&path), error.into());
                }
            }
            Ok::<_, Error>(())
        }));
        if let Err(error) = walked {
            outcome.failed(&redact_url(&url), error.into());
            continue;
        }
        show(&sums, (url.as_str(), &named), request, &mut outcome)?;
    }
    outcome.end("directories")
}

/// The totals of a directory, including everything below it.
#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    files: u64,
    directories: u64,
    /// Files whose sizes the server does not state.
    unknown_sizes: u64,
}

/// The totals of directories down to a level, by path.
struct Sums {
    root: String,
    depth: usize,
    of: BTreeMap<String, Sum>,
}

impl Sums {
    /// Adds an entry to the totals of all directories above it; a directory also to its own.
    fn add(&mut self, entry: &DirEntry) {
        let is_directory = entry.kind == FileKind::Directory;
        let relative = entry.path.strip_prefix(&self.root).unwrap_or(&entry.path);
        let slashes = relative.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0);
        let itself = (is_directory && !relative.is_empty()).then_some(relative.len());
        let ends = std::iter::once(0).chain(slashes).chain(itself);
        for end in ends.take(self.depth + 1) {
            let path = relative.get(..end).unwrap_or_default().trim_start_matches('/');
            let sum = match self.of.get_mut(path) {
                Some(sum) => sum,
                None => self.of.entry(path.to_owned()).or_default(),
            };
            sum.bytes = sum.bytes.saturating_add(entry.counted_bytes());
            sum.unknown_sizes += u64::from(entry.size.is_none());
            sum.files += u64::from(!is_directory);
            sum.directories += u64::from(is_directory);
        }
    }
}

/// Prints the totals, each directory after those below it.
fn show(
    sums: &Sums,
    (url, named): (&str, &StoragePath),
    request: &Du,
    outcome: &mut ArgumentResults,
) -> std::io::Result<()> {
    for (relative, sum) in sums.of.iter().rev() {
        let path = [&*named.path, relative].map(|part| part.trim_matches('/')).join("/");
        let name = named.display_url(path.trim_matches('/'));
        let is_human = request.human_readable;
        let size = if is_human { human_bytes(sum.bytes) } else { sum.bytes.to_string() };
        let object = json!({
            "url": name, "bytes": sum.bytes, "files": sum.files, "directories": sum.directories,
            "unknown_sizes": sum.unknown_sizes,
        });
        let size = if sum.unknown_sizes == 0 { size } else { format!(">{size}") };
        let typed = named_as(url, named, path.trim_matches('/'));
        outcome.done(&format!("{size}\t{}\n", escape_controls(&typed)), object)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_in_all_directories_that_they_are_in() {
        for (root, depth, expected) in [
            ("d", 0, vec![("", 7, 3)]),
            ("d", 1, vec![("", 7, 3), ("a", 6, 2), ("e", 0, 0)]),
            ("", 2, vec![("", 7, 3), ("d", 7, 3), ("d/a", 6, 2), ("d/e", 0, 0)]),
        ] {
            let mut sums = Sums { root: root.to_owned(), depth, of: BTreeMap::new() };
            for (path, size) in [("d/a/b/f", 4), ("d/a/g", 2), ("d/h", 1)] {
                sums.add(&DirEntry::new(path, FileKind::File, size));
            }
            for path in ["d", "d/a", "d/a/b", "d/e"] {
                sums.add(&DirEntry::new(path, FileKind::Directory, 0));
            }
            let seen: Vec<_> =
                sums.of.iter().map(|(path, sum)| (&**path, sum.bytes, sum.files)).collect();
            assert_eq!(seen, expected);
        }
    }
}
