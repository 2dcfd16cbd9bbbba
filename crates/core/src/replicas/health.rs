//! Which servers are out of order, as far as all files of a client know.

use crate::Clock;
use crate::sync::{Mutex, MutexGuard, lock};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a server that could not be reached is left alone: long enough to spare every file of a dataset the same
/// wait, short enough to notice a restart.
const FAIL_TIMEOUT: Duration = Duration::from_secs(60);
/// Broken connections in a row after which a server counts as out of order.
const MAX_FAILS: u32 = 3;

/// The state of servers, shared by the files of a client.
#[derive(Debug)]
pub struct Health {
    clock: Arc<dyn Clock>,
    sites: Mutex<HashMap<String, Site>>,
}

#[derive(Debug, Default)]
struct Site {
    strikes: u32,
    down_until: Option<Duration>,
}

impl Health {
    /// Everybody is well.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, sites: Mutex::default() })
    }

    /// Whether a server is to be left alone.
    #[must_use]
    pub fn is_down(&self, site: &str) -> bool {
        let now = self.clock.now();
        let down_until = self.sites().get(site).and_then(|site| site.down_until);
        down_until.is_some_and(|until| now < until)
    }

    /// A server could not be reached.
    pub fn mark_down(&self, site: &str) {
        let until = self.clock.now() + FAIL_TIMEOUT;
        self.sites().entry(site.to_owned()).or_default().down_until = Some(until);
    }

    /// A connection broke. Tells whether that was once too often.
    pub fn record_failure(&self, site: &str) -> bool {
        let strikes = {
            let mut sites = self.sites();
            let entry = sites.entry(site.to_owned()).or_default();
            entry.strikes += 1;
            entry.strikes
        };
        let out = strikes >= MAX_FAILS;
        if out {
            self.mark_down(site);
        }
        out
    }

    /// A server has answered.
    pub fn record_success(&self, site: &str) {
        if let Some(site) = self.sites().get_mut(site) {
            *site = Site::default();
        }
    }

    fn sites(&self) -> MutexGuard<'_, HashMap<String, Site>> {
        lock(&self.sites)
    }
}
