//! Choice of the replica for a request: by order, free connections, and speed.

use super::Replicas;
use super::replica::ActiveReplica;
use std::sync::Arc;

/// Bytes of a job from which on further replicas share its requests.
const BULK_BYTES: u64 = 64 << 20;

/// Replicas to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Healthy ones, or if none is left those whose server counts as down: it may be up again.
    All,
    /// Only those at another server than the tried ones, if it is healthy.
    OtherSites,
}

impl Replicas {
    /// The replica for the next request, of `bytes`, except those of `tried`.
    pub(super) fn choose(
        &self,
        tried: &[Arc<ActiveReplica>],
        candidates: Candidates,
        bytes: u64,
    ) -> Option<Arc<ActiveReplica>> {
        let state = self.state();
        let is_tried = |replica: &Arc<ActiveReplica>| {
            // The server to which a tried one was redirected fails at this path, too.
            let server = |it: &Arc<ActiveReplica>| it.source().redirected_to();
            let is_same = |it: &Arc<ActiveReplica>| {
                Arc::ptr_eq(it, replica)
                    || server(it).is_some_and(|at| at == replica.server())
                    || candidates == Candidates::OtherSites && it.site() == replica.site()
            };
            tried.iter().any(is_same)
        };
        let usable = || {
            let included = state.replicas.iter().filter(|replica| replica.excluded().is_none());
            let allowed =
                included.filter(|replica| state.only.is_none_or(|only| only == replica.number));
            allowed.filter(|replica| !is_tried(replica))
        };
        let healthy = || usable().filter(|replica| !self.health.is_down(&replica.site()));
        let Some(first) = healthy().next() else {
            return usable().next().filter(|_| candidates == Candidates::All).cloned();
        };
        if state.origins.is_some() {
            // Unmeasured replicas may be as fast as the fastest.
            let usual = healthy().filter_map(|replica| replica.rate()).fold(1.0, f64::max);
            let time = |replica: &Arc<ActiveReplica>| replica.time_to_bring(bytes, usual);
            return healthy().min_by(|a, b| time(a).total_cmp(&time(b))).cloned();
        }
        if first.has_room() && state.delivered_bytes < BULK_BYTES {
            return Some(Arc::clone(first));
        }
        let usual = first.speed().unwrap_or(1.0);
        // Another name for the server of the first replica has no connections of its own.
        let elsewhere =
            |it: &&Arc<ActiveReplica>| Arc::ptr_eq(it, first) || it.site() != first.site();
        healthy().filter(elsewhere).min_by(|a, b| a.wait(usual).total_cmp(&b.wait(usual))).cloned()
    }

    /// The first usable replica, whose limits and link represent all.
    pub(super) fn leader(&self) -> Arc<ActiveReplica> {
        let state = self.state();
        let usable = |replica: &&Arc<ActiveReplica>| {
            replica.excluded().is_none() && !self.health.is_down(&replica.site())
        };
        Arc::clone(state.replicas.iter().find(usable).unwrap_or(&self.first))
    }
}
