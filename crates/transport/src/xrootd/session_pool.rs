//! The sessions with one server, shared by all files on it.
//!
//! A session carries any number of requests at a time, and files are open in it. Two things speak for more than one: each
//! is a connection, whose window opens by itself, and a server answers what comes on one connection one after the other.
//! So a large request gets a session on which nothing else is under way, as long as there may be another one; small ones
//! share those that there are. (What the protocol has for that, binding further connections to a session, does not help
//! vector reads: servers answer them on the first one.)
//!
//! A request does not wait for a new session: it is handed to it before it is connected, and goes out with the login. How
//! that is done, and when the server lets it, is told in `establish.rs`.

mod establish;

use crate::config::TransportConfig;
use crate::context::NetworkContext;
use crate::location::Location;
use crate::xrootd::job::{JobError, SessionCommand};
use crate::xrootd::redirect_cache::RedirectCache;
use crate::xrootd::shared_file::SharedFile;
use establish::SessionConnector;
use hither_core::endpoint::Endpoint;
use hither_core::error::Error;
use hither_core::sync::lock;
use hither_core::tune::connections;
use hither_core::{LinkEstimate, SlotClaim};
use hither_xrd::client::ServerProfile;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tracing::{Instrument, debug, debug_span};

/// A request for more bytes than this wants a session for itself.
const SHARED_BYTES: u64 = 128 * 1024;
/// Small requests in one session at a time, before another one is opened for them.
const SHARED_JOBS: usize = 64;

/// The sessions with one server.
#[derive(Debug)]
pub(crate) struct SessionPool {
    location: Location,
    /// What a redirect said to log in with.
    words: String,
    shared: Arc<NetworkContext>,
    state: Mutex<SessionPoolState>,
    /// Where it sends those who ask for files.
    directions: Mutex<RedirectCache>,
    /// The last number that was given to a job.
    last_job: AtomicU64,
    /// Whether it is known how to log in, or that the first one who tried has failed.
    met: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct SessionPoolState {
    /// Those that live, and those that are being connected.
    all: Vec<Arc<SessionHandle>>,
    link: LinkEstimate,
    remembered: Endpoint,
    profile: ServerProfile,
    /// What was sent ahead was wrong once: nothing is any more.
    careful: bool,
    /// It is spoken to in clear, and wants TLS.
    wants_tls: bool,
    /// Connections that the server refused beyond this many; 0 for no such sign.
    refused_above: usize,
    /// A large job on this file is coming.
    announced: Weak<SharedFile>,
    speculated: bool,
}

/// A session, as those see it who use it.
#[derive(Debug)]
pub(super) struct SessionHandle {
    commands: UnboundedSender<SessionCommand>,
    load: Arc<SessionLoad>,
}

/// What a session has to do.
#[derive(Debug)]
pub(super) struct SessionLoad {
    jobs: AtomicUsize,
    bytes: AtomicU64,
    /// Why it is over, if it failed.
    failure: OnceLock<Error>,
    sessions: Weak<SessionPool>,
}

impl SessionLoad {
    /// That of a session which no others are beside.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        let jobs = AtomicUsize::new(usize::MAX / 2);
        let bytes = AtomicU64::new(u64::MAX / 2);
        Self { jobs, bytes, failure: OnceLock::new(), sessions: Weak::new() }
    }

    /// A job for so many bytes is over.
    pub(super) fn done(&self, bytes: u64) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// It could not be established, or broke. Said before it takes no more commands.
    fn failed(&self, error: &Error) {
        let _first = self.failure.set(error.clone());
    }

    /// The server has shown what it is like.
    pub(super) fn learned(&self, profile: &ServerProfile) {
        if let Some(sessions) = self.sessions.upgrade() {
            let mut state = sessions.state();
            if state.profile != *profile && profile.proven {
                state.profile = profile.clone();
                sessions.met.send_replace(true);
            }
        }
    }

    /// The path looked at least this fast.
    pub(super) fn saw_bandwidth(&self, bytes_per_second: Option<f64>) {
        let (Some(sessions), Some(seen)) = (self.sessions.upgrade(), bytes_per_second) else {
            return;
        };
        sessions.state().link.saw_bandwidth(seen);
    }
}

impl SessionHandle {
    /// Tells the session something. A session that has just ended drops it, and with it the way to reply.
    pub(super) fn tell(&self, command: SessionCommand) {
        let _ended = self.commands.send(command);
    }

    /// What became of a job that it did not take: on a busy machine it may have failed before it was told anything.
    pub(super) fn too_late(&self) -> JobError {
        self.load.failure.get().cloned().map_or(JobError::TooLate, JobError::Failed)
    }

    /// It is going to be told to do something with so many bytes.
    pub(super) fn takes(&self, bytes: u64) {
        self.load.jobs.fetch_add(1, Ordering::Relaxed);
        self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.load.jobs.load(Ordering::Relaxed) == 0
    }
}

