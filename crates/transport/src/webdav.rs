//! A WebDAV server (RFC 4918) as a storage, and HTTP servers with only a part of WebDAV.
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
//! the metadata of the name are requested before the error is reported; where a server would
//! replace a file in spite of `Overwrite: F`, they are requested before the MOVE. Another client
//! may act in between.
//!
//! The learned capabilities of a server are remembered.

mod arriving;
mod autoindex;
mod changes;
mod conflicts;
mod index_listing;
mod listing;
mod moving;
mod putting;
mod refusals;
mod session;
mod tree;
mod tree_upload;
mod upload;

use crate::http::call::change::{self, Seen, TargetBefore};
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use crate::replica_discovery::ReplicaFinder;
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::TryStreamExt;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    DirEntry, DirectoryRemoval, FileKind, FileTimes, Listing, PutOptions, Storage, StoredEntry,
    TreeEvents, TreeRequest, TreeUpload, Upload, check_name, check_new_name, check_path,
    hide_partial_name, parent,
};
use hither_core::{ReplicaSet, Source};
use session::WebDavSession;
use std::any::Any;
use std::sync::Arc;
use upload::WebDavUpload;

/// A tree of files behind an HTTP server.
#[derive(Debug, Clone)]
pub struct WebDavStorage {
    session: WebDavSession,
    replicas: Option<ReplicaFinder>,
}

impl WebDavStorage {
    /// The directory at `root`. Nothing is requested yet.
    #[must_use]
    pub fn new(root: Location, network: Arc<Network>) -> Self {
        Self { session: WebDavSession::new(root, network), replicas: None }
    }

    /// The same storage, in which `path` and the directories that it is in are known as
    /// directories. Requests for them end with a slash: a server may have nothing at `/dav`, and
    /// all at `/dav/`.
    #[must_use]
    pub fn with_directory(self, path: impl Into<String>) -> Self {
        Self { session: WebDavSession { directory: path.into(), ..self.session }, ..self }
    }

    /// Finds replicas of its files with `finder`.
    #[must_use]
    pub fn with_replicas(self, finder: ReplicaFinder) -> Self {
        Self { replicas: Some(finder), ..self }
    }
}

#[async_trait]
impl Storage for WebDavStorage {
    fn name(&self) -> String {
        self.session.root.to_string()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        check_path(path)?;
        listing::sized(&self.session, path).await.map(|entry| self.session.comparable(entry))
    }

    async fn stat_named(&self, path: &str) -> Result<DirEntry> {
        match self.stat(path).await {
            Err(missing)
                if missing.kind() == ErrorKind::NotFound && self.session.may_lack_slash(path) =>
            {
                match self.session.look_for(path, true).await {
                    Ok(Some(entry)) if entry.kind == FileKind::Directory => Ok(entry),
                    // It may be there: what follows must not take it for missing.
                    Err(error) if !error.concerns_name() => Err(error),
                    _ => Err(missing),
                }
            }
            seen => seen,
        }
    }

    async fn list(&self, path: &str) -> Result<Listing> {
        check_path(path)?;
        let listing = listing::list(&self.session, path).await?;
        Ok(listing.map(|entry| self.session.comparable(entry)))
    }

    async fn stat_directory(&self, path: &str) -> Result<Option<DirEntry>> {
        check_path(path)?;
        listing::supported_properties(&self.session, path, true).await
    }

    fn list_batches<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<Listing>> {
        if let Err(error) = check_path(path) {
            return Box::pin(futures_util::stream::once(async move { Err(error) }));
        }
        let batches = listing::list_batches(&self.session, path);
        Box::pin(batches.map_ok(|part| part.map(|entry| self.session.comparable(entry))))
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        self.session.source(path)
    }

