//! Referrals: the endpoint to which a client is redirected for a file, and its other replicas.
//!
//! **Reading.** The holders of the file are ranked ([`rank`]); the client is redirected to the
//! first one of which it can follow a URL, and gets the URLs of all the others. A client that
//! requests the same file again within seconds was not served: it gets the next holder, and the
//! cached answer is invalidated, so that all endpoints are queried again.
//!
//! **Writing.** A file that one endpoint holds is replaced there. A file with several replicas is
//! not replaced, because the others would keep the old one. One endpoint is responsible for new
//! names in a directory ([`decider`]), so that of two clients that create the same file one is
//! refused; the directory is made there if others have it. All endpoints are queried first: nothing
//! is written while one that may have the file has not answered, because two versions could result.

use crate::choice::{Candidate, decider, rank};
use crate::endpoint::Endpoint;
use crate::merge::{EndpointId, MergedEntry};
use crate::name_space::{NameSpace, Need};
use hither_checksum::Checksum;
use hither_core::error::{ErrorKind, Retry};
use hither_core::storage::{FileKind, parent};
use hither_core::sync::lock;
use hither_server::{
    BackendError, BackendErrorKind, EntryMetadata, Intent, LocateRequest, Located, url_below,
};
use std::sync::Arc;

/// A result for the server.
pub(crate) type Outcome<T> = Result<T, BackendError>;

impl NameSpace {
    /// The location at which a client can read or write a path.
    pub(crate) async fn locate(self: &Arc<Self>, request: &LocateRequest<'_>) -> Outcome<Located> {
        match request.intent {
            Intent::Read => self.locate_for_reading(request).await,
            Intent::Write => self.locate_for_writing(request).await,
        }
    }

    /// The location of a file to read, if it is known without a request to an endpoint.
    pub(crate) fn locate_known(&self, request: &LocateRequest<'_>) -> Option<Outcome<Located>> {
        if request.intent != Intent::Read || request.checksum.is_some() {
            return None;
        }
        let known = self.known(request.path)?;
        let entry = known.merged.as_deref()?;
        Some(self.refer(entry, request, None))
    }

    async fn locate_for_reading(self: &Arc<Self>, request: &LocateRequest<'_>) -> Outcome<Located> {
        let need = if request.wants_all { Need::AllAnswers } else { Need::Entry };
        let mut entry = self.entry(request.path, need).await?;
        let checksum = match request.checksum {
            Some(algorithm) if entry.facts.kind == FileKind::File => {
                let (holders, ..) = self.ranked(&entry.holders, request);
                let checksum = self.checksum(request.path, algorithm, &holders).await;
                if let Some(others) = self.known_to_differ(request.path) {
                    Arc::make_mut(&mut entry).exclude(&others);
                }
                checksum
            }
            _ => None,
        };
        self.refer(&entry, request, checksum)
    }

    /// Redirects a client to a holder of a file.
    fn refer(
        &self,
        entry: &MergedEntry,
        request: &LocateRequest<'_>,
        checksum: Option<Checksum>,
    ) -> Outcome<Located> {
        let metadata = metadata(entry);
        if entry.facts.kind == FileKind::Directory {
            return Ok(Located { metadata: Some(metadata), ..Located::default() });
        }
        let (ranked, client, returned) = self.ranked(&entry.holders, request);
        if returned && !request.wants_all {
            self.invalidate_holders(request.path);
        }
        let mut redirect = None;
        let mut replicas = Vec::with_capacity(ranked.len());
        for id in ranked {
            let mut urls = self.endpoint(id).map(|it| it.urls(request.path)).unwrap_or_default();
            let followed = urls.iter().position(|url| request.follows(url));
            // One URL for each holder: the one that this client can follow, if there is one.
            let Some(url) = (!urls.is_empty()).then(|| urls.swap_remove(followed.unwrap_or(0)))
            else {
                continue;
            };
            if redirect.is_none() && followed.is_some() {
                redirect = Some(url.clone());
                // A client that requests all replicas is not redirected yet.
                if !request.wants_all {
                    self.note_referral(id, client);
                }
            }
            replicas.push(url);
        }
        if redirect.is_none() && !self.settings.relay && !request.wants_all {
            let what = format!(
                "{} have this file, at URLs that this client cannot follow, and the federation \
                 does not relay files",
                self.names_of(&entry.holders)
            );
            return Err(BackendError::new(BackendErrorKind::Conflict, what));
        }
        let namespace = self.namespace(request, &replicas);
        Ok(Located { metadata: Some(metadata), redirect, replicas, namespace, checksum })
    }

