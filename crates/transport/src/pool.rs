//! The connections to one endpoint, reused by all files.
//!
//! A request takes an idle connection, or waits in line for the first that becomes free: a new one,
//! or one that is returned. Connections are opened by separate tasks, so a cancelled request does
//! not cancel its connection, and a request that gets a returned connection leaves the new one for
//! the next. A connection that was given to a cancelled request goes to the next one, too.
//!
//! The first handshake measures the round-trip time. If a large job was
//! [announced](Pool::announce_large), that time also decides how many more connections are opened
//! immediately, while the first request is on its way.

pub(crate) mod capabilities;
pub(crate) mod concurrency_limiter;
pub(crate) mod http1;
pub(crate) mod http2;
mod http2_pool;
pub(crate) mod observation;
mod open_http1;
mod open_http2;
pub(crate) mod request_sender;
mod turn;

use crate::config::TransportConfig;
use crate::connect::tls::TlsErrorText;
use crate::context::NetworkContext;
use crate::counters::TransferCounters;
use crate::counters::progress::PoolProgress;
use crate::location::Location;
use crate::pool::capabilities::ServerCapabilities;
use crate::pool::concurrency_limiter::ConcurrencyLimiter;
use crate::pool::http1::Http1Connection;
use crate::pool::request_sender::RequestSender;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::{Endpoint, LinkEstimate, SlotClaim};
use hither_load::connections;
use http2_pool::Http2Pool;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

/// The connections to one endpoint.
#[derive(Debug)]
pub struct Pool {
    location: Location,
    shared: Arc<NetworkContext>,
    server: Arc<ServerCapabilities>,
    limiter: ConcurrencyLimiter,
    state: Mutex<PoolState>,
    streams: Http2Pool,
    progress: PoolProgress,
}

#[derive(Debug, Default)]
struct PoolState {
    idle: Vec<Http1Connection>,
    waiting: VecDeque<oneshot::Sender<Result<ConnectionHandoff>>>,
    connecting: usize,
    /// Open connections, idle and busy.
    open: usize,
    /// The number of connections beyond which the server refused one; 0 if it never did.
    refused_above: usize,
    large_job: bool,
    /// More connections were opened together with the first one.
    speculated: bool,
    /// Connections that the server has closed although it had announced to keep them open.
    cut_short: u64,
    /// Two connections that had carried responses were open at a time: the server has more than one
    /// thread.
    serves_several: bool,
    link: LinkEstimate,
}

impl PoolState {
    /// Takes an open idle connection, of the source address with the fewest requests; of several,
    /// the one that was used last. Forgets those that are closed.
    fn take_idle(&mut self) -> Option<Http1Connection> {
        loop {
            let least = self.idle.iter().enumerate().rev().min_by_key(|(_, it)| it.meter.busy());
            let (at, _) = least?;
            let connection = self.idle.remove(at);
            if !connection.sender.is_closed() {
                // Before the next one is chosen.
                connection.meter.set_busy(true);
                return Some(connection);
            }
            self.open -= 1;
            self.cut_short += u64::from(connection.is_cut_short());
        }
    }
}

impl Pool {
    /// A pool without connections. `remembered` is what earlier processes learned about the server.
    #[must_use]
    pub(crate) fn new(
        location: Location,
        shared: Arc<NetworkContext>,
        remembered: Endpoint,
    ) -> Arc<Self> {
        let state = Mutex::new(PoolState {
            link: remembered.link(),
            refused_above: remembered.max_connections,
            ..PoolState::default()
        });
        Arc::new(Self {
            location,
            shared,
            streams: Http2Pool::new(remembered.streams),
            server: Arc::new(ServerCapabilities::new(remembered)),
            limiter: ConcurrencyLimiter::default(),
            state,
            progress: PoolProgress::default(),
        })
    }

    /// The transfer counters.
    #[must_use]
    pub(crate) fn counters(&self) -> &Arc<TransferCounters> {
        &self.shared.counters
    }

    /// The configuration.
    #[must_use]
    pub(crate) fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    /// The formatter of TLS errors of this server.
    pub(crate) fn explains(&self) -> TlsErrorText {
        self.shared.dialer.explains(&self.location)
    }

    /// The learned capabilities of the server.
    #[must_use]
    pub(crate) fn server(&self) -> &Arc<ServerCapabilities> {
        &self.server
    }

