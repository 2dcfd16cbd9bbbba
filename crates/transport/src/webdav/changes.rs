//! Changes whose result is checked, and removal.

use super::listing;
use super::session::WebDavSession;
use crate::context::MonotonicClock;
use crate::http::call::HttpRequest;
use crate::http::call::HttpResponse;
use crate::http::call::change::{self, ChangeOutcome, Seen};
use crate::http::status_error;
use futures_core::future::BoxFuture;
use hither_core::error::{Effect, Error, ErrorKind, Failure, Result};
use hither_core::retry::{self, Failed};
use hither_core::storage::{DirEntry, FileKind, parent};
use hither_http::conditions::IF_EMPTY;
use http::header;

impl WebDavSession {
    /// Carries out a change of `name`, whose result `look` shows ([`change::carry_out`]). Returns
    /// the response of a server that refuses it.
    pub(super) async fn carry_out<L>(
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

    /// Removes the file or directory of the entry `before`. Unless `whole`, a directory that is not
    /// empty stays, where the server compares that.
    pub(super) async fn delete(&self, before: &DirEntry, whole: bool) -> Result<()> {
        let refused = self.try_delete(before, whole).await?;
        refused.map_or(Ok(()), |reply| Err(status_error::of_response(&reply, "DELETE")))
    }

    /// As [`Self::delete`], but returns the response of a server that refuses it.
    pub(super) async fn try_delete(
        &self,
        before: &DirEntry,
        whole: bool,
    ) -> Result<Option<HttpResponse>> {
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

    /// Removes a file of the version of `entry`, where the server can compare it in one step.
    /// Returns false if its version has no tag to compare: dates are equal within a second, and a
    /// check before the request does not bind the server.
    pub(super) async fn remove_version(&self, entry: &DirEntry) -> Result<bool> {
        let Some(tag) = entry.strong_tag() else { return Ok(false) };
        let path = &*entry.path;
        let request = self.request(b"DELETE", path, false).with(header::IF_MATCH, tag);
        self.change(request, path).await?.confirmed("DELETE").map(|_| true)
    }

    /// Removes the partial file of an interrupted upload. The server may need some time to notice
    /// the interruption, so a refused removal is repeated.
    pub(super) async fn discard(&self, path: &str) -> Result<()> {
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

    /// Returns true for nginx: it lists links to directories as directories, and removes what they
    /// lead to if the URL ends with a slash, else the link. It refuses to remove a directory by a
    /// URL without a slash (`ngx_http_dav_module`, 409).
    pub(super) fn shows_links_on_removal(&self) -> bool {
        self.refusals.any() && matches!(self.software(), "nginx" | "openresty")
    }

    /// Removes the link that is listed as the directory `entry`. Returns false if it is a
    /// directory. See [`Self::shows_links_on_removal`].
    pub(super) async fn remove_link(&self, entry: &DirEntry) -> Result<bool> {
        let request = || self.request(b"DELETE", &entry.path, false);
        let look = || async {
            let now = self.look_for(&entry.path, true).await?;
            Ok(Seen::removed(entry, now.as_ref()))
        };
        Ok(self.carry_out(&entry.path, request, look).await?.is_none())
    }

    /// Fails if the directory at `path` may be a link that its server would follow: Apache lists no
    /// links, and a request to remove one removes what is in the directory that it leads to.
    pub(super) async fn check_listed(&self, path: &str) -> Result<()> {
        if path.is_empty() || self.software() != "apache" {
            return Ok(());
        }
        let listing = listing::list(self, parent(path)).await?;
        if listing.entries.iter().any(|entry| entry.path == path) {
            return Ok(());
        }
        let place = self.root.below(path, true);
        let what = format!(
            "{place} is not in the listing of its directory: it may be a link, and the server would \
             remove what it leads to"
        );
        Err(Error::new(ErrorKind::Unsupported, what))
    }

    /// Removes a file, or a directory with all that is in it; entry by entry if the server removes
    /// only empty ones, or would follow links.
    pub(super) fn remove_entry<'a>(&'a self, entry: &'a DirEntry) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if entry.kind == FileKind::Directory && self.shows_links_on_removal() {
                if self.remove_link(entry).await? {
                    return Ok(());
                }
                return self.remove_entries(entry).await;
            }
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
            // A removal whose response was lost may still be in progress.
            let is_over = matches!(error.failure(), Failure::Status { .. })
                || !error.may_have_been_carried_out();
            if entry.kind != FileKind::Directory
                || !is_over
                || matches!(kind, ErrorKind::PermissionDenied | ErrorKind::Unauthenticated)
            {
                return Err(error);
            }
            // Either the server removes only empty directories, or the next requests show the
            // reason.
            self.remove_entries(entry).await
        })
    }

    /// Removes what is in a directory, and then the directory. Fails before that if the listing
    /// lacks names: with the directory the server would remove them, and what they lead to.
    async fn remove_entries(&self, directory: &DirEntry) -> Result<()> {
        let listing = listing::list(self, &directory.path).await?;
        let failed = listing.failed.into_iter().map(|(_, error)| error);
        if let Some(gap) = listing.gaps.into_iter().chain(failed).next() {
            let place = self.root.below(&directory.path, true);
            let what = format!("cannot remove what is in {place}");
            return Err(match gap.kind() {
                // The directory is there, and so the removal did not succeed before.
                ErrorKind::NotFound => Error::new(ErrorKind::Protocol, format!("{what}: {gap}")),
                _ => gap.context(what),
            });
        }
        for inner in &listing.entries {
            self.remove_entry(inner).await?;
        }
        self.delete(directory, true).await
    }

    /// Fails unless the file has its size on the server.
    pub(super) async fn check_size(&self, file: &DirEntry) -> Result<DirEntry> {
        let there = listing::sized(self, &file.path).await?;
        if change::is_as_large(&there, file) {
            return Ok(there);
        }
        let place = self.root.below(&file.path, false);
        let seen = there.shown_size();
        let what = format!("{place} has {seen} on the server, expected {}", file.shown_size());
        Err(Error::new(ErrorKind::Corrupt, what))
    }
}
