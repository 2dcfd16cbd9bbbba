//! The source over several replicas.

mod bulk;
mod dedup_sink;
mod failure;
mod health;
mod hedging;
mod notices;
mod origins;
mod rate_meter;
mod replica;
mod selection;

pub use failure::{FailureScope, classify};
pub use health::Health;
pub use replica::{ChecksumQuery, Replica};

use dedup_sink::DedupSink;
use futures_core::future::BoxFuture;
use hither_checksum::Checksum;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::source::{PartSink, Request, ResponseMeta, Source};
use hither_core::storage::replica_set::PieceChecksums;
use hither_core::sync::lock;
use hither_core::{Clock, Endpoint, Limits, LinkEstimate};
use origins::Origins;
use replica::ActiveReplica;
use replica::admission::Senders;
use selection::Candidates;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Bytes that may be requested twice before anything has arrived.
const HEDGE_FLOOR_BYTES: u64 = 1 << 20;

/// When to request the same bytes from a second replica.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ReplicasConfig {
    /// Silence after which a request is sent to another replica as well; on long paths eight round
    /// trips if that is longer. 1 s by default.
    pub hedge_after: Duration,
    /// Share of the delivered bytes that may be requested twice. 5 % by default, plus 1 MiB.
    pub waste: f64,
}

impl Default for ReplicasConfig {
    fn default() -> Self {
        Self { hedge_after: Duration::from_secs(1), waste: 0.05 }
    }
}

/// Finds further replicas when the known ones have failed, by querying a catalogue or the servers
/// themselves.
pub trait ReplicaDiscovery: Send + Sync + std::fmt::Debug {
    /// Locates replicas after the known ones failed with `errors`; `None` if it is too early to
    /// query. Called again only after `None`.
    fn locate(&self, errors: &[Error]) -> BoxFuture<'_, Option<Vec<Replica>>>;
}

/// A file with several replicas.
#[derive(Debug)]
pub struct Replicas {
    config: ReplicasConfig,
    health: Arc<Health>,
    discover: Option<Box<dyn ReplicaDiscovery>>,
    first: Arc<ActiveReplica>,
    senders: Senders,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    replicas: Vec<Arc<ActiveReplica>>,
    /// Their names. A catalogue may have a hundred thousand.
    names: HashSet<String>,
    size: Option<u64>,
    checksum: Option<Checksum>,
    /// The senders of the bytes of a bulk job.
    origins: Option<Arc<Mutex<Origins>>>,
    /// The only replica that gets requests at present.
    only: Option<usize>,
    /// Checksums that servers have stated, by the numbers of their replicas.
    stated: Vec<(usize, Checksum)>,
    /// Checksums of pieces from a catalogue.
    pieces: Option<Arc<PieceChecksums>>,
    delivered_bytes: u64,
    hedged_bytes: u64,
    discovered: bool,
    notices: Vec<String>,
}

impl Replicas {
    /// A file with its first replica; the state of servers is shared through `health`.
    #[must_use]
    pub fn new(first: Replica, health: Arc<Health>, config: ReplicasConfig) -> Self {
        let first = Arc::new(ActiveReplica::new(0, first, false));
        let state = State {
            replicas: vec![Arc::clone(&first)],
            names: HashSet::from([first.name()]),
            size: None,
            checksum: None,
            origins: None,
            only: None,
            stated: Vec::new(),
            pieces: None,
            delivered_bytes: 0,
            hedged_bytes: 0,
            discovered: false,
            notices: Vec::new(),
        };
        let senders = Senders::default();
        Self { config, health, discover: None, first, senders, state: Mutex::new(state) }
    }

    /// Sets the size of the file in bytes and its checksum from a catalogue: replicas that differ
    /// are excluded. Known values are not changed; a notice names a catalogue that contradicts
    /// them.
    pub fn expect(&self, size: Option<u64>, checksum: Option<Checksum>) {
        let mut state = self.state();
        match (state.size, size) {
            (Some(known), Some(stated)) if known != stated => {
                drop(state);
                let name = self.name();
                self.note(format!("{name} has {known} bytes, a catalogue says {stated}"));
                return;
            }
            _ => state.size = state.size.or(size),
        }
        if state.checksum.is_none() {
            state.checksum = checksum;
        }
    }

    /// Sets the source of further replicas.
    #[must_use]
    pub fn with_discovery(mut self, discover: Box<dyn ReplicaDiscovery>) -> Self {
        self.discover = Some(discover);
        self
    }

    /// Adds a replica that the user names at the end of the order, unless it is there already.
    pub fn add(&self, replica: Replica) {
        self.insert(replica, false);
    }

    /// The same for a replica that only a response of a server names: its bytes are not mixed with
    /// those of others of which nothing but the size is the same.
    pub fn add_found(&self, replica: Replica) {
        self.insert(replica, true);
    }

    fn insert(&self, replica: Replica, is_found: bool) {
        let mut state = self.state();
        if state.names.insert(replica.source.name()) {
            let number = state.replicas.len();
            state.replicas.push(Arc::new(ActiveReplica::new(number, replica, is_found)));
        }
    }

