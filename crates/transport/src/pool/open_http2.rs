//! Opening HTTP/2 connections, or HTTP/1.1 connections where the server chooses that.

use super::Pool;
use super::http2_pool::MAX_CONNECTIONS;
use crate::connect::metered_stream::ConnectionMeter;
use crate::connect::tls::AlpnChoice;
use crate::pool::http1::Http1Connection;
use crate::pool::http2::Http2Connection;
use hither_core::error::{Error, Result};
use hither_core::{SlotClaim, SlotGuard};
use hither_load::connections;
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// A connection after the handshake.
enum Joined {
    Http2(Arc<Http2Connection>),
    Http1(Http1Connection),
}

impl Pool {
    pub(super) fn spawn_shared(self: &Arc<Self>, connections: usize) {
        for _ in 0..connections {
            let pool = Arc::clone(self);
            self.shared.runtime.spawn(async move {
                let claim = match pool.claim() {
                    SlotClaim::Granted(held) => Some(held),
                    SlotClaim::Full if pool.can_do_without_shared() => return,
                    // Every process may have one connection.
                    SlotClaim::Full => None,
                };
                match pool.join(claim).await {
                    Ok((Joined::Http2(connection), rtt)) => pool.joined(connection, rtt),
                    Ok((Joined::Http1(connection), rtt)) => pool.joined_alone(connection, rtt),
                    Err(error) => pool.not_joined(&error),
                }
            });
        }
    }

    /// Returns whether there is another connection, or will be. Then this one is not opened.
    fn can_do_without_shared(self: &Arc<Self>) -> bool {
        let others = {
            let mut state = self.streams.state();
            let others = state.connections() > 1;
            state.connecting -= usize::from(others);
            others
        };
        if others {
            // The others had left it its share of the waiters.
            self.serve_share();
        }
        others
    }

    async fn join(
        self: &Arc<Self>,
        claim: Option<Box<dyn SlotGuard>>,
    ) -> Result<(Joined, Duration)> {
        let meter =
            Arc::new(ConnectionMeter::new(Arc::clone(self.counters()), self.progress.clone()));
        let line = self.reach(&meter).await?;
        let rtt = line.rtt;
        self.state().link.saw_rtt(rtt);
        self.speculate_shared(rtt);
        let (stream, multiplexes) = self.secure(line, AlpnChoice::Http2).await?;
        if !multiplexes {
            return Ok((Joined::Http1(self.start_http1(stream, meter, claim).await?), rtt));
        }
        let each = self.streams.each();
        let (connection, driver) = Http2Connection::start(stream, meter, each, claim).await?;
        let pool = Arc::downgrade(self);
        let driven = Arc::downgrade(&connection);
        let server = self.location.origin();
        self.shared.runtime.spawn(async move {
            let set_limit = |streams| {
                pool.upgrade().into_iter().for_each(|pool| pool.set_stream_limit(streams))
            };
            driver.run(set_limit).await;
            debug!(%server, "HTTP/2 connection closed");
            if let (Some(pool), Some(connection)) = (pool.upgrade(), driven.upgrade()) {
                connection.retire();
                pool.parted(&connection);
            }
        });
        Ok((Joined::Http2(connection), rtt))
    }

    /// Opens further connections in addition to the first one of a large job, if the server is
    /// known to support HTTP/2.
    fn speculate_shared(self: &Arc<Self>, rtt: Duration) {
        if !self.state().large_job {
            return;
        }
        let start = {
            let mut state = self.streams.state();
            let first = !std::mem::replace(&mut state.speculated, true);
            let wanted = connections::speculative(rtt, MAX_CONNECTIONS);
            if first && state.each > 1 { self.start(&mut state, wanted) } else { 0 }
        };
        self.spawn_shared(start);
    }

    /// Adds a new HTTP/2 connection.
    fn joined(self: &Arc<Self>, connection: Arc<Http2Connection>, rtt: Duration) {
        debug!(server = %self.location.origin(), ?rtt, "HTTP/2 connection opened");
        self.counters().connected(rtt);
        let mut state = self.streams.state();
        state.connecting -= 1;
        if state.each <= 1 {
            state.each = connection.free();
        }
        // More may have been opened as HTTP/1.1 connections meanwhile, before HTTP/2 was known to
        // be supported.
        if state.open.len() < MAX_CONNECTIONS {
            state.open.push(Arc::clone(&connection));
        }
        let wanted = state.wanted();
        let start = if state.waiting.is_empty() { 0 } else { self.start(&mut state, wanted) };
        drop(state);
        self.spawn_shared(start);
        self.serve();
        if connection.is_gone() {
            // Its driver may have ended before it was among the open ones.
            self.parted(&connection);
        }
    }

    /// The server chose HTTP/1.1.
    fn joined_alone(self: &Arc<Self>, connection: Http1Connection, rtt: Duration) {
        debug!(server = %self.location.origin(), "server chose HTTP/1.1 instead of HTTP/2");
        self.streams.state().connecting -= 1;
        self.measured(rtt);
        self.adopt(connection, rtt);
        self.no_streams();
    }

