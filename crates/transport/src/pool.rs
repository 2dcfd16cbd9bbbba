//! The connections to one endpoint, recycled across files and calls.
//!
//! A request takes an idle connection, or waits in line for whichever comes first: one being established, or one being
//! handed back. Connections are established by tasks of their own, so a request that is dropped does not take its
//! connection with it, and one that is handed a recycled connection leaves the new one for the next. So does one that is
//! dropped when it has been handed a connection and has not seen it yet.
//!
//! The first handshake measures the round-trip time. If a large job is [announced](Pool::announce_large), it also decides
//! how many further connections are started there and then, while the first request is on its way.

pub(crate) mod capabilities;
pub(crate) mod concurrency_limiter;
mod http1;
pub(crate) mod http2;
mod http2_pool;
pub(crate) mod observation;
mod open_http1;
mod open_http2;
pub(crate) mod request_sender;

use crate::config::TransportConfig;
use crate::connect::tls::TlsErrorText;
use crate::context::NetworkContext;
use crate::counters::TransferCounters;
use crate::location::Location;
use crate::pool::capabilities::ServerCapabilities;
use crate::pool::concurrency_limiter::ConcurrencyLimiter;
use crate::pool::http1::Http1Connection;
use crate::pool::request_sender::RequestSender;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use hither_core::tune::connections;
use hither_core::{Endpoint, LinkEstimate, SlotClaim};
use http2_pool::Http2Pool;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::debug;

/// Connections to one endpoint.
#[derive(Debug)]
pub struct Pool {
    location: Location,
    shared: Arc<NetworkContext>,
    server: Arc<ServerCapabilities>,
    welcome: ConcurrencyLimiter,
    state: Mutex<PoolState>,
    streams: Http2Pool,
}

#[derive(Debug, Default)]
struct PoolState {
    idle: Vec<Http1Connection>,
    waiting: VecDeque<oneshot::Sender<Result<ConnectionHandoff>>>,
    connecting: usize,
    /// Established connections, idle and busy.
    open: usize,
    /// Connections that the server refused beyond this many; 0 for no such sign.
    refused_above: usize,
    large_job: bool,
    /// Further connections have been started along with the first one.
    speculated: bool,
    /// Two connections that had brought answers were open at a time: the server has more than one thread.
    serves_several: bool,
    link: LinkEstimate,
}

