//! The federation as the backend of a server.
//!
//! Metadata and listings come from the merged name space. Files are read and written where
//! [`Backend::locate`] sends the clients; a file is opened here only to be relayed to a client that
//! cannot follow the redirect.
//!
//! **Incomplete listings.** [`Backend::list`] fails if an endpoint has not answered, so that no
//! program takes a partial listing for a complete one. [`Backend::list_available`] returns the
//! partial listing with the names of the missing endpoints, for pages that people read.
//!
//! **Changes** of names are made by the federation itself, with its own credentials, where the
//! configuration allows writing; the server has checked before that the client may write.

mod rename;

use crate::federation::Federation;
use crate::merge::{EndpointId, MergedEntry, MergedListing};
use crate::name_space::replacements::Replacement;
use crate::name_space::{NameSpace, Need};
use crate::referral::{Outcome, backend_error, change_error, in_part, metadata};
use crate::relay::RelayedFile;
use crate::settings::DeletePolicy;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use hither_core::error::ErrorKind;
use hither_core::storage::{FileKind, parent};
use hither_http::propfind::PropertyName;
use hither_http::propfind::PropertyUpdate;
use hither_server::{
    AvailableEntries, Backend, BackendError, BackendErrorKind, BackendFuture, BackendServer,
    ChangeOptions, CreateOptions, DeadProperties, Described, Details, DirectoryEntry,
    DirectoryListing, EntryDescription, EntryMetadata, FileReader, FileWriter, LinkFilter,
    LocateRequest, Located, Precondition, SpaceUsage,
};
use std::sync::Arc;

/// Maximum number of concurrent lookups of names of one listing.
const AT_ONCE: usize = 32;
/// The namespace of the properties `differing`, the endpoints whose entry of the name differs, and
/// `assumed-equal`, the holders of which only the size shows that they have the same file.
const PROPERTIES: &str = "urn:hither:federation";

impl Backend for Federation {
    fn stat<'a>(&'a self, path: &'a str) -> BackendFuture<'a, EntryMetadata> {
        let names = self.name_space();
        Box::pin(async move {
            let replacement = names.replacements.at(path, names.clock.now());
            Ok(metadata(&*shown(&names, path, replacement).await?))
        })
    }

    fn list<'a>(&'a self, path: &'a str, max: usize) -> BackendFuture<'a, DirectoryListing> {
        Box::pin(async move {
            let names = self.name_space();
            let listing = listing(&names, path).await?;
            if !listing.is_complete() {
                let error = names.incomplete(&listing.unanswered);
                let advice = "listings do without an endpoint only if `copy_of` in its `prefixes` \
                              names one that answers";
                return Err(BackendError::new(error.kind(), format!("{error}; {advice}")));
            }
            let entries = entries(&listing, max);
            Ok(DirectoryListing { entries, hides_names: listing.hides_names })
        })
    }

