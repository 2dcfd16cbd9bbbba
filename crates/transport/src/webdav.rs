//! A WebDAV server (RFC 4918) as a storage, and what is possible on HTTP servers with less.
//!
//! **Names.** PROPFIND reports everything. A server without it is asked by HEAD, where a redirect
//! to the same name with a slash means a directory, and is listed by its HTML directory index, if
//! the format is known.
//!
//! **Writing.** A file is put under a temporary name in the same directory and moved when it is
//! complete. The move says `Overwrite: F` first, also where replacing is allowed, since `T` would
//! replace a directory with everything in it. `webdav/upload.rs` explains how the bytes are sent.
//!
//! **Behaviour of servers** (measured: Apache 2.4.71, nginx 1.22.1, XrdHttp 5.5.3, rclone 1.60): a
//! directory needs a trailing slash, without which nginx refuses; creating one that exists is 405,
//! but 201 with XrdHttp and rclone; XrdHttp also creates the parents, overwrites in spite of `F`,
//! and responds with 500 where something does not exist. So where a response can have two reasons,
//! the name is looked up before the error is reported, and where a server would replace a file
//! unasked, it is looked up before the request. Another client may act in between.
//!
//! The learned capabilities of a server are remembered.

mod arriving;
mod autoindex;
mod conflicts;
mod index_listing;
mod listing;
mod moving;
mod putting;
mod refusals;
mod tree;
mod tree_upload;
mod upload;

use crate::context::MonotonicClock;
use crate::http::call::change::{self, ChangeOutcome, Seen};
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request;
use crate::http::source::HttpSource;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use crate::replica_discovery::ReplicaFinder;
use async_trait::async_trait;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::TryStreamExt;
use hither_checksum::{Algorithm, Checksum};
use hither_core::endpoint::NamespaceSupport;
use hither_core::error::{Effect, Error, ErrorKind, Failure, Result};
use hither_core::retry::{self, Failed};
use hither_core::storage::{
    DirEntry, FileKind, FileTimes, Listing, PutOptions, Storage, StoredEntry, TreeEvents,
    TreeRequest, TreeUpload, Upload, check_name, check_new_name, check_path, hide_partial_name,
    parent,
};
use hither_core::{ReplicaSet, Source};
use hither_http::conditions::IF_EMPTY;
use http::{Method, header};
use refusals::MethodRefusals;
use std::any::Any;
use std::sync::Arc;
use upload::WebDavUpload;

/// A tree of files behind an HTTP server.
#[derive(Debug, Clone)]
pub struct WebDavStorage {
    network: Arc<Network>,
    root: Location,
    /// A path that is known to be a directory, and so are those that it is in.
    directory: String,
    replicas: Option<ReplicaFinder>,
    /// Of PROPFIND.
    refusals: Arc<MethodRefusals>,
    /// Of MOVE.
    unmoved: Arc<MethodRefusals>,
}

/// The time of the last change of a file that is uploaded, in seconds since 1970.
const X_OC_MTIME: &str = "x-oc-mtime";

impl WebDavStorage {
    /// The directory at `root`. Nothing is requested yet.
    #[must_use]
    pub fn new(root: Location, network: Arc<Network>) -> Self {
        let (directory, replicas, refusals, unmoved) = Default::default();
        Self { network, root, directory, replicas, refusals, unmoved }
    }

    /// The same storage, in which `path` and the directories that it is in are known as
    /// directories. Requests for them end with a slash: a server may have nothing at `/dav`, and
    /// all at `/dav/`.
    #[must_use]
    pub fn with_directory(self, path: impl Into<String>) -> Self {
        Self { directory: path.into(), ..self }
    }

    /// Finds replicas of its files with `finder`.
    #[must_use]
    pub fn with_replicas(self, finder: ReplicaFinder) -> Self {
        Self { replicas: Some(finder), ..self }
    }

    fn names(&self) -> NamespaceSupport {
        let mut names = self.network.pool(&self.root).server().names();
        if self.root.is_in_federation() {
            // A director sends no MOVE anywhere, and files of a tree are at several servers.
            names.moves = Some(false);
            names.trees = None;
            names.tree_uploads = None;
        }
        names
    }

    fn learn(&self, learn: impl FnOnce(&mut NamespaceSupport)) {
        self.network.pool(&self.root).server().learn_names(learn);
        self.network.remember_all();
    }

