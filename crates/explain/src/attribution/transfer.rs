//! The cause of a transfer's duration.

use super::{Cause, MOSTLY, count, decode, quantile, ratio, reported, requests, server_waits};
use crate::activity::{PhaseSeconds, rtt};
use crate::evidence::float;
use crate::{Bottleneck, JobEvidence};
use hither_core::error::counted;
use std::collections::BTreeMap;

/// Minimum factor on the rate for which more connections are worth it.
const WORTHWHILE: f64 = 1.25;
/// Minimum share of this machine's time for it to be the cause.
const BUSY: f64 = 0.7;
/// Minimum share of segments out of order for loss to be the cause.
const LOSSY: f64 = 5e-4;
/// Minimum number of segments for a meaningful share of losses.
const MIN_SEGMENTS: u64 = 500;
/// Maximum rate of a slow replica, relative to that of the fastest.
const SLOW: f64 = 0.5;
/// Minimum share of the time of all requests for a server to be compared.
const MIN_SHARE: f64 = 0.05;
/// Minimum share of a transfer that leaving out a replica has to save.
const WORTH_LEAVING_OUT: f64 = 0.15;
/// Maximum round trips of slow start on any path in use.
const SLOW_START_ROUND_TRIPS: f64 = 24.0;
/// Maximum share of the bytes that arrives in the first half of a transfer limited by slow start.
const SLOW_START_FIRST_HALF: f64 = 0.3;
/// The shortest round trip, in seconds, at which windows matter.
const MIN_WINDOW_RTT: f64 = 0.004;
/// The longest round trip, in seconds, on one machine or in one rack.
const NEAR_RTT: f64 = 0.000_3;
/// Rate of a connection, in bytes per second, that keeps much of a core busy.
const CORE_RATE: f64 = 2e8;
/// Minimum share of a window in flight for the window to be the limit.
const FULL: f64 = 0.6;
/// Minimum correlation of the arrivals with those one round trip later, if windows are the limit: a
/// window is filled once per round trip.
const PERIODIC: f64 = 0.3;
/// Minimum factor by which the round trip of a path grows if its queue is full.
const QUEUED: f64 = 1.2;

/// The rates of a transfer, in bytes per second.
#[derive(Debug)]
pub(super) struct TransferRates {
    /// Seconds in which bytes arrived.
    seconds: f64,
    bytes: f64,
    /// Of all connections.
    total: f64,
    /// Of one connection while it transfers.
    connection: f64,
    /// Average number of connections that transfer at the same time.
    connections: f64,
    rtt: f64,
    /// The highest rate that was measured after the job.
    best: Option<(usize, f64)>,
    /// The rate grew up to the last step of the measurement, which had fewer connections than the
    /// job: it does not show whether more would have helped.
    is_uncovered: bool,
}

impl TransferRates {
    pub(super) fn of(job: &JobEvidence, phases: &PhaseSeconds) -> Self {
        let bytes: f64 = requests(job).map(|it| float(it.bytes.max(it.bytes_sent))).sum();
        let busy: f64 = requests(job).filter_map(|it| Some(it.last_byte - it.first_byte?)).sum();
        let sending: f64 = requests(job).map(|it| it.uploaded - it.sent).sum();
        let seconds = phases.transfer;
        let probe = job.probe.iter().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let connections = ratio(busy + sending, seconds);
        let is_uncovered = match job.probe.as_slice() {
            [.., before, last] => {
                last.bytes_per_s >= WORTHWHILE * before.bytes_per_s
                    && connections >= WORTHWHILE * count(last.connections)
            }
            _ => false,
        };
        Self {
            is_uncovered,
            seconds,
            bytes,
            total: ratio(bytes, seconds),
            connection: ratio(bytes, busy + sending),
            connections,
            rtt: rtt(job, "").unwrap_or_default(),
            best: probe.map(|it| (it.connections, it.bytes_per_s)),
        }
    }

    /// Seconds saved at a rate of `bytes_per_s`.
    fn gain(&self, bytes_per_s: f64) -> f64 {
        self.seconds - ratio(self.bytes, bytes_per_s.max(self.total))
    }

