//! One file behind an HTTP server (RFC 9110, RFC 9112).
//!
//! A request becomes one GET with a `Range` field on one connection. Whatever the form of the
//! response (several parts, one part, the whole file, an error), its bytes are delivered as they
//! arrive, at the positions of `Content-Range`; those that the response may still contradict are
//! held before (`exchange/held_bytes.rs`). What the form shows about the server goes into its
//! capabilities, which decide how the next request is sized. A request passes through the
//! [layers](crate::layers) on its way.
//!
//! `If-Range` protects every request after the first: if the file has changed, the server sends the
//! whole new file. Such a response is dropped with its connection. The head of the first response
//! binds the version for requests that were sent concurrently ([`VersionBinding`]).
//!
//! [`VersionBinding`]: hither_core::VersionBinding

pub(crate) mod counted_size;
mod head_check;
mod kept_file;
mod links;
mod own_tags;
mod tail;
mod targets;

use crate::authorization;
use crate::context::MonotonicClock;
use crate::http::exchange::{Exchange, RangeCondition, RangeEncoding};
use crate::http::spooled_download::SpooledDownload;
use crate::layers::admission::Admission;
use crate::layers::credential::RequestCredential;
use crate::layers::redirects::{Attempts, MAX_HTTP_REDIRECTS};
use crate::layers::sizing::{SizedRequest, after_probe, byte_probe, within_file};
use crate::layers::stale_connections::StaleConnections;
use crate::location::Location;
use crate::network::Network;
use crate::pool::PooledConnection;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult};
use counted_size::CountedSize;
use futures_core::future::BoxFuture;
use hither_core::endpoint::{Endpoint, RangeSupport};
use hither_core::error::{ErrorKind, Result};
use hither_core::{Clock, Limits, LinkEstimate, PartSink, Request, ResponseMeta, Source};
use links::LinksCallback;
use own_tags::OwnTags;
use std::net::SocketAddr;
use std::sync::Arc;
use targets::{HttpTarget, HttpTargets};
use tracing::{Instrument, debug_span};

/// The maximum number of stale connections, one after the other, before this is an error.
const MAX_STALE: usize = 3;

/// A file behind an HTTP server.
#[derive(Debug)]
pub struct HttpSource {
    clock: MonotonicClock,
    targets: HttpTargets,
    whole_file: SpooledDownload,
    counted_size: CountedSize,
    condition: RangeCondition,
    own_tags: OwnTags,
}

impl HttpSource {
    /// The file at `location`.
    #[must_use]
    pub fn new(location: Location, network: Arc<Network>) -> Self {
        Self {
            clock: MonotonicClock::start(),
            targets: HttpTargets::new(location, network),
            whole_file: SpooledDownload::default(),
            counted_size: CountedSize::default(),
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
        self.targets.current().pool.server().takes_suffix()
    }

    /// The address of the current server, after redirects.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.targets.address()
    }

    /// Returns whether a redirect was ever followed.
    pub(crate) fn redirected(&self) -> bool {
        self.targets.is_redirected()
    }

    /// Calls `callback` once, when a response links to other replicas.
    pub(crate) fn when_linked(&self, callback: Box<LinksCallback>) {
        self.targets.when_linked(callback);
    }

    /// The limits of one request.
    fn limits_at(&self, target: &HttpTarget) -> Limits {
        if self.has_whole_file() {
            return Limits::unlimited();
        }
        let pool = &target.pool;
        pool.server().limits().priced(&pool.link(), pool.max_requests())
    }

    /// Reads what `request` asks for, and compares the size of the file if no response stated it.
    async fn fetch_checked(&self, request: Request, sink: PartSink) -> Result<ResponseMeta> {
        let expected = request.size.or_else(|| request.version.size());
        let answer = self.fetch_following(request, sink).await?;
        // The URL of an object is signed for GET: its source compares.
        if self.condition == RangeCondition::IfRange {
            let location = self.location();
            let stated = counted_size::stated(location, &self.targets.network);
            self.counted_size.check(location, &answer, expected, stated).await?;
        }
        Ok(answer)
    }

    /// Reads what `request` asks for, behind redirects.
    async fn fetch_following(&self, request: Request, mut sink: PartSink) -> Result<ResponseMeta> {
        if request.tail > 0 {
            return tail::fetch(self, request, sink).await;
        }
        let mut attempts = Attempts::new(self.location(), MAX_HTTP_REDIRECTS);
        loop {
            attempts.count()?;
            let (current, _asking) = self.targets.next().await?;
            match self.fetch_at(&current.target, &request, &mut sink).await {
                Ok(ExchangeOutcome::Complete(answer)) => {
                    self.targets.arrived();
                    return Ok(answer);
                }
                Ok(ExchangeOutcome::Redirect(to)) => self.targets.follow(current.turn, to),
                Err(error) => {
                    let from = &current.target.location;
                    return Err(self.targets.fall_back(current.turn, from, error));
                }
            }
        }
    }

