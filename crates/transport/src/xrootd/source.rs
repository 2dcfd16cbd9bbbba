//! One file behind an XRootD server.
//!
//! A file is opened in every session in which it is read, together with its first read there. A
//! manager gets one request, or none where it has redirected other files of the same directory
//! (`xrootd/redirect_cache.rs`). If such a cached redirect fails, the manager gets the request
//! after all, and the reader does not notice.
//!
//! A version is identified by modification time and size, which the response to an open contains,
//! so every session checks them without a round trip of its own.

use crate::context::MonotonicClock;
use crate::layers::credential::RequestCredential;
use crate::layers::redirects::{Attempts, MAX_XROOTD_REDIRECTS};
use crate::layers::target_memory::{CurrentTarget, TargetMemory};
use crate::location::Location;
use crate::network::Network;
use crate::xrootd::SessionPool;
use crate::xrootd::job::{FileVersion, JobError, ReadJob, SessionCommand};
use crate::xrootd::redirect_cache::is_plain;
use crate::xrootd::request::PendingJob;
use crate::xrootd::shared_file::SharedFile;
use crate::xrootd::target::XrootdTarget;
use futures_core::future::BoxFuture;
use hither_auth::Action;
use hither_core::endpoint::MAX_REQUEST_BYTES;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::sync::lock;
use hither_core::{
    Clock, Endpoint, Limits, LinkEstimate, PartSink, Request, ResponseMeta, Source, range,
};
use hither_xrd::wire::Redirect;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tracing::{Instrument, debug, debug_span};

/// The cost of one more range: its header in the request, and in the response.
const RANGE_COST_BYTES: u64 = 32;

/// Minimum number of sessions to open before the first read of a remembered file. Fewer gain
/// nothing: one session carries many concurrent requests, and each further session costs a login.
const MIN_WARM_SESSIONS: usize = 8;

/// A file behind an XRootD server.
#[derive(Debug)]
pub struct XrootdSource {
    network: Arc<Network>,
    clock: MonotonicClock,
    targets: TargetMemory<FileTarget>,
    announced: AtomicBool,
    /// The number of connections that callers announced before the name of the file was known.
    wanted: AtomicUsize,
}

/// The location of a file after redirects.
#[derive(Debug, Clone)]
struct FileTarget {
    place: XrootdTarget,
    via: Via,
    /// Known once the credentials were read.
    name: Option<Arc<SharedFile>>,
}

/// The target of a request.
struct RequestTarget {
    place: XrootdTarget,
    name: Arc<SharedFile>,
    via: Via,
    turn: u64,
}

/// The step that led to the current target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Via {
    /// The URL of the user, which was not requested yet.
    User,
    /// The URL of the user, after a cached redirect failed.
    Retried,
    /// A remembered redirect for the directory.
    Cached,
    /// Redirects that hold for other files, too.
    Redirect,
    /// Anything else, or recorded already.
    Other,
}

/// A sink for the parts of a request, whichever server responds.
type SharedSink = Arc<Mutex<PartSink>>;

