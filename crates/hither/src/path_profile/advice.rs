//! Advice from a profile of a path, only as far as the numbers support it.

use super::report::{BandwidthStep, PathLimit, PathProfile, mebibytes, rate};
use hither_transport::TransportConfig;

/// The time in milliseconds that a server near by may need for a response.
const SERVER_MS: f64 = 10.0;
/// The share of the rate that a window or a CPU allows at which it counts as the limit.
const FULL: f64 = 0.7;
/// The share of segments out of order that is reported, of a thousand at least.
const LOSSY: f64 = 0.001;

/// The advice for a client with this configuration.
pub(super) fn of(profile: &PathProfile, config: &TransportConfig) -> Vec<String> {
    [latency(profile), connections(profile, config), loss(profile)].into_iter().flatten().collect()
}

/// Requests that take longer than handshakes.
fn latency(profile: &PathProfile) -> Option<String> {
    let request = profile.request_ms?;
    let tcp = profile.tcp_handshake_ms.filter(|it| request >= it + SERVER_MS)?;
    Some(format!(
        "a request takes {request:.1} ms, TCP's handshake {tcp:.1} ms: the server needs the difference, or a tunnel or proxy near by answers handshakes"
    ))
}

/// The number of connections, and the reason for it.
fn connections(profile: &PathProfile, config: &TransportConfig) -> Option<String> {
    let one = profile.bandwidth.first()?;
    let last = profile.bandwidth.last()?;
    let best = profile.bandwidth.iter().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))?;
    let single = rate(one.bytes_per_s);
    match profile.limit {
        PathLimit::Unknown => None,
        PathLimit::Path => Some(format!(
            "one connection brings {single}, {} bring {}: the path, the server or this machine limits all together",
            last.connections,
            rate(last.bytes_per_s)
        )),
        PathLimit::Connection => Some(format!(
            "one connection brings {single} of {}: {}; {} bring that, hither tries up to {}",
            rate(best.bytes_per_s),
            reason(profile, one, config),
            best.connections,
            config.max_connections
        )),
    }
}

/// The reason why one connection is slower than several.
fn reason(profile: &PathProfile, one: &BandwidthStep, config: &TransportConfig) -> String {
    let busy = profile.cpu_seconds_per_gb.unwrap_or_default() * one.bytes_per_s / 1e9;
    if busy >= FULL {
        return format!("it takes {busy:.1} CPUs of this machine, which is the limit");
    }
    let (Some(ms), Some(window)) = (profile.request_ms, profile.receive_window) else {
        return "the server or the path limits each connection".to_owned();
    };
    let allowed = f64::from(window) / (ms / 1e3);
    let size = mebibytes(window.into());
    let what =
        format!("the window of this kernel, {size} over {ms:.1} ms, allows {}", rate(allowed));
    if one.bytes_per_s < FULL * allowed {
        let losses = if loss(profile).is_some() { "losses or " } else { "" };
        return format!("{what}, so {losses}the server's limit, window or CPU holds each back");
    }
    let wanted = config.receive_buffer_bytes as u64;
    let small = profile.rmem_max.filter(|it| *it < wanted);
    let raise = small.map(|it| format!(": raise net.core.rmem_max from {it} to {wanted}"));
    format!("{what} and is the limit{}", raise.unwrap_or_default())
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn loss(profile: &PathProfile) -> Option<String> {
    let segments = profile.segments_received;
    let share = profile.out_of_order as f64 / segments.max(1) as f64;
    let what = format!("of {segments} segments came out of order: losses or reordering");
    (share >= LOSSY && segments >= 1000).then(|| format!("{:.1} % {what}", 100.0 * share))
}
