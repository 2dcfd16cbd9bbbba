//! Tuned settings in the store, and the state of paths by the kernel's statistics of connections.

use hither_core::sync::lock;
use hither_core::tune::tuner::PathSignal;
use hither_store::Store;
use hither_transfer::TuningMemory;
use hither_transport::{Network, TcpInfo};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Segments from which on the round-trip time of a connection is that of the path.
const MIN_SEGMENTS: u32 = 100;
/// A connection without data for this time is idle, and its round-trip time an old one.
const MAX_IDLE_MS: u32 = 500;

#[derive(Debug)]
pub(super) struct ClientTuning {
    pub(super) network: Arc<Network>,
    pub(super) store: Option<Arc<Store>>,
    /// The shortest round-trip times by address, in milliseconds. A connection that is opened when
    /// packets queue has not seen the path without them.
    pub(super) shortest: Mutex<BTreeMap<IpAddr, f64>>,
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
        let connections = self.network.tcp_info();
        let mut shortest = lock(&self.shortest);
        for (peer, tcp) in &connections {
            if let Some(rtt) = tcp.min_rtt_ms {
                let known = shortest.entry(*peer).or_insert(rtt);
                *known = known.min(rtt);
            }
        }
        path_signal(&connections, &shortest)
    }
}

/// The state of the path, by the connections that receive data: the round-trip time of each beside
/// the shortest one to the same address so far, and of these the pair with the median ratio. Which
/// congestion control the servers use is not known here.
fn path_signal(connections: &[(IpAddr, TcpInfo)], shortest: &BTreeMap<IpAddr, f64>) -> PathSignal {
    let is_busy = |it: &TcpInfo| {
        it.segments_received >= MIN_SEGMENTS && it.idle_ms <= MAX_IDLE_MS && it.receive_rtt_ms > 0.0
    };
    let busy = connections.iter().filter(|(_, it)| is_busy(it));
    let mut rtts: Vec<(f64, f64)> =
        busy.filter_map(|(peer, it)| Some((it.receive_rtt_ms, *shortest.get(peer)?))).collect();
    rtts.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let duration = |millis: f64| Duration::from_secs_f64(millis / 1e3);
    let median = rtts.get(rtts.len() / 2);
    PathSignal {
        rtt: median.map(|it| duration(it.0)),
        min_rtt: median.map(|it| duration(it.1)),
        ..PathSignal::default()
    }
}