impl XrootdSource {
    /// The file at `location`.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        let target = FileTarget::first(&location, Via::User, &network);
        let targets = TargetMemory::new(location, target);
        targets.lock().guess(&network);
        Self {
            network,
            clock: MonotonicClock::start(),
            targets,
            announced: AtomicBool::new(false),
            wanted: AtomicUsize::new(0),
        }
    }

    fn sessions(&self) -> Arc<SessionPool> {
        Arc::clone(&self.targets.lock().target.place.sessions)
    }

    /// The current target of the file.
    async fn request_target(&self) -> Result<RequestTarget> {
        let CurrentTarget { target, tried, turn } = {
            let mut current = self.targets.lock();
            current.guess(&self.network);
            current.clone()
        };
        let FileTarget { place, via, name } = target;
        if let Some(name) = name {
            return Ok(RequestTarget { place, name, via, turn });
        }
        let path = place.path(&self.network, &tried).await?;
        let name = Arc::new(SharedFile::for_reading(path));
        let mut current = self.targets.lock();
        // Another request may have been faster, or may have been redirected meanwhile.
        if current.turn != turn {
            return Ok(RequestTarget { place, name, via, turn });
        }
        let name = Arc::clone(current.target.name.get_or_insert(name));
        if self.announced.load(Ordering::Relaxed) {
            place.sessions.announce_large(&name);
        }
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted >= MIN_WARM_SESSIONS && place.sessions.serves_files() {
            place.sessions.warm(wanted, &name);
        }
        Ok(RequestTarget { place, name, via, turn })
    }

    async fn fetch_following(&self, request: Request, sink: PartSink) -> Result<ResponseMeta> {
        let delivered = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&delivered);
        let mut sink = sink;
        let sink: PartSink = Box::new(move |part| {
            noted.store(true, Ordering::Relaxed);
            sink(part);
        });
        let sink: SharedSink = Arc::new(Mutex::new(sink));
        let mut attempts = Attempts::new(self.targets.first(), MAX_XROOTD_REDIRECTS);
        let mut credential = RequestCredential::default();
        loop {
            attempts.count()?;
            let RequestTarget { place, name, via, turn } = self.request_target().await?;
            let waits = !request.failover && place.named == *self.targets.first();
            match self.fetch_at(&place, name, &request, &sink, waits).await {
                Ok(facts) => {
                    self.found(&place);
                    return Ok(answer(&request, facts));
                }
                Err(JobError::Elsewhere(redirect)) => self.follow(&place, turn, &redirect)?,
                Err(JobError::WantsTls) => self.change(turn, place.again(&self.network)),
                Err(JobError::TooLate) => {}
                Err(JobError::Failed(error)) => {
                    if let Some(clear) = place.without_tls(&error, &self.network) {
                        self.change(turn, clear);
                        continue;
                    }
                    if via == Via::Cached && !delivered.load(Ordering::Relaxed) {
                        self.redirect_failed(&place, turn, &error);
                        continue;
                    }
                    if place.renew(&self.network, &error, &mut credential).await {
                        self.forget_name(&place);
                        continue;
                    }
                    let Err(error) =
                        self.wait_for_restart_of_target(&place, turn, error, &request).await
                    else {
                        // These redirects are bounded by the time of the wait.
                        attempts = Attempts::new(self.targets.first(), MAX_XROOTD_REDIRECTS);
                        continue;
                    };
                    return Err(self.fall_back(&place, turn, error));
                }
            }
        }
    }

    /// Waits, where the first server redirects once more to a server that refuses connections: a
    /// manager names a stopped server until it has noticed. The next request goes to the first
    /// server.
    async fn wait_for_restart_of_target(
        &self,
        place: &XrootdTarget,
        turn: u64,
        error: Error,
        request: &Request,
    ) -> Result<()> {
        if request.failover || !self.targets.has_failed(&place.named) {
            return Err(error);
        }
        self.network.wait_for_restart(&place.location, error).await?;
        let first = FileTarget::first(self.targets.first(), Via::Retried, &self.network);
        self.targets.change(turn, |_| first);
        Ok(())
    }

    /// Sends a request to `place`. If `waits`, waits for a server that refuses connections.
    async fn fetch_at(
        &self,
        place: &XrootdTarget,
        name: Arc<SharedFile>,
        request: &Request,
        sink: &SharedSink,
        waits: bool,
    ) -> Result<FileVersion, JobError> {
        loop {
            let fetched = self.fetch_once(place, Arc::clone(&name), request.clone(), sink).await;
            match fetched {
                Err(JobError::Failed(error)) if waits => {
                    self.network
                        .wait_for_restart(&place.location, error)
                        .await
                        .map_err(JobError::Failed)?;
                }
                fetched => return fetched,
            }
        }
    }

    async fn fetch_once(
        &self,
        place: &XrootdTarget,
        name: Arc<SharedFile>,
        request: Request,
        sink: &SharedSink,
    ) -> Result<FileVersion, JobError> {
        let lease = place.sessions.lease(request.requested_bytes(), Some(&name));
        let (reply, answer) = oneshot::channel();
        let id = place.sessions.number();
        let sink = Arc::clone(sink);
        let sink: PartSink = Box::new(move |part| {
            let mut sink = lock(&sink);
            sink(part);
        });
        let round_trip = place.sessions.next_round_trip();
        lease.tell(SessionCommand::Fetch(id, ReadJob { name, request, sink, round_trip, reply }));
        PendingJob::new(lease, id).end(answer).await
    }

    /// Forgets the name of the file, which contains a credential that was renewed.
    fn forget_name(&self, place: &XrootdTarget) {
        let mut current = self.targets.lock();
        if current.target.place.location == place.location {
            current.target.name = None;
        }
    }

    fn follow(&self, from: &XrootdTarget, turn: u64, redirect: &Redirect) -> Result<()> {
        let place = from.redirected(redirect, &self.network)?;
        self.targets.change(turn, |current| {
            let via = match current.via {
                Via::User | Via::Retried | Via::Redirect if is_plain(redirect) => Via::Redirect,
                _ => Via::Other,
            };
            FileTarget { place, via, name: None }
        });
        Ok(())
    }

    /// Changes the target to the same server with or without TLS.
    fn change(&self, turn: u64, place: XrootdTarget) {
        self.targets.change(turn, |current| FileTarget { place, via: current.via, name: None });
    }

    /// Records that the file is at `place`, so other files of its directory may be, too.
    fn found(&self, place: &XrootdTarget) {
        self.targets.arrived();
        let mut current = self.targets.lock();
        if current.target.place.location != place.location {
            return;
        }
        let via = std::mem::replace(&mut current.target.via, Via::Other);
        drop(current);
        if matches!(via, Via::Cached | Via::Redirect) {
            let first = XrootdTarget::new(self.targets.first().clone(), &self.network);
            let path = self.targets.first().plain_path();
            let mut redirects = first.sessions.redirects();
            match via {
                Via::Cached => redirects.record_hit(&path),
                _ => redirects.record(&path, &place.named),
            }
        }
    }

    /// Handles a cached redirect that failed: the next request goes to the first server, and the
    /// error names the server that failed. A missing file is not reported: the manager knows.
    fn redirect_failed(&self, from: &XrootdTarget, turn: u64, error: &Error) {
        let mut current = self.targets.lock();
        // Another request may have noticed already, or may have found the file there.
        if current.turn != turn {
            return;
        }
        let first = FileTarget::first(self.targets.first(), Via::Retried, &self.network);
        if current.target.via == Via::Cached {
            let path = self.targets.first().plain_path();
            first.place.sessions.redirects().record_miss(&path);
        }
        debug!(from = %from.location, %error, "remembered redirect failed, asking the manager");
        current.tried = match error.kind() {
            ErrorKind::NotFound => Vec::new(),
            _ => vec![from.location.host().to_owned()],
        };
        current.turn_to(first);
    }

    /// Handles the failure of a request that was sent to `from` in `turn`. Another target may have
    /// the file.
    fn fall_back(&self, from: &XrootdTarget, turn: u64, error: Error) -> Error {
        let error = from.explained(&self.network, Action::Read, error);
        if matches!(error.retry(), Retry::Later { .. }) {
            let mut current = self.targets.lock();
            // Servers are identified by host name: another server on the same host may work, or be
            // the only one.
            if !current.tried.is_empty() {
                current.tried.clear();
                current.target.name = None;
            }
            return error;
        }
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::Unavailable | ErrorKind::Timeout => {
                let first = |first: &_| FileTarget::first(first, Via::Retried, &self.network);
                self.targets.fall_back(turn, &from.named, error, first)
            }
            _ => error,
        }
    }
}

