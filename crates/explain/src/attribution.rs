//! The causes of a job's phases, with their evidence, and the largest of them.

mod transfer;

use super::activity::{PhaseSeconds, RequestActivity, ServerShare, rtt, segments};
use super::{Bottleneck, Diagnosis, EvidenceItem, JobEvidence};
use crate::evidence::{float, ratio};
use transfer::TransferRates;

/// Minimum share of a server's time in its disk for the disk to be the cause.
const MOSTLY: f64 = 0.5;
/// Minimum ratio of the slowest to the fastest responses where requests queue at the server.
const QUEUE_SPREAD: f64 = 3.0;

/// A cause and the seconds that it accounts for.
#[derive(Debug)]
struct Cause {
    bottleneck: Bottleneck,
    seconds: f64,
    gain: Option<f64>,
    inferred: bool,
    evidence: Vec<EvidenceItem>,
    change: String,
}

impl Cause {
    fn new(bottleneck: Bottleneck, seconds: f64, change: impl Into<String>) -> Self {
        let change = change.into();
        Self { bottleneck, seconds, gain: None, inferred: false, evidence: Vec::new(), change }
    }

    fn saves(self, seconds: f64) -> Self {
        Self { gain: Some(seconds.max(0.0)), ..self }
    }

    fn inferred(self) -> Self {
        Self { inferred: true, ..self }
    }

    fn with(mut self, name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        self.evidence.push(EvidenceItem { name: name.into(), value, unit });
        self
    }
}

/// Names the bottleneck of a job.
#[must_use]
pub fn diagnose(job: &JobEvidence) -> Diagnosis {
    let phases = PhaseSeconds::of(&segments(job));
    let mut causes = vec![set_up(job, &phases), round_trips(job, &phases)];
    causes.extend([refused(job, &phases), server(job, &phases)]);
    causes.push(transfer::cause(job, &TransferRates::of(job, &phases)));
    causes.push(local(job, &phases));
    // If several phases have the same cause, the evidence is that of the longest one.
    let mut largest: Option<Cause> = None;
    for at in 0..causes.len() {
        let of_same = |it: &&Cause| causes.get(at).is_some_and(|at| at.bottleneck == it.bottleneck);
        let seconds: f64 = causes.iter().filter(of_same).map(|it| it.seconds).sum();
        let longest = causes.iter().filter(of_same).max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let gains: Vec<f64> = causes.iter().filter(of_same).filter_map(|it| it.gain).collect();
        if let Some(cause) = longest
            && largest.as_ref().is_none_or(|it| it.seconds < seconds)
        {
            largest = Some(Cause {
                seconds,
                gain: (!gains.is_empty()).then(|| gains.iter().sum()),
                evidence: cause.evidence.clone(),
                change: cause.change.clone(),
                ..*cause
            });
        }
    }
    let cause =
        largest.unwrap_or_else(|| Cause::new(Bottleneck::ThisMachine, job.seconds, "nothing"));
    Diagnosis {
        bottleneck: cause.bottleneck,
        job_seconds: job.seconds,
        seconds: cause.seconds.min(job.seconds),
        inferred: cause.inferred,
        evidence: cause.evidence,
        change: cause.change,
        gain_seconds: cause.gain.map(|it| it.min(job.seconds)),
        phases,
    }
}

fn requests(job: &JobEvidence) -> impl Iterator<Item = &RequestActivity> {
    job.connections.iter().flat_map(|it| &it.requests)
}

fn count(of: usize) -> f64 {
    float(of as u64)
}

fn set_up(job: &JobEvidence, phases: &PhaseSeconds) -> Cause {
    let seconds = phases.opening + phases.redirect;
    let moved = requests(job)
        .filter(|it| it.status.is_some_and(|it| (301..309).contains(&it) && it != 304));
    let change = if phases.redirect > phases.opening {
        "name the server that the redirects lead to"
    } else {
        "do several jobs with one client, which keeps its connections open"
    };
    Cause::new(Bottleneck::SetUp, seconds, change)
        .saves(seconds)
        .with("opening connections", phases.opening, "s")
        .with("following redirects", phases.redirect, "s")
        .with("redirects", count(moved.count()), "")
        .with("connections", count(job.connections.len()), "")
}

fn round_trips(job: &JobEvidence, phases: &PhaseSeconds) -> Cause {
    let rtt = rtt(job, "").unwrap_or_default();
    let change = "ask for more at once: a list of ranges, a read-ahead, files in parallel; or keep a store, from which a second run takes what it asked for";
    Cause::new(Bottleneck::RoundTrips, phases.round_trip, change)
        .saves(phases.round_trip - rtt)
        .with("waiting for round trips", phases.round_trip, "s")
        .with("round trip", 1e3 * rtt, "ms")
        .with("dependent round trips", (ratio(phases.round_trip, rtt)).round(), "")
        .with("requests", count(requests(job).count()), "")
}

