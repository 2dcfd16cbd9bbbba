//! The connections of a client, shared by all its files.

pub(crate) mod lots;
mod pelican;
pub(crate) mod third_party;

use crate::config::TransportConfig;
use crate::connect::dialer::Dialer;
use crate::connect::source_addresses::SourceTraffic;
use crate::connect::tcp_info::TcpInfo;
use crate::context::NetworkContext;
use crate::counters::TransferCounters;
use crate::location::Location;
use crate::pool::Pool;
use crate::xrootd::SessionPool;
use hither_core::error::{Error, Result};
use hither_core::retry::Failed;
use hither_core::sync::lock;
use hither_core::{Endpoint, EndpointStore};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

/// The connections by endpoint, the transfer counters, and the stored knowledge about servers.
/// Networks share nothing.
#[derive(Debug)]
pub struct Network {
    shared: Arc<NetworkContext>,
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
    sessions: Mutex<HashMap<SessionsKey, Arc<SessionPool>>>,
    /// Copies whose partial files this process has to remove if they fail.
    to_clean_up: watch::Sender<usize>,
    /// The Pelican federations that URLs have named.
    pub(crate) federations: pelican::Federations,
}

/// One of the copies that [`Network::clean_up`] waits for.
pub(crate) struct CleanUpGuard(Arc<Network>);

impl Drop for CleanUpGuard {
    fn drop(&mut self) {
        self.0.to_clean_up.send_modify(|copies| *copies -= 1);
    }
}

/// The key of XRootD sessions: also the login name of the URL, and the login words of a redirect.
type SessionsKey = (PoolKey, Option<String>, String);

/// An endpoint, and whether its connections may carry credentials. Connections for redirects are
/// separate from those for the user's own URLs, because a TLS connection keeps its client
/// certificate until it is closed.
type PoolKey = (String, bool);

impl Network {
    /// A network without connections, driven by `runtime`. Without a ledger nothing is remembered
    /// about servers.
    #[must_use]
    pub fn new(
        config: TransportConfig,
        runtime: Handle,
        ledger: Option<Arc<dyn EndpointStore>>,
    ) -> Arc<Self> {
        let dialer = Dialer::new(&config);
        let most_connections = AtomicUsize::new(config.max_connections);
        let counters = Arc::default();
        let shared = NetworkContext { config, counters, runtime, dialer, ledger, most_connections };
        let pools = Mutex::default();
        let sessions = Mutex::default();
        let to_clean_up = watch::Sender::new(0);
        let federations = pelican::Federations::default();
        Arc::new(Self { shared: Arc::new(shared), pools, sessions, to_clean_up, federations })
    }

    /// Waits until the third-party copies that have been dropped have ended at their servers, and
    /// what they had written is removed.
    pub async fn clean_up(&self) {
        let mut copies = self.to_clean_up.subscribe();
        // The sender lives as long as this network.
        drop(copies.wait_for(|copies| *copies == 0).await);
    }

