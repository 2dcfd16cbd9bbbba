//! One file in several places: whoever answers, answers for it.
//!
//! [`Replicas`] is a [`Source`] over other sources, so that nobody above knows how many servers there are. It decides for
//! each request which member gets it, and what becomes of the request when that member fails.
//!
//! **Order.** Members are used in the order given, the first living one for everything, because its connections are warm
//! and its limits known. Others join in when its connections are all taken, or when a job has become so large
//! (`BULK_BYTES`) that several servers are likely to be faster than one; then each request goes where it should end
//! first, by the speed of the requests before it.
//!
//! **Failure.** Every error is blamed on the request, on the member, or on chance (`verdict.rs` is the table). What a
//! member is blamed for sends the rest of the request to the next member there and then; parts that arrived are kept. A
//! member that cannot be reached is left alone for a while, by every file on that server ([`Health`]); one whose file
//! is another one, or not there, is left alone for good, with a [notice](Replicas::notices). Only when every member has
//! failed at one request does the reader see an error: the last member's, with those of the others in its message.
//!
//! **Identity.** The first member to answer settles the size of the file; requests to the others carry it, so that an
//! answer of another size fails before its first byte is handed on. Entity tags differ between servers and
//! are compared only with those of the same member. Where the file's checksum is known, a member other than the first
//! is asked for its own before it is used, if it can tell.
//!
//! **Hedging.** A request that has brought nothing for [`ReplicasConfig::hedge_after`], or crawls, is sent to another
//! member as well. Whoever is done first wins and the other is dropped. What that may cost is capped by
//! [`ReplicasConfig::waste`].

mod failure;
mod health;
mod hedging;
mod replica;

pub use health::Health;
pub use replica::{ChecksumQuery, Replica};

use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::report::SourceReport;
use crate::source::{PartSink, Request, ResponseMeta, Source};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::{Clock, Endpoint, Limits, LinkEstimate};
use failure::FailureScope;
use futures_core::future::BoxFuture;
use replica::ActiveReplica;
use std::sync::Arc;
use std::time::Duration;

/// When a job has had this many bytes, further members share the work.
const BULK_BYTES: u64 = 64 << 20;
/// Notices kept; a thousand replicas that are all wrong need not fill the memory.
const MAX_NOTICES: usize = 64;
/// What may be asked for twice before anything has arrived, in bytes.
const HEDGE_FLOOR_BYTES: u64 = 1 << 20;

/// When to ask a second member for the same bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ReplicasConfig {
    /// Silence after which a request is sent to another member as well; on long paths eight round trips if that is
    /// longer. 1 s by default.
    pub hedge_after: Duration,
    /// Share of the bytes delivered that may be asked for twice. 5 % by default, plus 1 MiB.
    pub waste: f64,
}

impl Default for ReplicasConfig {
    fn default() -> Self {
        Self { hedge_after: Duration::from_secs(1), waste: 0.05 }
    }
}

/// Whom to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those thought to be down as well, if nobody else is left: thinking so may be wrong.
    All,
    /// Those thought to be well.
    Living,
}

/// Finds further replicas when those known have failed, by asking a catalogue or the servers themselves.
pub trait ReplicaDiscovery: Send + Sync + std::fmt::Debug {
    /// Replicas that are not among those known, whose `errors` these are; `None` if it is not worth asking yet. Once it has
    /// answered it is not asked again.
    fn locate(&self, errors: &[Error]) -> BoxFuture<'_, Option<Vec<Replica>>>;
}

/// A file in several places.
#[derive(Debug)]
pub struct Replicas {
    config: ReplicasConfig,
    health: Arc<Health>,
    discover: Option<Box<dyn ReplicaDiscovery>>,
    first: Arc<ActiveReplica>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    members: Vec<Arc<ActiveReplica>>,
    size: Option<u64>,
    checksum: Option<Checksum>,
    delivered_bytes: u64,
    hedged_bytes: u64,
    discovered: bool,
    notices: Vec<String>,
}

impl Replicas {
    /// A file with its first replica; the state of servers is shared through `health`.
    #[must_use]
    pub fn new(first: Replica, health: Arc<Health>, config: ReplicasConfig) -> Self {
        let first = Arc::new(ActiveReplica::new(first));
        let state = State {
            members: vec![Arc::clone(&first)],
            size: None,
            checksum: None,
            delivered_bytes: 0,
            hedged_bytes: 0,
            discovered: false,
            notices: Vec::new(),
        };
        Self { config, health, discover: None, first, state: Mutex::new(state) }
    }

    /// States the file's size in bytes and its checksum, as a catalogue has them: members that say otherwise are excluded.
    /// What is known already is not changed; a catalogue that contradicts it is named in a notice.
    pub fn expect(&self, size: Option<u64>, checksum: Option<Checksum>) {
        let mut state = self.state();
        match (state.size, size) {
            (Some(known), Some(stated)) if known != stated => {
                drop(state);
                let name = self.name();
                self.notice(format!("{name} has {known} bytes, a catalogue says {stated}"));
                return;
            }
            _ => state.size = state.size.or(size),
        }
        if state.checksum.is_none() {
            state.checksum = checksum;
        }
    }

    /// With a way to find further replicas.
    #[must_use]
    pub fn with_discovery(mut self, discover: Box<dyn ReplicaDiscovery>) -> Self {
        self.discover = Some(discover);
        self
    }

