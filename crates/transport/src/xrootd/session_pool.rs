//! The sessions with one server, shared by all its files.
//!
//! A session carries any number of parallel requests, and files are open in it. Two reasons speak
//! for several sessions: each is a connection with a congestion window of its own, and a server
//! processes the requests of one connection one after the other. So a large request gets an idle
//! session, as long as another one is allowed; small ones share sessions. (The protocol can bind
//! more connections to a session, but that does not help vector reads, which servers send on the
//! first one.)
//!
//! A request does not wait for a new session: it is passed to the session before that is connected,
//! and is sent together with the login. `establish.rs` explains how, and when the server allows
//! that.

mod establish;

use crate::config::TransportConfig;
use crate::context::NetworkContext;
use crate::location::Location;
use crate::xrootd::command_channel::{CommandSender, command_channel};
use crate::xrootd::job::{JobError, SessionCommand};
use crate::xrootd::redirect_cache::RedirectCache;
use crate::xrootd::shared_file::SharedFile;
use establish::SessionConnector;
use hither_core::endpoint::Endpoint;
use hither_core::error::Error;
use hither_core::sync::lock;
use hither_core::{LinkEstimate, SlotClaim};
use hither_load::connections;
use hither_xrd::client::ServerProfile;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span};

/// A request for more bytes than this gets an idle session.
const SHARED_BYTES: u64 = 128 * 1024;
/// The maximum number of small requests in one session, before another one is opened.
const SHARED_JOBS: usize = 64;

/// The sessions with one server.
#[derive(Debug)]
pub(crate) struct SessionPool {
    location: Location,
    /// The login words of a redirect.
    words: String,
    shared: Arc<NetworkContext>,
    state: Mutex<SessionPoolState>,
    /// The remembered redirects.
    redirects: Mutex<RedirectCache>,
    /// The last job number.
    last_job: AtomicU64,
    /// The login is known, or the first attempt has failed.
    met: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct SessionPoolState {
    /// Open sessions, and those that are being established.
    all: Vec<Arc<SessionHandle>>,
    link: LinkEstimate,
    remembered: Endpoint,
    profile: ServerProfile,
    /// A guess about the login was wrong, so no requests are sent ahead any more.
    careful: bool,
    /// The URL is unencrypted, but the server requires TLS.
    wants_tls: bool,
    /// The number of connections beyond which the server refused one; 0 if it never did.
    refused_above: usize,
    /// The file of an announced large job.
    announced: Weak<SharedFile>,
    speculated: bool,
}

/// A handle to a session.
#[derive(Debug)]
pub(super) struct SessionHandle {
    commands: CommandSender,
    load: Arc<SessionLoad>,
}

/// The load of a session.
#[derive(Debug)]
pub(super) struct SessionLoad {
    jobs: AtomicUsize,
    bytes: AtomicU64,
    /// Requests of cancelled jobs whose responses are still to come.
    abandoned: AtomicUsize,
    /// The error with which it ended, if it failed.
    failure: OnceLock<Error>,
    sessions: Weak<SessionPool>,
}

impl SessionLoad {
    /// The load of a session without a pool.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        let jobs = AtomicUsize::new(usize::MAX / 2);
        let bytes = AtomicU64::new(u64::MAX / 2);
        let abandoned = AtomicUsize::new(0);
        Self { jobs, bytes, abandoned, failure: OnceLock::new(), sessions: Weak::new() }
    }

    /// Removes a job with this many bytes.
    pub(super) fn done(&self, bytes: u64) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets the number of requests of cancelled jobs whose responses are still to come.
    pub(super) fn set_abandoned(&self, requests: usize) {
        self.abandoned.store(requests, Ordering::Relaxed);
    }

    /// Records the error of the session, before it stops taking commands.
    fn failed(&self, error: &Error) {
        let _first = self.failure.set(error.clone());
    }

    /// Reports the profile of the server.
    pub(super) fn learned(&self, profile: &ServerProfile) {
        if let Some(sessions) = self.sessions.upgrade() {
            let mut state = sessions.state();
            if state.profile != *profile && profile.proven {
                state.profile = profile.clone();
                sessions.met.send_replace(true);
            }
        }
    }

