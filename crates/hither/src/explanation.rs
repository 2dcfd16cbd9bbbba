//! The explanation of a job: its bottleneck, with a timeline.
//!
//! [`Client::record_activity`] comes before the job, [`Client::explain_job`] after it. If bytes
//! arrived most of the time, the explanation measures for some seconds the throughput of more
//! connections, which distinguishes a limit of each connection from one of the path.

use crate::client::Client;
use futures_util::future::join_all;
use hither_explain::attribution::diagnose;
use hither_explain::{Diagnosis, JobEvidence, ProbeStep, StageSeconds, TcpCounters, timeline};
use std::time::Duration;

/// The duration of the measurement after the job.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// The most bytes that it requests.
const PROBE_BYTES: u64 = 128 << 20;
/// The largest number of connections that it opens, for a job that had half as many.
const PROBE_CONNECTIONS: usize = 64;
/// The connections on which servers are asked for their share of the time.
const ASKED_CONNECTIONS: usize = 16;
/// The share of a job's time above which its transfer rate is examined.
const MATTERS: f64 = 0.3;

/// The figures of a job besides the activity of its connections.
#[derive(Debug, Clone, Default)]
pub struct MeasuredJob {
    /// Decoding and computing, in seconds, summed over threads.
    pub decode_seconds: f64,
    /// Writing to the target of a copy.
    pub write: Option<StageSeconds>,
    /// A file that the job has read, to be measured; none for no measurement.
    pub probe_url: Option<String>,
}

/// The explanation of a job.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The bottleneck.
    pub diagnosis: Diagnosis,
    evidence: JobEvidence,
}

impl Client {
    /// Records the activity of connections that are opened from now on, for
    /// [`Client::explain_job`], and requests from servers their share of the time.
    pub fn record_activity(&self) {
        self.counters().record_activity();
    }

    /// Explains the job that began with [`Client::record_activity`] and ends now.
    pub async fn explain_job(&self, job: MeasuredJob) -> Explanation {
        let recorder = self.counters().record_activity();
        let (connections, arrivals) = recorder.snapshot();
        let threads = self.config().decode_threads;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut evidence = JobEvidence {
            seconds: recorder.seconds(),
            connections,
            arrivals,
            tcp: self.tcp_counters(),
            decode_seconds: job.decode_seconds,
            decode_threads: if threads == 0 { cores } else { threads },
            write: job.write,
            max_connections: self.config().transport.max_connections,
            probe: Vec::new(),
        };
        let diagnosis = diagnose(&evidence);
        let matters = diagnosis.phases.transfer >= MATTERS * diagnosis.job_seconds;
        let Some(url) = job.probe_url.filter(|_| matters) else {
            return Explanation { diagnosis, evidence };
        };
        // A server that reports its share of a response does so with the next response on the
        // connection.
        if evidence.connections.iter().any(|it| it.reported.is_some()) {
            let each = evidence.connections.iter().take(ASKED_CONNECTIONS).map(|_| self.stat(&url));
            join_all(each).await;
            let shares = recorder.snapshot().0.into_iter().map(|it| it.reported);
            evidence.connections.iter_mut().zip(shares).for_each(|(it, share)| it.reported = share);
        }
        // Without a measurement, the diagnosis says that it is inferred.
        let used = evidence.connections.iter().filter(|it| !it.requests.is_empty()).count();
        let steps = probe_steps(used, evidence.max_connections);
        let measured = self.profile_path_over(&url, steps, PROBE_TIME, PROBE_BYTES, |_, _| true);
        if let Ok(profile) = measured.await {
            let step = |it: &crate::BandwidthStep| ProbeStep {
                connections: it.connections,
                bytes_per_s: it.bytes_per_s,
            };
            evidence.probe = profile.bandwidth.iter().map(step).collect();
        }
        Explanation { diagnosis: diagnose(&evidence), evidence }
    }

    /// The kernel's counters of the connections that are open.
    fn tcp_counters(&self) -> TcpCounters {
        let mut sums = TcpCounters::default();
        for (_, tcp) in self.context.network.tcp_info() {
            sums.segments_received += u64::from(tcp.segments_received);
            sums.out_of_order += u64::from(tcp.out_of_order);
            sums.segments_sent += u64::from(tcp.segments_sent);
            sums.retransmits += u64::from(tcp.retransmits);
            sums.window = sums.window.max(tcp.window.map(u64::from));
            let rtt = tcp.rtt_ms / 1e3;
            sums.loaded_rtt = Some(sums.loaded_rtt.map_or(rtt, |it| it.max(rtt)));
        }
        sums
    }
}

/// The numbers of connections to measure after a job that had `used` connections: more show whether
/// those were too few.
fn probe_steps(used: usize, most: usize) -> Vec<usize> {
    let last = used.saturating_mul(2).clamp(16, PROBE_CONNECTIONS).next_power_of_two();
    let mut steps = vec![1, last / 8, last / 4, last / 2, last];
    steps.retain(|it| *it <= most.max(1));
    steps
}

impl Explanation {
    /// The bottleneck and the timeline, for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.diagnosis.to_text() + &timeline::to_text(&self.evidence, 64)
    }

    /// The timeline as an SVG image.
    #[must_use]
    pub fn to_svg(&self) -> String {
        timeline::to_svg(&self.evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_covers_the_connections_of_the_job_as_far_as_the_client_may_open_them() {
        assert_eq!(probe_steps(1, 64), [1, 2, 4, 8, 16]);
        assert_eq!(probe_steps(12, 64), [1, 4, 8, 16, 32]);
        assert_eq!(probe_steps(25, 64), [1, 8, 16, 32, 64]);
        assert_eq!(probe_steps(500, 1024), [1, 8, 16, 32, 64]);
        assert_eq!(probe_steps(3, 4), [1, 2, 4]);
        assert_eq!(probe_steps(0, 0), [1]);
    }
}
