//! The settings that can change while the server runs.
//!
//! [`ServerContext`](crate::context::ServerContext) holds one [`LiveSettings`], which readers take
//! as a whole; a reload replaces it. A request that runs during a reload may use the old settings
//! first and the new ones later; each of its decisions uses one of the two.

use crate::authorization::authorizer::Authorizer;
use crate::referral::replica_map::ReplicaMap;
use crate::settings::{ServerLimits, Settings};
use crate::third_party::copier::ThirdPartyCopier;
use std::sync::Arc;

/// The settings in force, with the objects made from them; see the module above.
#[derive(Debug, Clone)]
pub(crate) struct LiveSettings {
    pub(crate) limits: Arc<ServerLimits>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// True if the settings allow all clients the same.
    pub(crate) is_open: bool,
    /// Names of this server.
    pub(crate) names: Vec<String>,
    /// True if reads follow symbolic links.
    pub(crate) links: bool,
    pub(crate) replicas: Arc<ReplicaMap>,
    /// Third-party copies, if they are enabled.
    pub(crate) third_party: Option<Arc<ThirdPartyCopier>>,
}

/// The keys that differ between the two settings and that only a restart changes.
pub(crate) fn only_at_start(now: &Settings, next: &Settings) -> Vec<&'static str> {
    let limits = &now.limits;
    let other = &next.limits;
    let differs = [
        ("root", now.root != next.root),
        ("listen", now.listen != next.listen),
        ("metrics", now.metrics != next.metrics),
        ("durable", now.durable != next.durable),
        ("sandbox", now.sandbox != next.sandbox),
        ("network", now.network != next.network),
        ("lots", now.lots != next.lots),
        ("tape", now.tape != next.tape),
        ("tls", now.tls.is_some() != next.tls.is_some()),
        ("access_log", now.access_log.is_some() != next.access_log.is_some()),
        ("limits.connections", limits.connections != other.connections),
        (
            "limits.connections_per_address",
            limits.connections_per_address != other.connections_per_address,
        ),
        ("limits.memory_bytes", limits.memory_bytes != other.memory_bytes),
        ("limits.disk_threads", limits.disk_threads != other.disk_threads),
        ("limits.header_bytes", limits.header_bytes != other.header_bytes),
        ("limits.min_free_bytes", limits.min_free_bytes != other.min_free_bytes),
        ("limits.unfinished_seconds", limits.unfinished_seconds != other.unfinished_seconds),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// The settings after a reload: `next`, except for the keys that only a restart changes.
pub(crate) fn merged(now: &Settings, next: Settings) -> Settings {
    let fixed = &now.limits;
    let limits = ServerLimits {
        connections: fixed.connections,
        connections_per_address: fixed.connections_per_address,
        memory_bytes: fixed.memory_bytes,
        disk_threads: fixed.disk_threads,
        header_bytes: fixed.header_bytes,
        min_free_bytes: fixed.min_free_bytes,
        unfinished_seconds: fixed.unfinished_seconds,
        ..next.limits
    };
    Settings {
        root: now.root.clone(),
        listen: now.listen.clone(),
        metrics: now.metrics,
        durable: now.durable,
        sandbox: now.sandbox,
        network: now.network.clone(),
        lots: now.lots.clone(),
        tape: now.tape.clone(),
        tls: if now.tls.is_some() { next.tls.or_else(|| now.tls.clone()) } else { None },
        access_log: match &now.access_log {
            Some(before) => next.access_log.or_else(|| Some(before.clone())),
            None => None,
        },
        limits,
        ..next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_need_a_restart_stay_and_are_named() {
        let now = Settings::from_toml("root = '/a'\naccess_log = '/log'").unwrap();
        let next = "root = '/b'\nwrite = true\n[limits]\nranges = 7\nmemory_bytes = 1\n\
                    [lots]\nbytes = 1\n[network]\ncongestion = 'x'";
        let next = Settings::from_toml(next).unwrap();
        let named = only_at_start(&now, &next);
        assert_eq!(named, ["root", "network", "lots", "access_log", "limits.memory_bytes"]);
        let merged = merged(&now, next);
        assert_eq!(merged.root, now.root);
        assert_eq!(merged.access_log, now.access_log);
        assert_eq!(merged.limits.memory_bytes, now.limits.memory_bytes);
        assert!(merged.write && merged.limits.ranges == 7 && merged.lots.is_none());
        assert_eq!(only_at_start(&now, &merged), [""; 0]);
    }
}
