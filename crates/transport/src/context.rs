//! The context that all connections of a client share, and its clock.

use crate::config::TransportConfig;
use crate::connect::dialer::Dialer;
use crate::counters::TransferCounters;
use crate::location::Location;
use futures_core::future::BoxFuture;
use hither_core::{Clock, EndpointStore, SlotClaim};
use hither_load::connections;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The state that all pools of a network share. Pools hold it instead of the network, so that they
/// do not keep the network alive.
#[derive(Debug)]
pub(crate) struct NetworkContext {
    pub(crate) config: TransportConfig,
    pub(crate) counters: Arc<TransferCounters>,
    pub(crate) runtime: Handle,
    pub(crate) dialer: Dialer,
    pub(crate) ledger: Option<Arc<dyn EndpointStore>>,
    /// The number of connections to a server that are allowed now: at first, that of the
    /// configuration.
    pub(crate) most_connections: AtomicUsize,
}

impl NetworkContext {
    /// Claims a connection to `location` among those of all processes.
    pub(crate) fn claim(&self, location: &Location) -> SlotClaim {
        let most = self.config.max_connections.max(connections::MAX_INTERACTIVE);
        match &self.ledger {
            Some(ledger) => ledger.claim_slot(&location.origin(), most),
            None => SlotClaim::Granted(Box::new(())),
        }
    }

    /// The maximum number of connections to a server that refused more than `refused_above`; 0 if
    /// it refused none.
    pub(crate) fn max_connections(&self, refused_above: usize) -> usize {
        let most = self.most_connections.load(Ordering::Acquire).max(1);
        if refused_above == 0 { most } else { most.min(refused_above) }
    }
}

/// Time since this value was created, by Tokio's clock, which stands still where a test has paused
/// it.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        // Seeded by the system.
        RandomState::new().hash_one(())
    }
}
