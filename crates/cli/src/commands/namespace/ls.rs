//! `hither ls`: lists directories.

use crate::arguments::Ls;
use crate::exit::CommandError;
use crate::output::{date, entry_json, human_bytes};
use crate::per_argument::{ArgumentResults, expand, run_parallel};
use hither::{Client, DirEntry, Error, ErrorKind, FileKind, StoragePath};
use hither_core::storage::MAX_LEVELS;
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use std::fmt::Write;

pub(crate) fn run(client: &Client, request: &Ls, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let urls = expand(client, &request.urls, |url, error| outcome.failed(url, error));
    let titled = urls.len() > 1 || request.recursive;
    let mut first = true;
    let fetch = |url: &str| -> Result<(StoragePath, Listed), Error> {
        let named = client.storage_path(url)?;
        let listed = list(client, &named, &named.path)?;
        Ok((named, listed))
    };
    run_parallel(
        &urls,
        |url| fetch(url),
        |url, found| match found {
            Ok((named, listed)) => {
                let listing = Listing { client, request, named: &named, titled };
                listing.show_all(&redact_url(url), listed, &mut first, &mut outcome)
            }
            Err(error) => {
                outcome.failed(&redact_url(url), error.into());
                Ok(())
            }
        },
    )?;
    outcome.end("entries")
}

/// The entries of a directory, or a file as its only entry.
struct Listed {
    entries: Vec<DirEntry>,
    /// Names that cannot be used, and parts of the listing that could not be read.
    failed: Vec<(String, Error)>,
    is_file: bool,
}

fn list(client: &Client, named: &StoragePath, path: &str) -> Result<Listed, Error> {
    let storage = &named.storage;
    match client.block_on(storage.list(path)) {
        Ok(listing) => {
            let gaps = listing.gaps.into_iter().map(|gap| (path.to_owned(), gap));
            let failed = listing.failed.into_iter().chain(gaps).collect();
            Ok(Listed { entries: listing.entries, failed, is_file: false })
        }
        Err(error) if error.kind() == ErrorKind::Invalid && !named.directory => {
            let entry = client.block_on(storage.stat(path))?;
            Ok(Listed { entries: vec![entry], failed: Vec::new(), is_file: true })
        }
        Err(error) => Err(error),
    }
}

struct Listing<'a> {
    client: &'a Client,
    request: &'a Ls,
    named: &'a StoragePath,
    titled: bool,
}

impl Listing<'_> {
    /// Prints a listing and, if recursive, the directories below it.
    fn show_all(
        &self,
        title: &str,
        listed: Listed,
        first: &mut bool,
        outcome: &mut ArgumentResults,
    ) -> std::io::Result<()> {
        let directories = self.show(listed, title, first, outcome)?;
        // Stack of directories to list, the next one last: path, title and level.
        let mut waiting = self.below(directories, title, 1);
        while let Some((path, title, level)) = waiting.pop() {
            match list(self.client, self.named, &path) {
                Ok(listed) => {
                    let directories = self.show(listed, &title, first, outcome)?;
                    waiting.extend(self.below(directories, &title, level + 1));
                }
                Err(error) => outcome.failed(&title, error.into()),
            }
        }
        Ok(())
    }

    /// The directories that a recursive listing prints after the directory `title`, the first one
    /// last: path, title and level.
    fn below(
        &self,
        directories: Vec<String>,
        title: &str,
        level: usize,
    ) -> Vec<(String, String, usize)> {
        if !self.request.recursive || level > MAX_LEVELS {
            return Vec::new();
        }
        let titled = |path: String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let title = format!("{}/{name}", title.trim_end_matches('/'));
            (path, title, level)
        };
        directories.into_iter().rev().map(titled).collect()
    }

    /// Prints one directory or file. Returns the directories in it.
    fn show(
        &self,
        Listed { entries, failed, is_file }: Listed,
        title: &str,
        first: &mut bool,
        outcome: &mut ArgumentResults,
    ) -> std::io::Result<Vec<String>> {
        if self.titled && !is_file {
            let gap = if *first { "" } else { "\n" };
            outcome.title(&format!("{gap}{}:\n", escape_controls(title)))?;
        }
        *first = false;
        let mut directories = Vec::new();
        for entry in entries {
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            if name.starts_with('.') && !self.request.all && !is_file {
                continue;
            }
            let line = self.line(&entry, if is_file { title } else { name });
            outcome.done(&line, entry_json(self.named, &entry))?;
            if let (true, Err(error)) = (self.request.recursive, entry.check_reachable()) {
                outcome.failed(&self.named.display_url(&entry.path), error.into());
            }
            if entry.kind == FileKind::Directory {
                directories.push(entry.path);
            }
        }
        for (path, error) in failed {
            outcome.failed(&self.named.display_url(&path), error.into());
        }
        Ok(directories)
    }

    fn line(&self, entry: &DirEntry, name: &str) -> String {
        let mut line = String::new();
        if self.request.long {
            let kind = match entry.kind {
                FileKind::File => '-',
                FileKind::Directory => 'd',
                FileKind::Link => 'l',
                FileKind::Other | FileKind::Unnamed => '?',
            };
            let date = entry.modified.map_or_else(|| "-".to_owned(), date);
            // Writing to a String cannot fail.
            let is_human = self.request.human_readable;
            let shown = if is_human { human_bytes } else { |size: u64| size.to_string() };
            let size = entry.size.map_or_else(|| "?".to_owned(), shown);
            let _ = write!(line, "{kind} {size:>14}  {date:<19}  ");
        }
        line + &escape_controls(name) + "\n"
    }
}