    /// Updates the time that requests wait for their responses.
    pub(super) fn saw_first_byte(&self, first_byte: Duration) {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.state().link.saw_response(first_byte, 0, Duration::ZERO, false);
        }
    }

    /// Updates the bandwidth of the path.
    pub(super) fn saw_bandwidth(&self, bytes_per_second: Option<f64>) {
        let (Some(sessions), Some(seen)) = (self.sessions.upgrade(), bytes_per_second) else {
            return;
        };
        sessions.state().link.saw_bandwidth(seen);
    }
}

/// A session that is not idle before this is dropped.
#[derive(Debug)]
pub(super) struct OccupiedSession(Arc<SessionHandle>);

impl OccupiedSession {
    /// Occupies a session.
    pub(super) fn new(session: Arc<SessionHandle>) -> Self {
        session.takes(0);
        Self(session)
    }

    /// The session.
    pub(super) fn lease(&self) -> &Arc<SessionHandle> {
        &self.0
    }
}

impl Drop for OccupiedSession {
    fn drop(&mut self) {
        self.0.load.done(0);
    }
}

impl SessionHandle {
    /// Sends a command. A session that has ended drops it, together with its reply channel.
    pub(super) fn tell(&self, command: SessionCommand) {
        self.commands.send(command);
    }

    /// The result of a job that the session did not take: on a busy machine it may have failed
    /// before the command arrived.
    pub(super) fn too_late(&self) -> JobError {
        self.load.failure.get().cloned().map_or(JobError::TooLate, JobError::Failed)
    }

    /// Records that a file is opened in this session.
    pub(super) fn opens(&self, name: &SharedFile) {
        name.add_session(&self.commands);
    }

    /// Adds a job with this many bytes.
    pub(super) fn takes(&self, bytes: u64) {
        self.load.jobs.fetch_add(1, Ordering::Relaxed);
        self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        let SessionLoad { jobs, abandoned, .. } = &*self.load;
        jobs.load(Ordering::Relaxed) == 0 && abandoned.load(Ordering::Relaxed) == 0
    }
}

impl SessionPool {
    /// A pool without sessions. `words` go with the login, `remembered` is what earlier processes
    /// learned about the server.
    pub(crate) fn new(
        location: Location,
        words: String,
        shared: Arc<NetworkContext>,
        remembered: Endpoint,
    ) -> Arc<Self> {
        let known = remembered.xrootd.clone().unwrap_or_default();
        let mut profile = remembered.xrootd.as_ref().map(establish::profile).unwrap_or_default();
        let wants_tls = !location.is_tls() && profile.wants_tls();
        // The remembered profile is the one over TLS.
        profile.proven &= !wants_tls;
        let state = SessionPoolState {
            link: remembered.link(),
            refused_above: remembered.max_connections,
            profile,
            wants_tls,
            remembered,
            ..SessionPoolState::default()
        };
        let (met, _) = watch::channel(state.profile.proven);
        let state = Mutex::new(state);
        let last_job = AtomicU64::new(0);
        let redirects = Mutex::new(RedirectCache::remembered(known.directions));
        Arc::new(Self { location, words, shared, state, redirects, last_job, met })
    }

    fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    fn state(&self) -> MutexGuard<'_, SessionPoolState> {
        lock(&self.state)
    }

    /// The current estimate of the path.
    pub(crate) fn link(&self) -> LinkEstimate {
        self.state().link
    }

    /// Everything that was learned about the server and the path to it.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let state = self.state();
        let mut endpoint = state.remembered.clone();
        endpoint.max_connections = state.refused_above;
        endpoint.set_link(&state.link);
        if state.profile.proven || state.wants_tls {
            endpoint.xrootd = Some(establish::remembered(&state.profile));
        }
        drop(state);
        if let Some(xrootd) = &mut endpoint.xrootd {
            self.redirects().all().clone_into(&mut xrootd.directions);
        }
        endpoint
    }

    /// The remembered redirects.
    pub(super) fn redirects(&self) -> MutexGuard<'_, RedirectCache> {
        lock(&self.redirects)
    }

    /// Returns whether the URL is unencrypted, but the server requires TLS.
    pub(super) fn wants_tls(&self) -> bool {
        self.state().wants_tls
    }

    /// Records that the server has no TLS any more.
    pub(super) fn has_no_tls(&self) {
        let mut state = self.state();
        (state.wants_tls, state.profile) = (false, ServerProfile::default());
    }

    /// Records the profile of a server that requires TLS.
    fn met_in_clear(&self, profile: ServerProfile) {
        let mut state = self.state();
        state.profile = profile;
        state.profile.proven = false;
        state.wants_tls = true;
    }

    /// Returns whether the server is known to serve files itself, without redirects.
    pub(super) fn serves_files(&self) -> bool {
        let state = self.state();
        state.profile.proven && !state.profile.is_manager()
    }

    /// The limits of one vector read: elements, and bytes in each.
    pub(super) fn vector_limits(&self) -> hither_xrd::wire::VectorLimits {
        self.state().profile.vector_limits.unwrap_or_default().clamped()
    }

    /// The maximum number of connections that caller and server allow.
    pub(crate) fn most(&self) -> usize {
        self.shared.max_connections(self.state().refused_above)
    }

    /// The maximum number of small requests in flight that leaves each session its share.
    pub(super) fn max_small_requests(&self) -> usize {
        self.most() * SHARED_JOBS
    }

    /// Sessions without a request.
    pub(crate) fn idle(&self) -> usize {
        self.state().all.iter().filter(|lease| lease.is_idle()).count()
    }

    /// Announces a large job on a file.
    pub(super) fn announce_large(&self, name: &Arc<SharedFile>) {
        self.state().announced = Arc::downgrade(name);
    }

    /// The round trip of the next request.
    pub(super) fn next_round_trip(&self) -> u64 {
        self.shared.counters.next_round_trip()
    }

    /// A new job number.
    pub(super) fn number(&self) -> u64 {
        self.last_job.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Establishes sessions until there are `sessions`, and opens `name` in all of them; returns
    /// immediately.
    pub(super) fn warm(self: &Arc<Self>, sessions: usize, name: &Arc<SharedFile>) {
        let most = self.most();
        let mut state = self.state();
        for lease in &state.all {
            name.add_session(&lease.commands);
            lease.tell(SessionCommand::Open(Arc::clone(name)));
        }
        while state.all.len() < sessions.min(most) {
            let Some(lease) = self.connect(&mut state) else { break };
            name.add_session(&lease.commands);
            lease.tell(SessionCommand::Open(Arc::clone(name)));
        }
    }

    /// The session for a request for `bytes` bytes, and the file that it reads, if any.
    pub(super) fn lease(
        self: &Arc<Self>,
        bytes: u64,
        name: Option<&Arc<SharedFile>>,
    ) -> Arc<SessionHandle> {
        let most = self.most();
        let mut state = self.state();
        // A session may have ended without being removed yet.
        state.all.retain(|lease| !lease.commands.is_closed());
        let load = |lease: &Arc<SessionHandle>| {
            let SessionLoad { jobs, bytes, abandoned, .. } = &*lease.load;
            let counts = [jobs, abandoned].map(|count| count.load(Ordering::Relaxed));
            (bytes.load(Ordering::Relaxed), counts[1], counts[0])
        };
        let alive = state.all.iter().filter(|lease| !lease.commands.is_closed());
        let least = alive.min_by_key(|lease| load(lease)).cloned();
        let fits = least.as_ref().is_some_and(|lease| match bytes {
            0..=SHARED_BYTES => lease.load.jobs.load(Ordering::Relaxed) < SHARED_JOBS,
            _ => lease.is_idle(),
        });
        let lease = match least {
            Some(least) if fits || state.all.len() >= most => least,
            Some(least) => self.connect(&mut state).unwrap_or(least),
            None => self.connect_anyhow(&mut state),
        };
        lease.takes(bytes);
        if let Some(name) = name {
            name.add_session(&lease.commands);
        }
        lease
    }

    /// An idle session, or a new one; `None` if no more are allowed.
    pub(super) fn occupy(self: &Arc<Self>) -> Option<OccupiedSession> {
        let most = self.most();
        let mut state = self.state();
        state.all.retain(|lease| !lease.commands.is_closed());
        let idle = state.all.iter().find(|lease| lease.is_idle()).cloned();
        let lease = match idle {
            Some(idle) => idle,
            None if state.all.len() < most => self.connect(&mut state)?,
            None => return None,
        };
        Some(OccupiedSession::new(lease))
    }

    /// Opens one more session, if the limit on connections of this machine allows.
    fn connect(self: &Arc<Self>, state: &mut SessionPoolState) -> Option<Arc<SessionHandle>> {
        match self.shared.claim(&self.location) {
            SlotClaim::Granted(held) => Some(self.start(state, Some(held))),
            SlotClaim::Full => None,
        }
    }

    /// Every process may have one connection.
    fn connect_anyhow(self: &Arc<Self>, state: &mut SessionPoolState) -> Arc<SessionHandle> {
        match self.shared.claim(&self.location) {
            SlotClaim::Granted(held) => self.start(state, Some(held)),
            SlotClaim::Full => self.start(state, None),
        }
    }

    fn start(
        self: &Arc<Self>,
        state: &mut SessionPoolState,
        claim: Option<Box<dyn hither_core::SlotGuard>>,
    ) -> Arc<SessionHandle> {
        let (commands, inbox) = command_channel();
        let load = Arc::new(SessionLoad {
            jobs: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            abandoned: AtomicUsize::new(0),
            failure: OnceLock::new(),
            sessions: Arc::downgrade(self),
        });
        let lease = Arc::new(SessionHandle { commands, load: Arc::clone(&load) });
        let session = SessionConnector::new(self, state, load, inbox);
        state.all.push(Arc::clone(&lease));
        let sessions = Arc::downgrade(self);
        let this = Arc::downgrade(&lease);
        let span = debug_span!("session", server = %self.location.origin());
        let running = async move {
            let ended = session.run().await;
            drop(claim);
            if let Some(sessions) = sessions.upgrade() {
                sessions.ended(&this, ended);
            }
        };
        self.shared.runtime.spawn(running.instrument(span));
        lease
    }

    /// Removes a session; with an error if it was never established.
    fn ended(&self, session: &Weak<SessionHandle>, error: Option<Error>) {
        let mut state = self.state();
        state.all.retain(|lease| !std::ptr::eq(Arc::as_ptr(lease), session.as_ptr()));
        let error = error.as_ref();
        debug!(server = %self.location.origin(), open = state.all.len(), error = error.map(tracing::field::display), "session closed");
        if error.is_some() && !state.all.is_empty() {
            state.refused_above = state.all.len();
        } else if error.is_some_and(Error::is_refused_connection) {
            // The server is down. Its earlier refusal had this reason, and was not a connection
            // limit.
            state.refused_above = 0;
        }
        state.speculated &= !state.all.is_empty();
        self.met.send_replace(true);
    }

    /// Records the round-trip time of a new connection. For a large job the first one opens others,
    /// whose logins run concurrently with its own.
    fn measured(self: &Arc<Self>, rtt: Duration) {
        let announced = {
            let mut state = self.state();
            state.link.saw_rtt(rtt);
            let announced = state.announced.upgrade();
            announced.filter(|_| !std::mem::replace(&mut state.speculated, true))
        };
        if let Some(name) = announced {
            self.warm(connections::speculative(rtt, self.config().max_connections), &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::xrootd::job::Operation;
    use crate::xrootd::request::request_in;
    use hither_testkit::mock_xrootd::{Fault, FaultStage, FaultTrigger, MockXrootdServer};
    use hither_xrd::wire::{Redirect, Request};
    use tokio::runtime::Handle;

    #[tokio::test]
    async fn a_job_after_a_redirected_login_is_retried() {
        let server = MockXrootdServer::start(vec![0; 10]).unwrap();
        let redirect = Fault::Elsewhere(Redirect::to("127.0.0.1", 1));
        server.add_fault(FaultStage::Login, FaultTrigger::Always, redirect);
        let network = Network::new(TransportConfig::default(), Handle::current(), None);
        let sessions = network.sessions(&Location::parse(&server.url()).unwrap(), "");
        let lease = sessions.lease(0, None);
        // The session has ended.
        sessions.met.subscribe().wait_for(|met| *met).await.unwrap();
        let result = request_in(&sessions, &lease, Operation::Request(Request::Ping)).await;
        assert!(matches!(result, Err(JobError::TooLate)), "{:?}", result.err());
    }
}
