//! `hither mover`: the process that copies for a cluster on one of its nodes, and the listing of
//! the tree that the cluster copies.

use crate::arguments::{Mover, read_list};
use crate::exit::CommandError;
use crate::output::print;
use hither::{Client, Error, ErrorKind, FileKind, WalkEvent, WalkOptions};
use hither_transfer::SeenPaths;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

pub(crate) fn run(client: &Client, request: &Mover) -> Result<(), CommandError> {
    if request.list {
        return list(client, request);
    }
    let idle = Duration::from_secs(request.idle);
    Ok(client.block_on(client.run_mover(Path::new(&request.place), idle))?)
}

/// Prints an object for each name below the tree, as it is found, and `{"end": true}` at the end. A
/// name that some destinations cannot distinguish from an earlier one in its directory is `alike`.
fn list(client: &Client, request: &Mover) -> Result<(), CommandError> {
    let named = client.storage_path(&read_list(Path::new(&request.place))?)?;
    let below = |path: &str| {
        let relative = path.strip_prefix(named.path.as_str()).unwrap_or(path);
        relative.trim_start_matches('/').to_owned()
    };
    let options = WalkOptions { max_levels: None, filter: request.filter.filter()? };
    let mut seen = SeenPaths::default();
    client.block_on(client.walk(&named, &options, |event| {
        let shown = match event {
            WalkEvent::Entry(entry, _) => {
                let modified = entry.modified.and_then(|it| it.duration_since(UNIX_EPOCH).ok());
                let kind = match entry.kind {
                    FileKind::File => "file",
                    FileKind::Directory => "directory",
                    FileKind::Link | FileKind::Other | FileKind::Unnamed => "other",
                };
                let path = below(&entry.path);
                json!({
                    "alike": seen.add(&path),
                    "path": path,
                    "kind": kind,
                    "size": entry.size,
                    "modified": modified.and_then(|it| u64::try_from(it.as_nanos()).ok()),
                    "validator": entry.validator,
                })
            }
            WalkEvent::LeftOut(path, why) => problem(&below(&path), "other", &why),
            WalkEvent::Failed(path, error) => problem(&below(&path), "failed", &error.to_string()),
        };
        print(&format!("{shown}\n")).map_err(|error| {
            let what = format!("cannot write the output: {error}");
            Error::new(ErrorKind::Local, what)
        })
    }))?;
    Ok(print(&format!("{}\n", json!({ "end": true })))?)
}

fn problem(path: &str, kind: &str, message: &str) -> Value {
    json!({ "path": path, "kind": kind, "message": message })
}
