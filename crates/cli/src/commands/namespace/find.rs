//! `hither find`: names below directories, printed as they are found.

use crate::arguments::Find;
use crate::exit::CommandError;
use crate::output::{JsonArray, entry_json, named_as, print, print_notices, write};
use crate::per_argument::{ArgumentResults, expand};
use hither::{
    Client, DirEntry, Error, ErrorKind, FileKind, Filter, FilterOptions, WalkEvent, WalkOptions,
};
use hither_core::text::escape_controls;
use hither_transport::redact_url;
use std::io::Write;

pub(crate) fn run(client: &Client, request: &Find, json: bool) -> Result<(), CommandError> {
    let options = WalkOptions { max_levels: request.max_depth, filter: request.filter.filter()? };
    let include = request.name.iter().map(|pattern| format!("/{pattern}")).collect();
    let names = Filter::new(&FilterOptions { include, ..FilterOptions::default() })?;
    let mut outcome = ArgumentResults::new(json);
    let array = JsonArray::new("entries");
    for url in expand(client, &request.urls, |url, error| outcome.failed(url, error)) {
        let found = client.storage_path(&url).and_then(|named| {
            client.block_on(client.walk(&named, &options, |event| {
                match event {
                    WalkEvent::Entry(entry, _) if takes(request, &names, &entry) => {
                        let shown = if json {
                            array.push(&entry_json(&named, &entry))
                        } else {
                            show(request, &named_as(&url, &named, &entry.path))
                        };
                        shown.map_err(|error| {
                            let what = format!("cannot write the output: {error}");
                            Error::new(ErrorKind::Local, what)
                        })?;
                    }
                    WalkEvent::Entry(..) => {}
                    WalkEvent::LeftOut(path, why) => {
                        print_notices(&[format!("{}: {why}", named.display_url(&path))]);
                    }
                    WalkEvent::Failed(path, error) => {
                        outcome.failed(&named.display_url(&path), error.into());
                    }
                }
                Ok(())
            }))
        });
        if let Err(error) = found {
            outcome.failed(&redact_url(&url), error.into());
        }
    }
    outcome.end_array(&array)
}

fn takes(request: &Find, names: &Filter, entry: &DirEntry) -> bool {
    let name = entry.path.rsplit('/').next().unwrap_or_default();
    // An entry without a time is neither newer nor older.
    let changed = |is: fn(&std::time::SystemTime, &std::time::SystemTime) -> bool, limit| {
        entry.modified.is_some_and(|modified| is(&modified, limit))
    };
    names.includes_file(name)
        && request.kind.is_none_or(|kind| kind.is(entry.kind))
        && request.size.is_none_or(|limit| {
            entry.kind == FileKind::File && entry.size.is_some_and(|size| limit.takes(size))
        })
        && request.newer.as_ref().is_none_or(|limit| changed(|a, b| a > b, limit))
        && request.older.as_ref().is_none_or(|limit| changed(|a, b| a < b, limit))
}

/// Prints a name: in one line, or unchanged before a NUL for other programs.
fn show(request: &Find, name: &str) -> std::io::Result<()> {
    if request.null {
        return write(|out| out.write_all(format!("{name}\0").as_bytes()));
    }
    print(&format!("{}\n", escape_controls(name)))
}
