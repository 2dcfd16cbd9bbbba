//! The servers of one file: the current one after redirects, and its connections.
//!
//! [`TargetMemory`] keeps the current target. A path in a federation has a server if one is known,
//! else the director of the federation, which redirects.

use super::links::{LinksCallback, ReplicaLinks};
use crate::layers::redirects::may_be_wrong_target;
use crate::layers::target_memory::{CurrentTarget, TargetMemory};
use crate::location::Location;
use crate::network::Network;
use crate::pool::observation::ExchangeOutcome;
use crate::pool::{Pool, PooledConnection};
use hither_core::Request;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_http::metalink::MetalinkLinks;
use http::Method;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::OwnedMutexGuard;

/// The location of a file and its connections.
#[derive(Debug, Clone)]
pub(super) struct HttpTarget {
    pub(super) location: Location,
    pub(super) pool: Arc<Pool>,
}

impl HttpTarget {
    fn new(location: Location, network: &Network) -> Self {
        let pool = network.pool(&location);
        Self { location, pool }
    }
}

/// The targets of the requests for a file.
#[derive(Debug)]
pub(super) struct HttpTargets {
    pub(super) network: Arc<Network>,
    memory: TargetMemory<HttpTarget>,
    is_redirected: AtomicBool,
    /// The server that the last request was sent to, if a redirect led there.
    redirected_to: Mutex<Option<String>>,
    links: ReplicaLinks,
}

impl HttpTargets {
    /// The targets of the file at `location`.
    pub(super) fn new(location: Location, network: Arc<Network>) -> Self {
        let known = network.known_servers(&location, &Method::GET).into_iter().next();
        let is_redirected = AtomicBool::new(known.is_some());
        let redirected_to = Mutex::new(known.as_ref().map(Location::origin));
        let target = HttpTarget::new(known.unwrap_or_else(|| location.clone()), &network);
        let memory = TargetMemory::new(location, target);
        Self { network, memory, is_redirected, redirected_to, links: ReplicaLinks::default() }
    }

    /// The URL that the file was opened with.
    pub(super) fn first(&self) -> &Location {
        self.memory.first()
    }

    /// The current target of the file.
    pub(super) fn current(&self) -> HttpTarget {
        self.memory.current().target
    }

    /// The address of the current server.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.network.address(&self.current().location)
    }

    /// The connections to the current server, unless a request will go elsewhere.
    pub(super) fn pool_in_use(&self) -> Option<Arc<Pool>> {
        let target = self.current();
        (!target.location.is_named()).then_some(target.pool)
    }

    /// Returns whether a redirect was ever followed.
    pub(super) fn is_redirected(&self) -> bool {
        self.is_redirected.load(Ordering::Relaxed)
    }

    /// The server that the last request was sent to, if a redirect led there.
    pub(super) fn redirected_to(&self) -> Option<String> {
        lock(&self.redirected_to).clone()
    }

    /// The target of the next request, as soon as the `Retry-After` of its server has passed. Other
    /// requests about a federation wait for the answer of its director until the guard is dropped.
    pub(super) async fn next(
        &self,
    ) -> Result<(CurrentTarget<HttpTarget>, Option<OwnedMutexGuard<()>>)> {
        let turn = self.find_server().await?;
        let current = self.memory.current();
        // Concurrent requests may be redirected to several servers, of which one is the target.
        let target = &current.target.location;
        if !target.is_at_director() {
            *lock(&self.redirected_to) = (target != self.first()).then(|| target.origin());
        }
        current.target.pool.server().wait_retry_after().await;
        Ok((current, turn))
    }

    /// Replaces a path in a federation by a server or the director.
    async fn find_server(&self) -> Result<Option<OwnedMutexGuard<()>>> {
        let current = self.memory.current();
        let named = &current.target.location;
        if !named.is_named() {
            return Ok(None);
        }
        let (servers, turn) = if current.tried.is_empty() {
            self.network.servers_or_director(named).await?
        } else {
            // A server that was known failed.
            (vec![self.network.director_of(named).await?], None)
        };
        if let [first, others @ ..] = servers.as_slice() {
            self.follow(current.turn, first.clone());
            self.is_redirected.store(!first.is_at_director(), Ordering::Relaxed);
            if !others.is_empty() {
                let replicas = servers.iter().map(Location::absolute);
                self.links.report(&MetalinkLinks::of_replicas(replicas), first);
            }
        }
        Ok(turn)
    }

    /// Records that something was read: the current target works.
    pub(super) fn arrived(&self) {
        self.memory.arrived();
    }

    /// Follows a redirect to `to` of a request that was sent in `turn`.
    pub(super) fn follow(&self, turn: u64, to: Location) {
        let target = HttpTarget::new(to, &self.network);
        self.memory.change(turn, |_| target);
        self.is_redirected.store(true, Ordering::Relaxed);
    }

    /// Handles the failure of a request that was sent to `from` in `turn`. Another target may have
    /// the file.
    pub(super) fn fall_back(&self, turn: u64, from: &Location, error: Error) -> Error {
        if !may_be_wrong_target(&error) || from.is_at_director() {
            return error;
        }
        if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
            self.network.forget_servers(self.first(), &Method::GET);
        }
        let first = |first: &Location| HttpTarget::new(first.clone(), &self.network);
        self.memory.fall_back(turn, from, error, first)
    }

    /// Returns true if no other server sends requests for the file to `location`.
    pub(super) fn is_first(&self, location: &Location) -> bool {
        location == self.first() || location.is_at_director()
    }

    /// A connection for a request. Waits for a server that refuses connections, unless another one
    /// can be used: another replica, or the server that redirected to this one.
    pub(super) async fn connection(
        &self,
        target: &HttpTarget,
        request: &Request,
    ) -> Result<PooledConnection> {
        loop {
            match target.pool.acquire_for(request.requested_bytes()).await {
                Err(error) if !request.failover && self.is_first(&target.location) => {
                    target.pool.wait_for_restart(error).await?;
                }
                acquired => return acquired,
            }
        }
    }

    /// Calls `callback` once, when a response links to other replicas.
    pub(super) fn when_linked(&self, callback: Box<LinksCallback>) {
        self.links.listen(callback);
    }

    /// Takes the links of a response from `location` with this outcome.
    pub(super) fn note_links(
        &self,
        location: &Location,
        outcome: &Result<ExchangeOutcome>,
        links: &MetalinkLinks,
    ) {
        let Ok(ExchangeOutcome::Redirect(to)) = outcome else {
            return self.links.report(links, location);
        };
        self.network.learn_servers(location, &Method::GET, to, links);
        let mut links = links.clone();
        // Its document would name the same ones, at the cost of another request.
        if links.replicas.len() > 1 {
            links.documents.clear();
        }
        self.links.report(&links, to);
    }
}
