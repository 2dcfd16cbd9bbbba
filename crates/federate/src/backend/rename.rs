//! MOVE within the federation: at the endpoint that has the file.
//!
//! A file that another endpoint has under the new name is removed there afterwards. Until then both
//! are there ([`Replacements`](crate::name_space::replacements::Replacements)).

use super::{is_directory, removable, remove_at};
use crate::endpoint::Endpoint;
use crate::merge::{EndpointId, MergedEntry};
use crate::name_space::NameSpace;
use crate::referral::{Outcome, backend_error, change_error, in_part, metadata};
use hither_core::error::{Error, ErrorKind};
use hither_server::{BackendError, BackendErrorKind, ChangeOptions};
use std::sync::Arc;

/// Renames a file or directory. Returns true if nothing had the new name.
pub(super) async fn rename(
    names: &Arc<NameSpace>,
    from: &str,
    to: &str,
    options: ChangeOptions,
) -> Outcome<bool> {
    let entry = removable(names, from).await?;
    let there = names.ask_all(to).await?;
    let target = there.as_deref().map(metadata);
    (options.precondition)(Some(&metadata(&entry)), target.as_ref())?;
    let id = names.only_writable_holder(&entry)?;
    let replaced_at = replaced_at(names, there.as_deref(), options.replace, id)?;
    let endpoint = names.endpoint(id).ok_or_else(BackendError::not_found)?;
    let paths = endpoint.storage_path(from).zip(endpoint.storage_path(to));
    let (source, target) = paths.ok_or_else(|| {
        let what = format!(
            "{}, which has the file, has no place for the new name: none of its prefixes leads \
             there; copy the file and remove the old one",
            endpoint.name
        );
        BackendError::new(BackendErrorKind::Conflict, what)
    })?;
    if there.is_none() || replaced_at.is_some() {
        names.make_parents(id, to).await?;
    }
    let renaming = Renaming {
        names: Arc::clone(names),
        endpoint: id,
        paths: [from.to_owned(), to.to_owned()],
        source,
        target,
        replace: options.replace,
    };
    match replaced_at {
        None => renaming.rename().await?,
        // A client that leaves between the two requests may not leave both files there, nor may a
        // server that stops.
        Some(other) => {
            names.replacements.begin(to, names.clock.now());
            tokio::spawn(renaming.replace(other)).await.unwrap_or_else(|error| {
                Err(BackendError::new(BackendErrorKind::Internal, error.to_string()))
            })?;
        }
    }
    Ok(there.is_none())
}

/// A rename whose endpoint is known.
struct Renaming {
    names: Arc<NameSpace>,
    /// The endpoint that has the file.
    endpoint: EndpointId,
    /// The names in the federation.
    paths: [String; 2],
    /// The names at the endpoint.
    source: String,
    target: String,
    replace: bool,
}

impl Renaming {
    async fn rename(&self) -> Outcome<()> {
        let endpoint = self.names.endpoint(self.endpoint).ok_or_else(BackendError::not_found)?;
        let change = endpoint.storage.rename(&self.source, &self.target, self.replace);
        let paths = [&*self.paths[0], &*self.paths[1]];
        let renamed = self.names.change(endpoint, &paths, change).await;
        renamed.map(drop).map_err(|error| failed(endpoint, error))
    }

    /// Renames the file, and removes the one that it replaces at another endpoint. If that were
    /// removed first, the name would be missing after a failed rename. The rename has been noted.
    async fn replace(self, other: EndpointId) -> Outcome<()> {
        let names = &self.names;
        let to = &self.paths[1];
        let renamed = self.rename().await;
        let may_be_renamed = match &renamed {
            Ok(()) => true,
            Err(error) => error.kind() == BackendErrorKind::Unconfirmed,
        };
        let replaced = match renamed {
            Ok(()) => self.remove(other).await,
            failed => failed,
        };
        let is_failed = may_be_renamed && replaced.is_err();
        names.replacements.end(to, is_failed, names.clock.now());
        replaced
    }

    /// Removes the file that is replaced.
    async fn remove(&self, other: EndpointId) -> Outcome<()> {
        let removed = remove_at(&self.names, other, &self.paths[1], false).await;
        removed.map_err(|error| {
            let what = format!(
                "the file has its new name at {}; {} may still have the one that it replaces: \
                 {error}",
                self.names.names_of(&[self.endpoint]),
                self.names.names_of(&[other])
            );
            in_part(BackendError::new(error.kind(), what))
        })
    }
}

/// The endpoint other than that of the renamed file whose file is replaced, if there is one.
fn replaced_at(
    names: &NameSpace,
    there: Option<&MergedEntry>,
    replace: bool,
    id: EndpointId,
) -> Outcome<Option<EndpointId>> {
    let Some(there) = there else { return Ok(None) };
    if !replace {
        let what = "another file or directory has this name";
        return Err(BackendError::new(BackendErrorKind::AlreadyExists, what));
    }
    let replaced_at = Some(names.only_writable_holder(there)?).filter(|it| *it != id);
    if replaced_at.is_some() && is_directory(there) {
        let what = "another endpoint has a directory of this name: remove it first";
        return Err(BackendError::new(BackendErrorKind::Conflict, what));
    }
    Ok(replaced_at)
}

/// The error of an endpoint that has not renamed a file.
fn failed(endpoint: &Endpoint, error: Error) -> BackendError {
    if error.kind() != ErrorKind::Unsupported {
        return change_error(error);
    }
    let what = format!("{} renames no files", endpoint.name);
    let advice = "copy it to the new name and remove the old one";
    let error = backend_error(error.context(what));
    BackendError::new(error.kind(), format!("{error}; {advice}"))
}
