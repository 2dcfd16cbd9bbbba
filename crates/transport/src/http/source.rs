//! One file behind an HTTP server (RFC 9110, RFC 9112).
//!
//! A request becomes one GET with a `Range` field on one connection. Whatever the form of the
//! response (several parts, one part, the whole file, an error), its bytes are delivered as they
//! arrive, at the positions of `Content-Range`. What the form shows about the server goes into its
//! capabilities, which decide how the next request is sized.
//!
//! `If-Range` protects every request after the first: if the file has changed, the server sends the
//! whole new file. Such a response is dropped with its connection. The head of the first response
//! binds the version of requests that were sent beside it ([`VersionBinding`]).
//!
//! [`VersionBinding`]: hither_core::VersionBinding

mod fewer_ranges;
mod links;
mod own_tags;

use crate::authorization;
use crate::context::MonotonicClock;
use crate::http::delivery::Delivery;
use crate::http::exchange::{Exchange, RangeCondition, RangeEncoding};
use crate::http::spooled_download::SpooledDownload;
use crate::http::tail;
use crate::location::Location;
use crate::network::Network;
use crate::pool::capabilities::RequestSizing;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use crate::pool::{Pool, PooledConnection};
use crate::redirect::target_memory::{CurrentTarget, TargetMemory};
use crate::redirect::{Attempts, MAX_HTTP_REDIRECTS};
use futures_core::future::BoxFuture;
use hither_core::endpoint::{Endpoint, RangeSupport};
use hither_core::error::{Error, ErrorKind, Failure, Result, Retry};
use hither_core::sync::lock;
use hither_core::{
    Backoff, Clock, Limits, LinkEstimate, PartSink, Plan, PlanConfig, Request, ResponseMeta,
    RetryPolicy, Source,
};
use hither_http::metalink::MetalinkLinks;
use http::Method;
use links::WhenLinked;
use own_tags::OwnTags;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tracing::{Instrument, debug, debug_span};

/// The maximum number of idle connections found closed, one after the other, before this is an
/// error.
const MAX_STALE: usize = 3;

/// A file behind an HTTP server.
#[derive(Debug)]
pub struct HttpSource {
    network: Arc<Network>,
    clock: MonotonicClock,
    targets: TargetMemory<HttpTarget>,
    whole_file: SpooledDownload,
    /// Called with the first response that links to other replicas.
    when_linked: OnceLock<WhenLinked>,
    linked: AtomicBool,
    redirected: AtomicBool,
    /// The server to which the last redirect led.
    redirected_to: Mutex<Option<String>>,
    condition: RangeCondition,
    own_tags: OwnTags,
}

/// The location of a file and its connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpTarget {
    pub(crate) location: Location,
    pub(crate) pool: Arc<Pool>,
}

impl HttpTarget {
    fn new(location: Location, network: &Network) -> Self {
        let pool = network.pool(&location);
        Self { location, pool }
    }
}

