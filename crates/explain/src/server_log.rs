//! The bottleneck of a server's clients, from its access log.
//!
//! For each request the log has its duration, the time of threads that read files, and the time
//! that the response waited for the client. The rest is the server's own: queues, TLS, computing.
//! The time between two requests of a connection belongs to the client or to the path.

use super::activity::PhaseSeconds;
use super::{Bottleneck, Diagnosis, EvidenceItem};
use crate::evidence::{float, ratio};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Minimum share of retransmitted segments for loss to be the cause.
const LOSSY: f64 = 1e-3;
/// Bytes of a segment on most paths.
const SEGMENT_BYTES: f64 = 1448.0;
/// Maximum pause between two requests, in round trips, that is charged to the path.
const PAUSE_ROUND_TRIPS: f64 = 2.0;

/// The fields used of a line of the access log.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct LoggedRequest {
    /// Start of the request, in seconds since any fixed instant.
    #[serde(skip)]
    pub began: f64,
    /// The client's address and port, which identify a connection.
    pub peer: String,
    /// The status of the response.
    pub status: u16,
    /// Bytes of the request body.
    pub received: u64,
    /// Bytes of the response body.
    pub sent: u64,
    /// Milliseconds until the head of the response.
    pub head_ms: f64,
    /// Milliseconds until the end of the response.
    pub ms: f64,
    /// Milliseconds in which threads read or wrote files.
    pub disk_ms: f64,
    /// Milliseconds in which the response waited for the client.
    pub client_ms: f64,
    /// The connection is encrypted.
    pub tls: bool,
    /// The kernel's counters of the connection.
    pub tcp: Option<LoggedTcp>,
}

/// The kernel's counters of a connection.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct LoggedTcp {
    /// The smoothed round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// Segments retransmitted since the connection began.
    pub retransmits: u32,
}

/// Sums over a log, in seconds.
#[derive(Debug, Default)]
struct LogSums {
    requests: u64,
    refused: u64,
    encrypted: u64,
    bytes: f64,
    total: f64,
    disk: f64,
    client: f64,
    /// Seconds between two requests of a connection, and the part of them in pauses of about a
    /// round trip.
    pauses: f64,
    of_path: f64,
    retransmits: f64,
    rtt: f64,
}

/// Returns the cause of most of the time of a log's requests; none for an empty log.
#[must_use]
pub fn explain_log(requests: &[LoggedRequest]) -> Option<Diagnosis> {
    let sums = LogSums::of(requests);
    if requests.is_empty() {
        return None;
    }
    let own = (sums.total - sums.disk - sums.client).max(0.0);
    let segments = ratio(sums.bytes, SEGMENT_BYTES);
    let is_lossy = ratio(sums.retransmits, segments) >= LOSSY;
    let path = if is_lossy { Bottleneck::Loss } else { Bottleneck::PathRate };
    let path_change = if is_lossy {
        "look for the loss on the paths to the clients"
    } else {
        "nothing here: the clients or their paths take the bytes slowly; look with hither explain there"
    };
    let refused =
        if sums.refused > 0 { ": some were refused, raise [limits] connections" } else { "" };
    let causes = [
        (
            Bottleneck::ServerDisk,
            sums.disk,
            "put the files on faster storage, or give the machine more memory to cache them"
                .to_owned(),
        ),
        (path, sums.client, path_change.to_owned()),
        (
            Bottleneck::ServerConcurrency,
            own,
            format!(
                "give the server more cores; what is left are queues, TLS and computing{refused}"
            ),
        ),
        (Bottleneck::RoundTrips, sums.of_path, "have the clients ask for more at once".to_owned()),
    ];
    let (bottleneck, seconds, change) = causes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let item = |name: &str, value, unit| EvidenceItem { name: name.to_owned(), value, unit };
    Some(Diagnosis {
        bottleneck,
        job_seconds: sums.total + sums.pauses,
        seconds,
        inferred: matches!(bottleneck, Bottleneck::PathRate | Bottleneck::ServerConcurrency),
        evidence: vec![
            item("requests", float(sums.requests), ""),
            item("refused (429, 503)", float(sums.refused), ""),
            item("over TLS", float(sums.encrypted), ""),
            item("sent and received", sums.bytes, "bytes"),
            item("requests under way, summed", sums.total, "s"),
            item("reading and writing files", sums.disk, "s"),
            item("waiting for clients", sums.client, "s"),
            item("queues, TLS, computing", own, "s"),
            item("pauses of connections", sums.pauses, "s"),
            item("of them about a round trip each", sums.of_path, "s"),
            item("longest round trip", sums.rtt, "ms"),
            item("segments sent again", sums.retransmits, ""),
        ],
        change,
        gain_seconds: Some(seconds),
        phases: PhaseSeconds {
            transfer: sums.client,
            server: sums.disk + own,
            round_trip: sums.of_path,
            ..PhaseSeconds::default()
        },
    })
}

