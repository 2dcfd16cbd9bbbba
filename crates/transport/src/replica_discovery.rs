//! Replica discovery by Metalink documents (RFC 5854) and `Link` fields (RFC 6249).
//!
//! Federations name replicas in three ways, all of which are supported: a document instead of the
//! file, for clients that `Accept` one or append `?metalink` to the URL; `Link` fields with
//! `rel=duplicate` in any response; a `Link` field with `rel=describedby` that names a document.
//! The fields cost no request and are recorded as they arrive. A document that a field names is
//! fetched while data is being read, so that it is there when the server fails. Requests without
//! such a hint cost round trips, and are sent only after a read has failed.

mod replica_list;

use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::digest::HttpDigest;
use crate::http::server_reason;
use crate::http::source::HttpSource;
use crate::http::status_error::of_status;
use crate::location::{Location, Protocol};
use crate::network::Network;
use crate::xrootd::{XrootdDigest, XrootdSource};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use hither_core::Source;
use hither_core::error::{Error, ErrorKind, Result};
use hither_http::digest::WANT_REPR_DIGEST;
use hither_http::metalink::{self, MetalinkLinks};
use hither_replicas::{Health, Replica, ReplicaDiscovery, Replicas};
use http::{HeaderValue, Method, StatusCode, header};
pub use replica_list::ReplicaList;
use std::fmt;
use std::sync::Arc;
use tracing::debug;

/// The maximum size of a document in bytes: the checksums of 100,000 pieces.
const MAX_BYTES: usize = 8 << 20;

/// The value of `Want-Repr-Digest` for no checksum (RFC 9530 section 4: a preference of 0).
const NO_DIGEST: &str = "adler=0";

/// Returns whether a URL names a Metalink document rather than a file.
#[must_use]
pub fn is_metalink(location: &Location) -> bool {
    let target = location.target();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    path.ends_with(".meta4") || path.ends_with(".metalink") || query == "metalink"
}

/// Finds the replicas of files that are copied.
#[derive(Clone)]
pub struct ReplicaFinder {
    network: Arc<Network>,
    health: Arc<Health>,
    mirrors: Arc<MirrorUrls>,
}

/// Returns the URLs of the configured replicas of the file at a URL.
type MirrorUrls = dyn Fn(&str) -> Vec<String> + Send + Sync;

impl fmt::Debug for ReplicaFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplicaFinder")
    }
}

impl ReplicaFinder {
    /// A finder of configured replicas (`mirrors`), and of those that servers name.
    pub fn new(
        network: Arc<Network>,
        health: Arc<Health>,
        mirrors: impl Fn(&str) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self { network, health, mirrors: Arc::new(mirrors) }
    }

    /// The file at `location` with its replicas; none where there is no other, nor can a server
    /// name one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] and [`ErrorKind::Unsupported`] for the URL of a configured replica.
    pub(crate) fn find(&self, location: &Location) -> Result<Option<Arc<Replicas>>> {
        let mirrors = (self.mirrors)(&location.to_string());
        if mirrors.is_empty() && location.protocol() == Protocol::Xrootd {
            return Ok(None);
        }
        let all = self.network.replicated(location, Arc::clone(&self.health));
        self.add_mirrors(&all, mirrors)?;
        Ok(Some(all))
    }

    /// The object at `url` with its configured replicas; none where there is no other.
    ///
    /// # Errors
    ///
    /// As [`ReplicaFinder::find`], and those of `first`.
    #[cfg(feature = "s3")]
    pub(crate) fn find_beside(
        &self,
        url: &str,
        first: impl FnOnce() -> Result<Replica>,
    ) -> Result<Option<Arc<Replicas>>> {
        let mirrors = (self.mirrors)(url);
        if mirrors.is_empty() {
            return Ok(None);
        }
        let config = self.network.config().replicas;
        let all = Arc::new(Replicas::new(first()?, Arc::clone(&self.health), config));
        self.add_mirrors(&all, mirrors)?;
        Ok(Some(all))
    }

    fn add_mirrors(&self, all: &Replicas, mirrors: Vec<String>) -> Result<()> {
        for mirror in mirrors {
            all.add(self.network.replica(Location::parse(&mirror)?));
        }
        Ok(())
    }
}