impl SessionPool {
    /// Without a session. `words` go with the login, `remembered` is what is known of the server.
    pub(crate) fn new(
        location: Location,
        words: String,
        shared: Arc<NetworkContext>,
        remembered: Endpoint,
    ) -> Arc<Self> {
        let known = remembered.xrootd.clone().unwrap_or_default();
        let mut profile = remembered.xrootd.as_ref().map(establish::profile).unwrap_or_default();
        let wants_tls = !location.is_tls() && profile.wants_tls();
        // What is known of it then is what it is like over TLS.
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
        let directions = Mutex::new(RedirectCache::remembered(known.directions));
        Arc::new(Self { location, words, shared, state, directions, last_job, met })
    }

    fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    fn state(&self) -> MutexGuard<'_, SessionPoolState> {
        lock(&self.state)
    }

    /// What is known of the path by now.
    pub(crate) fn link(&self) -> LinkEstimate {
        self.state().link
    }

    /// What has been learned about the server and the path to it.
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
            self.directions().all().clone_into(&mut xrootd.directions);
        }
        endpoint
    }

    /// Where it sends those who ask for files.
    pub(super) fn directions(&self) -> MutexGuard<'_, RedirectCache> {
        lock(&self.directions)
    }

    /// It was spoken to in clear, and wants TLS.
    pub(super) fn wants_tls(&self) -> bool {
        self.state().wants_tls
    }

    /// It had wanted TLS, and has none.
    pub(super) fn has_no_tls(&self) {
        let mut state = self.state();
        (state.wants_tls, state.profile) = (false, ServerProfile::default());
    }

    /// This is what it said of itself before it wanted TLS.
    fn met_in_clear(&self, profile: ServerProfile) {
        let mut state = self.state();
        state.profile = profile;
        state.profile.proven = false;
        state.wants_tls = true;
    }

    /// What one vector read may hold: elements, and bytes in each.
    pub(super) fn vector_limits(&self) -> hither_xrd::wire::VectorLimits {
        self.state().profile.vector_limits.unwrap_or_default().clamped()
    }

    /// Most connections that caller and server allow.
    pub(crate) fn most(&self) -> usize {
        self.shared.max_connections(self.state().refused_above)
    }

    /// Sessions without a request.
    pub(crate) fn idle(&self) -> usize {
        self.state().all.iter().filter(|lease| lease.is_idle()).count()
    }

    /// A large job on a file is coming.
    pub(super) fn announce_large(&self, name: &Arc<SharedFile>) {
        self.state().announced = Arc::downgrade(name);
    }

    /// The flight of what is sent now.
    pub(super) fn next_flight(&self) -> u64 {
        self.shared.account.next_flight()
    }

    /// A number for a job.
    pub(super) fn number(&self) -> u64 {
        self.last_job.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Starts connecting until there are so many sessions, in which `name` is open; returns at once.
    pub(super) fn warm(self: &Arc<Self>, sessions: usize, name: &Arc<SharedFile>) {
        let most = self.most();
        let mut state = self.state();
        for lease in &state.all {
            name.asked_of(&lease.commands);
            lease.tell(SessionCommand::Open(Arc::clone(name)));
        }
        while state.all.len() < sessions.min(most) {
            let Some(lease) = self.connect(&mut state) else { break };
            name.asked_of(&lease.commands);
            lease.tell(SessionCommand::Open(Arc::clone(name)));
        }
    }

    /// The session for a request for so many bytes, of a file if it is one.
    pub(super) fn lease(
        self: &Arc<Self>,
        bytes: u64,
        name: Option<&Arc<SharedFile>>,
    ) -> Arc<SessionHandle> {
        let most = self.most();
        let mut state = self.state();
        // One may be over without that being noted yet.
        state.all.retain(|lease| !lease.commands.is_closed());
        let load = |lease: &Arc<SessionHandle>| {
            (lease.load.bytes.load(Ordering::Relaxed), lease.load.jobs.load(Ordering::Relaxed))
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
            name.asked_of(&lease.commands);
        }
        lease
    }

    /// One session more, if this machine may have it.
    fn connect(self: &Arc<Self>, state: &mut SessionPoolState) -> Option<Arc<SessionHandle>> {
        match self.shared.claim(&self.location) {
            SlotClaim::Granted(held) => Some(self.start(state, Some(held))),
            SlotClaim::Full => None,
        }
    }

    /// Every process may have one.
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
        let (commands, inbox) = unbounded_channel();
        let load = Arc::new(SessionLoad {
            jobs: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
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

    /// A session is over; with an error if it was never established.
    fn ended(&self, session: &Weak<SessionHandle>, error: Option<Error>) {
        let mut state = self.state();
        state.all.retain(|lease| !std::ptr::eq(Arc::as_ptr(lease), session.as_ptr()));
        let error = error.as_ref();
        debug!(server = %self.location.origin(), open = state.all.len(), error = error.map(tracing::field::display), "session closed");
        if error.is_some() && !state.all.is_empty() {
            state.refused_above = state.all.len();
        }
        state.speculated &= !state.all.is_empty();
        self.met.send_replace(true);
    }

    /// A connection has reached the server: the path is known. The first one of a large job is not alone for long, and
    /// the logins of the others go on beside its own.
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