impl Pool {
    /// A pool without connections. `remembered` is what is known of the server.
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
            welcome: ConcurrencyLimiter::default(),
            state,
        })
    }

    /// The books.
    #[must_use]
    pub(crate) fn account(&self) -> &Arc<TransferCounters> {
        &self.shared.account
    }

    /// The configuration.
    #[must_use]
    pub(crate) fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    /// What puts failures of TLS to this server into words.
    pub(crate) fn explains(&self) -> TlsErrorText {
        self.shared.dialer.explains(&self.location)
    }

    /// What is known of the server and its wishes.
    #[must_use]
    pub(crate) fn server(&self) -> &Arc<ServerCapabilities> {
        &self.server
    }

    /// Whether the server has time for one more request.
    #[must_use]
    pub(crate) fn welcome(&self) -> &ConcurrencyLimiter {
        &self.welcome
    }

    /// What has been learned about the server and the path to it.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let mut endpoint = self.server.endpoint();
        endpoint.streams = self.streams.each();
        let state = self.state();
        endpoint.max_connections = state.refused_above;
        endpoint.set_link(&state.link);
        endpoint
    }

    /// What is known of the path by now.
    #[must_use]
    pub fn link(&self) -> LinkEstimate {
        self.state().link
    }

    /// Most connections that caller and server allow.
    #[must_use]
    pub fn max_connections(&self) -> usize {
        self.shared.max_connections(self.state().refused_above)
    }

    /// Requests that could be sent at the moment without connecting first.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.streams.free() + self.state().idle.len()
    }

    /// Connections that carry one request at a time, also those on their way.
    fn connections(&self) -> usize {
        let state = self.state();
        state.open + state.connecting
    }

    /// Most of those: what connections of HTTP/2 leave, and one.
    fn max_alone(&self) -> usize {
        self.max_connections().saturating_sub(self.streams.connections()).max(1)
    }

    /// A job is coming that will want more than one connection if the path is long.
    pub fn announce_large(&self) {
        self.state().large_job = true;
    }

    /// Starts connecting until there are `connections`; returns at once.
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

    /// The path looked at least this fast.
    pub(crate) fn saw_bandwidth(&self, bytes_per_second: Option<f64>) {
        if let Some(seen) = bytes_per_second {
            self.state().link.saw_bandwidth(seen);
        }
    }

    /// A connection for one request.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<PooledConnection> {
        let connection = self.wait_for_connection().await?;
        Ok(PooledConnection { pool: Arc::clone(self), way: Some(RequestSender::Http1(connection)) })
    }

    async fn wait_for_connection(self: &Arc<Self>) -> Result<Http1Connection> {
        let max = self.max_alone();
        let receiver = {
            let mut state = self.state();
            while let Some(connection) = state.idle.pop() {
                if connection.sender.is_closed() {
                    state.open -= 1;
                } else {
                    return Ok(connection);
                }
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            // One being established is enough for one in line.
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
        let handed = receiver.await.unwrap_or_else(|_| Err(shut_down()));
        handed.and_then(|mut handed| handed.connection.take().ok_or_else(shut_down))
    }

    /// Gives a connection that is ready to whoever is first in line, or keeps it.
    fn release(self: &Arc<Self>, connection: Http1Connection) {
        let mut state = self.state();
        state.serves_several |=
            connection.answers > 0 && state.idle.iter().any(|it| it.answers > 0);
        let mut handed = ConnectionHandoff { pool: Arc::clone(self), connection: Some(connection) };
        while let Some(waiter) = state.waiting.pop_front() {
            match waiter.send(Ok(handed)) {
                Ok(()) => return,
                // That request was dropped.
                Err(Ok(back)) => handed = back,
                Err(Err(_)) => return,
            }
        }
        state.idle.extend(handed.connection.take());
    }

    /// Closes the connections that nobody uses, unless the server is known to serve several at a time.
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

    /// A connection is gone: replaces it if somebody is still in line.
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
                // Every process may have one.
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

    /// Whether there is another connection, or will be. If so, this one is not made.
    fn can_do_without(&self) -> bool {
        let mut state = self.state();
        let others = state.open + state.connecting > 1;
        state.connecting -= usize::from(others);
        others
    }

    /// A connection has reached the server: the path is known. The first one of a large job is not alone for long, and
    /// the handshakes of the others go on beside its own.
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

    /// Takes a connection in that was made for something else, if there is room for it.
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
        self.account().connected(rtt);
        let mut state = self.state();
        state.connecting -= 1;
        state.open += 1;
        let open = state.open;
        drop(state);
        debug!(server = %self.location.origin(), open, ?rtt, "connection opened");
        self.release(connection);
    }

    /// A connection could not be established. As long as others live, those in line are served by them.
    fn failed(&self, error: Error) {
        let mut state = self.state();
        state.connecting -= 1;
        debug!(server = %self.location.origin(), open = state.open, %error, "connection failed");
        if state.open > 0 {
            state.refused_above = state.open;
            return;
        }
        if state.connecting == 0 {
            for waiter in std::mem::take(&mut state.waiting) {
                // Whoever was dropped in the meantime does not mind.
                drop(waiter.send(Err(error.clone())));
            }
        }
    }
}

/// A connection on its way to a request that waits for one. If the request is dropped before it has seen it, the connection
/// goes to the next.
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

/// A connection, or a place on one, lent to one request. Dropped, a connection is closed: an answer that was not read to
/// its end leaves it of no further use.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    pool: Arc<Pool>,
    way: Option<RequestSender>,
}

impl PooledConnection {
    /// The way for the request.
    pub(crate) fn way(&mut self) -> Option<&mut RequestSender> {
        self.way.as_mut()
    }

    /// Nothing has come this way for too long.
    pub(crate) fn retire(&self) {
        self.way.iter().for_each(RequestSender::retire);
    }

    /// The answer has been read to its end: the connection may carry another request, if the server keeps it.
    pub(crate) fn give_back(mut self) {
        let open = |way: &mut RequestSender| matches!(way, RequestSender::Http1(connection) if !connection.sender.is_closed());
        if let Some(RequestSender::Http1(connection)) = self.way.take_if(open) {
            self.pool.release(connection);
        }
        // Else the drop below counts it as lost.
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        // A place looks for its next user by itself.
        if let Some(RequestSender::Http1(_)) = self.way.take() {
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
        let first = pool.acquire().await.unwrap();
        let mut second = Box::pin(pool.acquire());
        assert!(second.as_mut().now_or_never().is_none(), "there is one connection");
        first.give_back();
        drop(second);
        let third = tokio::time::timeout(Duration::from_secs(60), pool.acquire()).await;
        third.expect("the connection was lost").unwrap().give_back();
        assert_eq!((pool.idle_connections(), network.account().totals().connections), (1, 1));
    }
}
