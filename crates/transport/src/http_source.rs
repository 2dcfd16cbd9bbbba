//! One file behind an HTTP server (RFC 9110, RFC 9112).
//!
//! A request becomes one GET with a `Range` header on one lane. Whatever form the answer takes (several parts, one part,
//! the whole file, a refusal), its bytes are handed on as they arrive, placed by `Content-Range`, and what the form says
//! about the server goes into the endpoint's record, which decides how the next request is cut.
//!
//! `If-Range` guards every request after the first: a server whose file has changed would send the whole new one. Such an
//! answer is dropped with its connection.

use crate::access;
use crate::exchange::{Exchange, Outcome};
use crate::location::Location;
use crate::monotonic::Monotonic;
use crate::network::Network;
use crate::pool::Pool;
use crate::request;
use futures_core::future::BoxFuture;
use hither_core::endpoint::{Endpoint, RangeSupport};
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::{Answer, Clock, Limits, LinkEstimate, PartSink, Request, Source, range};
use hither_http::metalink::Links;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Redirects followed for one request, as many as browsers' specifications ask for at the least.
const MOST_REDIRECTS: usize = 8;

/// A file behind an HTTP server.
#[derive(Debug)]
pub struct HttpSource {
    first: Location,
    network: Arc<Network>,
    clock: Monotonic,
    /// Where the file is by the last redirect.
    current: Mutex<Place>,
    /// Told of the first answer that says where else the file is.
    when_linked: OnceLock<WhenLinked>,
    linked: AtomicBool,
    redirected: AtomicBool,
}

/// Hears what `Link` fields say.
struct WhenLinked(Box<dyn Fn(&Links) + Send + Sync>);

impl fmt::Debug for WhenLinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenLinked")
    }
}

#[derive(Debug, Clone)]
struct Place {
    location: Location,
    pool: Arc<Pool>,
    /// Times that a redirect led to a place that failed, since something was read.
    astray: u32,
}

/// How often the first server is asked for another place when the last one has failed.
const MOST_ASTRAY: u32 = 3;

