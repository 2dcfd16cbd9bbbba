//! One file behind an XRootD server.
//!
//! A file is opened in every session in which it is read, together with the first read there; who redirects is asked once,
//! or not at all where it has sent others of the same directory (`directions.rs`). If that was wrong, for whatever reason,
//! it is asked after all, and who waits for the file does not see that.
//!
//! What tells versions apart is the time of the last change and the size, which the answer to an open holds, so that every
//! session checks them without a round trip of its own.

use crate::context::MonotonicClock;
use crate::location::Location;
use crate::network::Network;
use crate::redirect::retry_after::RetryAfterTimer;
use crate::redirect::{Attempts, MAX_XROOTD_REDIRECTS};
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{Instrument, debug, debug_span};

/// How often the first server is asked for another place when the last one has failed.
const MAX_ASTRAY: usize = 3;
/// What one more range costs: its head in the request, and the one in the answer.
const RANGE_COST_BYTES: u64 = 32;

/// A file behind an XRootD server.
#[derive(Debug)]
pub struct XrootdSource {
    first: Location,
    network: Arc<Network>,
    clock: MonotonicClock,
    current: Mutex<Current>,
    announced: AtomicBool,
    put_off: RetryAfterTimer,
}

/// Where a file is by the last redirect.
#[derive(Debug, Clone)]
struct Current {
    place: XrootdTarget,
    lead: Lead,
    /// Known once the credentials have been looked at.
    name: Option<Arc<SharedFile>>,
    /// Servers that a redirect led to and that failed, since something was read.
    tried: Vec<String>,
    /// How often it has turned to another place: what a request has learned counts only if it has not done so since.
    turns: u64,
}

/// Where a request goes.
struct Course {
    place: XrootdTarget,
    name: Arc<SharedFile>,
    lead: Lead,
    turns: u64,
}

/// What led to where a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// The user's word, and nobody was asked yet.
    Named,
    /// The user's word, and nothing else is to be believed.
    Asked,
    /// Where the first server has sent others.
    Likely,
    /// Redirects that others may follow, too.
    Plain,
    /// What is of no use to others, or has been put to use.
    Other,
}

/// Takes the parts of a request, on whichever server it is answered.
type SharedSink = Arc<Mutex<PartSink>>;