    /// Reads the ranges of `request` from one server, in one request or in several.
    async fn fetch_at(
        &self,
        target: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> Result<ExchangeOutcome> {
        let sized = if self.has_whole_file() {
            SizedRequest::whole(request)
        } else {
            SizedRequest::new(request, target.pool.server())
        };
        let mut total = ResponseMeta::default();
        for piece in sized.requests() {
            match self.exchange(target, piece, sink).await.outcome? {
                ExchangeOutcome::Complete(answer) => {
                    let unasked_bytes = total.unasked_bytes + answer.unasked_bytes;
                    total = ResponseMeta { unasked_bytes, ..answer };
                }
                redirect @ ExchangeOutcome::Redirect(_) => return Ok(redirect),
            }
        }
        Ok(ExchangeOutcome::Complete(total))
    }

    /// Sends one request, as often as its layers repeat it: when the server admits it, with the
    /// user's credential, and on an open connection. Learns from its response.
    async fn exchange(
        &self,
        target: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        let HttpTarget { location, pool } = target;
        let mut admission = Admission::new();
        loop {
            let permit = match admission.enter(pool).await {
                Ok(permit) => permit,
                Err(error) => return ExchangeResult::failed(error),
            };
            let had_own_tags = self.own_tags.are_known();
            let mut credential = RequestCredential::default();
            if let Err(error) = credential.prepare(location, pool.config()).await {
                return ExchangeResult::failed(error);
            }
            let mut result = self.exchange_sized(target, request, sink).await;
            let is_rejected = result.outcome.as_ref().is_err_and(authorization::is_refused);
            if is_rejected && credential.renew(location, pool.config()).await {
                result = self.exchange_sized(target, request, sink).await;
            }
            let tags = &self.own_tags;
            if tags.are_shown(&self.targets, target, request, had_own_tags, &result).await {
                continue;
            }
            if !admission.waits(permit, &result, location).await {
                return result;
            }
        }
    }

    /// Sends one request, and finds out if it was refused because of its size or the file's.
    async fn exchange_sized(
        &self,
        target: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        let mut result = self.exchange_once(target, request, sink, None).await;
        if result.lacks_first_byte {
            result = self.exchange_once(target, request, sink, Some(RangeEncoding::Nothing)).await;
        } else if let Some(within) = within_file(request, &result) {
            result = self.exchange_once(target, &within, sink, None).await;
        }
        let server = target.pool.server();
        let Some(byte) = byte_probe(request, &result, server) else { return result };
        let mut sink: PartSink = Box::new(drop);
        let probe = self.exchange_once(target, &byte, &mut sink, None).await;
        after_probe(request, result, &probe, server)
    }

    /// Sends one request on an open connection, unless the whole file is kept here. `ask` overrides
    /// the encoding that suits the server.
    async fn exchange_once(
        &self,
        target: &HttpTarget,
        request: &Request,
        sink: &mut PartSink,
        ask: Option<RangeEncoding>,
    ) -> ExchangeResult {
        let HttpTarget { location, pool } = target;
        let mut ask = ask.unwrap_or_else(|| match pool.server().ranges() {
            RangeSupport::Whole => RangeEncoding::First,
            _ if pool.server().takes_query(request) => RangeEncoding::Query,
            _ => RangeEncoding::All,
        });
        if self.has_whole_file() {
            if let Some(result) = self.serve_kept(target, request, sink).await {
                return result;
            }
            ask = RangeEncoding::Nothing;
        }
        let whole_file = &self.whole_file;
        let validator = self.own_tags.condition(request);
        let condition = self.condition;
        let exchange = Exchange { location, pool, request, ask, whole_file, validator, condition };
        let mut stale = StaleConnections::at_most(MAX_STALE);
        let mut connection = self.targets.connection(target, request).await;
        let (connection, result) = loop {
            let mut open = match connection {
                Ok(open) => open,
                Err(error) => return ExchangeResult::failed(error),
            };
            let result = exchange.run(&mut open, sink).await;
            if !stale.sends_again(location, result.stale) {
                break (open, result);
            }
            drop(open);
            connection = if self.targets.is_first(location) {
                self.targets.connection(target, request).await
            } else {
                // The server that redirected here may name another target; a new connection here
                // would not help.
                match pool.acquire_idle() {
                    Some(idle) => Ok(idle),
                    None => return result,
                }
            };
        };
        self.learn(target, request, &result, &connection);
        if result.reusable {
            connection.give_back();
        }
        result
    }

    /// Learns about the server from the result of a request on `connection`.
    fn learn(
        &self,
        target: &HttpTarget,
        request: &Request,
        result: &ExchangeResult,
        connection: &PooledConnection,
    ) {
        if result.outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout) {
            connection.retire();
        }
        target.pool.server().learn(request, result);
        if let Some(links) = &result.links {
            self.targets.note_links(&target.location, &result.outcome, links);
        }
    }
}

impl Source for HttpSource {
    fn name(&self) -> String {
        self.location().to_string()
    }

    fn redirected_to(&self) -> Option<String> {
        self.targets.redirected_to()
    }

    fn limits(&self) -> Limits {
        self.limits_at(&self.targets.current())
    }

    fn link(&self) -> LinkEstimate {
        self.targets.current().pool.link()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn endpoint(&self) -> Endpoint {
        self.targets.current().pool.endpoint()
    }

    fn max_connections(&self) -> usize {
        let pool = self.targets.current().pool;
        match pool.server().ranges() {
            // The server has one stream of bytes, or will show whether it has.
            RangeSupport::Whole => 1,
            _ if self.has_whole_file() => 1,
            _ => pool.max_connections(),
        }
    }

    fn max_requests(&self) -> usize {
        self.targets.current().pool.max_requests()
    }

    fn expect_small_files(&self) {
        if let Some(pool) = self.targets.pool_in_use() {
            pool.announce_small_files();
        }
    }

    fn idle_connections(&self) -> usize {
        self.targets.current().pool.idle_connections()
    }

    fn preconnect(&self, connections: usize) {
        let Some(pool) = self.targets.pool_in_use() else { return };
        if pool.is_shared() { pool.warm_shared(connections) } else { pool.warm(connections) }
    }

    fn expect_bulk(&self) {
        if let Some(pool) = self.targets.pool_in_use() {
            pool.announce_large();
        }
    }

    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        let span = debug_span!("fetch", url = %self.location());
        Box::pin(self.fetch_checked(request, sink).instrument(span))
    }
}
