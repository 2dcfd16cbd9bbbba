//! Tuned settings in the store, and the state of paths by the kernel's statistics of connections.

use hither_core::tune::tuner::PathSignal;
use hither_store::Store;
use hither_transfer::TuningMemory;
use hither_transport::{Network, TcpInfo};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Segments from which on the round-trip time of a connection is that of the path.
const MIN_SEGMENTS: u32 = 100;
/// A connection without data for this time is idle, and its round-trip time an old one.
const MAX_IDLE_MS: u32 = 500;

#[derive(Debug)]
pub(super) struct ClientTuning {
    pub(super) network: Arc<Network>,
    pub(super) store: Option<Arc<Store>>,
}

impl TuningMemory for ClientTuning {
    fn recall(&self, key: &str) -> Option<usize> {
        self.store.as_ref()?.tuning(key, SystemTime::now())
    }

    fn remember(&self, key: &str, setting: usize) {
        if let Some(store) = &self.store {
            store.put_tuning(key, setting, SystemTime::now());
        }
    }

    fn path_signal(&self) -> PathSignal {
        path_signal(&self.network.tcp_info())
    }
}

/// The state of the path: the median round-trip time of the connections that receive data, and the
/// shortest one of any of them. Which congestion control the servers use is not known here.
fn path_signal(connections: &[TcpInfo]) -> PathSignal {
    let is_busy = |it: &&TcpInfo| {
        it.segments_received >= MIN_SEGMENTS && it.idle_ms <= MAX_IDLE_MS && it.receive_rtt_ms > 0.0
    };
    let busy: Vec<_> = connections.iter().filter(is_busy).collect();
    let mut rtts: Vec<f64> = busy.iter().map(|it| it.receive_rtt_ms).collect();
    rtts.sort_by(f64::total_cmp);
    let min_rtt = busy.iter().filter_map(|it| it.min_rtt_ms).min_by(f64::total_cmp);
    let duration = |millis: f64| Duration::from_secs_f64(millis / 1e3);
    PathSignal {
        rtt: rtts.get(rtts.len() / 2).copied().map(duration),
        min_rtt: min_rtt.map(duration),
        ..PathSignal::default()
    }
}
