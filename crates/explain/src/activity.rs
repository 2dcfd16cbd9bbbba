//! The activity of connections, and the phases of a job that follow from it.

use super::JobEvidence;
use crate::evidence::float;
use serde::Serialize;

/// A connection. Times are seconds since the job began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConnectionActivity {
    /// Scheme, host and port of the server.
    pub server: String,
    /// The time at which it began to open.
    pub dialed: f64,
    /// The end of the TCP handshake.
    pub connected: Option<f64>,
    /// The end of the TLS handshake.
    pub secured: Option<f64>,
    /// Duration of the TCP handshake: one round trip.
    pub rtt: Option<f64>,
    /// Its requests in the order in which they were sent.
    pub requests: Vec<RequestActivity>,
    /// The server's statement of its time for all responses of this connection but the last.
    pub reported: Option<ServerShare>,
}

/// A request. Times are seconds since the job began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestActivity {
    /// The time at which its first byte was sent.
    pub sent: f64,
    /// The time at which the last byte of its body was sent; [`Self::sent`] if it has no body.
    pub uploaded: f64,
    /// The time at which the first byte of its response arrived.
    pub first_byte: Option<f64>,
    /// The time at which the latest byte arrived so far.
    pub last_byte: f64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// The HTTP status.
    pub status: Option<u16>,
}

/// The time that a server states, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerShare {
    /// From the head of each request to the end of its response.
    pub total: f64,
    /// Reading and writing files, in threads.
    pub disk: f64,
    /// Waiting for the client to read, or to send more.
    pub client: f64,
}

impl RequestActivity {
    fn is_redirect(&self) -> bool {
        self.status.is_some_and(|it| (300..400).contains(&it) && it != 304)
    }

    fn is_refused(&self) -> bool {
        matches!(self.status, Some(429 | 503))
    }
}

/// Bytes over time, in bins of equal width. The width doubles when all bins are used.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalSeries {
    /// The width of a bin in seconds.
    pub bin_seconds: f64,
    /// Bytes of each bin.
    pub bytes: Vec<u64>,
}

/// Maximum number of bins: at worst a bin is a quarter of a percent of the duration.
const MAX_BINS: usize = 800;

impl Default for ArrivalSeries {
    fn default() -> Self {
        Self { bin_seconds: 0.001, bytes: Vec::new() }
    }
}

impl ArrivalSeries {
    /// Adds `bytes` that arrived at `seconds`.
    pub fn add(&mut self, seconds: f64, bytes: u64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is bounded by the doubling"
        )]
        let index = |width: f64| (seconds.max(0.0) / width) as usize;
        while index(self.bin_seconds) >= MAX_BINS {
            self.bin_seconds *= 2.0;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let index = index(self.bin_seconds);
        if self.bytes.len() <= index {
            self.bytes.resize(index + 1, 0);
        }
        if let Some(bin) = self.bytes.get_mut(index) {
            *bin += bytes;
        }
    }

    /// Bytes that arrived from `start` to `end`, with parts of bins.
    #[must_use]
    pub fn between(&self, start: f64, end: f64) -> f64 {
        let mut at = 0.0;
        let mut sum = 0.0;
        for bytes in &self.bytes {
            let next = at + self.bin_seconds;
            let overlap = (end.min(next) - start.max(at)).max(0.0);
            sum += float(*bytes) * overlap / self.bin_seconds;
            at = next;
        }
        sum
    }
}

/// The phase of a job at an instant. Where several apply, the first in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// Bytes arrive, or are sent.
    Transfer,
    /// A request has been in flight for longer than a round trip.
    Server,
    /// A request has been in flight for at most a round trip.
    RoundTrip,
    /// The client follows a redirect.
    Redirect,
    /// A connection is being opened.
    Opening,
    /// The client waits after a server refused a request for now.
    Refused,
    /// No request is in flight.
    Local,
}

impl JobPhase {
    /// All phases, in the order of [`JobPhase`].
    pub const ALL: [Self; 7] = [
        Self::Transfer,
        Self::Server,
        Self::RoundTrip,
        Self::Redirect,
        Self::Opening,
        Self::Refused,
        Self::Local,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Server => "waiting: server",
            Self::RoundTrip => "waiting: path",
            Self::Redirect => "redirects",
            Self::Opening => "opening",
            Self::Refused => "refused",
            Self::Local => "this machine",
        }
    }
}

/// A part of the job's duration in one phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its beginning, in seconds.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// Its phase.
    pub phase: JobPhase,
}

/// Seconds of each phase; their sum is the duration of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PhaseSeconds {
    /// [`JobPhase::Transfer`].
    pub transfer: f64,
    /// [`JobPhase::Server`].
    pub server: f64,
    /// [`JobPhase::RoundTrip`].
    pub round_trip: f64,
    /// [`JobPhase::Redirect`].
    pub redirect: f64,
    /// [`JobPhase::Opening`].
    pub opening: f64,
    /// [`JobPhase::Refused`].
    pub refused: f64,
    /// [`JobPhase::Local`].
    pub local: f64,
}