impl Network {
    /// Fetches a Metalink document.
    ///
    /// # Errors
    ///
    /// As [`Network::call`] and [`ReplicaList::parse`], and the error of the status.
    pub async fn discover_replicas(&self, document: &Location) -> Result<ReplicaList> {
        ReplicaList::parse(&self.metalink(document, true).await?, document)
    }

    /// The same, without requesting a checksum that the server may have to compute by reading the
    /// file.
    async fn discover_soon(&self, document: &Location) -> Result<ReplicaList> {
        ReplicaList::parse(&self.metalink(document, false).await?, document)
    }

    /// Fetches a Metalink document, and returns all its files.
    ///
    /// # Errors
    ///
    /// As [`Network::discover_replicas`].
    pub async fn listed_files(&self, document: &Location) -> Result<Vec<ReplicaList>> {
        let bytes = self.metalink(document, true).await?;
        ReplicaList::parse_all(&bytes, name_of(document), Some(document))
    }

    async fn metalink(&self, document: &Location, wants_checksum: bool) -> Result<Bytes> {
        let mut call = HttpRequest::new(Method::GET, document.clone());
        call.max_reply_bytes = MAX_BYTES;
        accept(&mut call);
        if !wants_checksum {
            call = call.with(WANT_REPR_DIGEST, NO_DIGEST);
        }
        let reply = self.call(call).await?;
        if reply.status != StatusCode::OK {
            let refusal = reply.refusal.clone();
            return Err(refusal.unwrap_or_else(|| {
                let reason = server_reason::quoted_reason(&reply.headers, &reply.body);
                of_status(reply.status, &document.to_string(), &reason, None)
            }));
        }
        Ok(reply.body)
    }

    /// Looks for a document about the file at `location`: by content negotiation, then by the query
    /// that federations support. A `HEAD` comes first, because a server that supports neither would
    /// send the file.
    async fn look_for_document(&self, location: &Location) -> Option<ReplicaList> {
        for document in [Some(location.clone()), location.with_query("metalink")] {
            let document = document?;
            let mut call = HttpRequest::new(Method::HEAD, document.clone());
            call.failover = true;
            accept(&mut call);
            let call = call.with(WANT_REPR_DIGEST, NO_DIGEST);
            let reply =
                self.call(call).await.ok().filter(|reply| !reply.status.is_server_error())?;
            let links = metalink::links(&reply.headers);
            if is_document(&reply)
                && let Ok(found) = self.discover_soon(&document).await
            {
                return Some(found);
            }
            let named = links.documents.first().and_then(|url| reply.location.join(url).ok());
            if let Some(named) = named
                && let Ok(found) = self.discover_soon(&named).await
            {
                return Some(found);
            }
        }
        None
    }

    /// A file that is read from `location`, and from the replicas that its server names meanwhile.
    #[must_use]
    pub fn replicated(self: &Arc<Self>, location: &Location, health: Arc<Health>) -> Arc<Replicas> {
        if location.protocol() == Protocol::Xrootd {
            return Arc::new(Replicas::new(
                self.replica(location.clone()),
                health,
                self.config().replicas,
            ));
        }
        let source = Arc::new(HttpSource::new(location.clone(), Arc::clone(self)));
        let discovery = Discovery {
            network: Arc::clone(self),
            source: Arc::clone(&source),
            health: Arc::clone(&health),
        };
        let first = replica(self, Arc::clone(&source));
        let all = Replicas::new(first, health, self.config().replicas)
            .with_discovery(Box::new(discovery));
        let all = Arc::new(all);
        self.enlist_linked(&source, &all);
        all
    }