    async fn call(&self, call: HttpRequest) -> Result<HttpResponse> {
        if self.names().replaces {
            request::check_uncut(&call.location)?;
        }
        let replaced = self.names().replaces;
        let reply = self.network.call(call).await?;
        if !replaced && self.names().replaces {
            self.network.remember_all();
        }
        if request::is_of_xrootd(&reply.headers) {
            request::check_uncut(&reply.location)?;
        }
        // A server that redirects is not like those that it leads to.
        if reply.location.origin() != self.root.origin() {
            return Ok(reply);
        }
        if self.names().trees != Some(true) && hither_http::tree::is_understood(&reply.headers) {
            self.learn(|names| names.trees = Some(true));
        }
        let is_kept = reply.headers.get(X_OC_MTIME).is_some_and(|it| it == "accepted");
        if is_kept && !self.names().keeps_times {
            self.learn(|names| names.keeps_times = true);
        }
        if self.names().tree_uploads.is_none() && hither_http::tree::takes_uploads(&reply.headers) {
            self.learn(|names| names.tree_uploads = Some(true));
        }
        Ok(reply)
    }

    /// A request with a method of WebDAV and without body.
    fn request(&self, method: &[u8], path: &str, directory: bool) -> HttpRequest {
        let method = Method::from_bytes(method).unwrap_or(Method::OPTIONS);
        HttpRequest::new(method, self.root.below(path, directory))
    }

    fn is_known_directory(&self, path: &str) -> bool {
        let below = self.directory.strip_prefix(path);
        path.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The entry of a name; `None` if there is none.
    async fn look(&self, path: &str) -> Result<Option<DirEntry>> {
        self.look_for(path, self.is_known_directory(path)).await
    }

    /// As [`Self::look`]; for a directory, the request ends with a slash.
    async fn look_for(&self, path: &str, directory: bool) -> Result<Option<DirEntry>> {
        match listing::stat_as(self, path, directory).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Carries out a change of `name` that `look` sees ([`change::carry_out`]). Returns the
    /// response of a server that refuses it.
    async fn carry_out<L>(
        &self,
        name: &str,
        request: impl Fn() -> HttpRequest + Send + Sync,
        look: impl Fn() -> L + Send + Sync,
    ) -> Result<Option<HttpResponse>>
    where
        L: Future<Output = Result<Seen>> + Send,
    {
        let policy = self.network.config().retry_policy();
        change::carry_out(&policy, || self.change(request(), name), look).await
    }

    /// Removes what `before` is the entry of; a directory that is not empty only if `whole`, where
    /// the server compares that.
    async fn delete(&self, before: &DirEntry, whole: bool) -> Result<()> {
        let refused = self.try_delete(before, whole).await?;
        refused.map_or(Ok(()), |reply| Err(status_error::of_response(&reply, "DELETE")))
    }

    /// The same. Returns the response of a server that refuses it.
    async fn try_delete(&self, before: &DirEntry, whole: bool) -> Result<Option<HttpResponse>> {
        let path = &*before.path;
        let directory = before.kind == FileKind::Directory;
        let request = || {
            let delete = self.request(b"DELETE", path, directory);
            if directory && !whole { delete.with(IF_EMPTY, "?1") } else { delete }
        };
        let look = || async {
            let now = self.look_for(path, directory).await?;
            Ok(Seen::removed(before, now.as_ref()))
        };
        self.carry_out(path, request, look).await
    }

    /// Removes a file of this version, where the server can compare it in one step.
    async fn delete_version(&self, path: &str, validator: &str) -> Result<()> {
        let request = self.request(b"DELETE", path, false).with(header::IF_MATCH, validator);
        match self.change(request, path).await? {
            ChangeOutcome::Done(_) => Ok(()),
            ChangeOutcome::Refused(reply) => Err(status_error::of_response(&reply, "DELETE")),
            ChangeOutcome::Unseen(error) => Err(error),
        }
    }

    /// Removes the partial file of an upload that was interrupted: the server may need some time to
    /// notice.
    async fn discard(&self, path: &str) -> Result<()> {
        let attempt = || async {
            let delete = self.request(b"DELETE", path, false).with_effect(Effect::Own);
            let error = match self.change(delete, path).await.map_err(Failed::from)? {
                ChangeOutcome::Done(_) => return Ok(()),
                ChangeOutcome::Refused(reply) => status_error::of_response(&reply, "DELETE"),
                ChangeOutcome::Unseen(error) => error,
            };
            match self.look(path).await.map_err(Failed::finally)? {
                Some(_) => Err(Failed::from(error)),
                None => Ok(()),
            }
        };
        let policy = self.network.config().retry_policy();
        retry::run(&policy, &MonotonicClock::start(), attempt).await
    }

    /// Removes a file, or a directory with all that is in it; entry by entry if the server removes
    /// only empty ones.
    fn remove_entry<'a>(&'a self, entry: &'a DirEntry) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let error = match self.try_delete(entry, true).await {
                Ok(None) => return Ok(()),
                Ok(Some(reply)) if change::is_of_link(&reply) => {
                    // It is listed as the directory that it leads to.
                    let link = &reply.location;
                    let what = format!("{link} is a link, which the server does not remove");
                    return Err(Error::new(ErrorKind::Unsupported, what));
                }
                Ok(Some(reply)) => status_error::of_response(&reply, "DELETE"),
                Err(error) => error,
            };
            let kind = error.kind();
            // What was lost may still be going on.
            let is_over = matches!(error.failure(), Failure::Status { .. })
                || !error.may_have_been_carried_out();
            if entry.kind != FileKind::Directory
                || !is_over
                || matches!(kind, ErrorKind::PermissionDenied | ErrorKind::Unauthenticated)
            {
                return Err(error);
            }
            // Either it removes empty directories only, or the reason shows now.
            for inner in listing::list(self, &entry.path).await?.entries {
                self.remove_entry(&inner).await?;
            }
            self.delete(entry, true).await
        })
    }

    /// Fails unless the file has its size on the server.
    async fn check_size(&self, file: &DirEntry) -> Result<DirEntry> {
        let there = listing::sized(self, &file.path).await?;
        if change::is_as_large(&there, file) {
            return Ok(there);
        }
        let place = self.root.below(&file.path, false);
        let seen = there.shown_size();
        let what = format!("{place} has {seen} on the server, expected {}", file.shown_size());
        Err(Error::new(ErrorKind::Corrupt, what))
    }

    fn exists(&self, path: &str) -> Error {
        let place = self.root.below(path, false);
        Error::new(ErrorKind::AlreadyExists, format!("{place} exists already"))
    }

    fn is_directory(&self, path: &str) -> Error {
        let place = self.root.below(path, true);
        Error::new(ErrorKind::Invalid, format!("{place} is a directory"))
    }

    /// The entry without its entity tag in a federation, where listings come from origins and bytes
    /// from caches: their tags may differ.
    fn comparable(&self, entry: DirEntry) -> DirEntry {
        let validator = entry.validator.filter(|_| !self.root.is_in_federation());
        DirEntry { validator, ..entry }
    }

    fn missing(&self, path: &str) -> Error {
        let place = self.root.below(path, false);
        Error::new(ErrorKind::NotFound, format!("{place} does not exist"))
    }
}

