//! The open connections: their number, by address, and the eviction of idle ones for new ones.
//!
//! The number of connections is limited, in all and for one address. Where a limit is reached, the
//! connections that have been idle longest are evicted, several at a time, so that a flood of new
//! connections does not cost a search each. If none is idle, an address gets no further connection,
//! and a full server lets a new one wait.

use crate::connection::monitor::ConnectionMonitor;
use crate::response::buffer_pool::{BufferPool, ConnectionMemory};
use crate::settings::ServerLimits;
use hither_core::sync::lock;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::debug;

/// The time that a connection has to be idle before it is evicted: new ones need some for their
/// handshake.
const MIN_IDLE: Duration = Duration::from_secs(1);
/// The part of a limit that is evicted at a time.
const EVICTED_SHARE: usize = 256;
/// The time between two searches for an idle connection while the server is full.
const RETRY: Duration = Duration::from_millis(100);

/// The part of an address that identifies a client: an IPv6 client has all of a /64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
            }
        })
    }
}

/// The open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    limit: usize,
    address_limit: usize,
    memory: Arc<BufferPool>,
    open: Mutex<OpenConnections>,
    closed: Notify,
    evicted: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// The number of connections so far.
    accepted: u64,
    connections: HashMap<u64, (ClientAddress, Arc<ConnectionMonitor>)>,
    /// By address, the number of connections and the bytes that they hold.
    addresses: HashMap<ClientAddress, (usize, Arc<AtomicUsize>)>,
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    table: Arc<ConnectionTable>,
    /// The number of the connection, for tracing.
    pub(crate) number: u64,
    pub(crate) monitor: Arc<ConnectionMonitor>,
    pub(crate) memory: Arc<ConnectionMemory>,
}

/// The result of an attempt to add a connection.
enum Admission {
    Admitted(OpenConnection),
    /// The address has as many connections as it may, and none is idle.
    AddressFull,
    /// The server has as many as it may, and none is idle.
    Full,
}

impl OpenConnections {
    fn remove(&mut self, number: u64) {
        let Some((address, _)) = self.connections.remove(&number) else { return };
        if let Some((count, _)) = self.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }

    /// Evicts up to `max` connections, of this address if one is given; returns their number.
    fn evict(&mut self, max: usize, address: Option<ClientAddress>) -> usize {
        let of_address = self
            .connections
            .iter()
            .filter(|(_, (of, _))| address.is_none_or(|address| address == *of));
        let mut idle: Vec<_> = of_address
            .map(|(number, (_, monitor))| (Reverse(monitor.idle_time()), *number))
            .filter(|(Reverse(idle), _)| *idle >= MIN_IDLE)
            .collect();
        idle.sort_unstable();
        idle.truncate(max);
        for (Reverse(time), number) in &idle {
            if let Some((_, monitor)) = self.connections.get(number) {
                debug!(number, idle = ?time, "connection evicted");
                monitor.evict();
            }
            self.remove(*number);
        }
        idle.len()
    }
}

impl ConnectionTable {
    pub(crate) fn new(limits: &ServerLimits, memory: &Arc<BufferPool>) -> Self {
        Self {
            limit: limits.connections,
            address_limit: limits.connections_per_address,
            memory: Arc::clone(memory),
            open: Mutex::default(),
            closed: Notify::new(),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The maximum number of connections.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of connections that were evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The number of connections that were refused because their address has too many.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Adds a connection, once there is room for it; none if its address may have no more.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        loop {
            match self.try_admit(address.into()) {
                Admission::Admitted(connection) => return Some(connection),
                Admission::AddressFull => {
                    debug!(%address, "connection refused: the address has too many");
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                // At the end of the time, one may have become idle.
                Admission::Full => drop(timeout(RETRY, self.closed.notified()).await),
            }
        }
    }

    fn try_admit(self: &Arc<Self>, address: ClientAddress) -> Admission {
        let mut open = lock(&self.open);
        let of_address = open.addresses.get(&address).map_or(0, |(count, _)| *count);
        if of_address >= self.address_limit && !self.evict(&mut open, Some(address)) {
            return Admission::AddressFull;
        }
        if open.connections.len() >= self.limit && !self.evict(&mut open, None) {
            return Admission::Full;
        }
        open.accepted += 1;
        let number = open.accepted;
        let monitor = Arc::<ConnectionMonitor>::default();
        open.connections.insert(number, (address, Arc::clone(&monitor)));
        let (count, held) = open.addresses.entry(address).or_default();
        *count += 1;
        let memory = Arc::new(ConnectionMemory::new(&self.memory, Arc::clone(held)));
        Admission::Admitted(OpenConnection { table: Arc::clone(self), number, monitor, memory })
    }

    /// Makes room for connections; returns false if none is idle.
    fn evict(&self, open: &mut OpenConnections, address: Option<ClientAddress>) -> bool {
        let limit = if address.is_some() { self.address_limit } else { self.limit };
        let count = open.evict((limit / EVICTED_SHARE).max(1), address);
        self.evicted.fetch_add(count as u64, Ordering::Relaxed);
        count > 0
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.table.open).remove(self.number);
        self.table.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn table(connections: usize, per_address: usize) -> Arc<ConnectionTable> {
        let limits = ServerLimits {
            connections,
            connections_per_address: per_address,
            ..ServerLimits::default()
        };
        Arc::new(ConnectionTable::new(&limits, &Arc::new(BufferPool::new(1 << 20))))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_ipv6_client_is_its_64_leading_bits() {
        let client = |text: &str| ClientAddress::from(address(text));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.2"), client("192.0.2.1"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_idle_longest_is_evicted() {
        let table = table(3, 3);
        let mut open = Vec::new();
        for last in ["1", "2", "3"] {
            open.push(table.admit(address(&format!("192.0.2.{last}"))).await.unwrap());
            advance(MIN_IDLE).await;
        }
        let working = open[0].monitor.begin(0);
        let new = table.admit(address("192.0.2.4")).await.unwrap();
        open[1].monitor.evicted().await;
        assert_eq!(table.evicted(), 1);
        // None of the others is idle for long enough: the next one waits until one ends.
        let two = open[2].monitor.begin(0);
        let three = new.monitor.begin(0);
        let waiting = table.admit(address("192.0.2.5"));
        let mut waiting = std::pin::pin!(waiting);
        assert!(timeout(RETRY * 5, &mut waiting).await.is_err());
        drop(open);
        assert!(waiting.await.is_some());
        drop((working, two, three));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_a_limit_of_its_own() {
        let table = table(10, 2);
        let one = table.admit(address("192.0.2.1")).await.unwrap();
        let _two = table.admit(address("192.0.2.1")).await.unwrap();
        assert!(table.admit(address("192.0.2.1")).await.is_none());
        assert_eq!(table.refused(), 1);
        let _other = table.admit(address("192.0.2.2")).await.unwrap();
        advance(MIN_IDLE).await;
        let _three = table.admit(address("192.0.2.1")).await.unwrap();
        assert_eq!(table.evicted(), 1);
        one.monitor.evicted().await;
    }
}
