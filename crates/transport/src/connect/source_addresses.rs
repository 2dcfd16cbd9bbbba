//! Source addresses: connections spread evenly over several network interfaces.
//!
//! The routing table sends all connections to a server through one interface. Where a user names
//! several ([`SourceAddress`]), each new connection is bound to the one that has the fewest open
//! ones, before it connects. An HTTP/1.1 connection that comes back to its pool while another
//! interface has two fewer is closed ([`SourceUse::yields`]), and the next one is opened there. So
//! a source that was down gets connections again. A request takes an idle connection whose source
//! has the fewest in use: a copy may need fewer connections than are open.
//!
//! A source is *down* when nothing answers through it:
//!
//! - if a connection does not open within its head start, the next source is tried concurrently, as
//!   with the addresses of a server ([`connect_first`]);
//! - the kernel sends keep-alive probes on open connections that are at rest. A connection on which
//!   neither data nor an acknowledgement has arrived for [`SILENT`], although the kernel has sent
//!   [`MIN_UNANSWERED`] probes, is shut down, and its request goes to another one. A slow server is
//!   not affected: its kernel answers.
//!
//! A task checks this once a second. It also connects through sources that are down, to the server
//! that was last reached through them; when that succeeds they are used again. Until then they are
//! tried last.

use crate::connect::happy_eyeballs::{RaceWinner, connect_first};
use crate::connect::socket;
use crate::connect::tcp_info::{SocketRef, TcpInfo};
use futures_util::future::join_all;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::sync::lock;
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, warn};

/// A connection is dead after this time without a packet, in which four probes went out.
const SILENT: Duration = Duration::from_secs(4);
/// The number of unanswered packets after which it is dead: one may be in transit. A server that
/// takes no data for a while is probed ever more rarely, but answers.
const MIN_UNANSWERED: u32 = 2;
/// The interval of checks of the connections.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The time in which a connection through a source that was down has to open.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest name of an interface (`IFNAMSIZ`, less its terminating zero).
const MAX_INTERFACE_NAME: usize = 15;

/// The address or the network interface from which connections are made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceAddress {
    /// An address of this machine. The routing table decides which interface sends.
    Address(IpAddr),
    /// An interface, which sends and receives whatever the routing table prefers.
    Interface(String),
}

impl SourceAddress {
    /// Returns whether a connection to `server` can have this source. Interfaces other than `lo` do
    /// not lead to this machine itself.
    fn leads_to(&self, server: IpAddr) -> bool {
        match self {
            Self::Address(address) => {
                address.is_ipv4() == server.is_ipv4()
                    && (address.is_loopback() || !server.is_loopback())
            }
            Self::Interface(name) => !server.is_loopback() || name == "lo",
        }
    }
}

impl FromStr for SourceAddress {
    type Err = Error;