    fn on(&self, cause: Cause) -> Cause {
        let cause = cause
            .with("bytes arriving", self.seconds, "s")
            .with("rate", self.total / 1e6, "MB/s")
            .with("connections transferring at a time", self.connections, "")
            .with("rate of each", self.connection / 1e6, "MB/s")
            .with("round trip", 1e3 * self.rtt, "ms");
        match self.best {
            Some((connections, rate)) => cause.with(
                format!("rate of {}, afterwards", counted(connections, "connection")),
                rate / 1e6,
                "MB/s",
            ),
            None => cause,
        }
    }
}

/// Returns the cause of the transfer's duration.
pub(super) fn cause(job: &JobEvidence, rates: &TransferRates) -> Cause {
    let decoding = ratio(job.decode_seconds, count(job.decode_threads.max(1)));
    if decoding >= BUSY * rates.seconds && decoding >= BUSY * job.seconds / 2.0 {
        return decode(job, rates.seconds);
    }
    let write = job.write.unwrap_or_default();
    if write.busy >= MOSTLY * rates.seconds && write.busy >= FULL * (write.busy + write.starved) {
        let half = write.busy.min(rates.seconds) / 2.0;
        let gain = rates.best.map_or(half, |it| rates.gain(it.1));
        return local_disk(job, rates.seconds, gain);
    }
    let disk = reported(job).map(|it| ratio(it.disk, it.total));
    if let Some(share) = disk.filter(|it| *it >= MOSTLY) {
        return rates.on(server_disk(rates)).saves(rates.seconds * share).with(
            "of the server's time its disk (told)",
            100.0 * share,
            "%",
        );
    }
    if let Some(cause) = slow_replica(job, rates) {
        return cause;
    }
    let more = rates.best.filter(|it| it.1 >= WORTHWHILE * rates.total);
    let tcp = &job.tcp;
    let lost = ratio(float(tcp.out_of_order), float(tcp.segments_received));
    let is_lossy = lost >= LOSSY && tcp.segments_received >= MIN_SEGMENTS;
    let adds = more.is_some() || rates.best.is_none() && !is_queued(job, rates);
    if is_lossy && adds {
        let best = more.map_or(2.0 * rates.total, |it| it.1);
        let change = "use more connections (--max-connections), which lose less of the rate together; look for the loss";
        let cause = Cause::new(Bottleneck::Loss, rates.seconds, change).saves(rates.gain(best));
        return rates.on(cause).with("segments out of order", float(tcp.out_of_order), "").with(
            "of all segments",
            100.0 * lost,
            "%",
        );
    }
    if let Some(cause) = slow_start(job, rates) {
        return cause;
    }
    match more {
        Some(_) if rates.rtt <= NEAR_RTT && rates.connection >= CORE_RATE => cores(rates),
        Some((connections, best)) => per_connection(job, rates, connections, best),
        None if rates.is_uncovered => {
            let most = job.max_connections;
            let best = rates.total * ratio(count(most), rates.connections).max(1.0);
            per_connection(job, rates, most, best).inferred()
        }
        None => common_limit(job, rates, disk.is_some()),
    }
}

/// Returns true if the path's queue is full: round trips take longer at the end than at the
/// beginning.
fn is_queued(job: &JobEvidence, rates: &TransferRates) -> bool {
    job.tcp.loaded_rtt.is_some_and(|it| it >= QUEUED * rates.rtt && it >= rates.rtt + 0.001)
}

/// The disk of this machine as the cause; `gain` is the seconds that a faster one saves.
pub(super) fn local_disk(job: &JobEvidence, seconds: f64, gain: f64) -> Cause {
    let write = job.write.unwrap_or_default();
    let change = "write to faster storage; hither profile storage measures what there is";
    Cause::new(Bottleneck::LocalDisk, seconds, change)
        .saves(gain)
        .with("writing, summed over workers", write.busy, "s")
        .with("writers waiting for data", write.starved, "s")
        .with("writers waiting for others", write.blocked, "s")
}