fn refused(job: &JobEvidence, phases: &PhaseSeconds) -> Cause {
    let times = requests(job).filter(|it| matches!(it.status, Some(429 | 503))).count();
    let change = "use fewer connections (--max-connections), or another replica";
    Cause::new(Bottleneck::ServerConcurrency, phases.refused, change)
        .saves(phases.refused)
        .with("waiting after refusals", phases.refused, "s")
        .with("requests refused (429, 503)", count(times), "")
}

/// Sums of the times that the servers state, weighted by the bytes of each connection: an idle
/// connection does not limit the others.
fn reported(job: &JobEvidence) -> Option<ServerShare> {
    let mut sums = ServerShare::default();
    for connection in &job.connections {
        let Some(share) = connection.reported else { continue };
        let bytes: f64 = connection.requests.iter().map(|it| float(it.bytes + it.bytes_sent)).sum();
        sums.total += bytes * share.total;
        sums.disk += bytes * share.disk;
        sums.client += bytes * share.client;
    }
    (sums.total > 0.0).then_some(sums)
}

/// Ascending times from the end of each request to its response, without a round trip.
fn server_waits(job: &JobEvidence) -> Vec<f64> {
    let mut waits: Vec<f64> = Vec::new();
    for connection in &job.connections {
        let rtt = rtt(job, &connection.server).unwrap_or_default();
        let waited = connection.requests.iter().filter_map(|it| Some(it.first_byte? - it.uploaded));
        waits.extend(waited.map(|it| (it - rtt).max(0.0)));
    }
    waits.sort_by(f64::total_cmp);
    waits
}

/// The value below which a fraction `share` of the sorted `values` lies.
fn quantile(values: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index below the length"
    )]
    let at = (share * count(values.len().saturating_sub(1))).round() as usize;
    values.get(at).copied().unwrap_or_default()
}

fn server(job: &JobEvidence, phases: &PhaseSeconds) -> Cause {
    let waits = server_waits(job);
    let fast = quantile(&waits, 0.1);
    let slow = quantile(&waits, 0.9);
    let mean = ratio(waits.iter().sum(), count(waits.len()));
    let in_flight = ratio(waits.iter().sum(), phases.server);
    let figures = |cause: Cause| {
        cause
            .with("waiting for the server", phases.server, "s")
            .with("response begins after a round trip and", 1e3 * mean, "ms")
            .with("the fastest tenth of responses", 1e3 * fast, "ms")
            .with("the slowest tenth", 1e3 * slow, "ms")
            .with("requests waiting at a time", in_flight, "")
    };
    let reported = reported(job);
    let share = reported.map_or(0.0, |it| ratio(it.disk, it.total));
    let queued = in_flight >= QUEUE_SPREAD && slow >= QUEUE_SPREAD * fast;
    if share < MOSTLY && queued {
        let change = "use another replica as well; the server serves only some requests at a time, more connections wait";
        let cause = Cause::new(Bottleneck::ServerConcurrency, phases.server, change);
        return figures(cause).saves(phases.server * (1.0 - ratio(fast, mean))).inferred();
    }
    let change =
        "have the file on faster storage, or read it once before: its server's disk is slow";
    let cause = figures(Cause::new(Bottleneck::ServerDisk, phases.server, change));
    match reported {
        Some(reported) => cause.saves(phases.server * share).with(
            "of the server's time its disk (told)",
            100.0 * ratio(reported.disk, reported.total),
            "%",
        ),
        None => cause.saves(phases.server).inferred(),
    }
}

fn local(job: &JobEvidence, phases: &PhaseSeconds) -> Cause {
    if job.decode_seconds > 0.0 {
        return decode(job, phases.local);
    }
    let seconds = phases.local;
    if let Some(write) = job.write {
        // A copy that has received all bytes writes the remaining ones and flushes the file.
        let cause = transfer::local_disk(job, seconds, seconds);
        return if write.busy >= MOSTLY * seconds { cause } else { cause.inferred() };
    }
    let change = "look at what reads the output; no request was under way";
    Cause::new(Bottleneck::ThisMachine, seconds, change).inferred().with(
        "no request under way",
        seconds,
        "s",
    )
}

fn decode(job: &JobEvidence, seconds: f64) -> Cause {
    let threads = count(job.decode_threads.max(1));
    let busy = job.decode_seconds / threads;
    let change = "use a machine with more cores, or read fewer columns or entries";
    Cause::new(Bottleneck::Decode, seconds, change)
        .saves(seconds.min(busy) / 2.0)
        .with("decoding and computing, summed", job.decode_seconds, "s")
        .with("threads", threads, "")
        .with("of the job's duration", 100.0 * ratio(busy, job.seconds), "%")
}