    /// The directory whose files have the same endpoints and paths: that of a rule, if no other
    /// endpoint has a part of it, else the file itself. `None` if that is not requested, or a URL
    /// of the file does not end with its path.
    fn namespace(&self, request: &LocateRequest<'_>, urls: &[String]) -> Option<String> {
        let path = Some(request.path).filter(|_| request.wants_namespace)?;
        let end = url_below("http:", path);
        if !urls.iter().all(|url| url.ends_with(end.strip_prefix("http:").unwrap_or(&end))) {
            return None;
        }
        let mut endpoints = self.endpoints.iter().filter(|it| it.prefixes.resolve(path).is_some());
        let only = endpoints.next().filter(|_| endpoints.next().is_none());
        let rule = only.and_then(|it| it.prefixes.rule(path)).map(|it| &*it.path);
        let alone =
            rule.filter(|rule| self.endpoints.iter().all(|it| !it.prefixes.has_rule_below(rule)));
        Some(format!("/{}", alone.unwrap_or(path)))
    }

    async fn locate_for_writing(self: &Arc<Self>, request: &LocateRequest<'_>) -> Outcome<Located> {
        let path = request.path;
        let there = self.ask_all(path).await?;
        let id = match there.as_deref() {
            Some(entry) if entry.facts.kind == FileKind::Directory => {
                return Err(BackendError::new(
                    BackendErrorKind::Conflict,
                    "there is a directory at this path",
                ));
            }
            Some(entry) => self.only_writable_holder(entry)?,
            None => self.decider(path).ok_or_else(|| {
                let what = "no endpoint takes files at this path: that needs `write = true` in \
                            its [[endpoints]]";
                BackendError::new(BackendErrorKind::PermissionDenied, what)
            })?,
        };
        let urls = self.endpoint(id).map(|it| it.urls(path)).unwrap_or_default();
        let url = urls.into_iter().find(|url| request.follows(url)).ok_or_else(|| {
            let what = format!(
                "{} would take the file, at URLs that this client cannot follow: that needs one \
                 of http or https in `redirects`",
                self.names_of(&[id])
            );
            BackendError::new(BackendErrorKind::PermissionDenied, what)
        })?;
        if there.is_none() {
            self.make_parents(id, path).await?;
        }
        self.note_change(path).await;
        let client = lock(&self.recent).key(request.client, request.agent, path);
        self.note_referral(id, client);
        let metadata = there.as_deref().map(metadata);
        let namespace = self.namespace(request, std::slice::from_ref(&url));
        Ok(Located { metadata, redirect: Some(url), namespace, ..Located::default() })
    }

    /// The entry at a path before it is changed: all endpoints are queried again. Fails if one has
    /// not answered.
    pub(crate) async fn ask_all(self: &Arc<Self>, path: &str) -> Outcome<Option<Arc<MergedEntry>>> {
        self.forget(path);
        let answer = self.look_up(path, Need::AllAnswers).await.map_err(backend_error)?;
        let silent = answer.silent();
        if !silent.is_empty() {
            return Err(self.incomplete(&silent));
        }
        Ok(answer.merged.clone())
    }