impl HttpSource {
    /// The file at `location`.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        let pool = network.pool(&location);
        let current = Mutex::new(Place { location: location.clone(), pool, astray: 0 });
        Self {
            first: location,
            network,
            clock: Monotonic::start(),
            current,
            when_linked: OnceLock::new(),
            linked: AtomicBool::new(false),
            redirected: AtomicBool::new(false),
        }
    }

    /// A job is coming that will want more than one connection if the path is long.
    pub fn announce_large(&self) {
        self.place().pool.announce_large();
    }

    /// Where the file was looked for first.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.first
    }

    /// Whether a redirect ever led away from there.
    pub(crate) fn redirected(&self) -> bool {
        self.redirected.load(Ordering::Relaxed)
    }

    /// Calls `hear` once, when an answer says where else the file is.
    pub(crate) fn when_linked(&self, hear: Box<dyn Fn(&Links) + Send + Sync>) {
        // A second listener is one too many: there is one file, and it has one set of places.
        drop(self.when_linked.set(WhenLinked(hear)));
    }

    fn place(&self) -> Place {
        self.current().clone()
    }

    fn current(&self) -> MutexGuard<'_, Place> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch_following(&self, request: Request, mut sink: PartSink) -> Result<Answer> {
        for _ in 0..=MOST_REDIRECTS {
            let Place { location, pool, .. } = self.place();
            pool.server().wait_until_welcome().await;
            let suffix = pool.server().takes_suffix(request.ranges.len());
            if request.tail > 0 && !suffix {
                return self.fetch_tail_by_size(&location, &pool, request, sink).await;
            }
            match self.exchange(&location, &pool, &request, &mut sink).await {
                Ok(Outcome::Complete(answer)) => {
                    self.current().astray = 0;
                    return Ok(answer);
                }
                Ok(Outcome::Redirect(reference)) => self.follow(&location, &reference)?,
                Err(error) => return Err(self.turn_back(&location, error)),
            }
        }
        Err(Error::new(
            ErrorKind::Protocol,
            format!("{}: more than {MOST_REDIRECTS} redirects, probably in a circle", self.first),
        ))
    }

    /// For servers that know no suffix: asks for the size first.
    async fn fetch_tail_by_size(
        &self,
        location: &Location,
        pool: &Arc<Pool>,
        request: Request,
        mut sink: PartSink,
    ) -> Result<Answer> {
        let told = self.head(location, pool).await?;
        let size = told.size.ok_or_else(|| {
            Error::new(
                ErrorKind::Protocol,
                format!("{location}: the server does not tell the size of the file"),
            )
        })?;
        let mut wanted: Vec<Range<u64>> =
            request.ranges.iter().map(|r| r.start.min(size)..r.end.min(size)).collect();
        wanted.push(size.saturating_sub(request.tail)..size);
        let wanted = range::merged(&wanted, 0);
        let at_once = self.limits().max_ranges;
        let mut total = Answer { size: Some(size), ..told };
        for ranges in wanted.chunks(at_once.max(1)) {
            let part = Request { ranges: ranges.to_vec(), tail: 0, ..request.clone() };
            let Outcome::Complete(answer) = self.exchange(location, pool, &part, &mut sink).await?
            else {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    format!("{location}: redirected after it had told the size"),
                ));
            };
            total.unasked_bytes += answer.unasked_bytes;
        }
        Ok(total)
    }

    async fn head(&self, location: &Location, pool: &Arc<Pool>) -> Result<Answer> {
        let used = access::prepared(location, pool).await?;
        let ask = async || {
            let mut lane = pool.acquire().await?;
            let told = request::head(&mut lane, location, pool).await?;
            lane.give_back();
            Ok(told)
        };
        match ask().await {
            Err(error) if access::is_refused(&error) => {
                match access::renewed(location, pool, &used).await {
                    true => ask().await,
                    false => Err(error),
                }
            }
            result => result,
        }
    }

    /// One exchange; a second one if the first was refused and there is another credential by then.
    async fn exchange(
        &self,
        location: &Location,
        pool: &Arc<Pool>,
        request: &Request,
        sink: &mut PartSink,
    ) -> Result<Outcome> {
        let used = access::prepared(location, pool).await?;
        match self.exchange_once(location, pool, request, sink).await {
            Err(error) if access::is_refused(&error) => {
                match access::renewed(location, pool, &used).await {
                    true => self.exchange_once(location, pool, request, sink).await,
                    false => Err(error),
                }
            }
            result => result,
        }
    }

    async fn exchange_once(
        &self,
        location: &Location,
        pool: &Arc<Pool>,
        request: &Request,
        sink: &mut PartSink,
    ) -> Result<Outcome> {
        let mut lane = pool.acquire().await?;
        let whole = pool.server().ranges() == RangeSupport::Whole;
        let exchange = Exchange { location, pool, request, whole };
        let result = exchange.run(&mut lane, sink).await;
        pool.server().learn(request, &result);
        if let (Some(links), Some(hear)) = (&result.links, self.when_linked.get())
            && !self.linked.swap(true, Ordering::Relaxed)
        {
            (hear.0)(links);
        }
        if result.reusable {
            lane.give_back();
        }
        result.outcome
    }

    fn follow(&self, from: &Location, reference: &str) -> Result<()> {
        let to = from.join(reference)?;
        let pool = self.network.pool(&to);
        let mut current = self.current();
        // Another request may have followed already.
        if current.location == *from {
            *current = Place { location: to, pool, ..*current };
        }
        self.redirected.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A place that a redirect led to and that fails may have been the wrong one, or no longer be the right one: the first
    /// server is asked again.
    fn turn_back(&self, from: &Location, error: Error) -> Error {
        let curable = match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::Unauthenticated => true,
            ErrorKind::Unavailable | ErrorKind::Timeout => error.retry() == Retry::OtherServer,
            _ => false,
        };
        let mut current = self.current();
        if !curable || *from == self.first || current.astray >= MOST_ASTRAY {
            return error;
        }
        if current.location == *from {
            let location = self.first.clone();
            let pool = self.network.pool(&location);
            *current = Place { location, pool, astray: current.astray + 1 };
        }
        error.with_retry(Retry::SameServer { after: Duration::ZERO })
    }
}

impl Source for HttpSource {
    fn name(&self) -> String {
        self.first.to_string()
    }

    fn limits(&self) -> Limits {
        self.place().pool.server().limits()
    }

    fn link(&self) -> LinkEstimate {
        self.place().pool.link()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn endpoint(&self) -> Endpoint {
        self.place().pool.endpoint()
    }

    fn max_lanes(&self) -> usize {
        let pool = self.place().pool;
        match pool.server().ranges() {
            // Every further lane would download the whole file once more.
            RangeSupport::Whole => 1,
            _ => pool.max_lanes(),
        }
    }

    fn idle_lanes(&self) -> usize {
        self.place().pool.idle_lanes()
    }

    fn warm(&self, lanes: usize) {
        self.place().pool.warm(lanes);
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.fetch_following(request, sink))
    }
}
