//! The share of a node in what all nodes of a job may have together.
//!
//! Whoever deals out the leases writes the share into the folder, and writes it anew as leases
//! begin and end elsewhere. It holds for the whole mover: its leases have one limit of bandwidth
//! and the connections of one client in common, so a lease that has little to do leaves them to
//! the others. Without a share no lease begins.
//!
//! A share ends when nobody counts on this node any more, and by itself, as there may be nobody to
//! say so: when the mover has had no lease for [`IDLE`], or when a lease was taken back. Whoever
//! gives it to another node waits for longer than that. A mover that goes on is given a new one,
//! since the file is gone.

use crate::client::Client;
use hither_transfer::{BandwidthLimiter, CopyControl};
use hither_transport::MonotonicClock;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// The time without leases after which a share ends: leases follow each other more closely.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// Limits of all that a mover does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Share {
    /// Connections to a server.
    connections: usize,
    /// Bytes a second.
    bandwidth: Option<u64>,
}

/// The limits of a lease, which change while it is carried out.
#[derive(Debug)]
pub(super) struct LeaseLimits {
    /// Connections when it begins.
    pub(super) connections: usize,
    pub(super) bandwidth: Option<Arc<BandwidthLimiter>>,
    pub(super) control: Arc<CopyControl>,
}

/// The share that a mover has, and the limit of bandwidth that its leases have in common.
#[derive(Debug, Default)]
pub(super) struct SharedLimits {
    share: Option<Share>,
    bandwidth: Option<Arc<BandwidthLimiter>>,
}

impl SharedLimits {
    /// The share at the moment.
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

    /// The limits of a lease that begins, one of `leases`.
    pub(super) fn for_lease(&self, leases: usize) -> LeaseLimits {
        let bandwidth = self.bandwidth.clone();
        LeaseLimits { connections: self.each(leases), bandwidth, control: Arc::default() }
    }

    /// Divides the connections between the leases that there are now.
    pub(super) fn divide<'a>(&self, leases: impl ExactSizeIterator<Item = &'a LeaseLimits>) {
        let each = self.each(leases.len());
        leases.for_each(|lease| lease.control.set_max_workers(each));
    }

    /// The connections of each of a number of leases. Together they may be too many by a few: the
    /// client keeps to the share.
    fn each(&self, leases: usize) -> usize {
        let connections = self.share.map_or(1, |share| share.connections);
        connections.div_ceil(leases.max(1)).max(1)
    }
}