impl LogSums {
    fn of(requests: &[LoggedRequest]) -> Self {
        let mut sums = Self::default();
        let mut peers: BTreeMap<&str, Vec<&LoggedRequest>> = BTreeMap::new();
        for request in requests {
            sums.requests += 1;
            sums.refused += u64::from(matches!(request.status, 429 | 503));
            sums.encrypted += u64::from(request.tls);
            sums.bytes += float(request.sent + request.received);
            sums.total += request.ms / 1e3;
            // Threads of one response read concurrently, so the sum of their times may exceed its
            // duration.
            sums.disk += request.disk_ms.min(request.ms) / 1e3;
            sums.client +=
                request.client_ms.min(request.ms - request.disk_ms.min(request.ms)) / 1e3;
            peers.entry(&request.peer).or_default().push(request);
        }
        for mut of_peer in peers.into_values() {
            of_peer.sort_by(|a, b| a.began.total_cmp(&b.began));
            let tcp = of_peer.iter().filter_map(|it| it.tcp);
            sums.retransmits += tcp.clone().map(|it| f64::from(it.retransmits)).fold(0.0, f64::max);
            let rtt = tcp.map(|it| it.rtt_ms).fold(0.0, f64::max);
            sums.rtt = sums.rtt.max(rtt);
            let mut end = f64::INFINITY;
            for request in of_peer {
                let pause = (request.began - end).max(0.0);
                sums.pauses += pause;
                if pause <= PAUSE_ROUND_TRIPS * rtt / 1e3 {
                    sums.of_path += pause;
                }
                end = request.began + request.ms / 1e3;
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(head_ms: f64, ms: f64, disk_ms: f64, client_ms: f64, gap_ms: f64) -> Vec<LoggedRequest> {
        let tcp = Some(LoggedTcp { rtt_ms: 50.0, retransmits: 0 });
        let request = |at: u32| LoggedRequest {
            began: f64::from(at) * (ms + gap_ms) / 1e3,
            peer: "127.0.0.1:5".to_owned(),
            status: 206,
            sent: 1_000_000,
            head_ms,
            ms,
            disk_ms,
            client_ms,
            tcp,
            ..LoggedRequest::default()
        };
        (0..10).map(request).collect()
    }

    #[test]
    fn the_longest_part_of_the_requests_is_named() {
        for (log, bottleneck) in [
            (log(1.0, 100.0, 80.0, 10.0, 1.0), Bottleneck::ServerDisk),
            (log(1.0, 100.0, 10.0, 85.0, 1.0), Bottleneck::PathRate),
            (log(90.0, 100.0, 5.0, 5.0, 1.0), Bottleneck::ServerConcurrency),
            (log(0.1, 1.0, 0.5, 0.5, 60.0), Bottleneck::RoundTrips),
        ] {
            assert_eq!(explain_log(&log).map(|it| it.bottleneck), Some(bottleneck));
        }
        let mut lossy = log(1.0, 100.0, 10.0, 85.0, 1.0);
        lossy[9].tcp = Some(LoggedTcp { rtt_ms: 50.0, retransmits: 70 });
        assert_eq!(explain_log(&lossy).map(|it| it.bottleneck), Some(Bottleneck::Loss));
        assert!(explain_log(&[]).is_none());
    }
}
