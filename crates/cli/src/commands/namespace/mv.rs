//! `hither mv`: renames and moves on one server.

use crate::arguments::{Mv, sources_and_destination};
use crate::exit::CommandError;
use crate::per_argument::{ArgumentResults, expand_if_known};
use hither::{Client, Error, ErrorKind, FileKind, StoragePath};
use hither_transfer::refuse_clashes;
use hither_transport::redact_url;
use serde_json::json;

pub(crate) fn run(client: &Client, request: &Mv, json: bool) -> Result<(), CommandError> {
    let (sources, target) = sources_and_destination(&request.urls)?;
    let target = client.storage_path(target)?;
    let mut outcome = ArgumentResults::new(json);
    let named = sources;
    let sources = expand_if_known(client, named, true, |url, error| outcome.failed(url, error));
    let into = is_directory(client, &target)?;
    if !into && (named.len().max(sources.len()) > 1 || target.directory) {
        let what = format!("{} is not a directory", target.display_url(&target.path));
        return Err(CommandError::usage(what));
    }
    if into {
        let sources = sources.iter().map(|url| client.storage_path(url));
        let sources = sources.collect::<Result<Vec<_>, _>>()?.into_iter();
        // A root is refused later, when it is moved.
        let named = sources.filter(|it| !it.path.is_empty()).map(StoragePath::into_copy_path);
        let directory = target.clone().into_copy_path();
        client.block_on(refuse_clashes(&named.collect::<Vec<_>>(), directory))?;
    }
    for url in &sources {
        match rename(client, url, &target, into, request.no_clobber) {
            Ok((from, to)) => outcome.done("", json!({ "from": from, "to": to }))?,
            Err(error) if request.no_clobber && error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => outcome.failed(&redact_url(url), error.into()),
        }
    }
    outcome.end("moved")
}

fn is_directory(client: &Client, named: &StoragePath) -> Result<bool, Error> {
    match client.block_on(named.storage.stat_named(&named.path)) {
        Ok(entry) => Ok(entry.kind == FileKind::Directory),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn rename(
    client: &Client,
    url: &str,
    target: &StoragePath,
    into: bool,
    no_clobber: bool,
) -> Result<(String, String), Error> {
    let source = client.storage_path(url)?;
    if source.server != target.server {
        let what = format!(
            "{} is not on the server of {}: use hither cp, then hither rm",
            source.display_url(&source.path),
            target.display_url(&target.path)
        );
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let to = match (into, &*target.path) {
        (false, path) => path.to_owned(),
        (true, "") => name.to_owned(),
        (true, path) => format!("{path}/{name}"),
    };
    let shown = (source.display_url(&source.path), target.display_url(&to));
    if source.path == to || to.starts_with(&format!("{}/", source.path)) {
        let what = format!("{} cannot be moved to {}", shown.0, shown.1);
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    client.block_on(source.storage.rename(&source.path, &to, !no_clobber))?;
    Ok(shown)
}
