//! What all files of one client share on the way to their servers.

use crate::account::Account;
use crate::config::TransportConfig;
use crate::dialer::Dialer;
use crate::location::Location;
use crate::pool::Pool;
use hither_core::{Endpoint, Ledger};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::runtime::Handle;

/// Connections by endpoint, the books, and the memory of servers. Two networks in one process do not meet.
#[derive(Debug)]
pub struct Network {
    shared: Arc<Shared>,
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
}

/// An endpoint, and whether its connections may show who we are: those that a redirect asked for are kept apart from
/// those that the user asked for, because a connection of TLS has its client's certificate for good.
type PoolKey = (String, bool);

/// What every pool needs of its network, without keeping it alive.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: TransportConfig,
    pub(crate) account: Arc<Account>,
    pub(crate) runtime: Handle,
    pub(crate) dialer: Dialer,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
}

impl Network {
    /// A network without connections, driven by `runtime`. Without a ledger every server is a stranger.
    #[must_use]
    pub fn new(
        config: TransportConfig,
        runtime: Handle,
        ledger: Option<Arc<dyn Ledger>>,
    ) -> Arc<Self> {
        let dialer = Dialer::new(&config);
        let shared = Shared { config, account: Arc::default(), runtime, dialer, ledger };
        Arc::new(Self { shared: Arc::new(shared), pools: Mutex::default() })
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
        credentials.identity(location.asked(), SystemTime::now())
    }

    /// The books of all connections.
    #[must_use]
    pub fn account(&self) -> &Arc<Account> {
        &self.shared.account
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
        let known = location.may_know_us(&self.shared.config.credentials);
        if let Some(pool) = self.pools().get(&(origin.clone(), known)) {
            return Arc::clone(pool);
        }
        // Asked outside the lock: it reads the disk.
        let remembered = self.shared.ledger.as_ref().and_then(|ledger| ledger.recall(&origin));
        let remembered = remembered.map(Endpoint::sane).unwrap_or_default();
        let mut pools = self.pools();
        let pool = pools
            .entry((origin, known))
            .or_insert_with(|| Pool::new(location.clone(), Arc::clone(&self.shared), remembered));
        Arc::clone(pool)
    }

    /// Keeps what was learned about servers for the next process.
    pub fn remember_all(&self) {
        let Some(ledger) = &self.shared.ledger else { return };
        let known: Vec<_> = {
            let pools = self.pools();
            let met = pools.iter().filter(|(_, pool)| pool.link().rtt.is_some());
            met.map(|((origin, _), pool)| (origin.clone(), pool.endpoint())).collect()
        };
        for (origin, endpoint) in known {
            ledger.remember(&origin, &endpoint);
        }
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<PoolKey, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
