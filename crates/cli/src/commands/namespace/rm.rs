//! `hither rm`: removes files, and directories with their contents.

use crate::arguments::Rm;
use crate::exit::CommandError;
use crate::per_argument::{ArgumentResults, expand_if_known};
use hither::{Client, Error, ErrorKind, FileKind, StoragePath};
use hither_transport::redact_url;
use serde_json::json;

pub(crate) fn run(client: &Client, request: &Rm, json: bool) -> Result<(), CommandError> {
    let mut outcome = ArgumentResults::new(json);
    let urls =
        expand_if_known(client, &request.urls, true, |url, error| outcome.failed(url, error));
    for url in &urls {
        match remove(client, url, request) {
            Ok(named) => outcome.done("", json!({ "url": named.display_url(&named.path) }))?,
            Err(error) if request.force && error.kind() == ErrorKind::NotFound => {}
            Err(error) => outcome.failed(&redact_url(url), error.into()),
        }
    }
    outcome.end("removed")
}

fn remove(client: &Client, url: &str, request: &Rm) -> Result<StoragePath, Error> {
    let refused =
        |what: &str| Err(Error::new(ErrorKind::Invalid, format!("{}: {what}", redact_url(url))));
    if matches!(redact_url(url).trim_end_matches('/').rsplit('/').next(), Some("." | "..")) {
        return refused("\".\" and \"..\" are not removed");
    }
    let named = client.storage_path(url)?;
    let storage = &named.storage;
    let path = &*named.path;
    if path.is_empty() {
        if !request.no_preserve_root || named.is_local() {
            return refused("this is the root; --no-preserve-root removes everything on a server");
        }
        for entry in client.block_on(storage.list(path))?.into_entries()? {
            client.block_on(storage.remove_tree(&entry.path))?;
        }
    } else if request.recursive {
        client.block_on(storage.remove_tree(path))?;
    } else if is_directory(client, &named)? {
        return refused("is a directory; -r removes directories and their contents");
    } else {
        client.block_on(storage.remove(path))?;
    }
    Ok(named)
}

/// Returns true if the URL names a directory itself, not a link to one.
fn is_directory(client: &Client, named: &StoragePath) -> Result<bool, Error> {
    match client.block_on(named.storage.stat(&named.path)) {
        // A dangling link is removed like any other link.
        Err(error) if named.is_local() && error.kind() == ErrorKind::NotFound => Ok(false),
        Ok(entry) if entry.kind == FileKind::Directory && named.is_local() => {
            let parent = named.path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let siblings = client.block_on(named.storage.list(parent))?;
            let own = siblings.entries.iter().find(|sibling| sibling.path == named.path);
            Ok(own.is_none_or(|own| own.kind == FileKind::Directory))
        }
        entry => Ok(entry?.kind == FileKind::Directory),
    }
}
