//! A running federation: its name space, which a reload replaces, and the probes of its endpoints.
//!
//! **Health.** Results of requests count immediately: an endpoint that cannot be reached, or that
//! breaks connections or misses its deadline three times in a row, gets no requests for a minute
//! ([`hither_replicas::Health`]). Probes request the root of each endpoint every few seconds. A
//! failed probe counts like a failed request, and so prolongs the minute. An endpoint that is down
//! is used again after [`PROBES_TO_RETURN`] good probes in a row.

use crate::endpoint::Endpoint;
use crate::name_space::NameSpace;
use crate::settings::FederationConfig;
use futures_util::future::join_all;
use hither_core::Clock;
use hither_core::error::Result;
use hither_replicas::Health;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tracing::{info, warn};

/// Good probes in a row after which an endpoint that was down is used again.
const PROBES_TO_RETURN: u32 = 3;

/// One name space over many storages.
#[derive(Debug)]
pub struct Federation {
    clock: Arc<dyn Clock>,
    health: Arc<Health>,
    current: RwLock<Arc<NameSpace>>,
}

impl Federation {
    /// A federation of these endpoints, in the order of the configuration. No request is sent yet.
    ///
    /// # Errors
    /// The problem of the configuration.
    pub fn new(
        config: &FederationConfig,
        endpoints: Vec<Endpoint>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let health = Health::new(Arc::clone(&clock));
        let names = NameSpace::new(config, endpoints, Arc::clone(&clock), Arc::clone(&health))?;
        Ok(Arc::new(Self { clock, health, current: RwLock::new(Arc::new(names)) }))
    }

    /// Replaces settings and endpoints. Cached names are dropped. The health of endpoints is kept,
    /// and so are the names of files that are being replaced.
    ///
    /// # Errors
    /// The problem of the configuration; nothing has changed then.
    pub fn reload(&self, config: &FederationConfig, endpoints: Vec<Endpoint>) -> Result<()> {
        let clock = Arc::clone(&self.clock);
        let mut names = NameSpace::new(config, endpoints, clock, Arc::clone(&self.health))?;
        names.replacements = Arc::clone(&self.name_space().replacements);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
        Ok(())
    }

    /// The name space in force.
    #[must_use]
    pub fn name_space(&self) -> Arc<NameSpace> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Probes all endpoints until the federation is dropped.
    pub fn probe_endpoints(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let federation = Arc::downgrade(self);
        async move {
            let mut good = HashMap::new();
            while let Some(this) = federation.upgrade() {
                let names = this.name_space();
                drop(this);
                let probes = names.endpoints.iter().map(|endpoint| probe(&names, endpoint));
                let seen = join_all(probes).await;
                for (endpoint, is_good) in names.endpoints.iter().zip(seen) {
                    note_probe(&names.health, &endpoint.name, is_good, &mut good);
                }
                names.clock.sleep(names.settings.probe_interval()).await;
            }
        }
    }
}

/// Requests the root of an endpoint; returns true if it answers.
async fn probe(names: &NameSpace, endpoint: &Endpoint) -> bool {
    let was_down = names.health.is_down(&endpoint.name);
    let stat = async { endpoint.storage.stat(endpoint.root()).await };
    let answer = names.ask(endpoint, names.settings.deadline(), stat).await;
    let is_down = names.health.is_down(&endpoint.name);
    if let (Err(error), false, true) = (&answer, was_down, is_down) {
        warn!(endpoint = endpoint.name, %error, "endpoint is down");
    }
    // An endpoint that refuses the request has answered.
    answer.map_or_else(
        |error| {
            let scope = hither_replicas::classify(&error);
            matches!(scope, hither_replicas::FailureScope::File)
        },
        |_| true,
    )
}

/// Counts good probes of an endpoint that is down, until it counts as up again.
fn note_probe(health: &Health, name: &str, is_good: bool, good: &mut HashMap<String, u32>) {
    if !is_good || !health.is_down(name) {
        good.remove(name);
        return;
    }
    let count = good.entry(name.to_owned()).or_default();
    *count += 1;
    if *count >= PROBES_TO_RETURN {
        good.remove(name);
        health.record_success(name);
        info!(endpoint = name, "endpoint is up again");
    }
}
