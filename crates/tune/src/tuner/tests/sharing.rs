//! Transfers that share one link.

use super::super::*;
use super::models::interval;

/// Transfers on a link that `need` connections fill; a queue forms beyond. Each joins 40 intervals
/// after the one before. Returns Jain's index, the connections in all and the use of the link, as
/// means of the last 100 intervals.
fn shared(need: f64, transfers: usize) -> (f64, f64, f64) {
    let mut tuners: Vec<_> = (0..transfers)
        .map(|n| {
            let limits = TunerLimits { min: 1, max: 128 };
            Tuner::new(TunedKnob::Connections, 4 + n, limits, 0, Duration::ZERO)
        })
        .collect();
    let ends = 40 * transfers + 240;
    let mut sums = (0.0, 0.0, 0.0);
    for count in 0..ends {
        let active = (count / 40 + 1).min(transfers);
        let total: usize = tuners.iter().take(active).map(Tuner::setting).sum();
        let total = total as f64;
        let used = (total / need).min(1.0);
        let rates: Vec<f64> =
            tuners.iter().take(active).map(|it| 1e8 * used * it.setting() as f64 / total).collect();
        // Each connection beyond the needed ones keeps a tenth of a bandwidth-delay product queued.
        let queue = 0.1 * (total - need).max(0.0) + if total > need { 0.2 } else { 0.0 };
        let signal = PathSignal {
            rtt: Some(Duration::from_secs_f64(0.1 * (1.0 + queue))),
            min_rtt: Some(Duration::from_millis(100)),
            sender: Some(CongestionControl::Cubic),
            ..PathSignal::default()
        };
        for (tuner, rate) in tuners.iter_mut().zip(&rates) {
            tuner.end_interval(&Interval { signal, ..interval(*rate, count) });
        }
        if count + 100 >= ends {
            let (sum, square) = rates.iter().fold((0.0, 0.0), |it, r| (it.0 + r, it.1 + r * r));
            sums.0 += sum * sum / square / transfers as f64 / 100.0;
            sums.1 += total / 100.0;
            sums.2 += used / 100.0;
        }
    }
    sums
}

#[test]
fn transfers_share_a_link_evenly_with_few_connections() {
    for need in [10.0, 40.0] {
        for transfers in [2, 4] {
            let (jain, connections, used) = shared(need, transfers);
            assert!(jain >= 0.95, "{need} {transfers}: {jain}");
            assert!(connections <= 1.5 * need, "{need} {transfers}: {connections}");
            assert!(used >= 0.88, "{need} {transfers}: {used}");
        }
    }
}

#[test]
fn a_free_path_is_searched_again() {
    let mut tuner = super::tuner(16, 64);
    let queued = PathSignal {
        rtt: Some(Duration::from_millis(200)),
        min_rtt: Some(Duration::from_millis(100)),
        ..PathSignal::default()
    };
    for count in 0..10 {
        tuner.end_interval(&Interval { signal: queued, ..interval(1e6, count) });
    }
    assert!(matches!(tuner.phase, Phase::Share(_)));
    assert!(tuner.setting() <= 13, "{}", tuner.setting());
    for count in 10..50 {
        tuner.end_interval(&interval(1e6, count));
    }
    assert!(tuner.decisions().any(|it| it.reason == Reason::QueueGone));
}