impl FileTarget {
    /// The target at the URL of the user.
    fn first(first: &Location, via: Via, network: &Network) -> Self {
        Self { place: XrootdTarget::new(first.clone(), network), via, name: None }
    }
}

impl CurrentTarget<FileTarget> {
    /// Sets the target by a remembered redirect, if nothing was requested yet.
    fn guess(&mut self, network: &Network) {
        if self.target.via == Via::User
            && self.target.name.is_none()
            && let Some(place) = self.target.place.likely(network)
        {
            self.turn_to(FileTarget { place, via: Via::Cached, name: None });
        }
    }
}

/// The metadata of a response.
fn answer(request: &Request, facts: FileVersion) -> ResponseMeta {
    let tail = match (request.tail, facts.size) {
        (0, _) | (_, None) => 0,
        (tail, Some(size)) => {
            let tail = size.saturating_sub(tail)..size;
            let requested = range::merged(&request.ranges, 0);
            range::total_bytes(&range::difference(std::slice::from_ref(&tail), &requested))
        }
    };
    ResponseMeta {
        size: facts.size,
        validator: facts.validator(),
        unasked_bytes: tail,
        ..ResponseMeta::default()
    }
}

impl Source for XrootdSource {
    fn name(&self) -> String {
        self.targets.first().to_string()
    }

    fn limits(&self) -> Limits {
        Limits {
            max_ranges: self.sessions().vector_limits().elements,
            max_total_bytes: MAX_REQUEST_BYTES,
            range_cost_bytes: RANGE_COST_BYTES,
            ..Limits::unlimited()
        }
    }

    fn link(&self) -> LinkEstimate {
        self.sessions().link()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn endpoint(&self) -> Endpoint {
        self.sessions().endpoint()
    }

    fn max_connections(&self) -> usize {
        self.sessions().most()
    }

    fn max_small_files(&self) -> usize {
        self.sessions().max_small_requests()
    }

    fn idle_connections(&self) -> usize {
        self.sessions().idle()
    }

    fn preconnect(&self, connections: usize) {
        self.wanted.fetch_max(connections, Ordering::Relaxed);
        let FileTarget { place, name, .. } = self.targets.current().target;
        if let Some(name) = &name {
            place.sessions.warm(connections, name);
        }
    }

    fn expect_bulk(&self) {
        self.announced.store(true, Ordering::Relaxed);
        let FileTarget { place, name, .. } = self.targets.current().target;
        if let Some(name) = &name {
            place.sessions.announce_large(name);
        }
    }

    fn forget_version(&self) {
        // Handles are of the version that was opened.
        self.targets.lock().target.name = None;
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let span = debug_span!("fetch", url = %self.targets.first());
        Box::pin(self.fetch_following(request, sink).instrument(span))
    }
}
