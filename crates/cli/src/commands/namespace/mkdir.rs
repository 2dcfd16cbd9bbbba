//! `hither mkdir`: creates directories.

use crate::arguments::Mkdir;
use crate::exit::CommandError;
use crate::per_argument::ArgumentResults;
use hither::{Client, Error, ErrorKind, FileKind, StoragePath};
use hither_transport::redact_url;
use serde_json::json;

pub(crate) fn run(client: &Client, request: &Mkdir, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    for url in &request.urls {
        match make(client, url, request.parents) {
            Ok(named) => outcome.done("", json!({ "url": named.display_url(&named.path) }))?,
            Err(error) => outcome.failed(&redact_url(url), error.into()),
        }
    }
    outcome.end("made")
}

fn make(client: &Client, url: &str, parents: bool) -> Result<StoragePath, Error> {
    let named = client.storage_path(url)?;
    if !parents {
        client.block_on(named.storage.make_directory(&named.path))?;
        return Ok(named);
    }
    // Upwards to the first existing directory, then downwards.
    let mut missing = Vec::new();
    let mut path = &*named.path;
    loop {
        match client.block_on(named.storage.stat(path)) {
            Ok(entry) if entry.kind == FileKind::Directory => break,
            Ok(_) => {
                let what = format!("{} exists and is not a directory", named.display_url(path));
                return Err(Error::new(ErrorKind::AlreadyExists, what));
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_empty() => {
                missing.push(path);
                path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            }
            Err(error) => return Err(error),
        }
    }
    for path in missing.into_iter().rev() {
        match client.block_on(named.storage.make_directory(path)) {
            // Another process has created it in the meantime.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(named)
}