    /// The concurrency limit of the server.
    #[must_use]
    pub(crate) fn limiter(&self) -> &ConcurrencyLimiter {
        &self.limiter
    }

    /// Everything that was learned about the server and the path to it.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let mut endpoint = self.server.endpoint();
        endpoint.streams = self.streams.each();
        let state = self.state();
        endpoint.max_connections = state.refused_above;
        endpoint.set_link(&state.link);
        endpoint
    }

    /// The current estimate of the path.
    #[must_use]
    pub fn link(&self) -> LinkEstimate {
        self.state().link
    }

    /// The maximum number of connections that caller and server allow.
    #[must_use]
    pub fn max_connections(&self) -> usize {
        self.shared.max_connections(self.state().refused_above)
    }

    /// Requests that could be sent immediately, without opening a connection.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.streams.free() + self.state().idle.len()
    }

    /// HTTP/1.1 connections, including those that are being opened.
    fn connections(&self) -> usize {
        let state = self.state();
        state.open + state.connecting
    }

    /// The maximum of HTTP/1.1 connections: what HTTP/2 connections leave, and at least one.
    fn max_alone(&self) -> usize {
        self.max_connections().saturating_sub(self.streams.connections()).max(1)
    }

    /// Announces a job that benefits from several connections if the path is long.
    pub fn announce_large(&self) {
        self.state().large_job = true;
    }

    /// Opens connections until there are `connections`; returns immediately.
    pub fn warm(self: &Arc<Self>, connections: usize) {
        let connections = connections.min(self.max_alone());
        let mut state = self.state();
        let missing = connections.saturating_sub(state.open + state.connecting);
        state.connecting += missing;
        drop(state);
        for _ in 0..missing {
            self.spawn_connect();
        }
    }

    /// Updates the bandwidth of the path.
    pub(crate) fn saw_bandwidth(&self, bytes_per_second: Option<f64>) {
        if let Some(seen) = bytes_per_second {
            self.state().link.saw_bandwidth(seen);
        }
    }

    /// Updates the times and the rate of responses.
    pub(crate) fn saw_response(
        &self,
        first_byte: Duration,
        bytes: u64,
        transfer: Duration,
        fresh: bool,
    ) {
        self.state().link.saw_response(first_byte, bytes, transfer, fresh);
    }

    /// A connection for one request. Waits for a server that refuses connections.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<PooledConnection> {
        loop {
            match self.acquire_now().await {
                Err(error) => self.wait_for_restart(error).await?,
                acquired => return acquired,
            }
        }
    }

    /// Waits until a server that refused a connection with `error` may be tried again.
    ///
    /// # Errors
    ///
    /// `error`, if it is not a refusal, or the server has refused for too long.
    pub(crate) async fn wait_for_restart(&self, error: Error) -> Result<()> {
        self.shared.dialer.wait_for_restart(&self.location, self.config(), error).await
    }

    /// A connection for one request, which fails at once if the server refuses connections.
    pub(crate) async fn acquire_now(self: &Arc<Self>) -> Result<PooledConnection> {
        let connection = self.wait_for_connection().await?;
        connection.meter.set_busy(true);
        Ok(PooledConnection {
            pool: Arc::clone(self),
            sender: Some(RequestSender::Http1(connection)),
        })
    }

    /// An idle connection for one request, if there is one.
    pub(crate) fn acquire_idle(self: &Arc<Self>) -> Option<PooledConnection> {
        let connection = self.state().take_idle()?;
        let sender = Some(RequestSender::Http1(connection));
        Some(PooledConnection { pool: Arc::clone(self), sender })
    }

    async fn wait_for_connection(self: &Arc<Self>) -> Result<Http1Connection> {
        let max = self.max_alone();
        let receiver = {
            let mut state = self.state();
            if let Some(connection) = state.take_idle() {
                return Ok(connection);
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            // One connection that is being opened is enough for each waiter.
            let start =
                state.connecting < state.waiting.len() && state.open + state.connecting < max;
            state.connecting += usize::from(start);
            drop(state);
            if start {
                self.spawn_connect();
            }
            receiver
        };
        let shut_down =
            || Error::new(ErrorKind::Cancelled, "the client was shut down while connecting");
        let handed = self.in_turn(receiver).await?.unwrap_or_else(|_| Err(shut_down()));
        handed.and_then(|mut handed| handed.connection.take().ok_or_else(shut_down))
    }

    /// Closes idle connections above the limit.
    pub(crate) fn close_surplus(&self) {
        let max = self.max_alone();
        let mut state = self.state();
        while state.open > max && state.idle.pop().is_some() {
            state.open -= 1;
        }
    }

    /// The number of signs that the server may have been restarted: requests that failed, and
    /// connections that were closed although the server had announced to keep them open.
    pub(crate) fn interruptions(&self) -> u64 {
        self.server.interruptions() + self.state().cut_short
    }

    /// Gives a connection to the first waiter, or keeps it, unless the limit has fallen below.
    fn release(self: &Arc<Self>, mut connection: Http1Connection) {
        self.progress.note();
        connection.idle_since = Instant::now();
        let max = self.max_alone();
        let mut state = self.state();
        if state.open > max {
            state.open -= 1;
            return;
        }
        state.serves_several |=
            connection.answers > 0 && state.idle.iter().any(|it| it.answers > 0);
        let mut handed = ConnectionHandoff { pool: Arc::clone(self), connection: Some(connection) };
        while let Some(waiter) = state.waiting.pop_front() {
            match waiter.send(Ok(handed)) {
                Ok(()) => return,
                // That request was cancelled.
                Err(Ok(back)) => handed = back,
                Err(Err(_)) => return,
            }
        }
        state.idle.extend(handed.connection.take());
    }

    /// Closes the idle connections, unless the server is known to have more than one thread.
    pub(crate) fn let_idle_go(&self) {
        let mut state = self.state();
        if state.serves_several {
            return;
        }
        let idle = std::mem::take(&mut state.idle);
        state.open -= idle.len();
        drop(state);
        debug!(server = %self.location.origin(), closed = idle.len(), "idle connections closed");
        drop(idle);
    }

    /// Counts a closed connection, and replaces it if there are waiters.
    fn lost(self: &Arc<Self>) {
        let max = self.max_alone();
        let mut state = self.state();
        state.open = state.open.saturating_sub(1);
        state.speculated &= state.open > 0;
        let wanted = state.waiting.len().saturating_sub(state.connecting);
        let room = max.saturating_sub(state.open + state.connecting);
        let start = wanted.min(room);
        state.connecting += start;
        drop(state);
        for _ in 0..start {
            self.spawn_connect();
        }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }

    fn spawn_connect(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        self.shared.runtime.spawn(async move {
            let claim = match pool.claim() {
                SlotClaim::Granted(held) => Some(held),
                SlotClaim::Full if pool.can_do_without() => return,
                // Every process may have one connection.
                SlotClaim::Full => None,
            };
            match pool.establish(claim).await {
                Ok((connection, rtt)) => pool.established(connection, rtt),
                Err(error) => pool.failed(error),
            }
        });
    }

    fn claim(&self) -> SlotClaim {
        self.shared.claim(&self.location)
    }

    /// Returns whether there is another connection, or will be. Then this one is not opened.
    fn can_do_without(&self) -> bool {
        let mut state = self.state();
        let others = state.open + state.connecting > 1;
        state.connecting -= usize::from(others);
        others
    }

    /// Records the round-trip time of a new connection. For a large job the first one opens others,
    /// whose handshakes run concurrently with its own.
    fn measured(self: &Arc<Self>, rtt: Duration) {
        let speculate = {
            let mut state = self.state();
            state.link.saw_rtt(rtt);
            state.large_job && state.open == 0 && !std::mem::replace(&mut state.speculated, true)
        };
        if speculate {
            self.warm(connections::speculative(rtt, self.config().max_connections));
        }
    }

    /// Adds a connection that was opened for HTTP/2, if the limit allows.
    fn adopt(self: &Arc<Self>, connection: Http1Connection, rtt: Duration) {
        let max = self.max_alone();
        let mut state = self.state();
        if state.open + state.connecting < max {
            state.connecting += 1;
            drop(state);
            self.established(connection, rtt);
        }
    }

    fn established(self: &Arc<Self>, connection: Http1Connection, rtt: Duration) {
        self.counters().connected(rtt);
        let mut state = self.state();
        state.connecting -= 1;
        state.open += 1;
        let open = state.open;
        drop(state);
        debug!(server = %self.location.origin(), open, ?rtt, "connection opened");
        self.release(connection);
    }

    /// A connection could not be opened. Other connections, if there are any, serve the waiters.
    fn failed(&self, error: Error) {
        let mut state = self.state();
        state.connecting -= 1;
        debug!(server = %self.location.origin(), open = state.open, %error, "connection failed");
        if state.open > 0 {
            state.refused_above = state.open;
            return;
        }
        if error.is_refused_connection() {
            // The server is down. Its earlier refusal had this reason, and was not a connection
            // limit.
            state.refused_above = 0;
        }
        if state.connecting == 0 {
            for waiter in std::mem::take(&mut state.waiting) {
                // The waiter may have been cancelled.
                drop(waiter.send(Err(error.clone())));
            }
        }
    }
}

