//! A TCP proxy on the loopback that adds the delay and rate of a link; without privileges, on any
//! platform.
//!
//! **No TCP slow start.** Client and server each have a TCP connection to the proxy over the
//! loopback, where windows are large immediately. Delay and rate are as set, so a program that
//! waits for n round trips waits n times as long. But the cost of growing congestion windows, their
//! overlap with handshakes, and the effect of losses are visible only with packets (`hither-wan`).
//! State with results that they were measured through the proxy.
//!
//! Each chunk of bytes read from one side takes its time on a link, then arrives half a round-trip
//! time later. All connections share the rate of the link in each direction. The first bytes of a
//! connection leave the client one round-trip time after the proxy accepted it, as if the handshake
//! had crossed the link. While more bytes wait than the link's queue holds, the proxy stops
//! reading, as TCP would after a loss.
//!
//! It counts connections, bytes and turns as seen from the client's side, and can flip bits, as in
//! errors that TCP checksums do not detect. Connections that break are made by the mock servers.

mod bit_flips;
pub mod cli;
mod pipe;
mod timer;

use bit_flips::Flips;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use hither_netem::link::Link;
use hither_netem::turns::Turns;
use pipe::{Direction, Flow, ProxyLink};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use timer::PreciseTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Configuration of a proxy.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpProxyConfig {
    /// Its link; losses are not modelled.
    pub link: Link,
    /// Probability that a bit is flipped, in both directions; 0 to below 1.
    pub flips: f64,
    /// Seed of the flipped bits: the same bits for the same seed and the same bytes.
    pub seed: u64,
}

/// Counters of a proxy. They exclude packet headers, so they are not comparable with counters of
/// packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpProxyCounts {
    /// Connections accepted.
    pub connections: u64,
    /// Connections for which the server could not be reached.
    pub refused: u64,
    /// Bytes from the client.
    pub to_server_bytes: u64,
    /// Bytes forwarded to the client.
    pub to_client_bytes: u64,
    /// Bits flipped on the way to the server.
    pub to_server_flips: u64,
    /// Bits flipped on the way to the client.
    pub to_client_flips: u64,
    /// Turns: the number of times that the client sent after it had received, over all connections;
    /// the first time counts.
    pub turns: u64,
}

impl fmt::Display for TcpProxyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} connections ({} refused), {} bytes to the server, {} bytes to the client, {} turns",
            self.connections, self.refused, self.to_server_bytes, self.to_client_bytes, self.turns
        )
    }
}

#[derive(Debug, Default)]
struct Seen {
    counts: TcpProxyCounts,
    turns: Turns,
}

/// State shared by all connections of a proxy.
#[derive(Debug)]
struct Shared {
    config: TcpProxyConfig,
    to: String,
    alarm: PreciseTimer,
    up: ProxyLink,
    down: ProxyLink,
    seen: Mutex<Seen>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

/// A running proxy; dropping it closes the port and all connections.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl TcpProxy {
    /// Listens on `listen` (port 0 for any) and connects to `to`, a host and port. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// The port is taken or not allowed.
    pub async fn start(
        listen: SocketAddr,
        to: impl Into<String>,
        config: TcpProxyConfig,
    ) -> Result<Self> {
        let cannot_listen = |error| {
            Error::new(ErrorKind::Local, format!("cannot listen on {listen}")).with_source(error)
        };
        let listener = TcpListener::bind(listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let shared = Arc::new(Shared {
            config,
            to: to.into(),
            alarm: PreciseTimer::new(),
            up: ProxyLink::new(config.link),
            down: ProxyLink::new(config.link),
            seen: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counters so far.
    #[must_use]
    pub fn counts(&self) -> TcpProxyCounts {
        let seen = self.shared.seen();
        TcpProxyCounts { turns: seen.turns.count, ..seen.counts }
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropping this set at the end of the task aborts all connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // These errors are caused by the peer (it went away) or are temporary (no
                // descriptors left).
                let Ok((client, _)) = accepted else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let count = {
                    let mut seen = shared.seen();
                    seen.counts.connections += 1;
                    seen.counts.connections
                };
                connections.spawn(connect(client, Arc::clone(&shared), count));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection until both directions have ended.
async fn connect(client: TcpStream, shared: Arc<Shared>, number: u64) {
    let accepted = Instant::now();
    let Ok(server) = TcpStream::connect(&shared.to).await else {
        shared.seen().counts.refused += 1;
        shared.alarm.until(accepted + shared.config.link.rtt).await;
        // The kernel has already accepted the connection; a reset is the closest to a rejection.
        let _ = client.set_zero_linger();
        return;
    };
    // Otherwise the proxy's own kernel would delay small writes.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let established = accepted + shared.config.link.rtt;
    let TcpProxyConfig { flips, seed, .. } = shared.config;
    let flips = |direction| Flips::new(flips, seed ^ (2 * number + direction));
    let up = Flow { direction: Direction::ToServer, not_before: established, flips: flips(0) };
    let down = Flow { direction: Direction::ToClient, not_before: accepted, flips: flips(1) };
    let up = up.carry(client_in, server_out, &shared);
    let down = down.carry(server_in, client_out, &shared);
    tokio::pin!(up, down);
    // A direction that ends orderly leaves the other open; a direction that is broken off closes
    // it.
    tokio::select! {
        ended = &mut up => if ended.is_ok() { let _ = down.await; },
        ended = &mut down => if ended.is_ok() { let _ = up.await; },
    }
}