impl XrootdSource {
    /// The file at `location`.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        let current = Mutex::new(Current::new(&location, &network));
        Self {
            first: location,
            network,
            clock: MonotonicClock::start(),
            current,
            announced: AtomicBool::new(false),
            put_off: RetryAfterTimer::default(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        lock(&self.current)
    }

    fn sessions(&self) -> Arc<SessionPool> {
        Arc::clone(&self.current().place.sessions)
    }

    /// Where the file is by now, what it is called there, and what led there.
    async fn course(&self) -> Result<Course> {
        let Current { place, lead, name, tried, turns } = {
            let mut current = self.current();
            current.guess(&self.network);
            current.clone()
        };
        if let Some(name) = name {
            return Ok(Course { place, name, lead, turns });
        }
        let path = place.path(&self.network, &tried).await?;
        let name = Arc::new(SharedFile::for_reading(path));
        let mut current = self.current();
        // Somebody else may have been faster, or may have been redirected meanwhile.
        if current.turns != turns {
            return Ok(Course { place, name, lead, turns });
        }
        let name = Arc::clone(current.name.get_or_insert(name));
        if self.announced.load(Ordering::Relaxed) {
            place.sessions.announce_large(&name);
        }
        Ok(Course { place, name, lead, turns })
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
        let mut attempts = Attempts::new(&self.first, MAX_XROOTD_REDIRECTS);
        loop {
            attempts.count()?;
            self.put_off.wait().await;
            let Course { place, name, lead, turns } = self.course().await?;
            match self.fetch_at(&place, name, request.clone(), &sink).await {
                Ok(facts) => {
                    self.found(&place);
                    return Ok(answer(&request, facts));
                }
                Err(JobError::Elsewhere(redirect)) => self.follow(&place, turns, &redirect)?,
                Err(JobError::WantsTls) => self.change(turns, place.again(&self.network)),
                Err(JobError::TooLate) => {}
                Err(JobError::Failed(error)) => {
                    if let Some(clear) = place.without_tls(&error, &self.network) {
                        self.change(turns, clear);
                        continue;
                    }
                    if lead == Lead::Likely && !delivered.load(Ordering::Relaxed) {
                        self.misled(&place, turns, &error);
                        continue;
                    }
                    self.put_off.learn(&error);
                    self.put_off.pause(&error);
                    if place.renew(&self.network, &error, &mut attempts).await {
                        self.forget_name(&place);
                        continue;
                    }
                    return Err(self.turn_back(&place, turns, error));
                }
            }
        }
    }

    async fn fetch_at(
        &self,
        place: &XrootdTarget,
        name: Arc<SharedFile>,
        request: Request,
        sink: &SharedSink,
    ) -> Result<FileVersion, JobError> {
        let lease = place.sessions.lease(request.asked_bytes(), Some(&name));
        let (reply, answer) = oneshot::channel();
        let id = place.sessions.number();
        let sink = Arc::clone(sink);
        let sink: PartSink = Box::new(move |part| {
            let mut sink = lock(&sink);
            sink(part);
        });
        let flight = place.sessions.next_flight();
        lease.tell(SessionCommand::Fetch(id, ReadJob { name, request, sink, flight, reply }));
        PendingJob::new(lease, id).end(answer).await
    }

    /// The name of the file holds the credential, which was renewed.
    fn forget_name(&self, place: &XrootdTarget) {
        let mut current = self.current();
        if current.place.location == place.location {
            current.name = None;
        }
    }

    fn follow(&self, from: &XrootdTarget, turns: u64, redirect: &Redirect) -> Result<()> {
        let place = from.redirected(redirect, &self.network)?;
        let mut current = self.current();
        // Another request may have followed already, and may have come back.
        if current.turns == turns {
            current.lead = match current.lead {
                Lead::Named | Lead::Asked | Lead::Plain if is_plain(redirect) => Lead::Plain,
                _ => Lead::Other,
            };
            current.turn_to(place);
        }
        Ok(())
    }

    /// What was asked for is better asked for at `place`.
    fn change(&self, turns: u64, place: XrootdTarget) {
        let mut current = self.current();
        if current.turns == turns {
            current.turn_to(place);
        }
    }

    /// The file is at `place`: so others may be, too.
    fn found(&self, place: &XrootdTarget) {
        let mut current = self.current();
        current.tried.clear();
        if current.place.location != place.location {
            return;
        }
        let lead = std::mem::replace(&mut current.lead, Lead::Other);
        drop(current);
        if matches!(lead, Lead::Likely | Lead::Plain) {
            let first = XrootdTarget::new(self.first.clone(), &self.network);
            let path = self.first.plain_path();
            let mut directions = first.sessions.directions();
            match lead {
                Lead::Likely => directions.held(&path),
                _ => directions.told(&path, &place.named),
            }
        }
    }

    /// The file was looked for where it only was likely to be. Now the first server is asked, which is told of a server that
    /// has failed; that one of several has no such file is for it to know.
    fn misled(&self, from: &XrootdTarget, turns: u64, error: &Error) {
        let mut current = self.current();
        // Somebody else may have noticed already, or may have found it there.
        if current.turns != turns {
            return;
        }
        let place = XrootdTarget::new(self.first.clone(), &self.network);
        if current.lead == Lead::Likely {
            place.sessions.directions().missed(&self.first.plain_path());
        }
        debug!(from = %from.location, %error, "remembered redirect failed, asking the manager");
        let tried = match error.kind() {
            ErrorKind::NotFound => Vec::new(),
            _ => vec![from.location.host().to_owned()],
        };
        (current.lead, current.tried) = (Lead::Asked, tried);
        current.turn_to(place);
    }

    /// A server that a redirect led to and that fails may have been the wrong one, or no longer be the right one: the first
    /// one is asked for another.
    fn turn_back(&self, from: &XrootdTarget, turns: u64, error: Error) -> Error {
        let error = from.explained(&self.network, Action::Read, error);
        let curable = match error.kind() {
            ErrorKind::NotFound | ErrorKind::Unavailable | ErrorKind::Timeout => {
                !matches!(error.retry(), Retry::Later { .. })
            }
            _ => false,
        };
        let mut current = self.current();
        if matches!(error.retry(), Retry::Later { .. }) && !current.tried.is_empty() {
            // Servers are named by their hosts: there may be a good one on the host of a bad one, or none anywhere else.
            current.tried.clear();
            current.name = None;
        }
        if !curable || from.named == self.first || current.tried.len() >= MAX_ASTRAY {
            return error;
        }
        if current.turns == turns {
            debug!(from = %from.location, to = %self.first, %error, "target failed, asking the first server again");
            current.tried.push(from.location.host().to_owned());
            current.lead = Lead::Asked;
            current.turn_to(XrootdTarget::new(self.first.clone(), &self.network));
        }
        error.with_retry(Retry::SameServer { after: Duration::ZERO })
    }
}

impl Current {
    fn new(first: &Location, network: &Network) -> Self {
        let place = XrootdTarget::new(first.clone(), network);
        let lead = Lead::Named;
        let name = None;
        let tried = Vec::new();
        let mut current = Self { place, lead, name, tried, turns: 0 };
        current.guess(network);
        current
    }

    fn turn_to(&mut self, place: XrootdTarget) {
        (self.place, self.name) = (place, None);
        self.turns += 1;
    }

    /// Turns to where the first server has sent others, if nobody was asked yet.
    fn guess(&mut self, network: &Network) {
        if self.lead == Lead::Named
            && self.name.is_none()
            && let Some(place) = self.place.likely(network)
        {
            self.lead = Lead::Likely;
            self.turn_to(place);
        }
    }
}

/// What the reader is told.
fn answer(request: &Request, facts: FileVersion) -> ResponseMeta {
    let tail = match (request.tail, facts.size) {
        (0, _) | (_, None) => 0,
        (tail, Some(size)) => {
            let tail = size.saturating_sub(tail)..size;
            let asked = range::merged(&request.ranges, 0);
            range::total_bytes(&range::difference(std::slice::from_ref(&tail), &asked))
        }
    };
    ResponseMeta { size: facts.size, validator: facts.validator(), unasked_bytes: tail }
}

impl Source for XrootdSource {
    fn name(&self) -> String {
        self.first.to_string()
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

    fn idle_connections(&self) -> usize {
        self.sessions().idle()
    }

    fn preconnect(&self, connections: usize) {
        let Current { place, name, .. } = self.current().clone();
        if let Some(name) = &name {
            place.sessions.warm(connections, name);
        }
    }

    fn expect_bulk(&self) {
        self.announced.store(true, Ordering::Relaxed);
        let Current { place, name, .. } = self.current().clone();
        if let Some(name) = &name {
            place.sessions.announce_large(name);
        }
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let span = debug_span!("fetch", url = %self.first);
        Box::pin(self.fetch_following(request, sink).instrument(span))
    }
}
