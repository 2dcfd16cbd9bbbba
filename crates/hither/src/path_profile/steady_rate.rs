//! The rate of a stream once it is steady.
//!
//! At the start of a step windows open, so its second half counts. A server that limits connections
//! (`limit_rate` of nginx) sends the bytes of a second in one burst. The rate of a few bursts
//! depends on the limits of the interval, so the interval begins and ends where bursts begin. The
//! rest of a burst that did not fit into a window also arrives after a pause, and does not count as
//! a burst.

use std::time::Duration;

/// The largest burst has at most this many times the bytes of another one.
const MAX_BURST_RATIO: u64 = 4;

/// The time, and the bytes that have arrived by then.
pub(super) type Sample = (Duration, u64);

/// Bytes per second from one sample to a later one.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn rate(from: Sample, to: Sample) -> f64 {
    (to.1 - from.1) as f64 / (to.0 - from.0).as_secs_f64().max(1e-6)
}

/// Bytes per second at the end of `samples`. After a pause of `pause` another burst begins.
pub(super) fn steady_rate(samples: &[Sample], pause: Duration) -> f64 {
    // Where each begins, and its bytes.
    let mut bursts: Vec<(Sample, u64)> = Vec::new();
    let mut last = None;
    for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
        if after.1 > before.1 {
            if last.is_none_or(|last| before.0.saturating_sub(last) >= pause) {
                bursts.push((*before, 0));
            }
            last = Some(after.0);
        }
        bursts.last_mut().into_iter().for_each(|it| it.1 = after.1 - it.0.1);
    }
    let largest = bursts.iter().map(|it| it.1).max().unwrap_or_default();
    bursts.retain(|it| it.1 >= largest / MAX_BURST_RATIO);
    match (bursts.as_slice(), samples) {
        // The first one may have begun before.
        ([_, (first, _), .., (last, _)] | [(first, _), (last, _)], _) => rate(*first, *last),
        (_, [first, .., end]) => {
            let half = (first.0 + end.0) / 2;
            let middle = samples.iter().find(|it| it.0 >= half && it.1 < end.1);
            rate(*middle.unwrap_or(first), *end)
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples a stream of 3 MB/s every 20 ms for three seconds.
    fn check(bytes_by_ms: impl Fn(u64) -> u64) {
        let sample = |ms| (Duration::from_millis(5_000 + ms), bytes_by_ms(ms));
        let samples: Vec<_> = (0..=3_000).step_by(20).map(sample).collect();
        let found = steady_rate(&samples, Duration::from_millis(150)) / 3e6;
        assert!((found - 1.0).abs() < 0.03, "{found}");
    }

    #[test]
    fn windows_that_open_at_the_start_do_not_count() {
        check(|ms| if ms < 1_000 { ms * ms } else { 1_000_000 + (ms - 1_000) * 3_000 });
    }

    #[test]
    fn bursts_have_the_rate_of_their_limit() {
        // All at once, or a part of it later, from any time on.
        for shift in [0, 300, 990] {
            for (part, later) in [(0, 1), (1_000_000, 667), (50_000, 210)] {
                check(|ms| {
                    let (seconds, ms) = ((ms + shift) / 1_000, (ms + shift) % 1_000);
                    seconds * 3_000_000 + if ms >= later { part } else { 0 }
                });
            }
        }
    }
}
