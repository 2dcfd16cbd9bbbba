//! One file behind an XRootD server.
//!
//! A file is opened in every session in which it is read, together with the first read there; who redirects is asked once.
//! What tells versions apart is the time of the last change and the size, which the answer to an open holds, so that every
//! session checks them without a round trip of its own.

use crate::location::Location;
use crate::monotonic::Monotonic;
use crate::network::Network;
use crate::put_off::PutOff;
use crate::xrootd::Sessions;
use crate::xrootd::errand::Awaited;
use crate::xrootd::job::{Command, Facts, Fetch, Trouble};
use crate::xrootd::name::OpenName;
use crate::xrootd::place::{MOST_REDIRECTS, Place, in_a_circle};
use futures_core::future::BoxFuture;
use hither_auth::Action;
use hither_core::endpoint::LARGEST_REQUEST_BYTES;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::{
    Answer, Clock, Endpoint, Limits, LinkEstimate, PartSink, Request, Source, range,
};
use hither_xrd::wire::Redirect;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How often the first server is asked for another place when the last one has failed.
const MOST_ASTRAY: usize = 3;
/// What one more range costs: its head in the request, and the one in the answer.
const RANGE_COST_BYTES: u64 = 32;

/// A file behind an XRootD server.
#[derive(Debug)]
pub struct XrootdSource {
    first: Location,
    network: Arc<Network>,
    clock: Monotonic,
    current: Mutex<Current>,
    announced: AtomicBool,
    put_off: PutOff,
}

/// Where a file is by the last redirect.
#[derive(Debug, Clone)]
struct Current {
    place: Place,
    /// Known once the credentials have been looked at.
    name: Option<Arc<OpenName>>,
    /// Servers that a redirect led to and that failed, since something was read.
    tried: Vec<String>,
}

/// Takes the parts of a request, on whichever server it is answered.
type SharedSink = Arc<Mutex<PartSink>>;

impl XrootdSource {
    /// The file at `location`.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        let place = Place::new(location.clone(), &network);
        let current = Mutex::new(Current { place, name: None, tried: Vec::new() });
        Self {
            first: location,
            network,
            clock: Monotonic::start(),
            current,
            announced: AtomicBool::new(false),
            put_off: PutOff::default(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.current().place.sessions)
    }

    /// Where the file is by now, and what it is called there.
    async fn place(&self) -> Result<(Place, Arc<OpenName>)> {
        let Current { place, name, tried } = self.current().clone();
        if let Some(name) = name {
            return Ok((place, name));
        }
        let path = place.path(&self.network, &tried).await?;
        let name = Arc::new(OpenName::for_reading(path));
        let mut current = self.current();
        // Somebody else may have been faster, or may have been redirected meanwhile.
        if current.place.location != place.location {
            return Ok((place, name));
        }
        let name = Arc::clone(current.name.get_or_insert(name));
        if self.announced.load(Ordering::Relaxed) {
            place.sessions.announce_large(&name);
        }
        Ok((place, name))
    }

    async fn fetch_following(&self, request: Request, sink: PartSink) -> Result<Answer> {
        let sink: SharedSink = Arc::new(Mutex::new(sink));
        let mut renewed = false;
        for _ in 0..=MOST_REDIRECTS {
            self.put_off.wait().await;
            let (place, name) = self.place().await?;
            match self.fetch_at(&place, name, request.clone(), &sink).await {
                Ok(facts) => {
                    self.current().tried.clear();
                    return Ok(answer(&request, facts));
                }
                Err(Trouble::Elsewhere(redirect)) => self.follow(&place, &redirect)?,
                Err(Trouble::Failed(error)) => {
                    self.put_off.learn(&error);
                    if !renewed && self.renewed(&place, &error).await {
                        renewed = true;
                        continue;
                    }
                    return Err(self.turn_back(&place, error));
                }
            }
        }
        Err(in_a_circle(&self.first))
    }

    async fn fetch_at(
        &self,
        place: &Place,
        name: Arc<OpenName>,
        request: Request,
        sink: &SharedSink,
    ) -> Result<Facts, Trouble> {
        let lease = place.sessions.lease(request.asked_bytes(), Some(&name));
        let (reply, answer) = oneshot::channel();
        let id = place.sessions.number();
        let sink = Arc::clone(sink);
        let sink: PartSink = Box::new(move |part| {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            sink(part);
        });
        lease.tell(Command::Fetch(id, Fetch { name, request, sink, reply }));
        Awaited::new(lease, id).end(answer, &self.first).await
    }

    /// The server has refused who we are: whether there is another credential now.
    async fn renewed(&self, place: &Place, error: &Error) -> bool {
        let renewed = place.renewed(&self.network, error).await;
        let mut current = self.current();
        if renewed && current.place.location == place.location {
            current.name = None;
        }
        renewed
    }

    fn follow(&self, from: &Place, redirect: &Redirect) -> Result<()> {
        let place = from.redirected(redirect, &self.network)?;
        let mut current = self.current();
        // Another request may have followed already.
        if current.place.location == from.location {
            let tried = std::mem::take(&mut current.tried);
            *current = Current { place, name: None, tried };
        }
        Ok(())
    }

    /// A server that a redirect led to and that fails may have been the wrong one, or no longer be the right one: the first
    /// one is asked for another.
    fn turn_back(&self, from: &Place, error: Error) -> Error {
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
        if !curable || from.location == self.first || current.tried.len() >= MOST_ASTRAY {
            return error;
        }
        if current.place.location == from.location {
            let mut tried = std::mem::take(&mut current.tried);
            tried.push(from.location.host().to_owned());
            let place = Place::new(self.first.clone(), &self.network);
            *current = Current { place, name: None, tried };
        }
        error.with_retry(Retry::SameServer { after: Duration::ZERO })
    }
}

/// What the reader is told.
fn answer(request: &Request, facts: Facts) -> Answer {
    let tail = match (request.tail, facts.size) {
        (0, _) | (_, None) => 0,
        (tail, Some(size)) => {
            let tail = size.saturating_sub(tail)..size;
            let asked = range::merged(&request.ranges, 0);
            range::total_bytes(&range::difference(std::slice::from_ref(&tail), &asked))
        }
    };
    Answer { size: facts.size, validator: facts.validator(), unasked_bytes: tail }
}

impl Source for XrootdSource {
    fn name(&self) -> String {
        self.first.to_string()
    }

    fn limits(&self) -> Limits {
        Limits {
            max_ranges: self.sessions().vector_limits().elements,
            max_total_bytes: LARGEST_REQUEST_BYTES,
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

    fn max_lanes(&self) -> usize {
        self.sessions().most()
    }

    fn idle_lanes(&self) -> usize {
        self.sessions().idle()
    }

    fn warm(&self, lanes: usize) {
        let Current { place, name, .. } = self.current().clone();
        if let Some(name) = &name {
            place.sessions.warm(lanes, name);
        }
    }

    fn announce_large(&self) {
        self.announced.store(true, Ordering::Relaxed);
        let Current { place, name, .. } = self.current().clone();
        if let Some(name) = &name {
            place.sessions.announce_large(name);
        }
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.fetch_following(request, sink))
    }
}