impl HttpSource {
    /// The file at `location`.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        let known = network.known_servers(&location, &Method::GET).into_iter().next();
        let redirected = AtomicBool::new(known.is_some());
        let redirected_to = Mutex::new(known.as_ref().map(Location::origin));
        let target = HttpTarget::new(known.unwrap_or_else(|| location.clone()), &network);
        Self {
            network,
            clock: MonotonicClock::start(),
            targets: TargetMemory::new(location, target),
            whole_file: SpooledDownload::default(),
            when_linked: OnceLock::new(),
            linked: AtomicBool::new(false),
            redirected,
            redirected_to,
            condition: RangeCondition::default(),
            own_tags: OwnTags::default(),
        }
    }

    /// The same file, with this field for conditions about its version.
    #[cfg(feature = "s3")]
    pub(crate) fn with_condition(self, condition: RangeCondition) -> Self {
        Self { condition, ..self }
    }

    /// The URL that the file was opened with.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.targets.first()
    }

    /// Returns whether the tail of the file may be requested by suffix.
    #[cfg(feature = "s3")]
    pub(crate) fn takes_suffix(&self) -> bool {
        self.place().pool.server().takes_suffix()
    }

    /// The address of the current server, after redirects.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.network.address(&self.place().location)
    }

    /// Returns whether a redirect was ever followed.
    pub(crate) fn redirected(&self) -> bool {
        self.redirected.load(Ordering::Relaxed)
    }

    /// The memory of the file's location after redirects.
    pub(crate) fn targets(&self) -> &TargetMemory<HttpTarget> {
        &self.targets
    }

    /// The current location of the file.
    fn place(&self) -> HttpTarget {
        self.targets.current().target
    }

    /// The connections to the current location, unless a request will go elsewhere.
    fn pool_in_use(&self) -> Option<Arc<Pool>> {
        let place = self.place();
        (!place.location.is_named()).then_some(place.pool)
    }

    /// The target of the next request. That of a path in a federation is a server if one is known,
    /// else the director, whose answer others wait for until the guard is dropped.
    pub(crate) async fn next_target(
        &self,
    ) -> Result<(CurrentTarget<HttpTarget>, Option<OwnedMutexGuard<()>>)> {
        let current = self.targets.current();
        let named = &current.target.location;
        if !named.is_named() {
            return Ok((current, None));
        }
        let (servers, turn) = if current.tried.is_empty() {
            self.network.servers_or_director(named).await?
        } else {
            // A server that was known failed.
            (vec![self.network.director_of(named).await?], None)
        };
        if let [first, others @ ..] = servers.as_slice() {
            self.follow(current.turn, first.clone());
            self.redirected.store(!first.is_at_director(), Ordering::Relaxed);
            if !others.is_empty() {
                self.hear(
                    &MetalinkLinks::of_replicas(servers.iter().map(Location::absolute)),
                    first,
                );
            }
        }
        Ok((self.targets.current(), turn))
    }

    /// Returns whether the file, or its beginning, is kept here because the server sent it whole.
    pub(crate) fn has_whole_file(&self) -> bool {
        self.whole_file.is_started()
    }

    /// The limits of one request.
    pub(crate) fn limits_at(&self, place: &HttpTarget) -> Limits {
        if self.has_whole_file() {
            return Limits::unlimited();
        }
        let pool = &place.pool;
        pool.server().limits().priced(&pool.link(), pool.max_requests())
    }

    async fn fetch_following(&self, request: Request, mut sink: PartSink) -> Result<ResponseMeta> {
        if request.tail > 0 {
            return tail::fetch(self, request, sink).await;
        }
        let mut attempts = Attempts::new(self.location(), MAX_HTTP_REDIRECTS);
        loop {
            attempts.count()?;
            let (CurrentTarget { target: place, turn, .. }, _asking) = self.next_target().await?;
            place.pool.server().wait_retry_after().await;
            match self.send(&place, &request, &mut sink).await {
                Ok(ExchangeOutcome::Complete(answer)) => {
                    self.targets.arrived();
                    return Ok(answer);
                }
                Ok(ExchangeOutcome::Redirect(to)) => self.follow(turn, to),
                Err(error) => return Err(self.fall_back(turn, &place.location, error)),
            }
        }
    }

    /// Sends a request as the capabilities of the server allow: as it is, or in pieces.
    async fn send(
        &self,
        place: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> Result<ExchangeOutcome> {
        let RequestSizing { pieces, trial } = if self.has_whole_file() {
            RequestSizing::default()
        } else {
            place.pool.server().size_request(request)
        };
        let Some(limits) = pieces else {
            let settled = self.exchange(place, request, sink).await;
            drop(trial);
            return settled.outcome;
        };
        let mut total = ResponseMeta::default();
        for ranges in Plan::new(&request.ranges, &limits, &PlanConfig::default()).requests {
            let piece = Request { ranges, ..request.clone() };
            match self.exchange(place, &piece, sink).await.outcome? {
                ExchangeOutcome::Complete(answer) => {
                    let unasked_bytes = total.unasked_bytes + answer.unasked_bytes;
                    total = ResponseMeta { unasked_bytes, ..answer };
                }
                redirect @ ExchangeOutcome::Redirect(_) => return Ok(redirect),
            }
        }
        Ok(ExchangeOutcome::Complete(total))
    }

    /// Sends one request and learns from its response. While the server refuses it as one too many,
    /// waits and sends it again.
    pub(crate) async fn exchange(
        &self,
        place: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        // As long as others are under way, there is no deadline.
        let mut policy = RetryPolicy::default();
        policy.busy_timeout = Duration::MAX;
        let mut backoff = Backoff::default();
        loop {
            let admitted = match place.pool.in_turn(place.pool.limiter().admit()).await {
                Ok(admitted) => admitted,
                Err(error) => return ExchangeResult::failed(error),
            };
            let was_known = self.own_tags.are_known();
            let settled = self.exchange_as_user(place, request, sink).await;
            if self.has_own_tags(place, request, was_known, &settled).await {
                continue;
            }
            let (fate, after) = settled.fate();
            if !admitted.leave(fate) {
                return settled;
            }
            // The server rejected it as one request too many. Fewer are sent now.
            let refused = Retry::Busy { after };
            let Some(pause) = backoff.next(&policy, refused, false, &self.clock) else {
                return settled;
            };
            debug!(url = %place.location, ?pause, "server overloaded, sending the request again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends a request with the user's credential, which is renewed once if it is rejected.
    async fn exchange_as_user(
        &self,
        place: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        let HttpTarget { location, pool, .. } = place;
        let used = match authorization::prepared(location, pool.config()).await {
            Ok(used) => used,
            Err(error) => return ExchangeResult::failed(error),
        };
        let settled = self.exchange_once(place, request, sink).await;
        let refused = settled.outcome.as_ref().is_err_and(authorization::is_refused);
        if refused && authorization::renewed(location, pool.config(), &used).await {
            return self.exchange_once(place, request, sink).await;
        }
        settled
    }

    async fn exchange_once(
        &self,
        place: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        let HttpTarget { location, pool, .. } = place;
        let mut ask = match pool.server().ranges() {
            RangeSupport::Whole => RangeEncoding::First,
            _ if pool.server().takes_query(request) => RangeEncoding::Query,
            _ => RangeEncoding::All,
        };
        if self.has_whole_file() {
            if let Some(settled) = self.serve_kept(place, request, sink).await {
                return settled;
            }
            ask = RangeEncoding::Nothing;
        }
        let whole_file = &self.whole_file;
        let validator = self.own_tags.condition(request);
        let condition = self.condition;
        let exchange = Exchange { location, pool, request, ask, whole_file, validator, condition };
        let mut stale = 0;
        let mut lost = None;
        let (connection, settled) = loop {
            let mut connection = if let Some(lost) = lost.take_if(|_| !self.is_first(location)) {
                // Whoever redirects here knows more about the server than a new connection.
                match pool.acquire_idle() {
                    Some(idle) => idle,
                    None => return lost,
                }
            } else {
                match self.connection(place, request).await {
                    Ok(connection) => connection,
                    Err(error) => return ExchangeResult::failed(error),
                }
            };
            let settled = exchange.run(&mut connection, sink).await;
            // The server works: other idle connections may be closed, too.
            if !settled.stale || stale >= MAX_STALE {
                break (connection, settled);
            }
            stale += 1;
            debug!(url = %location, "stale connection, sending the request again");
            lost = Some(settled);
        };
        if settled.outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout) {
            connection.retire();
        }
        pool.server().learn(request, &settled);
        if let Some(links) = &settled.links {
            self.hear_links(location, &settled, links);
        }
        if settled.reusable {
            connection.give_back();
        }
        self.with_fewer_ranges(place, request, settled).await
    }

    /// Returns true if no other server sends requests for the file here.
    fn is_first(&self, location: &Location) -> bool {
        location == self.location() || location.is_at_director()
    }

    /// A connection for a request. A server that refuses connections is waited for, unless another
    /// one can be asked: another replica, or the server that redirected to this one.
    async fn connection(&self, place: &HttpTarget, request: &Request) -> Result<PooledConnection> {
        loop {
            match place.pool.acquire_for(request.asked_bytes()).await {
                Err(error) if !request.failover && self.is_first(&place.location) => {
                    place.pool.outlast(error).await?;
                }
                acquired => return acquired,
            }
        }
    }

    /// Serves a request from the download of the whole file; `None` if the download has to be
    /// started again.
    async fn serve_kept(
        &self,
        place: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> Option<ExchangeResult> {
        let mut delivery = Delivery::new(&request.ranges, &place.pool, sink);
        let served = self.whole_file.serve(None, request, &mut delivery, &place.location).await;
        let mut settled = match served {
            Ok(true) => delivery.complete(request.tail, false),
            Ok(false) => return None,
            Err(error) => ExchangeResult::failed(error),
        };
        settled.size = delivery.size;
        if let Ok(ExchangeOutcome::Complete(answer)) = &mut settled.outcome {
            answer.validator = self.whole_file.validator(&place.pool).await;
        }
        Some(settled)
    }

    /// Follows a redirect to `to` of a request that was sent in `turn`.
    pub(crate) fn follow(&self, turn: u64, to: Location) {
        if !to.is_at_director() {
            *lock(&self.redirected_to) = Some(to.origin());
        }
        let target = HttpTarget::new(to, &self.network);
        self.targets.change(turn, |_| target);
        self.redirected.store(true, Ordering::Relaxed);
    }

    /// Handles the failure of a request that was sent to `from` in `turn`. Another target may have
    /// the file.
    pub(crate) fn fall_back(&self, turn: u64, from: &Location, error: Error) -> Error {
        let is_curable = match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::Unauthenticated => true,
            // A server that answers is the right one.
            ErrorKind::Unavailable | ErrorKind::Timeout => match error.failure() {
                Failure::Status { .. } => error.retry() == Retry::OtherServer,
                _ => !matches!(error.retry(), Retry::Later { .. }),
            },
            _ => false,
        };
        if !is_curable || from.is_at_director() {
            return error;
        }
        if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
            self.network.forget_servers(self.location(), &Method::GET);
        }
        let first = |first: &Location| HttpTarget::new(first.clone(), &self.network);
        self.targets.fall_back(turn, from, error, first)
    }
}

impl Source for HttpSource {
    fn name(&self) -> String {
        self.location().to_string()
    }

    fn redirected_to(&self) -> Option<String> {
        lock(&self.redirected_to).clone()
    }

    fn limits(&self) -> Limits {
        self.limits_at(&self.place())
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

    fn max_connections(&self) -> usize {
        let pool = self.place().pool;
        match pool.server().ranges() {
            // The server has one stream of bytes, or will show whether it has.
            RangeSupport::Whole => 1,
            _ if self.has_whole_file() => 1,
            _ => pool.max_connections(),
        }
    }

    fn max_requests(&self) -> usize {
        self.place().pool.max_requests()
    }

    fn expect_small_files(&self) {
        if let Some(pool) = self.pool_in_use() {
            pool.announce_small_files();
        }
    }

    fn idle_connections(&self) -> usize {
        self.place().pool.idle_connections()
    }

    fn preconnect(&self, connections: usize) {
        let Some(pool) = self.pool_in_use() else { return };
        if pool.is_shared() { pool.warm_shared(connections) } else { pool.warm(connections) }
    }

    fn expect_bulk(&self) {
        if let Some(pool) = self.pool_in_use() {
            pool.announce_large();
        }
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let span = debug_span!("fetch", url = %self.location());
        Box::pin(self.fetch_following(request, sink).instrument(span))
    }
}