    /// Adds the replicas that responses of the server link to.
    fn enlist_linked(self: &Arc<Self>, source: &HttpSource, all: &Arc<Replicas>) {
        for known in self.known_servers(source.location(), &Method::GET) {
            all.add(self.replica(known));
        }
        // The director of a federation is the catalogue that a `pelican://` URL names.
        let add: fn(&Replicas, Replica) =
            if source.location().is_named() { Replicas::add } else { Replicas::add_found };
        let network = Arc::downgrade(self);
        let all = Arc::downgrade(all);
        source.when_linked(Box::new(move |links: &MetalinkLinks, about: &Location| {
            let (Some(network), Some(all)) = (network.upgrade(), all.upgrade()) else { return };
            for link in &links.replicas {
                if let Ok(place) = about.beside(&link.url) {
                    add(&all, network.replica(place));
                }
            }
            let document = links.documents.first().and_then(|url| about.beside(url).ok());
            if let Some(document) = document {
                let runtime = network.runtime().clone();
                // The data in progress does not depend on it.
                runtime.spawn(async move {
                    if let Ok(found) = network.discover_soon(&document).await {
                        network.enlist_by(Replicas::add_found, &all, found);
                    }
                });
            }
        }));
    }

    /// Adds the replicas of a document that the user names.
    pub fn enlist(self: &Arc<Self>, all: &Replicas, found: ReplicaList) {
        self.enlist_by(Replicas::add, all, found);
    }

    fn enlist_by(
        self: &Arc<Self>,
        add: fn(&Replicas, Replica),
        all: &Replicas,
        found: ReplicaList,
    ) {
        debug!(replicas = found.locations.len(), "replicas found");
        if found.is_unverifiable {
            let what = "its Metalink document states checksums of unknown algorithms only";
            all.note(format!("{}: not compared with a checksum: {what}", all.name()));
        }
        all.expect(found.size, found.checksum);
        found.pieces.into_iter().for_each(|pieces| all.expect_pieces(pieces));
        for location in found.locations {
            add(all, self.replica(location));
        }
    }

    /// A replica of a file.
    #[must_use]
    pub fn replica(self: &Arc<Self>, location: Location) -> Replica {
        match location.protocol() {
            Protocol::Http => replica(self, Arc::new(HttpSource::new(location, Arc::clone(self)))),
            Protocol::Xrootd => {
                let site = location.origin();
                let digest = XrootdDigest::new(location.clone(), Arc::clone(self));
                let source = Arc::new(XrootdSource::new(location, Arc::clone(self)));
                Replica { source, server: site, digest: Some(Arc::new(digest)) }
            }
        }
    }
}

fn replica(network: &Arc<Network>, source: Arc<HttpSource>) -> Replica {
    let site = source.location().origin();
    let digest = HttpDigest::new(Arc::clone(network), Arc::clone(&source));
    Replica { source, server: site, digest: Some(Arc::new(digest)) }
}

/// Asks a file's own server for other replicas.
#[derive(Debug)]
struct Discovery {
    network: Arc<Network>,
    source: Arc<HttpSource>,
    health: Arc<Health>,
}

impl ReplicaDiscovery for Discovery {
    fn locate(&self, errors: &[Error]) -> BoxFuture<'_, Option<Vec<Replica>>> {
        // A server that redirected to a failing target may name others, and so may one that fails
        // repeatedly. A server that cannot be reached cannot be asked; one that rejects the path
        // names no others.
        let location = self.source.location().clone();
        let failing = self.health.is_down(&location.origin());
        let may_know = errors.iter().any(|error| match (error.kind(), error.retry()) {
            (ErrorKind::Protocol, _) => true,
            (ErrorKind::Unavailable | ErrorKind::Timeout, retry) if retry.may_succeed() => failing,
            _ => self.source.redirected(),
        });
        Box::pin(async move {
            if !may_know {
                return None;
            }
            let found = self.network.look_for_document(&location).await.unwrap_or_default();
            Some(found.locations.into_iter().map(|place| self.network.replica(place)).collect())
        })
    }
}

fn accept(call: &mut HttpRequest) {
    call.headers.insert(header::ACCEPT, HeaderValue::from_static(metalink::MEDIA_TYPE));
}

fn is_document(reply: &HttpResponse) -> bool {
    let media = reply.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    reply.status == StatusCode::OK
        && media.is_some_and(|media| {
            media.starts_with(metalink::MEDIA_TYPE) || media.starts_with(metalink::MEDIA_TYPE_3)
        })
}

/// The name of the file that a URL, or the document at it, is about.
fn name_of(location: &Location) -> &str {
    let last = location.path().rsplit('/').next().unwrap_or_default();
    last.strip_suffix(".meta4").or_else(|| last.strip_suffix(".metalink")).unwrap_or(last)
}