impl PhaseSeconds {
    /// The sums of `segments`.
    #[must_use]
    pub fn of(segments: &[Segment]) -> Self {
        let mut sums = Self::default();
        for Segment { start, end, phase } in segments {
            let sum = match phase {
                JobPhase::Transfer => &mut sums.transfer,
                JobPhase::Server => &mut sums.server,
                JobPhase::RoundTrip => &mut sums.round_trip,
                JobPhase::Redirect => &mut sums.redirect,
                JobPhase::Opening => &mut sums.opening,
                JobPhase::Refused => &mut sums.refused,
                JobPhase::Local => &mut sums.local,
            };
            *sum += end - start;
        }
        sums
    }
}

/// Maximum round trips until a response begins; after that, the request waits for the server.
const ROUND_TRIP_SLACK: f64 = 1.2;
/// Maximum round trip, in seconds, if no handshake has measured it.
const UNKNOWN_RTT: f64 = 0.001;

/// Divides the duration of the job into segments of one phase each.
#[must_use]
pub fn segments(job: &JobEvidence) -> Vec<Segment> {
    let mut intervals: Vec<Segment> = Vec::new();
    let mut add = |start: f64, end: f64, phase| {
        let start = start.max(0.0);
        let end = end.min(job.seconds);
        if end > start {
            intervals.push(Segment { start, end, phase });
        }
    };
    for connection in &job.connections {
        let opened = connection.secured.or(connection.connected).unwrap_or(job.seconds);
        add(connection.dialed, opened, JobPhase::Opening);
        let rtt = rtt(job, &connection.server).unwrap_or(UNKNOWN_RTT);
        for request in &connection.requests {
            let end = request
                .first_byte
                .unwrap_or_else(|| job.seconds.min(request.last_byte.max(request.uploaded)));
            if request.is_redirect() {
                add(request.sent, request.last_byte, JobPhase::Redirect);
                continue;
            }
            if request.is_refused() {
                let again = next_sent(job, &connection.server, request.last_byte);
                add(request.sent, again, JobPhase::Refused);
                continue;
            }
            add(request.sent, request.uploaded, JobPhase::Transfer);
            let of_path = (request.uploaded + ROUND_TRIP_SLACK * rtt).min(end);
            add(request.uploaded, of_path, JobPhase::RoundTrip);
            add(of_path, end, JobPhase::Server);
            add(end, request.last_byte, JobPhase::Transfer);
        }
    }
    merged(intervals, job.seconds)
}

/// The shortest round trip to `server`, or to any server.
#[must_use]
pub fn rtt(job: &JobEvidence, server: &str) -> Option<f64> {
    let shortest = |of: &str| {
        let measured = job.connections.iter().filter(|it| of.is_empty() || it.server == of);
        measured.filter_map(|it| it.rtt).min_by(f64::total_cmp)
    };
    shortest(server).or_else(|| shortest(""))
}

/// The time of the first request to `server` after `seconds`; the end of the job if there is none.
fn next_sent(job: &JobEvidence, server: &str, seconds: f64) -> f64 {
    let of_server = job.connections.iter().filter(|it| it.server == server);
    let later = of_server.flat_map(|it| &it.requests).map(|it| it.sent).filter(|it| *it > seconds);
    later.min_by(f64::total_cmp).unwrap_or(job.seconds)
}

/// Merges intervals into segments. Where intervals overlap, the first phase in the order of
/// [`JobPhase`] counts; where there is none, this machine works.
fn merged(intervals: Vec<Segment>, seconds: f64) -> Vec<Segment> {
    let mut edges: Vec<(f64, JobPhase, i64)> = Vec::with_capacity(2 * intervals.len());
    for Segment { start, end, phase } in intervals {
        edges.extend([(start, phase, 1), (end, phase, -1)]);
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0));
    edges.push((seconds, JobPhase::Local, 0));
    let mut open = JobPhase::ALL.map(|phase| (phase, 0_i64));
    let mut merged: Vec<Segment> = Vec::new();
    let mut at = 0.0;
    for (time, phase, step) in edges {
        if time > at {
            let now = open.iter().find(|it| it.1 > 0).map_or(JobPhase::Local, |it| it.0);
            match merged.last_mut().filter(|it| it.phase == now) {
                Some(last) => last.end = time,
                None => merged.push(Segment { start: at, end: time, phase: now }),
            }
            at = time;
        }
        for count in open.iter_mut().filter(|it| it.0 == phase) {
            count.1 += step;
        }
    }
    merged
}