    /// A connection could not be opened. Other connections, if there are any, serve the waiters.
    fn not_joined(self: &Arc<Self>, error: &Error) {
        debug!(server = %self.location.origin(), %error, "HTTP/2 connection failed");
        let connections = self.connections();
        let mut state = self.streams.state();
        state.connecting -= 1;
        if state.connections() > 0 {
            drop(state);
            return self.serve_share();
        }
        state.given_up |= connections > 0;
        let dismissed = state.dismiss();
        drop(state);
        for waiter in dismissed {
            let result = if connections > 0 { Ok(None) } else { Err(error.clone()) };
            // The waiter may have been cancelled.
            drop(waiter.send(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TransportConfig;
    use crate::location::Location;
    use crate::network::Network;
    use crate::pool::http2::{Http2Driver, Http2Stream};
    use futures_util::future::FutureExt;
    use hither_core::error::ErrorKind;
    use std::net::TcpListener;
    use tokio::runtime::Handle;
    use tokio::sync::oneshot::{self, error::TryRecvError};

    type Waiter = oneshot::Receiver<Result<Option<Http2Stream>>>;

    /// A pool, and an HTTP/2 connection to a server that sends nothing.
    struct Rig {
        pool: Arc<Pool>,
        connection: Arc<Http2Connection>,
        /// Kept, because the connection ends with them.
        _kept: (Http2Driver, TcpListener, Arc<Network>),
    }

    impl Rig {
        async fn new(max_connections: usize, streams: usize) -> Self {
            let config = TransportConfig { max_connections, ..TransportConfig::default() };
            let network = Network::new(config, Handle::current(), None);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let plain = network.pool(&Location::parse(&format!("http://{address}/")).unwrap());
            let counters = Arc::clone(plain.counters());
            let meter = Arc::new(ConnectionMeter::new(counters, plain.progress.clone()));
            let line = plain.reach(&meter).await.unwrap();
            let (stream, _) = plain.secure(line, AlpnChoice::Http2).await.unwrap();
            let started = Http2Connection::start(stream, meter, streams, None).await;
            let (connection, driver) = started.unwrap();
            let pool = network.pool(&Location::parse(&format!("https://{address}/")).unwrap());
            Self { pool, connection, _kept: (driver, listener, network) }
        }

        /// Adds the connection to the pool, beside one that is being opened.
        fn join_one_of_two(&self) {
            let mut state = self.pool.streams.state();
            state.open.push(Arc::clone(&self.connection));
            state.connecting = 1;
        }

        fn waiters<const N: usize>(&self) -> [Waiter; N] {
            [(); N].map(|()| {
                let (sender, waiter) = oneshot::channel();
                self.pool.streams.state().waiting.push_back(sender);
                waiter
            })
        }
    }

    /// The waiters that have got a stream, which they keep.
    fn served(waiters: &mut [Waiter]) -> Vec<Http2Stream> {
        waiters.iter_mut().filter_map(|it| it.try_recv().ok()?.ok()?).collect()
    }

    #[tokio::test]
    async fn a_cancelled_waiter_does_not_count_in_the_share_of_a_connection() {
        let rig = Rig::new(2, 2).await;
        rig.join_one_of_two();
        let busy = [(); 2].map(|()| {
            rig.connection.take();
            Http2Stream::new(Arc::clone(&rig.pool), Arc::clone(&rig.connection))
        });
        let [first, second, third, fourth] = rig.waiters();
        drop((first, second));
        drop(busy);
        assert_eq!(served(&mut [third, fourth]).len(), 2);
    }

    #[tokio::test]
    async fn a_connection_that_is_not_opened_leaves_its_share_of_the_waiters() {
        for is_failed in [true, false] {
            let rig = Rig::new(2, 100).await;
            rig.join_one_of_two();
            let mut waiters = rig.waiters::<4>();
            rig.pool.serve();
            let first = served(&mut waiters);
            assert_eq!(first.len(), 2);
            if is_failed {
                rig.pool.not_joined(&Error::new(ErrorKind::Unavailable, "refused"));
            } else {
                assert!(rig.pool.can_do_without_shared());
            }
            assert_eq!(served(&mut waiters).len(), 2, "{is_failed}");
        }
    }

    #[tokio::test]
    async fn waiters_go_elsewhere_where_no_connection_is_left_for_them() {
        // A connection that has ended before it joined.
        let rig = Rig::new(1, 2).await;
        rig.pool.state().open = 1;
        rig.pool.streams.state().connecting = 1;
        let [mut waiter] = rig.waiters();
        rig.connection.retire();
        rig.pool.joined(Arc::clone(&rig.connection), Duration::ZERO);
        assert!(matches!(waiter.try_recv(), Ok(Ok(None))));
        // The limit on connections.
        rig.pool.announce_small_files();
        rig.pool.streams.state().each = 2;
        let [mut waiter] = rig.waiters();
        assert!(matches!(waiter.try_recv(), Err(TryRecvError::Empty)));
        assert!(rig.pool.acquire_for(1).now_or_never().is_none(), "there is no connection");
        assert!(matches!(waiter.try_recv(), Ok(Ok(None))));
    }
}
