//! What all files of one client share on the way to their servers.

use crate::config::TransportConfig;
use crate::connect::dialer::Dialer;
use crate::context::NetworkContext;
use crate::counters::TransferCounters;
use crate::location::Location;
use crate::pool::Pool;
use crate::xrootd::SessionPool;
use hither_core::sync::lock;
use hither_core::{Endpoint, EndpointStore};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::runtime::Handle;

/// Connections by endpoint, the books, and the memory of servers. Two networks in one process do not meet.
#[derive(Debug)]
pub struct Network {
    shared: Arc<NetworkContext>,
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
    sessions: Mutex<HashMap<SessionsKey, Arc<SessionPool>>>,
}

/// The same for servers of XRootD's protocol, with the name that the user logs in by if a URL says one, and what a redirect
/// said to log in with.
type SessionsKey = (PoolKey, Option<String>, String);

/// An endpoint, and whether its connections may show who we are: those that a redirect asked for are kept apart from
/// those that the user asked for, because a connection of TLS has its client's certificate for good.
type PoolKey = (String, bool);

impl Network {
    /// A network without connections, driven by `runtime`. Without a ledger every server is a stranger.
    #[must_use]
    pub fn new(
        config: TransportConfig,
        runtime: Handle,
        ledger: Option<Arc<dyn EndpointStore>>,
    ) -> Arc<Self> {
        let dialer = Dialer::new(&config);
        let shared = NetworkContext { config, account: Arc::default(), runtime, dialer, ledger };
        let pools = Mutex::default();
        let sessions = Mutex::default();
        Arc::new(Self { shared: Arc::new(shared), pools, sessions })
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    /// Who we are to the server that the user named with `location`, as a name for caches; empty for nobody. Reads
    /// credentials, so it may wait.
    #[must_use]
    pub fn identity(&self, location: &Location) -> String {
        let credentials = location.credentials(&self.config().credentials);
        credentials.cache_partition(location.original_origin(), SystemTime::now())
    }

    /// The books of all connections.
    #[must_use]
    pub fn account(&self) -> &Arc<TransferCounters> {
        &self.shared.account
    }

    /// The address at which the server of `location` was reached last; none if it never was, or behind a proxy.
    #[must_use]
    pub fn address(&self, location: &Location) -> Option<SocketAddr> {
        self.shared.dialer.address(location)
    }

    /// Where connections are driven.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    /// The connections to the server of `location`: always the same ones.
    #[must_use]
    pub fn pool(&self, location: &Location) -> Arc<Pool> {
        let origin = location.origin();
        let known = location.may_receive_credentials(&self.shared.config.credentials);
        if let Some(pool) = self.pools().get(&(origin.clone(), known)) {
            return Arc::clone(pool);
        }
        // Asked outside the lock: it reads the disk.
        let remembered = self.remembered(&origin);
        let mut pools = self.pools();
        let pool = pools
            .entry((origin, known))
            .or_insert_with(|| Pool::new(location.clone(), Arc::clone(&self.shared), remembered));
        Arc::clone(pool)
    }

    /// The sessions with the XRootD server of `location` as its user, which was told to be logged in to with `words`: always
    /// the same ones.
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

    /// Keeps what was learned about servers for the next process.
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