    fn list_available<'a>(
        &'a self,
        path: &'a str,
        max: usize,
    ) -> BackendFuture<'a, AvailableEntries> {
        Box::pin(async move {
            let names = self.name_space();
            let listing = listing(&names, path).await?;
            let missing = (!listing.is_complete()).then(|| names.names_of(&listing.unanswered));
            Ok(AvailableEntries { entries: entries(&listing, max), missing })
        })
    }

    fn describe(
        &self,
        paths: Vec<String>,
        details: Details,
        _links: LinkFilter,
    ) -> BackendFuture<'_, Vec<Option<Described>>> {
        let names = self.name_space();
        Box::pin(async move {
            let describe = |path: String| {
                let names = Arc::clone(&names);
                async move {
                    let replacement = names.replacements.at(&path, names.clock.now());
                    let entry = match names.listed(&path) {
                        Some(entry) if replacement.is_none() => Arc::new(entry),
                        _ => match shown(&names, &path, replacement).await {
                            Err(error) if error.kind() == BackendErrorKind::NotFound => {
                                return Ok(None);
                            }
                            // The others in its directory are described.
                            Err(error) if replacement.is_some() => return Ok(Some(Err(error))),
                            entry => entry?,
                        },
                    };
                    Ok(Some(Ok(EntryDescription {
                        metadata: metadata(&entry),
                        checksums: Vec::new(),
                        properties: conflicts(&names, &entry, details),
                        space: None,
                    })))
                }
            };
            let described: Vec<Outcome<_>> =
                stream::iter(paths).map(describe).buffered(AT_ONCE).collect().await;
            described.into_iter().collect()
        })
    }

    fn refers(&self) -> bool {
        true
    }

    fn locate<'a>(&'a self, request: LocateRequest<'a>) -> BackendFuture<'a, Located> {
        let names = self.name_space();
        // Most lookups are of names that are cached, and need no task that waits.
        match names.locate_known(&request) {
            Some(located) => Box::pin(std::future::ready(located)),
            None => Box::pin(async move { names.locate(&request).await }),
        }
    }

    fn open<'a>(&'a self, path: &'a str) -> BackendFuture<'a, Arc<dyn FileReader>> {
        Box::pin(async move {
            let names = self.name_space();
            let entry = names.entry(path, Need::Entry).await?;
            let reader = RelayedFile::open(&names, path, &entry)?;
            Ok(Arc::new(reader) as Arc<dyn FileReader>)
        })
    }

    fn create<'a>(
        &'a self,
        _path: &'a str,
        _options: CreateOptions,
    ) -> BackendFuture<'a, Arc<dyn FileWriter>> {
        // Clients have been redirected to an endpoint before this point.
        refuse("files are written to the endpoints of a federation, not through it")
    }

    fn rename<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        options: ChangeOptions,
    ) -> BackendFuture<'a, bool> {
        let names = self.name_space();
        Box::pin(async move { rename::rename(&names, from, to, options).await })
    }

    fn copy<'a>(
        &'a self,
        _from: &'a str,
        _to: &'a str,
        _deep: bool,
        _options: ChangeOptions,
        _links: LinkFilter,
    ) -> BackendFuture<'a, bool> {
        refuse("a federation copies no files between its own paths: copy them by two URLs")
    }

    fn remove<'a>(
        &'a self,
        path: &'a str,
        whole: bool,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let names = self.name_space();
            if names.settings.deletes == DeletePolicy::Refuse {
                let what = "this federation deletes nothing; `deletes = \"all\"` changes that";
                return Err(BackendError::new(BackendErrorKind::PermissionDenied, what));
            }
            let entry = removable(&names, path).await?;
            precondition(Some(&metadata(&entry)))?;
            // Differing entries would become visible when the others are removed.
            let holders = || entry.holders.iter().chain(&entry.differing).copied();
            if let Some(id) = holders().find(|id| !names.endpoint(*id).is_some_and(|it| it.writes))
            {
                let what = format!("{}, which has it, is read-only", names.names_of(&[id]));
                return Err(BackendError::new(BackendErrorKind::PermissionDenied, what));
            }
            let whole = whole && is_directory(&entry);
            // A directory is removed by many requests, and several replicas are removed one after
            // the other.
            let is_whole = |number| number == 0 && !whole;
            for (number, id) in holders().enumerate() {
                let removed = remove_at(&names, id, path, whole).await;
                removed.map_err(|error| if is_whole(number) { error } else { in_part(error) })?;
            }
            Ok(())
        })
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a str,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let names = self.name_space();
            let there = names.ask_all(path).await?;
            precondition(there.as_deref().map(metadata).as_ref())?;
            let id = names.decider(path).ok_or_else(|| {
                let what = "no endpoint takes directories at this path: that needs \
                            `write = true` in its [[endpoints]]";
                BackendError::new(BackendErrorKind::PermissionDenied, what)
            })?;
            let directory = changeable(&names, parent(path)).await?;
            if !is_directory(&directory) {
                return Err(BackendError::not_found());
            }
            names.make_parents(id, path).await?;
            let endpoint = names.endpoint(id).ok_or_else(BackendError::not_found)?;
            let target = endpoint.storage_path(path).unwrap_or_default();
            let make = async { endpoint.storage.make_directory(&target).await };
            names.change(endpoint, &[path], make).await.map_err(change_error)
        })
    }

    fn set_properties<'a>(
        &'a self,
        _path: &'a str,
        _updates: Vec<PropertyUpdate>,
        _precondition: Precondition,
    ) -> BackendFuture<'a, Option<EntryMetadata>> {
        refuse("a federation keeps no properties")
    }

    fn probe(&self) -> BackendFuture<'_, Option<SpaceUsage>> {
        let names = self.name_space();
        let is_up = names.endpoints.iter().any(|it| !names.health.is_down(&it.name));
        Box::pin(std::future::ready(if is_up {
            Ok(None)
        } else {
            let what = "no endpoint of the federation answers";
            Err(BackendError::new(BackendErrorKind::Unavailable, what))
        }))
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        let replacements = Arc::clone(&self.name_space().replacements);
        Box::pin(async move { replacements.finish().await })
    }

    fn servers(&self) -> Vec<BackendServer> {
        let names = self.name_space();
        let server = |endpoint: &crate::Endpoint| {
            let (answered, failed) = endpoint.totals();
            BackendServer {
                name: endpoint.name.clone(),
                is_up: !names.health.is_down(&endpoint.name),
                answer_seconds: endpoint.answer_time().as_secs_f64(),
                answered,
                failed,
                conflicts: endpoint.conflicts(),
            }
        };
        names.endpoints.iter().map(server).collect()
    }
}