fn server_disk(rates: &TransferRates) -> Cause {
    let change =
        "have the file on faster storage, or read it once before: its server's disk is slow";
    Cause::new(Bottleneck::ServerDisk, rates.seconds, change)
}

/// A server that sends slowly and is still sending when the others have finished, as the cause.
fn slow_replica(job: &JobEvidence, rates: &TransferRates) -> Option<Cause> {
    let mut servers: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
    for connection in &job.connections {
        let sums = servers.entry(&connection.server).or_default();
        for request in &connection.requests {
            sums.0 += float(request.bytes);
            sums.1 += request.last_byte - request.sent;
            sums.2 = sums.2.max(request.last_byte);
        }
    }
    // A slow server delivers few of the bytes, but takes much of the time.
    let busy: f64 = servers.values().map(|it| it.1).sum();
    servers.retain(|_, it| it.0 > 0.0 && it.1 > MIN_SHARE * busy);
    let rate = |it: &(f64, f64, f64)| ratio(it.0, it.1);
    let by_rate = |a: &(&str, (f64, f64, f64)), b: &(&str, (f64, f64, f64))| {
        rate(&a.1).total_cmp(&rate(&b.1))
    };
    let slow = servers.iter().map(|(name, it)| (*name, *it)).min_by(by_rate)?;
    let fast = servers.iter().map(|(name, it)| (*name, *it)).max_by(by_rate)?;
    if rate(&slow.1) > SLOW * rate(&fast.1) {
        return None;
    }
    // Without it, the other servers would have delivered its bytes at their rate.
    let others = servers.iter().filter(|it| *it.0 != slow.0);
    let (bytes, ended) = others.fold((0.0, 0.0_f64), |sum, it| (sum.0 + it.1.0, sum.1.max(it.1.2)));
    let began = job.seconds - rates.seconds;
    let without = ratio(rates.bytes * (ended - began).max(0.0), bytes);
    // Its connections would have been as fast as those of the fastest server.
    let as_fast = ratio(rates.bytes, rates.connections * rate(&fast.1));
    let gain = rates.seconds - without.min(as_fast);
    (gain > WORTH_LEAVING_OUT * rates.seconds).then(|| {
        let change = format!("leave out the replica at {}", slow.0);
        rates
            .on(Cause::new(Bottleneck::SlowReplica, rates.seconds, change).saves(gain))
            .with(format!("rate of a connection to {}", slow.0), rate(&slow.1) / 1e6, "MB/s")
            .with(format!("rate of a connection to {}", fast.0), rate(&fast.1) / 1e6, "MB/s")
    })
}

fn slow_start(job: &JobEvidence, rates: &TransferRates) -> Option<Cause> {
    let few = rates.rtt >= MIN_WINDOW_RTT && rates.seconds <= SLOW_START_ROUND_TRIPS * rates.rtt;
    let starts = requests(job).filter_map(|it| it.first_byte).min_by(f64::total_cmp)?;
    let ends = requests(job).map(|it| it.last_byte).max_by(f64::total_cmp)?;
    let all = job.arrivals.between(starts, ends);
    let half = ratio(job.arrivals.between(starts, f64::midpoint(starts, ends)), all);
    if !few || half > SLOW_START_FIRST_HALF {
        return None;
    }
    let last = job.arrivals.between(ends - 2.0 * rates.rtt, ends) / (2.0 * rates.rtt);
    let best = rates.best.map_or(last, |it| it.1).max(last);
    let change = "do several jobs with one client, whose windows stay open; or use more connections, which grow together";
    let cause = Cause::new(Bottleneck::SlowStart, rates.seconds, change).saves(rates.gain(best));
    let cause = rates
        .on(cause)
        .with("transfer in round trips", ratio(rates.seconds, rates.rtt), "")
        .with("bytes in its first half", 100.0 * half, "%");
    Some(if rates.best.is_none() { cause.inferred() } else { cause })
}

/// The processor as the cause: each connection is served by one core at each end.
fn cores(rates: &TransferRates) -> Cause {
    let change = "nothing: bytes come as fast as a core handles a connection; larger files are copied over several";
    rates.on(Cause::new(Bottleneck::ThisMachine, rates.seconds, change).inferred())
}