/// A connection on its way to a waiter. If the waiter is cancelled before it takes it, the
/// connection goes to the next.
#[derive(Debug)]
struct ConnectionHandoff {
    pool: Arc<Pool>,
    connection: Option<Http1Connection>,
}

impl Drop for ConnectionHandoff {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.release(connection);
        }
    }
}

/// A connection, or a stream of one, for one request. If it is dropped, the connection is closed: a
/// response that was not read to its end makes it useless.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    pool: Arc<Pool>,
    sender: Option<RequestSender>,
}

impl PooledConnection {
    /// The sender of the request.
    pub(crate) fn sender(&mut self) -> Option<&mut RequestSender> {
        self.sender.as_mut()
    }

    /// Nothing arrived on this connection for too long.
    pub(crate) fn retire(&self) {
        self.sender.iter().for_each(RequestSender::retire);
    }

    /// Returns the connection after its response was read to its end, if the server keeps it open.
    pub(crate) fn give_back(mut self) {
        let open = |sender: &mut RequestSender| matches!(sender, RequestSender::Http1(connection) if !connection.sender.is_closed() && !connection.meter.yields());
        if let Some(RequestSender::Http1(connection)) = self.sender.take_if(open) {
            connection.meter.set_busy(false);
            self.pool.release(connection);
        }
        // Otherwise the drop below counts it as closed.
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        // A stream serves the next waiter by itself.
        if let Some(RequestSender::Http1(_)) = self.sender.take() {
            self.pool.lost();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use futures_util::future::FutureExt;
    use hither_testkit::mock_http::MockHttpServer;
    use tokio::runtime::Handle;

    #[tokio::test]
    async fn a_connection_handed_to_a_request_that_is_dropped_goes_to_the_next() {
        let peer = MockHttpServer::start(vec![1; 10]).unwrap();
        let config = TransportConfig { max_connections: 1, ..TransportConfig::default() };
        let network = Network::new(config, Handle::current(), None);
        let pool = network.pool(&Location::parse(&peer.url()).unwrap());
        let first = pool.acquire_now().await.unwrap();
        let mut second = Box::pin(pool.acquire_now());
        assert!(second.as_mut().now_or_never().is_none(), "there is one connection");
        first.give_back();
        drop(second);
        let third = tokio::time::timeout(Duration::from_secs(60), pool.acquire_now()).await;
        third.expect("the connection was lost").unwrap().give_back();
        assert_eq!((pool.idle_connections(), network.counters().totals().connections), (1, 1));
    }

    #[tokio::test]
    async fn a_request_behind_one_that_is_not_polled_is_given_up() {
        let peer = MockHttpServer::start(vec![1; 10]).unwrap();
        let config = TransportConfig { max_connections: 1, ..TransportConfig::default() };
        let timeout = config.connect_timeout + config.first_byte_timeout;
        let network = Network::new(config, Handle::current(), None);
        let pool = network.pool(&Location::parse(&peer.url()).unwrap());
        let first = pool.acquire_now().await.unwrap();
        tokio::time::pause();
        let begun = Instant::now();
        let error = pool.acquire_now().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        // To the clock's millisecond for each look.
        assert!((timeout..timeout + Duration::from_secs(1)).contains(&begun.elapsed()));
        // One that is driven is waited for.
        let driven = pool.driven(tokio::time::sleep(2 * timeout));
        let waiting = pool.acquire_now();
        let then = async {
            driven.await;
            first.give_back();
        };
        let (taken, ()) = tokio::join!(waiting, then);
        assert!(taken.is_ok());
    }
}
