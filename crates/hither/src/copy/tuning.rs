//! Tuned settings in the store, and the state of paths by the kernel's statistics of connections.

use hither_core::sync::lock;
use hither_store::Store;
use hither_transport::{Network, TcpInfo};
use hither_tune::{CongestionControl, PathSignal, TuningMemory, UploadState};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The number of segments after which the round-trip time of a connection counts as that of the
/// path.
const MIN_SEGMENTS: u32 = 100;
/// A connection without data for this time is idle, and its round-trip time is outdated.
const MAX_IDLE_MS: u32 = 500;

#[derive(Debug)]
pub(super) struct ClientTuning {
    network: Arc<Network>,
    store: Option<Arc<Store>>,
    /// The shortest round-trip times by address, in milliseconds. A connection that is opened while
    /// packets queue has never measured the path without a queue.
    shortest: Mutex<BTreeMap<IpAddr, f64>>,
    own: CongestionControl,
}

impl ClientTuning {
    pub(super) fn new(network: Arc<Network>, store: Option<Arc<Store>>) -> Self {
        let own = own_congestion_control();
        Self { network, store, shortest: Mutex::default(), own }
    }

    /// The state of a path: each round-trip time that `time` takes from a connection is paired with
    /// the shortest one to the same address so far, and the pair with the median ratio is used.
    fn signal(
        &self,
        connections: &[(IpAddr, TcpInfo)],
        time: impl Fn(&TcpInfo) -> Option<f64>,
    ) -> PathSignal {
        let mut shortest = lock(&self.shortest);
        for (peer, tcp) in connections {
            if let Some(rtt) = tcp.min_rtt_ms {
                let known = shortest.entry(*peer).or_insert(rtt);
                *known = known.min(rtt);
            }
        }
        let pair = |(peer, tcp): &(IpAddr, TcpInfo)| Some((time(tcp)?, *shortest.get(peer)?));
        let mut rtts: Vec<(f64, f64)> = connections.iter().filter_map(pair).collect();
        rtts.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let duration = |millis: f64| Duration::from_secs_f64(millis / 1e3);
        let median = rtts.get(rtts.len() / 2);
        PathSignal {
            rtt: median.map(|it| duration(it.0)),
            min_rtt: median.map(|it| duration(it.1)),
            ..PathSignal::default()
        }
    }
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

    /// The congestion control of the servers is unknown here.
    fn path_signal(&self) -> PathSignal {
        self.signal(&self.network.tcp_info(), |it| {
            let is_busy = it.segments_received >= MIN_SEGMENTS && it.idle_ms <= MAX_IDLE_MS;
            Some(it.receive_rtt_ms).filter(|rtt| is_busy && *rtt > 0.0)
        })
    }

    fn upload_state(&self) -> UploadState {
        let connections = self.network.tcp_info();
        let signal = self.signal(&connections, |it| {
            let is_busy = it.segments_sent >= MIN_SEGMENTS && it.idle_sending_ms <= MAX_IDLE_MS;
            Some(it.rtt_ms).filter(|_| is_busy)
        });
        let shortest = lock(&self.shortest);
        let known = connections.iter().filter_map(|(peer, _)| shortest.get(peer));
        UploadState {
            confirmed_bytes: self.network.confirmed_bytes(&connections),
            latency: Duration::from_secs_f64(known.fold(0.0, |a, b| b.max(a)) / 1e3),
            signal: PathSignal { sender: Some(self.own), ..signal },
        }
    }
}

/// The congestion control by which connections of this process send
/// (`net.ipv4.tcp_congestion_control`).
fn own_congestion_control() -> CongestionControl {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let is_bbr = name.is_ok_and(|name| name.starts_with("bbr"));
    if is_bbr { CongestionControl::Bbr } else { CongestionControl::Cubic }
}