    /// Parses an IP address, or else the name of an interface.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let is_name = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':');
        if text.is_empty() || text.len() > MAX_INTERFACE_NAME || !text.chars().all(is_name) {
            let what = format!(
                "{text:?} is not a source address: expected an IP address or the name of an interface, as in eth1"
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok(Self::Interface(text.to_owned()))
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

/// The traffic of a source address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceTraffic {
    /// The address or interface, as it was named.
    pub source: String,
    /// Connections that were opened.
    pub connections: u64,
    /// Received bytes, including headers and framing.
    pub bytes_received: u64,
    /// Sent bytes, including headers and framing.
    pub bytes_sent: u64,
    /// The number of times that it was found to be down.
    pub failures: u64,
}

#[derive(Debug)]
struct Source {
    address: SourceAddress,
    open: AtomicUsize,
    /// Those of them that carry a request.
    busy: AtomicUsize,
    connections: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    failures: AtomicU64,
    is_down: AtomicBool,
    /// The server that was last reached.
    reached: Mutex<Option<SocketAddr>>,
    sockets: Mutex<Vec<Weak<WatchedSocket>>>,
}

impl Source {
    fn new(address: SourceAddress) -> Self {
        Self {
            address,
            open: AtomicUsize::default(),
            busy: AtomicUsize::default(),
            connections: AtomicU64::default(),
            received: AtomicU64::default(),
            sent: AtomicU64::default(),
            failures: AtomicU64::default(),
            is_down: AtomicBool::default(),
            reached: Mutex::default(),
            sockets: Mutex::default(),
        }
    }

    fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn set_down(&self, is_down: bool) {
        if self.is_down.swap(is_down, Ordering::Relaxed) == is_down {
            return;
        }
        if is_down {
            self.failures.fetch_add(1, Ordering::Relaxed);
            warn!(source = %self.address, "nothing answers through this source address");
        } else {
            debug!(source = %self.address, "source address works again");
        }
    }

    /// Shuts down the connections that are dead. If all are, so is the source.
    fn look_for_silence(&self) {
        let mut sockets = lock(&self.sockets);
        sockets.retain(|it| it.strong_count() > 0);
        let open: Vec<_> = sockets.iter().filter_map(Weak::upgrade).collect();
        drop(sockets);
        let silent: Vec<_> = open.iter().filter(|it| it.is_silent()).collect();
        if !silent.is_empty() && silent.len() == open.len() {
            self.set_down(true);
        }
        for socket in silent {
            socket.is_cut.store(true, Ordering::Release);
            socket.socket.shut_down();
        }
    }

    /// Tests a source that is down.
    async fn probe(&self) {
        let reached = *lock(&self.reached);
        let Some(server) = reached.filter(|_| self.is_down()) else { return };
        let connecting = socket::connect(server, "the server", 0, Some(&self.address));
        if matches!(timeout(PROBE_TIMEOUT, connecting).await, Ok(Ok(_))) {
            self.set_down(false);
        }
    }
}

#[derive(Debug)]
struct WatchedSocket {
    socket: Arc<SocketRef>,
    is_cut: AtomicBool,
}

impl WatchedSocket {
    fn is_silent(&self) -> bool {
        let is_over = |info: TcpInfo| {
            let silent = Duration::from_millis(info.silent_ms().into());
            silent >= SILENT && info.unanswered >= MIN_UNANSWERED
        };
        self.socket.info().is_some_and(is_over)
    }
}

/// A connection's use of a source, as long as it is open.
#[derive(Debug)]
pub(crate) struct SourceUse {
    all: Arc<[Source]>,
    at: usize,
    /// The sources that lead to the server.
    leading: Arc<[usize]>,
    has_left: AtomicBool,
    is_busy: AtomicBool,
    socket: Mutex<Option<Arc<WatchedSocket>>>,
}

impl SourceUse {
    fn new(all: &Arc<[Source]>, at: usize, leading: &Arc<[usize]>) -> Self {
        if let Some(source) = all.get(at) {
            source.open.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            all: Arc::clone(all),
            at,
            leading: Arc::clone(leading),
            has_left: AtomicBool::default(),
            is_busy: AtomicBool::default(),
            socket: Mutex::default(),
        }
    }

    fn source(&self) -> Option<&Source> {
        self.all.get(self.at)
    }

    /// Begins to watch the connection, which is open.
    pub(crate) fn watch(&self, socket: &Arc<SocketRef>, server: SocketAddr) {
        let Some(source) = self.source() else { return };
        let watched = WatchedSocket { socket: Arc::clone(socket), is_cut: AtomicBool::default() };
        let watched = Arc::new(watched);
        source.connections.fetch_add(1, Ordering::Relaxed);
        *lock(&source.reached) = Some(server);
        lock(&source.sockets).push(Arc::downgrade(&watched));
        *lock(&self.socket) = Some(watched);
    }

    pub(crate) fn received(&self, bytes: u64) {
        if let Some(source) = self.source() {
            source.received.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn sent(&self, bytes: u64) {
        if let Some(source) = self.source() {
            source.sent.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Returns whether the connection was shut down here, because nothing answered.
    pub(crate) fn is_cut(&self) -> bool {
        lock(&self.socket).as_ref().is_some_and(|it| it.is_cut.load(Ordering::Acquire))
    }

    /// Counts the connection as one that carries a request, or no longer.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        if let Some(source) = self.source()
            && self.is_busy.swap(is_busy, Ordering::Relaxed) != is_busy
        {
            if is_busy {
                source.busy.fetch_add(1, Ordering::Relaxed);
            } else {
                source.busy.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The connections of the same source that carry requests.
    pub(crate) fn busy(&self) -> usize {
        self.source().map_or(0, |it| it.busy.load(Ordering::Relaxed))
    }

    /// Gives up the connection's slot if another source has two connections fewer. Returns whether
    /// it did; the connection has to be closed then.
    pub(crate) fn yields(&self) -> bool {
        let others = self.leading.iter().filter_map(|at| self.all.get(*at));
        let least = others.filter(|it| !it.is_down()).map(Source::open).min();
        let own = self.source().map_or(0, Source::open);
        let is_surplus = least.is_some_and(|least| own > least + 1);
        if is_surplus {
            self.leave();
        }
        is_surplus
    }

    /// Counts the connection as closed.
    fn leave(&self) {
        if let Some(source) = self.source()
            && !self.has_left.swap(true, Ordering::Relaxed)
        {
            source.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for SourceUse {
    fn drop(&mut self) {
        self.set_busy(false);
        self.leave();
    }
}

/// A TCP connection, the duration of its handshake, and its source.
type Connected = (TcpStream, Duration, Option<SourceUse>);

/// The source addresses of a client.
#[derive(Debug)]
pub(crate) struct SourceBalancer {
    all: Arc<[Source]>,
    is_watched: AtomicBool,
}

impl SourceBalancer {
    pub(crate) fn new(sources: &[SourceAddress]) -> Self {
        let all = sources.iter().cloned().map(Source::new).collect();
        Self { all, is_watched: AtomicBool::default() }
    }

    /// The traffic of each source.
    pub(crate) fn traffic(&self) -> Vec<SourceTraffic> {
        let of = |it: &Source| SourceTraffic {
            source: it.address.to_string(),
            connections: it.connections.load(Ordering::Relaxed),
            bytes_received: it.received.load(Ordering::Relaxed),
            bytes_sent: it.sent.load(Ordering::Relaxed),
            failures: it.failures.load(Ordering::Relaxed),
        };
        self.all.iter().map(of).collect()
    }

    /// Connects to `server` through the source with the fewest connections, and through others if
    /// nothing answers there.
    ///
    /// # Errors
    ///
    /// As [`socket::connect`]; [`ErrorKind::Invalid`] if no source leads to `server`.
    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        name: &str,
        receive_buffer_bytes: usize,
    ) -> Result<Connected> {
        let order = self.order(server.ip());
        if order.is_empty() {
            if !self.all.is_empty() && !server.ip().is_loopback() {
                let what = format!(
                    "no source address leads to {name} ({server}): name one of the same family"
                );
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            let (stream, rtt) = socket::connect(server, name, receive_buffer_bytes, None).await?;
            return Ok((stream, rtt, None));
        }
        let attempt = |at: usize| {
            let used = SourceUse::new(&self.all, at, &order);
            async move {
                let source = used.source().map(|it| &it.address);
                match socket::connect(server, name, receive_buffer_bytes, source).await {
                    Ok((stream, rtt)) => Ok(Ok((stream, rtt, Some(used)))),
                    // A server that refuses was reached.
                    Err(error) if error.is_refused_connection() => Ok(Err(error)),
                    Err(error) => Err(error),
                }
            }
        };
        let raced = connect_first(&order, attempt).await;
        let RaceWinner { address: at, value, passed_over } = raced.map_err(|failures| {
            let first = failures.into_iter().next();
            first.map_or_else(|| Error::new(ErrorKind::Local, "no source"), |(_, error)| error)
        })?;
        for (index, source) in self.all.iter().enumerate() {
            if index == at || passed_over.contains(&index) {
                source.set_down(index != at);
            }
        }
        self.watch();
        value
    }

    /// The sources that lead to `server`: those that work first, by the number of connections.
    fn order(&self, server: IpAddr) -> Arc<[usize]> {
        let leads = self.all.iter().enumerate().filter(|(_, it)| it.address.leads_to(server));
        let mut order: Vec<_> = leads.map(|(at, it)| (it.is_down(), it.open(), at)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, at)| at).collect()
    }

    /// Starts the task that finds dead connections, unless it runs, or there is only one source.
    fn watch(&self) {
        if self.all.len() < 2 || self.is_watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let all = Arc::downgrade(&self.all);
        Handle::current().spawn(async move {
            let mut ticks = interval(WATCH_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(all) = all.upgrade() else { return };
                all.iter().for_each(Source::look_for_silence);
                join_all(all.iter().map(Source::probe)).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn balancer(sources: &[&str]) -> SourceBalancer {
        let sources: Vec<_> = sources.iter().map(|it| it.parse().unwrap()).collect();
        SourceBalancer::new(&sources)
    }

    #[test]
    fn addresses_and_names_of_interfaces_are_sources() {
        for text in ["10.0.0.1", "2001:db8::1", "eth1", "enp1s0.100", "bond-0"] {
            assert_eq!(text.parse::<SourceAddress>().unwrap().to_string(), text);
        }
        for wrong in ["", " ", "a/b", "eth0 eth1", "fe80::1%eth0", "a-name-that-is-long"] {
            assert!(wrong.parse::<SourceAddress>().is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn new_connections_go_where_the_fewest_are() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let balancer = balancer(&["127.0.0.2", "127.0.0.3", "192.0.2.1", "::1"]);
        let connect = async || {
            let (stream, _, used) = balancer.connect(server, "server", 0).await.unwrap();
            (stream.local_addr().unwrap().ip().to_string(), used.unwrap(), stream)
        };
        let mut open = Vec::new();
        for _ in 0..6 {
            open.push(connect().await);
        }
        let names: Vec<_> = open.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["127.0.0.2", "127.0.0.3"].repeat(3));
        assert!(open.iter().all(|(_, used, _)| !used.yields()));
        open.iter().step_by(2).for_each(|(_, used, _)| used.set_busy(true));
        assert_eq!(
            open.iter().map(|(_, used, _)| used.busy()).collect::<Vec<_>>(),
            [3, 0].repeat(3)
        );
        open[0].1.set_busy(false);
        open[0].1.set_busy(false);
        assert_eq!(open[0].1.busy(), 2);
        open.retain(|(name, ..)| name == "127.0.0.2");
        assert_eq!(open.iter().filter(|(_, used, _)| used.yields()).count(), 2);
        assert_eq!(connect().await.0, "127.0.0.3");
    }

    #[tokio::test]
    async fn a_server_that_no_source_leads_to_is_an_error_except_on_this_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let balancer = balancer(&["192.0.2.1"]);
        let connected = balancer.connect(listener.local_addr().unwrap(), "server", 0).await;
        assert!(connected.unwrap().2.is_none());
        let elsewhere = "[2001:db8::1]:80".parse().unwrap();
        let error = balancer.connect(elsewhere, "server", 0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
