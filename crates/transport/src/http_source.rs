//! One file behind an HTTP server (RFC 9110, RFC 9112).
//!
//! A request becomes one GET with a `Range` header on one lane. Whatever form the answer takes (several parts, one part,
//! the whole file, a refusal), its bytes are handed on as they arrive, placed by `Content-Range`, and what the form says
//! about the server goes into the endpoint's record, which decides how the next request is cut.
//!
//! `If-Range` guards every request after the first: a server whose file has changed would send the whole new one. Such an
//! answer is dropped with its connection.

use crate::exchange::{Exchange, Outcome};
use crate::location::Location;
use crate::monotonic::Monotonic;
use crate::pool::Pool;
use crate::{request, respond};
use futures_core::future::BoxFuture;
use hither_core::endpoint::{Endpoint, RangeSupport};
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::{Answer, Clock, Limits, LinkEstimate, PartSink, Request, Source, range};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Redirects followed for one request, as many as browsers' specifications ask for at the least.
const MOST_REDIRECTS: usize = 8;

/// A file behind an HTTP server.
#[derive(Debug)]
pub struct HttpSource {
    first: Location,
    clock: Monotonic,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    location: Location,
    pool: Arc<Pool>,
    endpoint: Endpoint,
    /// Fewest ranges in a request that was refused as too large, or is known to be by servers of this make; 0 for none.
    refused_ranges: usize,
    /// The server asked not to be bothered before this instant.
    not_before: Option<Instant>,
}

impl HttpSource {
    /// The file at `location`, over the connections of `pool`; `endpoint` is what is remembered of the server.
    #[must_use]
    pub fn new(location: Location, pool: Arc<Pool>, endpoint: Endpoint) -> Self {
        let first = location.clone();
        let state = State { location, pool, endpoint, refused_ranges: 0, not_before: None };
        Self { first, clock: Monotonic::start(), state: Mutex::new(state) }
    }

    /// The connections in use, to the last redirect's target.
    #[must_use]
    pub fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.state().pool)
    }

    /// The endpoint that answers: another than the URL's after a redirect.
    #[must_use]
    pub fn origin(&self) -> String {
        self.state().location.origin()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch_following(&self, request: Request, mut sink: PartSink) -> Result<Answer> {
        self.wait_until_welcome().await;
        for _ in 0..=MOST_REDIRECTS {
            let (location, pool, suffix) = {
                let state = self.state();
                let suffix = match state.endpoint.ranges {
                    RangeSupport::Unknown | RangeSupport::Multi => {
                        state.endpoint.suffix && request.ranges.len() < state.endpoint.max_ranges
                    }
                    RangeSupport::Single => false,
                    // No range is sent at all, and the length of the answer tells where the tail begins.
                    _ => true,
                };
                (state.location.clone(), Arc::clone(&state.pool), suffix)
            };
            if request.tail > 0 && !suffix {
                return self.fetch_tail_by_size(&location, &pool, request, sink).await;
            }
            match self.exchange(&location, &pool, &request, &mut sink).await? {
                Outcome::Complete(answer) => return Ok(answer),
                Outcome::Redirect(reference) => self.follow(&location, &reference)?,
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
        let mut lane = pool.acquire().await?;
        let told = request::head(&mut lane, location, pool).await?;
        lane.give_back();
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
            let validator = request.validator.clone();
            let part = Request { ranges: ranges.to_vec(), tail: 0, validator };
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

    async fn exchange(
        &self,
        location: &Location,
        pool: &Arc<Pool>,
        request: &Request,
        sink: &mut PartSink,
    ) -> Result<Outcome> {
        let mut lane = pool.acquire().await?;
        let whole = self.state().endpoint.ranges == RangeSupport::Whole;
        let exchange = Exchange { location, pool, request, whole };
        let result = exchange.run(&mut lane, sink).await;
        let ranges = request.ranges.len() + usize::from(request.tail > 0);
        let text_bytes: usize = request.ranges.iter().map(Limits::range_text_bytes).sum();
        let mut state = self.state();
        if let Some(hint) = &result.hint {
            respond::apply_hint(&mut state.endpoint, hint);
            if let (0, Some(most)) = (state.refused_ranges, hint.max_ranges) {
                state.refused_ranges = most + 1;
            }
        }
        // A server that has answered several ranges before has not forgotten how: there were too many.
        let learned = result.learned.filter(|&support| {
            support != RangeSupport::Single
                || state.endpoint.ranges != RangeSupport::Multi
                || ranges <= 2
        });
        if let Some(support) = learned {
            state.endpoint.ranges = support;
        }
        if request.tail > 0 && result.tail_refused {
            state.endpoint.suffix = false;
        }
        match &result.outcome {
            Ok(Outcome::Complete(_)) if ranges > 1 && result.multipart => {
                let refused = state.refused_ranges;
                respond::raise(&mut state.endpoint, ranges, text_bytes, refused);
            }
            // That it knows no suffix says nothing about the number of ranges.
            Err(_) if result.tail_refused => {}
            Err(error) if error.kind() == ErrorKind::TooLarge && learned.is_none() => {
                respond::lower(&mut state.endpoint, ranges, text_bytes);
                state.refused_ranges = match state.refused_ranges {
                    0 => ranges,
                    fewest => fewest.min(ranges),
                };
            }
            Err(error) => {
                if let Retry::SameServer { after } = error.retry() {
                    state.not_before = Some(Instant::now() + after);
                }
            }
            Ok(_) => {}
        }
        drop(state);
        if result.reusable {
            lane.give_back();
        }
        result.outcome
    }

    fn follow(&self, from: &Location, reference: &str) -> Result<()> {
        let to = from.join(reference)?;
        let mut state = self.state();
        // Another request may have followed already.
        if state.location == *from {
            if to.origin() != from.origin() {
                let old = &state.pool;
                state.pool = Pool::new(
                    to.clone(),
                    old.config().clone(),
                    Arc::clone(old.account()),
                    old.runtime().clone(),
                    &Endpoint::default(),
                );
                state.endpoint = Endpoint::default();
            }
            state.location = to;
        }
        Ok(())
    }

    async fn wait_until_welcome(&self) {
        let not_before = self.state().not_before;
        if let Some(instant) = not_before {
            tokio::time::sleep_until(instant).await;
        }
    }
}

impl Source for HttpSource {
    fn name(&self) -> String {
        self.first.to_string()
    }

    fn limits(&self) -> Limits {
        self.state().endpoint.limits()
    }

    fn link(&self) -> LinkEstimate {
        self.state().pool.link()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn endpoint(&self) -> Endpoint {
        let state = self.state();
        let link = state.pool.link();
        let mut endpoint = state.endpoint.clone();
        endpoint.max_lanes = state.pool.refused_above();
        if let Some(rtt) = link.rtt {
            endpoint.rtt_micros = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX).max(1);
        }
        if let Some(bandwidth) = link.bandwidth {
            endpoint.set_bandwidth(bandwidth);
        }
        endpoint
    }

    fn max_lanes(&self) -> usize {
        let state = self.state();
        match state.endpoint.ranges {
            // Every further lane would download the whole file once more.
            RangeSupport::Whole => 1,
            _ => state.pool.max_lanes(),
        }
    }

    fn idle_lanes(&self) -> usize {
        self.state().pool.idle_lanes()
    }

    fn warm(&self, lanes: usize) {
        let pool = self.pool();
        pool.warm(lanes);
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(self.fetch_following(request, sink))
    }
}