    async fn fetch_anywhere(&self, request: Request, sink: PartSink) -> Result<ResponseMeta> {
        let dedup = DedupSink::new(sink, self.state().origins.clone());
        let mut tried: Vec<Arc<ActiveReplica>> = Vec::new();
        let mut errors: Vec<Error> = Vec::new();
        // The first replica whose server refused a connection, and the number of its error.
        let mut refusing = None;
        loop {
            let next = self.choose(&tried, Candidates::All, request.requested_bytes());
            let failover = next.is_some() && (self.can_discover() || self.has_several());
            let replica = match next {
                Some(replica) => replica,
                None if self.discover_more(&errors).await => continue,
                // No other server is left, and this one may be restarting.
                None => match refusing.take() {
                    Some((replica, error)) => {
                        errors.remove(error);
                        replica
                    }
                    None => return Err(self.gathered(errors)),
                },
            };
            tried.push(Arc::clone(&replica));
            let request = Request { failover, ..request.clone() };
            match self.attempt(&replica, &request, &dedup, &mut tried).await {
                Ok(response) => {
                    // Requests of one reader keep to one version even if the file is opened again.
                    let validator = response.validator.as_deref();
                    request.version.bind(&self.name(), response.size, validator)?;
                    return Ok(response);
                }
                Err(failed) => {
                    // Bytes of other replicas do not complete those that were delivered.
                    if let Some((_, error)) = failed.last().filter(|_| dedup.is_refuted()) {
                        return Err(error.clone());
                    }
                    // A request that is too large is made smaller by the limits of the leader,
                    // which may be another replica.
                    let leader = self.leader();
                    let is_final = |(sender, error): &&(Arc<ActiveReplica>, Error)| {
                        let is_too_large = error.kind() == ErrorKind::TooLarge;
                        classify(error) == FailureScope::Request
                            && (!is_too_large || Arc::ptr_eq(sender, &leader))
                    };
                    if let Some((_, fault)) = failed.iter().find(is_final) {
                        return Err(fault.clone());
                    }
                    let refused =
                        failed.iter().position(|(_, error)| error.is_refused_connection());
                    if let Some(position) = refused.filter(|_| failover && refusing.is_none()) {
                        refusing = Some((replica, errors.len() + position));
                    }
                    errors.extend(failed.into_iter().map(|(_, error)| error));
                }
            }
        }
    }

    fn has_several(&self) -> bool {
        self.state().replicas.len() > 1
    }

    fn can_discover(&self) -> bool {
        self.discover.is_some() && !self.state().discovered
    }

    /// Searches for further replicas, once. Returns true if there are any.
    async fn discover_more(&self, errors: &[Error]) -> bool {
        let Some(discover) = self.discover.as_ref().filter(|_| self.can_discover()) else {
            return false;
        };
        let Some(found) = discover.locate(errors).await else { return false };
        self.state().discovered = true;
        let before = self.state().replicas.len();
        found.into_iter().for_each(|replica| self.add_found(replica));
        self.state().replicas.len() > before
    }

    /// Applies a response to the file: the size from any replica, the validator from the first one
    /// only.
    fn settle(&self, replica: &Arc<ActiveReplica>, mut response: ResponseMeta) -> ResponseMeta {
        let mut state = self.state();
        if state.size.is_none() {
            state.size = response.size;
        }
        if Arc::ptr_eq(replica, &self.first) {
            let bound = || replica.version().validator().map(str::to_owned);
            response.validator = response.validator.or_else(bound);
        } else {
            response.validator = None;
        }
        response
    }

    /// The first error after which a retry may succeed, else the last, with the errors of the other
    /// replicas in its message.
    fn gathered(&self, mut errors: Vec<Error>) -> Error {
        let left_out =
            self.state().replicas.iter().filter_map(|replica| replica.excluded()).collect();
        let retryable = |error: &Error| error.retry().may_succeed();
        let position = errors.iter().position(retryable);
        let main = position.or_else(|| errors.len().checked_sub(1)).map(|at| errors.remove(at));
        let mut others: Vec<Error> = left_out;
        let Some(main) = main.or_else(|| others.pop()) else {
            return Error::new(ErrorKind::Unavailable, format!("{} has no replica", self.name()));
        };
        others.splice(0..0, errors);
        let mut others: Vec<String> = others.iter().map(ToString::to_string).collect();
        others.dedup();
        others.retain(|other| *other != main.to_string());
        match others.as_slice() {
            [] => main,
            others => main.context(format!("no replica is left ({})", others.join("; "))),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Source for Replicas {
    fn name(&self) -> String {
        self.first.name()
    }

    fn limits(&self) -> Limits {
        self.leader().source().limits()
    }

    fn link(&self) -> LinkEstimate {
        self.leader().source().link()
    }

    fn clock(&self) -> &dyn Clock {
        self.first.source().clock()
    }

    fn endpoint(&self) -> Endpoint {
        self.leader().source().endpoint()
    }

    fn max_connections(&self) -> usize {
        let state = self.state();
        let included = state.replicas.iter().filter(|replica| replica.excluded().is_none());
        included.map(|replica| replica.source().max_connections()).sum::<usize>().max(1)
    }

    fn max_requests(&self) -> usize {
        let state = self.state();
        let included = state.replicas.iter().filter(|replica| replica.excluded().is_none());
        included.map(|replica| replica.source().max_requests()).sum::<usize>().max(1)
    }

    fn max_small_files(&self) -> usize {
        self.leader().source().max_small_files()
    }

    fn expect_small_files(&self) {
        self.leader().source().expect_small_files();
    }

    fn idle_connections(&self) -> usize {
        let state = self.state();
        let included = state.replicas.iter().filter(|replica| replica.excluded().is_none());
        included.map(|replica| replica.source().idle_connections()).sum()
    }

    fn is_one_server(&self) -> bool {
        !self.has_several()
    }

    fn preconnect(&self, connections: usize) {
        if self.is_bulk() {
            return self.preconnect_all(connections);
        }
        let leader = self.leader();
        leader.source().preconnect(connections.min(leader.source().max_connections()));
    }

    fn expect_bulk(&self) {
        self.leader().source().expect_bulk();
    }

    fn forget_version(&self) {
        lock(&self.senders).clear();
        let mut state = self.state();
        state.size = None;
        state.replicas.iter().for_each(|replica| replica.forget_version());
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(self.fetch_anywhere(request, sink))
    }
}