    /// Adds a replica at the end of the order, unless it is there already.
    pub fn add(&self, replica: Replica) {
        let mut state = self.state();
        let known = |member: &Arc<ActiveReplica>| member.name() == replica.source.name();
        if !state.members.iter().any(known) {
            state.members.push(Arc::new(ActiveReplica::new(replica)));
        }
    }

    /// Why members are not used any more, in words for the user.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        self.state().notices.clone()
    }

    /// What each member has done.
    #[must_use]
    pub fn members(&self) -> Vec<SourceReport> {
        self.state().members.iter().map(|member| member.report()).collect()
    }

    async fn fetch_anywhere(&self, request: Request, sink: PartSink) -> Result<ResponseMeta> {
        let tee = hedging::DedupSink::new(sink);
        let mut tried: Vec<Arc<ActiveReplica>> = Vec::new();
        let mut errors: Vec<Error> = Vec::new();
        loop {
            let Some(member) = self.choose(&tried, Among::All) else {
                if self.discover_more(&errors).await {
                    continue;
                }
                return Err(self.gathered(errors));
            };
            tried.push(Arc::clone(&member));
            match self.attempt(&member, &request, &tee, &mut tried).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => errors.extend(failed),
            }
            if let Some(fault) =
                errors.iter().find(|e| failure::classify(e) == FailureScope::Request)
            {
                return Err(fault.clone());
            }
        }
    }

    /// The member for the next request, leaving out those tried.
    fn choose(&self, tried: &[Arc<ActiveReplica>], among: Among) -> Option<Arc<ActiveReplica>> {
        let state = self.state();
        let open: Vec<&Arc<ActiveReplica>> = state
            .members
            .iter()
            .filter(|member| {
                member.excluded().is_none() && !tried.iter().any(|it| Arc::ptr_eq(it, member))
            })
            .collect();
        let alive: Vec<&Arc<ActiveReplica>> =
            open.iter().copied().filter(|member| !self.health.is_down(member.site())).collect();
        let Some(&first) = alive.first() else {
            // Everybody is thought to be down. Thinking so may be wrong.
            return open.first().filter(|_| among == Among::All).map(|member| Arc::clone(member));
        };
        if first.has_room() && state.delivered_bytes < BULK_BYTES {
            return Some(Arc::clone(first));
        }
        let usual = first.speed().unwrap_or(1.0);
        let wait = |member: &ActiveReplica| member.wait(usual);
        alive.into_iter().min_by(|a, b| wait(a).total_cmp(&wait(b))).map(Arc::clone)
    }

    /// The first living member: whose limits and path stand for all.
    fn leader(&self) -> Arc<ActiveReplica> {
        let state = self.state();
        let living = |member: &&Arc<ActiveReplica>| {
            member.excluded().is_none() && !self.health.is_down(member.site())
        };
        let leader = state.members.iter().find(living).unwrap_or(&self.first);
        Arc::clone(leader)
    }

    fn can_discover(&self) -> bool {
        self.discover.is_some() && !self.state().discovered
    }

    /// Asks for further replicas, once. Tells whether there are any.
    async fn discover_more(&self, errors: &[Error]) -> bool {
        let Some(discover) = self.discover.as_ref().filter(|_| self.can_discover()) else {
            return false;
        };
        let Some(found) = discover.locate(errors).await else { return false };
        self.state().discovered = true;
        let before = self.state().members.len();
        found.into_iter().for_each(|replica| self.add(replica));
        self.state().members.len() > before
    }

    /// What the answer of a member means for all: the size, and the validator of the first one only.
    fn settle(&self, member: &Arc<ActiveReplica>, mut answer: ResponseMeta) -> ResponseMeta {
        let mut state = self.state();
        if state.size.is_none() {
            state.size = answer.size;
        }
        member.remember_validator(answer.validator.take());
        answer.validator = if Arc::ptr_eq(member, &self.first) { member.validator() } else { None };
        answer
    }

    /// The most hopeful error, else the last, with what the other members said in its message.
    fn gathered(&self, mut errors: Vec<Error>) -> Error {
        let left_out = self.state().members.iter().filter_map(|member| member.excluded()).collect();
        let hopeful =
            |error: &Error| matches!(error.retry(), Retry::SameServer { .. } | Retry::Later { .. });
        let hope = errors.iter().position(hopeful);
        let main = hope.or_else(|| errors.len().checked_sub(1)).map(|at| errors.remove(at));
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

    fn notice(&self, text: String) {
        let mut state = self.state();
        if state.notices.len() < MAX_NOTICES && !state.notices.contains(&text) {
            state.notices.push(text);
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
        let living = state.members.iter().filter(|member| member.excluded().is_none());
        living.map(|member| member.source().max_connections()).sum::<usize>().max(1)
    }

    fn max_requests(&self) -> usize {
        let state = self.state();
        let living = state.members.iter().filter(|member| member.excluded().is_none());
        living.map(|member| member.source().max_requests()).sum::<usize>().max(1)
    }

    fn idle_connections(&self) -> usize {
        let state = self.state();
        let living = state.members.iter().filter(|member| member.excluded().is_none());
        living.map(|member| member.source().idle_connections()).sum()
    }

    fn preconnect(&self, connections: usize) {
        let leader = self.leader();
        leader.source().preconnect(connections.min(leader.source().max_connections()));
    }

    fn expect_bulk(&self) {
        self.leader().source().expect_bulk();
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        Box::pin(self.fetch_anywhere(request, sink))
    }
}
