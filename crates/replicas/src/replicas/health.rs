//! Health of servers, as known to all files of a client.

use super::failure::{FailureScope, classify};
use hither_core::Clock;
use hither_core::error::Error;
use hither_core::sync::lock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Time for which a server that could not be reached is skipped: long enough that not every file of
/// a dataset waits for it, short enough to notice a restart.
const FAIL_TIMEOUT: Duration = Duration::from_secs(60);
/// Broken connections in a row after which a server counts as down.
const MAX_FAILS: u32 = 3;

/// Health of servers, shared by the files of a client.
#[derive(Debug)]
pub struct Health {
    clock: Arc<dyn Clock>,
    servers: Mutex<HashMap<String, ServerHealth>>,
}

#[derive(Debug, Default)]
struct ServerHealth {
    /// Broken connections since the last response.
    fails: u32,
    down_until: Option<Duration>,
}

impl Health {
    /// A record in which every server is healthy.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, servers: Mutex::default() })
    }

    /// Returns true while a server is to be skipped.
    #[must_use]
    pub fn is_down(&self, server: &str) -> bool {
        let down_until = self.servers().get(server).and_then(|server| server.down_until);
        down_until.is_some_and(|until| self.clock.now() < until)
    }

    /// Records a failed request. Returns true if the server counts as down because of it: it could
    /// not be reached, or one connection too many broke.
    pub fn record_error(&self, server: &str, error: &Error) -> bool {
        let scope = classify(error);
        if !matches!(scope, FailureScope::Server | FailureScope::Chance) {
            return false;
        }
        let until = self.clock.now() + FAIL_TIMEOUT;
        let mut servers = self.servers();
        let health = servers.entry(server.to_owned()).or_default();
        if scope == FailureScope::Chance {
            health.fails += 1;
            if health.fails < MAX_FAILS {
                return false;
            }
        }
        health.down_until = Some(until);
        true
    }

    /// Records a response: the server is healthy.
    pub fn record_success(&self, server: &str) {
        if let Some(health) = self.servers().get_mut(server) {
            *health = ServerHealth::default();
        }
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<String, ServerHealth>> {
        lock(&self.servers)
    }
}
