//! Files of a Pelican federation: `pelican://HOST/PATH` and `osdf:///PATH`.
//!
//! ```text
//!  pelican://HOST/ns/f    Location, named
//!     │  GET https://HOST/.well-known/pelican-configuration       once in half an hour
//!  https://director/ns/f  GET -> 307, Link fields, X-Pelican-Namespace
//!     │                                                            once for each namespace
//!  https://cache/ns/f     the bytes; the other servers of the Link fields are replicas
//! ```
//!
//! The path in a URL is not resolved until a request is sent; then [`Network::director_of`] finds
//! the director, whose redirects are followed as those of any server. Its answer names the
//! namespace for which it is valid. So it is kept for five minutes, and the next file of the
//! namespace is requested from the same servers without asking the director ([`NamespaceRoutes`]).
//!
//! **Key of an answer.** Reads go to caches, writes to origins, and the query of the URL
//! (`directread`) has an influence as well: so an answer is kept for its federation, method and
//! query.
//!
//! **Many files at once.** Files of one directory that are requested together wait for the answer
//! about the first of them, which is usually valid for all ([`Federations::turn`]). Where it is
//! not, no file of that directory waits again.
//!
//! **Wrong guesses.** A server that does not have the file, or does not respond, sends the request
//! back to the director, once; if it did not respond, the kept answer is dropped. A federation
//! without a director is one server: its host.

mod namespace_routes;

pub(crate) use namespace_routes::NamespaceRoutes;

use crate::http::call::HttpRequest;
use crate::http::status_error;
use crate::location::Location;
use crate::network::Network;
use futures_core::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_http::metalink::MetalinkLinks;
use hither_http::pelican::{DIRECTOR_KEY, DISCOVERY_PATH};
use http::{Method, StatusCode};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// Time for which the description of a federation is kept, as by Pelican's own client.
const KEEP_DESCRIPTION: Duration = Duration::from_secs(30 * 60);
/// The maximum size of a description in bytes; usual ones have some hundred.
const MAX_DESCRIPTION: usize = 64 * 1024;

/// Maximum number of directories whose files wait for each other.
const MAX_TURNS: usize = 1_000;

/// The knowledge of federations.
#[derive(Debug, Default)]
pub(crate) struct Federations {
    directors: Mutex<HashMap<String, Arc<Director>>>,
    routes: Mutex<NamespaceRoutes>,
    turns: Mutex<HashMap<String, Arc<DirectoryTurn>>>,
}

/// The turn to ask a director about a file of a directory.
#[derive(Debug, Default)]
struct DirectoryTurn {
    taken: Arc<tokio::sync::Mutex<()>>,
    /// An answer about one file was not valid for another.
    is_useless: AtomicBool,
}

impl Federations {
    /// The turn for the directory of a file.
    fn turn(&self, named: &Location) -> Arc<DirectoryTurn> {
        let key = named.cache_key();
        let directory = key.rsplit_once('/').map_or(&*key, |(directory, _)| directory);
        let mut turns = lock(&self.turns);
        if turns.len() >= MAX_TURNS && !turns.contains_key(directory) {
            turns.clear();
        }
        Arc::clone(turns.entry(directory.to_owned()).or_default())
    }
}

/// The director of a federation. Locked while the federation is asked, so that it is asked once.
type Director = tokio::sync::Mutex<Option<(Option<String>, Instant)>>;

impl Network {
    /// The URL of a file at the director of its federation.
    ///
    /// # Errors
    ///
    /// Those of [`Network::call`] for the description of the federation; [`ErrorKind::Protocol`] if
    /// there is none.
    pub(crate) async fn director_of(&self, named: &Location) -> Result<Location> {
        let director = {
            let mut directors = lock(&self.federations.directors);
            Arc::clone(directors.entry(named.origin()).or_default())
        };
        let mut director = self.after(named, director.lock()).await?;
        let known = director.clone().filter(|(_, until)| Instant::now() < *until);
        let url = match known {
            Some((url, _)) => url,
            None => {
                let url = self.discover(named).await?;
                *director = Some((url.clone(), Instant::now() + KEEP_DESCRIPTION));
                url
            }
        };
        match url {
            Some(url) => named.at_director(&url),
            None => named.at_director(&named.https_root()),
        }
    }

    /// The servers of a file to read, if they are known, else its URL at the director. The guard is
    /// the turn to ask: others wait until it is dropped.
    ///
    /// # Errors
    ///
    /// As [`Network::director_of`].
    pub(crate) async fn servers_or_director(
        &self,
        named: &Location,
    ) -> Result<(Vec<Location>, Option<OwnedMutexGuard<()>>)> {
        let turn = self.federations.turn(named);
        let taken = Arc::clone(&turn.taken).try_lock_owned().ok();
        if taken.is_none() && !turn.is_useless.load(Ordering::Relaxed) {
            drop(self.after(named, turn.taken.lock()).await?);
            let known = self.known_servers(named, &Method::GET);
            if !known.is_empty() {
                return Ok((known, None));
            }
            turn.is_useless.store(true, Ordering::Relaxed);
        }
        Ok((vec![self.director_of(named).await?], taken))
    }

    /// Waits for another request about the federation of `named`.
    async fn after<T>(&self, named: &Location, turn: impl Future<Output = T>) -> Result<T> {
        // One request to the federation, and one to its director with the body of its answer.
        let limit = 2 * self.config().turn_timeout();
        tokio::time::timeout(limit, turn).await.map_err(|_| {
            let limit = limit.as_secs_f64();
            let what = format!("{named}: another request waits for the federation since {limit} s");
            Error::new(ErrorKind::Timeout, what)
        })
    }

    /// Asks a federation for its director; `None` if it has none.
    fn discover<'a>(&'a self, named: &'a Location) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let document = format!("{}{DISCOVERY_PATH}", named.https_root());
            let document = Location::parse(&document)?.without_credentials();
            let mut call = HttpRequest::new(Method::GET, document);
            call.max_reply_bytes = MAX_DESCRIPTION;
            let reply = self.call(call).await?;
            if reply.status != StatusCode::OK {
                let error = status_error::of_response(&reply, "GET");
                return Err(error.context("the description of the federation"));
            }
            let document: serde_json::Value =
                serde_json::from_slice(&reply.body).map_err(|error| {
                    let what =
                        format!("{}: this is not a description of a federation", reply.location);
                    Error::new(ErrorKind::Protocol, what).with_source(error)
                })?;
            let url = document.get(DIRECTOR_KEY).and_then(|url| url.as_str()).unwrap_or_default();
            tracing::debug!(federation = %named.origin(), director = url, "federation discovered");
            Ok(Some(url).filter(|url| !url.is_empty()).map(str::to_owned))
        })
    }

    /// The servers that the director named for a request with `method` for another file of the
    /// namespace, best first; none if it has to be asked.
    pub(crate) fn known_servers(&self, named: &Location, method: &Method) -> Vec<Location> {
        if !named.is_named() {
            return Vec::new();
        }
        lock(&self.federations.routes).servers(named, method, Instant::now())
    }

    /// Keeps the servers that a director named: `to` by a redirect, others by links.
    pub(crate) fn learn_servers(
        &self,
        director: &Location,
        method: &Method,
        to: &Location,
        links: &MetalinkLinks,
    ) {
        if director.is_at_director() {
            let mut routes = lock(&self.federations.routes);
            routes.learn(director, method, to, links, Instant::now());
        }
    }

    /// Forgets the servers for the namespace of a file: one of them does not respond.
    pub(crate) fn forget_servers(&self, named: &Location, method: &Method) {
        lock(&self.federations.routes).forget(named, method);
    }
}
