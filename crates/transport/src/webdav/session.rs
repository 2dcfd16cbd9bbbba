//! The requests that listings, uploads and changes of one tree send, and the learned capabilities
//! of its server.

use super::refusals::MethodRefusals;
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request;
use crate::http::source::HttpSource;
use crate::location::Location;
use crate::network::Network;
use crate::pool::Pool;
use hither_checksum::{Algorithm, Checksum};
use hither_core::Source;
use hither_core::endpoint::NamespaceSupport;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, check_path};
use hither_core::sync::lock;
use hither_http::server_hint::server_hint;
use http::Method;
use http::header::SERVER;
use std::sync::{Arc, Mutex};

/// The field with the time of the last change of a file that is uploaded, in seconds since 1970.
pub(super) const X_OC_MTIME: &str = "x-oc-mtime";

/// The tree at a URL of an HTTP server.
#[derive(Debug, Clone)]
pub(super) struct WebDavSession {
    pub(super) network: Arc<Network>,
    pub(super) root: Location,
    /// A path that is known to be a directory, and so are those that it is in.
    pub(super) directory: String,
    /// The directories in which the server has refused PROPFIND.
    pub(super) refusals: Arc<MethodRefusals>,
    /// The directories in which the server has refused MOVE.
    pub(super) unmoved: Arc<MethodRefusals>,
    /// The make of the server, as its last response states; empty if it is not known.
    pub(super) software: Arc<Mutex<&'static str>>,
}

impl WebDavSession {
    /// The tree at `root`. Nothing is requested yet.
    pub(super) fn new(root: Location, network: Arc<Network>) -> Self {
        let directory = String::new();
        let refusals = Arc::default();
        let unmoved = Arc::default();
        Self { network, root, directory, refusals, unmoved, software: Arc::default() }
    }

    /// The make of the server; empty if it is not known.
    pub(super) fn software(&self) -> &'static str {
        *lock(&self.software)
    }

    /// The connections to the server.
    pub(super) fn pool(&self) -> Arc<Pool> {
        self.network.pool(&self.root)
    }

    /// The capabilities of the server for listing and writing.
    pub(super) fn names(&self) -> NamespaceSupport {
        let mut names = self.pool().server().names();
        if self.root.is_in_federation() {
            // A director sends no MOVE anywhere, and files of a tree are at several servers.
            names.moves = Some(false);
            names.trees = None;
            names.tree_uploads = None;
        }
        names
    }

    /// Learns capabilities of the server, and stores them for the next process.
    pub(super) fn learn(&self, learn: impl FnOnce(&mut NamespaceSupport)) {
        self.pool().server().learn_names(learn);
        self.network.remember_all();
    }

    /// Sends a request, and learns from its response.
    pub(super) async fn call(&self, call: HttpRequest) -> Result<HttpResponse> {
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
        // A server that redirects may behave differently from its targets.
        if reply.location.origin() != self.root.origin() {
            return Ok(reply);
        }
        let server = reply.headers.get(SERVER).and_then(|server| server.to_str().ok());
        let hint = server.and_then(|server| server_hint(server, None));
        *lock(&self.software) = hint.map_or("", |hint| hint.software);
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
    pub(super) fn request(&self, method: &[u8], path: &str, directory: bool) -> HttpRequest {
        let method = Method::from_bytes(method).unwrap_or(Method::OPTIONS);
        HttpRequest::new(method, self.root.below(path, directory))
    }

    /// The source of the file at `path`.
    ///
    /// # Errors
    ///
    /// As [`check_path`].
    pub(super) fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        check_path(path)?;
        let location = self.root.below(path, false);
        Ok(Arc::new(HttpSource::new(location, Arc::clone(&self.network))))
    }

    /// The checksum of the file at `path` that the server states, if it has one.
    pub(super) async fn checksum(
        &self,
        path: &str,
        algorithm: Algorithm,
    ) -> Result<Option<Checksum>> {
        check_path(path)?;
        self.network.digest(&self.root.below(path, false), algorithm).await
    }

    /// Returns whether `path` is known to be a directory.
    pub(super) fn is_known_directory(&self, path: &str) -> bool {
        let below = self.directory.strip_prefix(path);
        path.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns true if there may be a directory at `path`, though a request without a slash at the
    /// end has just found nothing: nginx and Apache may be configured to serve `/dav/` only.
    pub(super) fn may_lack_slash(&self, path: &str) -> bool {
        // Servers of these makes know directories by both names. In a federation the response may
        // be that of another server.
        let is_own = !self.root.is_in_federation();
        let knows_both = is_own && matches!(self.software(), "hither" | "xrootd" | "dcache");
        !knows_both && !self.is_known_directory(path)
    }

    /// The error for a name that exists.
    pub(super) fn exists(&self, path: &str) -> Error {
        let location = self.root.below(path, false);
        Error::new(ErrorKind::AlreadyExists, format!("{location} exists already"))
    }

    /// The error for a directory where a file was expected.
    pub(super) fn is_directory(&self, path: &str) -> Error {
        let location = self.root.below(path, true);
        Error::new(ErrorKind::Invalid, format!("{location} is a directory"))
    }

    /// The error for a name that does not exist.
    pub(super) fn missing(&self, path: &str) -> Error {
        let location = self.root.below(path, false);
        Error::new(ErrorKind::NotFound, format!("{location} does not exist"))
    }

    /// The entry without its entity tag in a federation, where listings come from origins and bytes
    /// from caches: their tags may differ.
    pub(super) fn comparable(&self, entry: DirEntry) -> DirEntry {
        let validator = entry.validator.filter(|_| !self.root.is_in_federation());
        DirEntry { validator, ..entry }
    }
}