    /// The endpoint that is responsible for a new name: one that accepts files there, at an HTTP
    /// URL if any of them has one, so that all clients can be redirected to it.
    pub(crate) fn decider(&self, path: &str) -> Option<EndpointId> {
        let takes = |it: &Endpoint| it.writes && it.storage_path(path).is_some();
        let takes: Vec<_> = self.numbered().filter(|(_, it)| takes(it)).collect();
        let is_public = |it: &Endpoint| it.urls(path).iter().any(|url| url.starts_with("http"));
        let has_public = takes.iter().any(|(_, it)| is_public(it));
        let chosen = takes.into_iter().filter(|(_, it)| !has_public || is_public(it));
        decider(parent(path), chosen.map(|(id, it)| (id, &*it.name, it.weight)))
    }

    /// The endpoint that holds an entry, if no other does and clients may write there.
    pub(crate) fn only_writable_holder(&self, entry: &MergedEntry) -> Outcome<EndpointId> {
        let all: Vec<_> = entry.holders.iter().chain(&entry.differing).copied().collect();
        let names = self.names_of(&all);
        match all.as_slice() {
            [id] if self.endpoint(*id).is_some_and(|it| it.writes) => Ok(*id),
            [_] => Err(BackendError::new(
                BackendErrorKind::PermissionDenied,
                format!("{names}, which has it, is read-only: changes need `write = true` there"),
            )),
            _ => Err(BackendError::new(
                BackendErrorKind::Conflict,
                format!("there are replicas at {names}: remove them first"),
            )),
        }
    }

