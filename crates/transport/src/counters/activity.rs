//! The recorder of the activity of connections, for explanations of a job.
//!
//! It is off unless [`TransferCounters::record_activity`] was called before the first connection:
//! then each connection's meter adds its requests, with the times of their bytes. On a connection
//! that carries several requests at a time, bytes are attributed to the latest request; the busy
//! time of the connection is still correct.
//!
//! [`TransferCounters::record_activity`]: crate::TransferCounters::record_activity

use hither_core::sync::lock;
use hither_explain::activity::ServerShare;
use hither_explain::{ArrivalSeries, ConnectionActivity, RequestActivity};
use hither_http::server_timing::ServerTiming;
use http::{HeaderMap, StatusCode};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The most requests of a connection that have an entry. Later ones count with the last.
const MAX_REQUESTS: usize = 16_384;

/// The recorder of all connections of a client.
#[derive(Debug)]
pub struct ActivityRecorder {
    started: Instant,
    connections: Mutex<Vec<Arc<Mutex<ConnectionActivity>>>>,
    arrivals: Mutex<ArrivalSeries>,
}

impl ActivityRecorder {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), connections: Mutex::default(), arrivals: Mutex::default() }
    }

    /// Seconds since the recorder was started.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The connections so far, and the bytes of all by time.
    #[must_use]
    pub fn snapshot(&self) -> (Vec<ConnectionActivity>, ArrivalSeries) {
        let connections = lock(&self.connections).iter().map(|it| lock(it).clone()).collect();
        (connections, lock(&self.arrivals).clone())
    }
}

/// The recorder of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionRecorder {
    all: Arc<ActivityRecorder>,
    activity: Arc<Mutex<ConnectionActivity>>,
}

impl ConnectionRecorder {
    pub(crate) fn new(all: Arc<ActivityRecorder>) -> Self {
        Self { all, activity: Arc::default() }
    }

    /// Records that the connection to `server` begins to be opened.
    pub(crate) fn dialing(&self, server: String) {
        let mut activity = lock(&self.activity);
        (activity.server, activity.dialed) = (server, self.all.seconds());
        drop(activity);
        lock(&self.all.connections).push(Arc::clone(&self.activity));
    }

    pub(crate) fn connected(&self, rtt: Duration) {
        let mut activity = lock(&self.activity);
        activity.connected = Some(self.all.seconds());
        activity.rtt = Some(rtt.as_secs_f64());
    }

    pub(crate) fn secured(&self) {
        lock(&self.activity).secured = Some(self.all.seconds());
    }

    /// Records that a request begins to be sent.
    pub(crate) fn sent(&self) {
        let sent = self.all.seconds();
        let requests = &mut lock(&self.activity).requests;
        if requests.len() < MAX_REQUESTS {
            let request = RequestActivity {
                sent,
                uploaded: sent,
                last_byte: sent,
                ..RequestActivity::default()
            };
            requests.push(request);
        }
    }

    /// Records bytes of the last request, its head or its body.
    pub(crate) fn wrote(&self, bytes: u64) {
        let now = self.all.seconds();
        if let Some(request) = lock(&self.activity).requests.last_mut()
            && request.first_byte.is_none()
        {
            request.bytes_sent += bytes;
            request.uploaded = now;
            request.last_byte = now;
        }
    }

    /// Records received bytes.
    pub(crate) fn arrived(&self, bytes: u64) {
        let now = self.all.seconds();
        let mut activity = lock(&self.activity);
        let Some(request) = activity.requests.last_mut() else { return };
        request.first_byte.get_or_insert(now);
        request.last_byte = now;
        request.bytes += bytes;
        drop(activity);
        lock(&self.all.arrivals).add(now, bytes);
    }

    /// Records the head of a response. Before it, TLS may have sent bytes of its own.
    pub(crate) fn responded(&self, status: StatusCode, headers: &HeaderMap) {
        let now = self.all.seconds();
        let mut activity = lock(&self.activity);
        if let Some(request) = activity.requests.last_mut() {
            request.status = Some(status.as_u16());
            request.first_byte = Some(now);
            request.last_byte = now;
        }
        if let Some(ServerTiming { total, disk, client }) = ServerTiming::of(headers) {
            let [total, disk, client] = [total, disk, client].map(|it| it.as_secs_f64());
            activity.reported = Some(ServerShare { total, disk, client });
        }
    }
}