    pub(crate) fn clean_up_guard(self: &Arc<Self>) -> CleanUpGuard {
        self.to_clean_up.send_modify(|copies| *copies += 1);
        CleanUpGuard(Arc::clone(self))
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    /// The cache partition of the user whose credentials are for the server of `location`; empty
    /// without credentials. Reads credentials, so it may block.
    #[must_use]
    pub fn identity(&self, location: &Location) -> String {
        let credentials = location.credentials(&self.config().credentials);
        let fields = self.config().fields.names_and_values();
        credentials.cache_partition(location.original_origin(), &fields, SystemTime::now())
    }

    /// The transfer counters of all connections.
    #[must_use]
    pub fn counters(&self) -> &Arc<TransferCounters> {
        &self.shared.counters
    }

    /// Changes the maximum number of connections to a server. Where more are open, idle ones are
    /// closed, and others when their responses end.
    pub fn set_max_connections(&self, connections: usize) {
        self.shared.most_connections.store(connections, Ordering::Release);
        let pools: Vec<_> = self.pools().values().cloned().collect();
        pools.iter().for_each(|pool| pool.close_surplus());
    }

    /// The last address of the server of `location`; `None` if it was never reached, or behind a
    /// proxy.
    #[must_use]
    pub fn address(&self, location: &Location) -> Option<SocketAddr> {
        self.shared.dialer.address(location)
    }

    /// The kernel's statistics of the open connections, each with the address of its other end.
    #[must_use]
    pub fn tcp_info(&self) -> Vec<(IpAddr, TcpInfo)> {
        self.shared.dialer.tcp_info()
    }

    /// Bytes that connections have sent and the kernels at their other ends have acknowledged: the
    /// written bytes, less those that `connections` of [`Network::tcp_info`] still hold.
    #[must_use]
    pub fn confirmed_bytes(&self, connections: &[(IpAddr, TcpInfo)]) -> u64 {
        let held: u64 = connections.iter().map(|(_, it)| it.unconfirmed_bytes).sum();
        self.counters().bytes_written().saturating_sub(held)
    }

    /// The traffic of each source address of the configuration.
    #[must_use]
    pub fn source_traffic(&self) -> Vec<SourceTraffic> {
        self.shared.dialer.source_traffic()
    }

    /// Waits until a server that refused a connection with `error` may be tried again.
    ///
    /// # Errors
    ///
    /// `error`, if it is not a refusal, or the server has refused for too long.
    pub(crate) async fn wait_for_restart(&self, location: &Location, error: Error) -> Result<()> {
        self.shared.dialer.wait_for_restart(location, self.config(), error).await
    }

    /// The failure of a request of an operation that began at `began`. The operation ends with it
    /// if `is_final`, or if it took the whole time for a response.
    pub(crate) fn failed(&self, error: Error, began: Instant, is_final: bool) -> Failed {
        if is_final || began.elapsed() >= self.config().first_byte_timeout {
            return Failed::finally(error);
        }
        Failed::from(error)
    }

    /// The runtime that drives the connections.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    /// The pool for the server of `location`, always the same one.
    #[must_use]
    pub fn pool(&self, location: &Location) -> Arc<Pool> {
        let origin = location.origin();
        let known = location.may_receive_credentials(&self.shared.config.credentials);
        if let Some(pool) = self.pools().get(&(origin.clone(), known)) {
            return Arc::clone(pool);
        }
        // Called outside the lock, because it reads the disk.
        let remembered = self.remembered(&origin);
        let mut pools = self.pools();
        let pool = pools
            .entry((origin, known))
            .or_insert_with(|| Pool::new(location.clone(), Arc::clone(&self.shared), remembered));
        Arc::clone(pool)
    }

    /// The sessions with the XRootD server of `location` as its user, with the login `words` of a
    /// redirect. Always the same pool.
    #[must_use]
    pub(crate) fn sessions(&self, location: &Location, words: &str) -> Arc<SessionPool> {
        let origin = location.origin();
        let known = location.may_receive_credentials(&self.shared.config.credentials);
        let login = location.login().map(str::to_owned);
        let key = ((origin, known), login, words.to_owned());
        let all = || lock(&self.sessions);
        if let Some(sessions) = all().get(&key) {
            return Arc::clone(sessions);
        }
        let remembered = self.remembered(&key.0.0);
        let shared = || Arc::clone(&self.shared);
        let new = || SessionPool::new(location.clone(), words.to_owned(), shared(), remembered);
        Arc::clone(all().entry(key).or_insert_with(new))
    }

    fn remembered(&self, origin: &str) -> Endpoint {
        let remembered = self.shared.ledger.as_ref().and_then(|ledger| ledger.get(origin));
        remembered.map(Endpoint::clamped).unwrap_or_default()
    }

    /// Saves what was learned about servers, for the next process.
    pub fn remember_all(&self) {
        let Some(ledger) = &self.shared.ledger else { return };
        let mut known: Vec<_> = {
            let pools = self.pools();
            let met = pools.iter().filter(|(_, pool)| pool.link().rtt.is_some());
            met.map(|((origin, _), pool)| (origin.clone(), pool.endpoint())).collect()
        };
        {
            let sessions = lock(&self.sessions);
            let met = sessions.iter().filter(|(_, sessions)| sessions.link().rtt.is_some());
            known.extend(met.map(|(((origin, _), ..), met)| (origin.clone(), met.endpoint())));
        }
        for (origin, endpoint) in known {
            ledger.put(&origin, &endpoint);
        }
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<PoolKey, Arc<Pool>>> {
        lock(&self.pools)
    }
}
