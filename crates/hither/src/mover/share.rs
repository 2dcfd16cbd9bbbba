//! The share of a node in the connections and the bandwidth of a job.
//!
//! The coordinator writes the share into the folder, and writes it again as leases begin and end on
//! other nodes. It applies to the whole mover: its leases share one bandwidth limit and the
//! connections of one client, so a lease with little work leaves them to the others. Without a
//! share no lease begins.
//!
//! A share ends when the coordinator gives this node up. It also ends by itself, because the
//! coordinator may be unreachable: when the mover has had no lease for [`IDLE`], or when a lease
//! was taken back. Before the coordinator gives the share to another node, it waits for longer than
//! that. The file is removed then, so a mover that continues gets a new share.

use crate::client::Client;
use hither_transfer::{BandwidthLimiter, CopyControl};
use hither_transport::MonotonicClock;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// The time without leases after which a share ends: leases follow each other more closely.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// Limits of all leases of a mover together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Share {
    /// Connections to a server.
    connections: usize,
    /// Bytes per second.
    bandwidth: Option<u64>,
}

/// The limits of a lease, which change while it is carried out.
#[derive(Debug)]
pub(super) struct LeaseLimits {
    /// The number of connections when it begins.
    pub(super) connections: usize,
    pub(super) bandwidth: Option<Arc<BandwidthLimiter>>,
    pub(super) control: Arc<CopyControl>,
}

/// The share of a mover, and the bandwidth limiter that its leases share.
#[derive(Debug, Default)]
pub(super) struct SharedLimits {
    share: Option<Share>,
    bandwidth: Option<Arc<BandwidthLimiter>>,
}

impl SharedLimits {
    /// The present share.
    pub(super) fn share(&self) -> Option<Share> {
        self.share
    }

    /// Takes a share, or its end.
    pub(super) fn set(&mut self, share: Option<Share>, client: &Client) {
        if self.share == share {
            return;
        }
        self.share = share;
        let Some(share) = share else { return };
        client.set_max_connections(share.connections);
        self.bandwidth = share.bandwidth.map(|rate| {
            let new =
                || Arc::new(BandwidthLimiter::with_rate(rate, Arc::new(MonotonicClock::start())));
            let limiter = self.bandwidth.take().unwrap_or_else(new);
            limiter.set_rate(rate);
            limiter
        });
    }

    /// The limits of a new lease, one of `leases`.
    pub(super) fn for_lease(&self, leases: usize) -> LeaseLimits {
        let bandwidth = self.bandwidth.clone();
        LeaseLimits { connections: self.each(leases), bandwidth, control: Arc::default() }
    }

    /// Divides the connections among the present leases.
    pub(super) fn divide<'a>(&self, leases: impl ExactSizeIterator<Item = &'a LeaseLimits>) {
        let each = self.each(leases.len());
        leases.for_each(|lease| lease.control.set_max_workers(each));
    }

    /// The connections of each of a number of leases. Their sum may exceed the share by a few; the
    /// client enforces the share.
    fn each(&self, leases: usize) -> usize {
        let connections = self.share.map_or(1, |share| share.connections);
        connections.div_ceil(leases.max(1)).max(1)
    }
}