fn is_directory(entry: &MergedEntry) -> bool {
    entry.facts.kind == FileKind::Directory
}

/// The entry at a path, for a client that looks at it. While a file is being renamed over one of
/// another endpoint, or if that has failed, both may be there: the client may not take the rename
/// for carried out then.
async fn shown(
    names: &Arc<NameSpace>,
    path: &str,
    replacement: Option<Replacement>,
) -> Outcome<Arc<MergedEntry>> {
    let Some(replacement) = replacement else {
        return names.entry(path, Need::Entry).await;
    };
    let entry = changeable(names, path).await?;
    let holders: Vec<_> = entry.holders.iter().chain(&entry.differing).copied().collect();
    if holders.len() < 2 {
        return Ok(entry);
    }
    let why = if replacement.is_running() {
        "one of them is being removed"
    } else {
        "a MOVE has failed when one was put there: remove the other one there"
    };
    let what = format!("{} have a file named {path}: {why}", names.names_of(&holders));
    // After a status that is final, a client may try HEAD, which is redirected to the new file.
    Err(BackendError::new(BackendErrorKind::Unavailable, what))
}

/// The entry at a path that is to be changed, from new answers of all endpoints.
async fn changeable(names: &Arc<NameSpace>, path: &str) -> Outcome<Arc<MergedEntry>> {
    names.ask_all(path).await?.ok_or_else(BackendError::not_found)
}

/// The entry at a path that is to be moved or removed. Fails if an endpoint has lost its part of
/// the directory, which would be left behind.
async fn removable(names: &Arc<NameSpace>, path: &str) -> Outcome<Arc<MergedEntry>> {
    let entry = changeable(names, path).await?;
    if is_directory(&entry) {
        let lost = names.lost_part(path, &entry);
        if !lost.is_empty() {
            return Err(names.lost(path, &lost));
        }
    }
    Ok(entry)
}

async fn listing(names: &Arc<NameSpace>, path: &str) -> Outcome<Arc<MergedListing>> {
    names.list(path).await.map_err(backend_error)?.ok_or_else(BackendError::not_found)
}

fn entries(listing: &MergedListing, max: usize) -> Vec<DirectoryEntry> {
    let entry = |(name, entry): &(Box<str>, MergedEntry)| {
        DirectoryEntry::new(name.as_bytes(), is_directory(entry))
    };
    let refused = |name: &[u8]| {
        let entry = DirectoryEntry::new(name, false);
        match entry.refusal {
            None => DirectoryEntry::refused(name, false, "its endpoint does not describe it"),
            Some(_) => entry,
        }
    };
    let refused = listing.refused.iter().map(|name| refused(name));
    let entries = listing.entries.iter().map(entry).chain(refused);
    entries.take(max.saturating_add(1)).collect()
}

/// The properties that show how the replicas of an entry differ, if properties are requested.
fn conflicts(names: &NameSpace, entry: &MergedEntry, details: Details) -> DeadProperties {
    if !details.properties {
        return DeadProperties::new();
    }
    let property = |(local, ids): (&str, &[EndpointId])| {
        let name = PropertyName { namespace: PROPERTIES.to_owned(), local: local.to_owned() };
        let value = names.names_of(ids).replace('&', "&amp;").replace('<', "&lt;");
        (!ids.is_empty()).then_some((name, value))
    };
    let is_file = entry.facts.kind == FileKind::File;
    let assumed = if is_file { entry.assumed() } else { Vec::new() };
    let shown: [(&str, &[EndpointId]); 2] =
        [("differing", &entry.differing), ("assumed-equal", &assumed)];
    shown.into_iter().filter_map(property).collect()
}

/// Removes a name at an endpoint; if `whole`, with everything below it.
async fn remove_at(names: &NameSpace, id: EndpointId, path: &str, whole: bool) -> Outcome<()> {
    let Some(endpoint) = names.endpoint(id) else { return Ok(()) };
    let Some(target) = endpoint.storage_path(path).filter(|it| it != endpoint.root()) else {
        let what = format!("the root of {} cannot be removed", endpoint.name);
        return Err(BackendError::new(BackendErrorKind::PermissionDenied, what));
    };
    let remove = async {
        if whole {
            endpoint.storage.remove_tree(&target).await
        } else {
            endpoint.storage.remove(&target).await
        }
    };
    match names.change(endpoint, &[path], remove).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(change_error(error)),
        _ => Ok(()),
    }
}

fn refuse<T: Send + 'static>(what: &'static str) -> BackendFuture<'static, T> {
    let error = BackendError::new(BackendErrorKind::PermissionDenied, what);
    Box::pin(std::future::ready(Err(error)))
}
