//! `hither ls`: the names in directories.

use super::each::{Outcome, date, object, shown};
use crate::arguments::Ls;
use crate::exit::Failure;
use hither::{Client, Entry, EntryKind, Error, ErrorKind, Named};
use std::fmt::Write;

/// Deeper trees are taken for circles that a server makes.
const MOST_LEVELS: usize = 256;

pub(super) fn run(client: &Client, request: &Ls, json: bool) -> Result<(), Failure> {
    let mut outcome = Outcome::new(json);
    let titled = request.urls.len() > 1 || request.recursive;
    for (index, url) in request.urls.iter().enumerate() {
        let named = match client.named(url) {
            Ok(named) => named,
            Err(error) => {
                outcome.failed(shown(url), error.into());
                continue;
            }
        };
        let listing = Listing { client, request, named: &named, titled };
        // Directories to list, and how they are called by whoever asked.
        let mut waiting = vec![(named.path.clone(), shown(url).to_owned(), 0)];
        let mut first = index == 0;
        while let Some((path, title, level)) = waiting.pop() {
            match listing.show(&path, &title, &mut first, &mut outcome)? {
                Ok(directories) if level < MOST_LEVELS && request.recursive => {
                    let deeper = directories.into_iter().rev().map(|path| {
                        let name = path.rsplit('/').next().unwrap_or_default();
                        let title = format!("{}/{name}", title.trim_end_matches('/'));
                        (path.clone(), title, level + 1)
                    });
                    waiting.extend(deeper);
                }
                Ok(_) => {}
                Err(error) => outcome.failed(&title, error.into()),
            }
        }
    }
    outcome.end("entries")
}

struct Listing<'a> {
    client: &'a Client,
    request: &'a Ls,
    named: &'a Named,
    titled: bool,
}

impl Listing<'_> {
    /// Shows one directory, or a file as itself. Returns the directories in it.
    fn show(
        &self,
        path: &str,
        title: &str,
        first: &mut bool,
        outcome: &mut Outcome,
    ) -> std::io::Result<Result<Vec<String>, Error>> {
        let storage = &self.named.storage;
        let (entries, is_file) = match self.client.run(storage.list(path)) {
            Ok(entries) => (entries, false),
            Err(error) if error.kind() == ErrorKind::Invalid && !self.named.directory => {
                match self.client.run(storage.stat(path)) {
                    Ok(entry) => (vec![entry], true),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Err(error) => return Ok(Err(error)),
        };
        if self.titled && !is_file {
            let gap = if std::mem::take(first) { "" } else { "\n" };
            outcome.title(&format!("{gap}{title}:\n"))?;
        }
        *first = false;
        let mut directories = Vec::new();
        for entry in entries {
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            if name.starts_with('.') && !self.request.all && !is_file {
                continue;
            }
            let line = self.line(&entry, if is_file { title } else { name });
            outcome.done(&line, object(self.named, &entry))?;
            if entry.kind == EntryKind::Directory {
                directories.push(entry.path);
            }
        }
        Ok(Ok(directories))
    }

    fn line(&self, entry: &Entry, name: &str) -> String {
        let mut line = String::new();
        if self.request.long {
            let kind = match entry.kind {
                EntryKind::File => '-',
                EntryKind::Directory => 'd',
                EntryKind::Link => 'l',
                EntryKind::Other => '?',
            };
            let date = entry.modified.map_or_else(|| "-".to_owned(), date);
            // Writing to a String cannot fail.
            let _ = write!(line, "{kind} {:>14}  {date:<19}  ", entry.size);
        }
        // A name may hold a line break or worse: what reaches the terminal is one line.
        for c in name.chars() {
            if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
        }
        line.push('\n');
        line
    }
}