    /// Makes the directories of a new file at an endpoint, if they exist at others.
    pub(crate) async fn make_parents(self: &Arc<Self>, id: EndpointId, path: &str) -> Outcome<()> {
        let Some(endpoint) = self.endpoint(id) else { return Ok(()) };
        let mut missing = Vec::new();
        let mut directory = parent(path);
        while !directory.is_empty() && !endpoint.prefixes.leads_below(directory) {
            let answer = self.look_up(directory, Need::AllAnswers).await.map_err(backend_error)?;
            let silent = answer.silent();
            if !silent.is_empty() {
                return Err(self.incomplete(&silent));
            }
            let lost = self.lost_directory(directory, answer.merged.as_deref());
            if !lost.is_empty() {
                return Err(self.lost(directory, &lost));
            }
            // A directory that is missing everywhere is an error that the endpoint itself reports.
            let Some(entry) = &answer.merged else { return Ok(()) };
            let is_file = entry.facts.kind != FileKind::Directory;
            let files = if is_file { &entry.holders } else { &entry.differing };
            if !files.is_empty() {
                let what = format!("{directory} is a file at {}", self.names_of(files));
                return Err(BackendError::new(BackendErrorKind::Conflict, what));
            }
            if entry.holders.contains(&id) {
                break;
            }
            missing.push(directory);
            directory = parent(directory);
        }
        let is_top = directory.is_empty() || endpoint.prefixes.leads_below(directory);
        if is_top && self.has_lost_top(id, directory).await {
            return Err(self.lost(directory, &[id]));
        }
        for directory in missing.iter().rev() {
            let Some(target) = endpoint.storage_path(directory) else { continue };
            let make = async { endpoint.storage.make_directory(&target).await };
            // The client's own request is not sent before this succeeds: the client can repeat it.
            match self.change(endpoint, &[directory], make).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(backend_error(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The entry that most endpoints have at a path.
    pub(crate) async fn entry(
        self: &Arc<Self>,
        path: &str,
        need: Need,
    ) -> Outcome<Arc<MergedEntry>> {
        let answer = self.look_up(path, need).await.map_err(backend_error)?;
        match &answer.merged {
            Some(entry) => Ok(Arc::clone(entry)),
            None if answer.unanswered.is_empty() => Err(BackendError::not_found()),
            None => Err(self.incomplete(&answer.unanswered)),
        }
    }

    /// The error of an answer without some endpoints.
    pub(crate) fn incomplete(&self, unanswered: &[EndpointId]) -> BackendError {
        let what = format!(
            "the answer is incomplete, because these endpoints have not answered: {}",
            self.names_of(unanswered)
        );
        BackendError::new(BackendErrorKind::Unavailable, what)
    }

    /// The error of a change where endpoints have lost a directory.
    pub(crate) fn lost(&self, path: &str, endpoints: &[EndpointId]) -> BackendError {
        let what = format!(
            "the directory /{path} is missing at {}, perhaps because a disk is not mounted there: \
             mount it; if the directory was removed there, see \"Lost directories\" in the guide \
             to federations",
            self.names_of(endpoints)
        );
        BackendError::new(BackendErrorKind::Unavailable, what)
    }

    /// Sorts endpoints for a client, the best first. Also returns the key of the client, and true
    /// if it was redirected to one of them within seconds.
    fn ranked(
        &self,
        ids: &[EndpointId],
        request: &LocateRequest<'_>,
    ) -> (Vec<EndpointId>, u64, bool) {
        let now = self.clock.now();
        let (client, sent) = {
            let mut recent = lock(&self.recent);
            let client = recent.key(request.client, request.agent, request.path);
            (client, recent.of(client, now))
        };
        let load = lock(&self.load);
        let candidate = |id: &EndpointId| {
            let endpoint = self.endpoint(*id)?;
            let returns = sent.iter().filter(|it| *it == id).count();
            Some(Candidate {
                endpoint: *id,
                returns: u32::try_from(returns).unwrap_or(u32::MAX),
                is_down: self.health.is_down(&endpoint.name),
                distance: self.sites.distance(request.client, endpoint.site.as_deref()),
                answer_time: endpoint.answer_time(),
                load: load.count(*id, now) / endpoint.weight,
            })
        };
        let mut candidates: Vec<_> = ids.iter().filter_map(candidate).collect();
        drop(load);
        rank(&mut candidates);
        let returned = candidates.iter().any(|it| it.returns > 0);
        (candidates.into_iter().map(|it| it.endpoint).collect(), client, returned)
    }

    /// Records that a client is redirected to an endpoint.
    fn note_referral(&self, id: EndpointId, client: u64) {
        let now = self.clock.now();
        lock(&self.load).add(id, now);
        lock(&self.recent).add(client, id, now);
    }
}

/// The metadata of a merged entry. It has no entity tag, because those of the endpoints differ.
pub(crate) fn metadata(entry: &MergedEntry) -> EntryMetadata {
    EntryMetadata {
        kind: entry.facts.kind,
        size: entry.facts.size,
        version: hither_http::conditions::Version {
            etag: String::new(),
            modified: entry.facts.modified.unwrap_or(std::time::UNIX_EPOCH),
        },
        created: None,
        mode: None,
    }
}

/// The error of an endpoint, for the client.
pub(crate) fn backend_error(error: hither_core::Error) -> BackendError {
    use BackendErrorKind as Kind;
    let kind = match error.kind() {
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::AlreadyExists => Kind::AlreadyExists,
        ErrorKind::NoSpace => Kind::NoSpace,
        ErrorKind::Unauthenticated | ErrorKind::PermissionDenied => Kind::PermissionDenied,
        ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Changed => Kind::Conflict,
        ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Cancelled => Kind::Unavailable,
        _ => Kind::Internal,
    };
    BackendError::new(kind, error.message_with_causes())
}

/// The error of an endpoint to which a change was sent, for the client.
pub(crate) fn change_error(error: hither_core::Error) -> BackendError {
    match error.retry() {
        Retry::LookFirst => {
            BackendError::new(BackendErrorKind::Unconfirmed, error.message_with_causes())
        }
        _ => backend_error(error),
    }
}

/// The error of a change that was carried out in part, which cannot be retried.
pub(crate) fn in_part(error: BackendError) -> BackendError {
    match error.kind() {
        BackendErrorKind::Unavailable => {
            let what = format!("a part of the change may have been carried out: {error}");
            BackendError::new(BackendErrorKind::Unconfirmed, what)
        }
        _ => error,
    }
}