/// A limit of each connection as the cause: more connections increase the rate.
fn per_connection(
    job: &JobEvidence,
    rates: &TransferRates,
    connections: usize,
    best: f64,
) -> Cause {
    let in_flight = rates.connection * rates.rtt;
    let window = job.tcp.window.map(float);
    let is_full = window.is_some_and(|it| in_flight >= FULL * it);
    let periodic = periodicity(job, rates.rtt);
    let fills = rates.rtt >= MIN_WINDOW_RTT && periodic.is_some_and(|it| it >= PERIODIC);
    let more = format!("use {} (--max-connections)", counted(connections, "connection"));
    let cause = if is_full {
        let change = format!("{more}, or raise net.ipv4.tcp_rmem of this machine");
        Cause::new(Bottleneck::Window, rates.seconds, change)
    } else if fills {
        let change = format!("{more}, or raise net.ipv4.tcp_wmem of the server");
        Cause::new(Bottleneck::Window, rates.seconds, change).inferred()
    } else if rates.connection >= CORE_RATE {
        return cores(rates);
    } else {
        Cause::new(Bottleneck::ConnectionCap, rates.seconds, more)
    };
    let cause =
        rates.on(cause.saves(rates.gain(best))).with("bytes in flight on each", in_flight, "bytes");
    match window {
        Some(window) => cause.with("window of this machine", window, "bytes"),
        None => cause,
    }
}

/// Correlation of the arrivals with those one round trip later; none if the bins are too wide.
fn periodicity(job: &JobEvidence, rtt: f64) -> Option<f64> {
    let series = &job.arrivals;
    if rtt < 4.0 * series.bin_seconds {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bins")]
    let lag = (rtt / series.bin_seconds).round() as usize;
    let bins: Vec<f64> = series.bytes.iter().map(|it| float(*it)).collect();
    // Slow start, at the beginning, is left out.
    let bins = bins.get(bins.len() / 3..)?;
    let mean = ratio(bins.iter().sum(), count(bins.len()));
    let variance: f64 = bins.iter().map(|it| (it - mean).powi(2)).sum();
    // The handshake may have taken longer than the round trips after it, and bins are wide.
    let slack = (lag / 4).max(1);
    let lags = lag.saturating_sub(slack).max(1)..=lag + slack;
    let products = |lag: usize| {
        let later = bins.get(lag..).unwrap_or_default();
        let sum: f64 = bins.iter().zip(later).map(|(a, b)| (a - mean) * (b - mean)).sum();
        ratio(sum, variance)
    };
    lags.map(products).max_by(f64::total_cmp)
}

/// A limit of all connections together as the cause: more connections do not increase the rate, or
/// this was not measured.
fn common_limit(job: &JobEvidence, rates: &TransferRates, is_reported: bool) -> Cause {
    let waits = quantile(&server_waits(job), 0.5);
    let late = waits >= 0.005 && waits >= 2.0 * rates.rtt;
    if late && !is_reported && !is_queued(job, rates) {
        return rates.on(server_disk(rates).inferred().saves(rates.seconds / 2.0)).with(
            "response begins after a round trip and",
            1e3 * waits,
            "ms",
        );
    }
    let full = |window: u64| rates.connection * rates.rtt >= FULL * float(window);
    if rates.best.is_none() && rates.rtt >= MIN_WINDOW_RTT && job.tcp.window.is_some_and(full) {
        return per_connection(job, rates, job.max_connections, 2.0 * rates.total).inferred();
    }
    let change = "use a faster path or a nearer replica, or ask for fewer bytes; the gain is that of twice the rate";
    let cause = Cause::new(Bottleneck::PathRate, rates.seconds, change).saves(rates.seconds / 2.0);
    let cause = rates.on(cause);
    let cause = match job.tcp.loaded_rtt {
        Some(loaded) => cause.with("round trip at the end", 1e3 * loaded, "ms"),
        None => cause,
    };
    if rates.best.is_none() { cause.inferred() } else { cause }
}