    fn location(&self, path: &str) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(self.session.root.below(path, false)))
    }

    fn replicas(&self, path: &str) -> Result<Option<Arc<dyn ReplicaSet>>> {
        let Some(finder) = &self.replicas else { return Ok(None) };
        check_path(path)?;
        Ok(finder.find(&self.session.root.below(path, false))?.map(|found| found as _))
    }

    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        check_name(path, &self.session.root)?;
        let upload = WebDavUpload::start(self.session.clone(), path.to_owned(), &options).await;
        let upload = upload.map_err(|error| hide_partial_name(error, path))?;
        Ok(Box::new(upload) as Box<dyn Upload>)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        check_name(path, &self.session.root)?;
        let entry = listing::stat(&self.session, path).await?;
        if entry.kind == FileKind::Directory {
            listing::check_empty(&self.session, path).await?;
        }
        self.session.delete(&entry, false).await
    }

    async fn remove_version(&self, entry: &DirEntry) -> Result<bool> {
        self.session.remove_version(entry).await
    }

    async fn remove_directory(&self, path: &str, may_be_link: bool) -> Result<DirectoryRemoval> {
        check_name(path, &self.session.root)?;
        if !may_be_link || !self.session.shows_links_on_removal() {
            return Ok(DirectoryRemoval::NotEmpty);
        }
        let entry = DirEntry::new(path, FileKind::Directory, 0);
        let is_removed = self.session.remove_link(&entry).await?;
        Ok(if is_removed { DirectoryRemoval::Removed } else { DirectoryRemoval::NotEmpty })
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        check_name(path, &self.session.root)?;
        let entry = listing::stat(&self.session, path).await?;
        if entry.kind == FileKind::Directory {
            self.session.check_listed(path).await?;
        }
        self.session.remove_entry(&entry).await
    }

    async fn copy_file(&self, from: &str, to: &str) -> Result<()> {
        check_new_name(from, to, &self.session.root)?;
        let destination = self.session.root.below(to, false).to_string();
        let request = || {
            let call = self.session.request(b"COPY", from, false).with("destination", &destination);
            call.with("overwrite", "T").with("depth", "0")
        };
        let look = || async {
            let (source, copy) = futures_util::try_join!(self.stat(from), self.session.look(to))?;
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
        let refused = self.session.carry_out(to, request, look).await?;
        refused.map_or(Ok(()), |reply| Err(status_error::of_response(&reply, "COPY")))
    }

    async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        check_new_name(from, to, &self.session.root)?;
        let from = listing::stat(&self.session, from).await?;
        // Not every server obeys "Overwrite: F", and XrdHttp need not identify itself. Where it is
        // known, the move checks the target itself.
        if !overwrite && !self.session.names().replaces && self.session.look(to).await?.is_some() {
            return Err(self.session.exists(to));
        }
        let before = if overwrite { TargetBefore::Unknown } else { TargetBefore::Nothing };
        match from.kind {
            FileKind::Directory => self.session.move_to(&from, to, before, None, None).await,
            _ => self.session.move_file(&from, to, before, overwrite, false, None).await,
        }
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        check_path(path)?;
        // Not every server reports that it exists.
        if self.session.look(path).await?.is_some() {
            return Err(self.session.exists(path));
        }
        if self.session.names().replaces {
            // The server would create the parents, too.
            listing::stat(&self.session, parent(path)).await?;
        }
        let request = || self.session.request(b"MKCOL", path, true);
        let look = || async { Ok(Seen::made(self.session.look_for(path, true).await?.as_ref())) };
        let Some(reply) = self.session.carry_out(path, request, look).await? else { return Ok(()) };
        let error = status_error::of_response(&reply, "MKCOL");
        let is_unknown = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported);
        if self.session.root.is_in_federation() && is_unknown {
            let place = self.session.root.below(path, true);
            let what = format!(
                "{place}: this federation makes no directories by themselves: they come with files"
            );
            return Err(Error::new(ErrorKind::Unsupported, what).with_source(error));
        }
        let is_denied =
            matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unauthenticated);
        let exists = async || {
            let found = self.session.look(path).await?;
            Ok::<_, Error>(found.is_some() || self.session.look_for(path, true).await?.is_some())
        };
        if !is_denied && exists().await? {
            return Err(self.session.exists(path));
        }
        if !is_denied && self.session.look(parent(path)).await?.is_none() {
            return Err(self.session.missing(parent(path)));
        }
        Err(error)
    }

    fn file_times(&self) -> FileTimes {
        let names = self.session.names();
        FileTimes {
            are_kept: names.keeps_times || names.tree_uploads == Some(true),
            ahead_seconds: self.session.pool().server().ahead_seconds(),
        }
    }

    fn has_trees(&self) -> bool {
        self.session.names().trees == Some(true)
    }

    async fn tree(
        &self,
        directory: &str,
        request: TreeRequest,
    ) -> Result<Option<Box<dyn TreeEvents>>> {
        check_path(directory)?;
        let stream = tree::request(&self.session, directory, request).await?;
        Ok(stream.map(|stream| Box::new(stream) as Box<dyn TreeEvents>))
    }

    fn puts_trees(&self) -> bool {
        self.session.names().tree_uploads == Some(true)
    }

    async fn put_tree(
        &self,
        directory: &str,
        files: Vec<TreeUpload>,
    ) -> Result<Option<Vec<Result<StoredEntry>>>> {
        check_path(directory)?;
        tree_upload::put(&self.session, directory, files).await
    }

    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        self.session.checksum(path, algorithm).await
    }
}