#[async_trait]
impl Storage for WebDavStorage {
    fn name(&self) -> String {
        self.root.to_string()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        check_path(path)?;
        listing::sized(self, path).await.map(|entry| self.comparable(entry))
    }

    async fn list(&self, path: &str) -> Result<Listing> {
        check_path(path)?;
        let listing = listing::list(self, path).await?;
        Ok(listing.map(|entry| self.comparable(entry)))
    }

    async fn stat_directory(&self, path: &str) -> Result<Option<DirEntry>> {
        check_path(path)?;
        listing::told_properties(self, path, true).await
    }

    fn list_batches<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<Listing>> {
        if let Err(error) = check_path(path) {
            return Box::pin(futures_util::stream::once(async move { Err(error) }));
        }
        let batches = listing::list_batches(self, path);
        Box::pin(batches.map_ok(|part| part.map(|entry| self.comparable(entry))))
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        check_path(path)?;
        let place = self.root.below(path, false);
        Ok(Arc::new(HttpSource::new(place, Arc::clone(&self.network))))
    }

    fn location(&self, path: &str) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(self.root.below(path, false)))
    }

    fn replicas(&self, path: &str) -> Result<Option<Arc<dyn ReplicaSet>>> {
        let Some(finder) = &self.replicas else { return Ok(None) };
        check_path(path)?;
        Ok(finder.find(&self.root.below(path, false))?.map(|found| found as _))
    }

    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        check_name(path, &self.root)?;
        let upload = WebDavUpload::start(self.clone(), path.to_owned(), &options).await;
        let upload = upload.map_err(|error| hide_partial_name(error, path))?;
        Ok(Box::new(upload) as Box<dyn Upload>)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        check_name(path, &self.root)?;
        let entry = listing::stat(self, path).await?;
        if entry.kind == FileKind::Directory {
            listing::check_empty(self, path).await?;
        }
        self.delete(&entry, false).await
    }

    async fn remove_version(&self, entry: &DirEntry) -> Result<bool> {
        // Dates are the same within a second, and a look before the request is no condition.
        let Some(tag) = entry.strong_tag() else { return Ok(false) };
        self.delete_version(&entry.path, tag).await.map(|()| true)
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        check_name(path, &self.root)?;
        let entry = listing::stat(self, path).await?;
        self.remove_entry(&entry).await
    }

    async fn copy_file(&self, from: &str, to: &str) -> Result<()> {
        check_new_name(from, to, &self.root)?;
        let destination = self.root.below(to, false).to_string();
        let request = || {
            let call = self.request(b"COPY", from, false).with("destination", &destination);
            call.with("overwrite", "T").with("depth", "0")
        };
        let look = || async {
            let (source, copy) = futures_util::try_join!(self.stat(from), self.look(to))?;
            let is_other =
                |copy: DirEntry| copy.kind != source.kind || change::sizes_differ(&source, &copy);
            if copy.is_none_or(is_other) {
                return Ok(Seen::Undone);
            }
            // A file of this size may have been there before.
            let sum = |path| self.checksum(path, Algorithm::Adler32);
            match futures_util::try_join!(sum(from), sum(to))? {
                (Some(source), Some(copy)) if source == copy => Ok(Seen::Done),
                (Some(_), Some(_)) => Ok(Seen::Undone),
                _ => Ok(Seen::Unclear),
            }
        };
        let refused = self.carry_out(to, request, look).await?;
        refused.map_or(Ok(()), |reply| Err(status_error::of_response(&reply, "COPY")))
    }

    async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        check_new_name(from, to, &self.root)?;
        let from = listing::stat(self, from).await?;
        // Not every server heeds "Overwrite: F", and XrdHttp need not say who it is. Where it is
        // known, the move looks.
        if !overwrite && !self.names().replaces && self.look(to).await?.is_some() {
            return Err(self.exists(to));
        }
        match from.kind {
            FileKind::Directory => self.move_to(&from, to, false, None, None).await,
            _ => self.move_file(&from, to, overwrite, false, None).await,
        }
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        check_path(path)?;
        // Not every server reports that it exists.
        if self.look(path).await?.is_some() {
            return Err(self.exists(path));
        }
        if self.names().replaces {
            // The server would create the parents, too.
            listing::stat(self, parent(path)).await?;
        }
        let request = || self.request(b"MKCOL", path, true);
        let look = || async { Ok(Seen::made(self.look_for(path, true).await?.as_ref())) };
        let Some(reply) = self.carry_out(path, request, look).await? else { return Ok(()) };
        let error = status_error::of_response(&reply, "MKCOL");
        let is_unknown = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported);
        if self.root.is_in_federation() && is_unknown {
            let place = self.root.below(path, true);
            let what = format!(
                "{place}: this federation makes no directories by themselves: they come with files"
            );
            return Err(Error::new(ErrorKind::Unsupported, what).with_source(error));
        }
        let told = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unauthenticated);
        let exists = async || {
            let found = self.look(path).await?;
            Ok::<_, Error>(found.is_some() || self.look_for(path, true).await?.is_some())
        };
        if !told && exists().await? {
            return Err(self.exists(path));
        }
        if !told && self.look(parent(path)).await?.is_none() {
            return Err(self.missing(parent(path)));
        }
        Err(error)
    }

    fn file_times(&self) -> FileTimes {
        let names = self.names();
        FileTimes {
            are_kept: names.keeps_times || names.tree_uploads == Some(true),
            ahead_seconds: self.network.pool(&self.root).server().ahead_seconds(),
        }
    }

    fn has_trees(&self) -> bool {
        self.names().trees == Some(true)
    }

    async fn tree(
        &self,
        directory: &str,
        request: TreeRequest,
    ) -> Result<Option<Box<dyn TreeEvents>>> {
        check_path(directory)?;
        let stream = tree::request(self, directory, request).await?;
        Ok(stream.map(|stream| Box::new(stream) as Box<dyn TreeEvents>))
    }

    fn puts_trees(&self) -> bool {
        self.names().tree_uploads == Some(true)
    }

    async fn put_tree(
        &self,
        directory: &str,
        files: Vec<TreeUpload>,
    ) -> Result<Option<Vec<Result<StoredEntry>>>> {
        check_path(directory)?;
        tree_upload::put(self, directory, files).await
    }

    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        check_path(path)?;
        self.network.digest(&self.root.below(path, false), algorithm).await
    }
}
