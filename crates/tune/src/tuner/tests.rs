//! Models of paths in virtual time.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]

use super::*;

mod models;
mod other_rules;
mod sharing;

use models::{Noise, Played, SimulatedPath, UslCurve, played};

const SECOND: Duration = Duration::from_secs(1);

fn limits(min: usize, max: usize) -> TunerLimits {
    TunerLimits { min, max }
}

fn tuner(setting: usize, max: usize) -> Tuner {
    Tuner::new(TunedKnob::Connections, setting, limits(1, max), 0, Duration::ZERO)
}

/// Share of 300 USL curves on which a tuner came to 95 % of the best rate, and the mean of its
/// intervals.
fn reach(deviation: f64) -> (f64, f64) {
    let mut noise = Noise::new(7);
    let (mut reached, mut probes) = (0.0, 0.0);
    for _ in 0..300 {
        let curve = UslCurve::random(&mut noise);
        let best = (1..=128).map(|n| curve.rate(n)).fold(0.0, f64::max);
        let mut tuner = tuner(4, 128);
        let mut count = 0;
        while !matches!(tuner.phase, Phase::Hold(_)) {
            let rate = curve.rate(tuner.setting()) * noise.factor(deviation);
            tuner.end_interval(&models::interval(rate, count));
            count += 1;
        }
        probes += count as f64 / 300.0;
        let is_good = curve.rate(tuner.setting()) >= 0.95 * best;
        reached += if is_good && count <= 10 { 1.0 / 300.0 } else { 0.0 };
    }
    (reached, probes)
}

#[test]
fn ten_probes_reach_nearly_the_best_of_any_curve() {
    for (deviation, least) in [(0.0, 0.99), (0.05, 0.98), (0.10, 0.95)] {
        let (reached, probes) = reach(deviation);
        assert!(reached >= least && probes <= 8.0, "{deviation}: {reached} in {probes}");
    }
}

#[test]
fn connections_double_while_each_brings_as_much_as_before() {
    let limited = SimulatedPath { each: 3e5, ..SimulatedPath::default() };
    let Played { settings, .. } = played(&mut tuner(4, 64), &limited, 2 * SECOND);
    assert_eq!(settings.last(), Some(&64));
    assert_eq!([4, 9, 14, 19].map(|tick| settings[tick]), [8, 16, 32, 64]);
}

#[test]
fn a_burst_before_the_limit_does_not_hide_it() {
    // nginx sends a connection what it may have in a second, and then nothing for a second.
    let bursts = SimulatedPath { each: 3e5, in_bursts: true, ..SimulatedPath::default() };
    let Played { settings, .. } = played(&mut tuner(4, 64), &bursts, 120 * SECOND);
    assert!(settings.iter().take(60).any(|setting| *setting >= 32), "{settings:?}");
    assert!(*settings.last().unwrap() >= 32, "{settings:?}");
}

#[test]
fn rates_on_no_curve_leave_the_setting_of_the_ladder() {
    // Seen with `limit_rate` of nginx: a burst each second, in MB/s of a quarter of a second.
    let mut curve = ResponseCurve::default();
    for (setting, rate) in [(4, 3.2_f64), (8, 1.2), (16, 2.0), (32, 0.4), (64, 52.0)] {
        curve.record(setting, rate.ln());
    }
    assert_eq!(curve.smallest_good(64), 64);
    let mut curve = ResponseCurve::default();
    for (setting, rate) in [(14, 5.0_f64), (28, 0.35), (56, 2.6), (64, 2.8)] {
        curve.record(setting, rate.ln());
    }
    assert!(!curve.falls_from_lowest(STEP_GAIN));
    assert_eq!(curve.smallest_good(64), 64);
}

#[test]
fn connections_that_bring_nothing_are_given_back() {
    let narrow = SimulatedPath { all: 1e6, ..SimulatedPath::default() };
    let Played { settings, bytes, .. } = played(&mut tuner(4, 64), &narrow, 60 * SECOND);
    assert!(settings.iter().all(|setting| *setting <= 16), "{settings:?}");
    assert!(*settings.last().unwrap() <= 6);
    assert!((bytes - 60e6).abs() < 1e3);
}

#[test]
fn doubling_ends_where_the_path_is_full() {
    let limited = SimulatedPath { all: 4e6, each: 3e5, ..SimulatedPath::default() };
    let Played { settings, .. } = played(&mut tuner(4, 64), &limited, 10 * SECOND);
    let last = *settings.last().unwrap();
    assert!((12..=20).contains(&last), "{settings:?}");
}

#[test]
fn half_an_hour_passes_without_oscillation() {
    // With noise of 5 % it takes 12 connections for the 14 that are needed, for a quarter of an
    // hour, and corrects that by one search: one step of its settings is a variation of 0.13.
    for (seed, deviation, bound) in [(1, 0.02, 0.10), (2, 0.03, 0.10), (3, 0.05, 0.15)] {
        let path =
            SimulatedPath { all: 4e6, each: 3e5, deviation, seed, ..SimulatedPath::default() };
        let mut tuner = tuner(4, 64);
        let Played { settled, bytes, .. } = played(&mut tuner, &path, 1_800 * SECOND);
        let settled = &settled[18_000..];
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        let square = settled.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>();
        let variation = (square / settled.len() as f64).sqrt() / mean;
        // The number falls slowly to what is needed, and changes little once it is there.
        let rises = settled.windows(2).filter(|it| it[1] > it[0]).count();
        assert!(rises <= 4, "{deviation}: {rises}");
        assert!(variation < bound, "{deviation}: {mean} {variation}");
        assert!(bytes > 0.95 * 4e6 * 1_800.0, "{deviation}: {bytes}");
    }
}

#[test]
fn changes_of_the_capacity_are_found_again() {
    // Factors on the rate of the path and of each connection, and the time that is allowed: a path
    // that has become wider shows only in trials where each connection is limited.
    for (all, each, seconds) in [(0.5, 1.0, 10), (2.0, 2.0, 10), (1.0, 0.5, 10), (2.0, 1.0, 90)] {
        let mut mean = 0.0;
        for seed in 0..20 {
            let deviation = 0.03;
            let mut path =
                SimulatedPath { all: 8e6, each: 3e5, deviation, seed, ..SimulatedPath::default() };
            let mut tuner = tuner(4, 128);
            played(&mut tuner, &path, 60 * SECOND);
            path.all *= all;
            path.each *= each;
            path.began = 60 * SECOND;
            let mut used = |seconds: u32| {
                let last = played(&mut tuner, &path, seconds * SECOND).last();
                path.began += seconds * SECOND;
                last as f64 * path.each / path.all
            };
            let (first, later) = (used(seconds), used(60));
            mean += first.min(1.0) / 20.0;
            assert!(first >= 0.75, "{all} {each} {seed}: {first}");
            assert!((0.8..=8.0).contains(&later), "{all} {each} {seed}: {later}");
        }
        assert!(mean >= 0.97, "{all} {each}: {mean}");
    }
}

#[test]
fn nothing_is_tried_while_writing_is_slower_than_the_network() {
    let mut tuner = tuner(4, 64);
    for tick in 1..200_u64 {
        let at = Duration::from_millis(50 * tick);
        let stages = StageTimes { blocked: 3 * at, busy: at, ..StageTimes::default() };
        let seen = Observation { now: at, done: tick << 20, stages, ..Observation::default() };
        tuner.observe(&seen);
        assert!(tuner.setting() <= 4);
    }
    assert_eq!(tuner.decisions().next().unwrap().reason, Reason::DownstreamSlower);
}

#[test]
fn intervals_with_too_little_to_do_decide_nothing() {
    let mut tuner = tuner(4, 64);
    for tick in 1..200_u64 {
        let at = Duration::from_millis(50 * tick);
        let stages = StageTimes { starved: 3 * at, busy: at, ..StageTimes::default() };
        tuner.observe(&Observation { now: at, stages, ..Observation::default() });
    }
    assert_eq!((tuner.setting(), tuner.decisions().count()), (4, 0));
}

#[test]
fn a_lower_setting_counts_once_what_was_under_way_has_ended() {
    let mut tuner = tuner(16, 16);
    let mut seen = Observation::default();
    let mut pass = |tuner: &mut Tuner, ticks: u64, active| {
        for _ in 0..ticks {
            seen.now += SECOND / 20;
            seen.done += 100_000;
            seen.active = active;
            tuner.observe(&seen);
        }
    };
    // The second step settles, and half of the setting is tried after a while.
    pass(&mut tuner, 100, 16);
    let lower = tuner.setting();
    assert!(lower < 16, "{lower}");
    pass(&mut tuner, 1_000, 16);
    assert_eq!(tuner.setting(), lower, "sixteen requests are still under way");
    pass(&mut tuner, 1_000, 1);
    assert!(tuner.setting() < lower);
}

#[test]
fn a_setting_that_another_rule_raises_is_not_given_back() {
    let mut tuner = tuner(4, 64);
    let path = SimulatedPath { all: 1e6, ..SimulatedPath::default() };
    played(&mut tuner, &path, SECOND / 3);
    tuner.raise(20);
    tuner.raise(10);
    assert_eq!(tuner.setting(), 20);
    tuner.raise(100);
    assert_eq!(tuner.setting(), 64);
}

#[test]
fn steps_on_long_paths_are_as_long_as_windows_take_to_open() {
    let mut tuner = tuner(4, 64);
    for tick in 1..38 {
        let now = Duration::from_millis(50 * tick);
        let latency = Duration::from_millis(240);
        tuner.observe(&Observation { now, done: 1_000 * tick, latency, ..Observation::default() });
        assert_eq!(tuner.setting(), 4);
    }
}

#[test]
fn nothing_is_tried_once_the_rate_is_enough() {
    for (enough, setting) in [(1e6, 4), (1e7, 8)] {
        let mut tuner = tuner(4, 64);
        let seen = |millis, done| Observation {
            now: Duration::from_millis(millis),
            done,
            enough: Some(enough),
            ..Observation::default()
        };
        // 4 MB a second.
        tuner.observe(&seen(125, 500_000));
        tuner.observe(&seen(250, 1_000_000));
        assert_eq!(tuner.setting(), setting, "{enough}");
    }
}

#[test]
fn time_in_which_nothing_was_to_move_does_not_count() {
    let mut tuner = tuner(4, 64);
    let seen = |millis, done| Observation {
        now: Duration::from_millis(millis),
        done,
        enough: Some(1e6),
        ..Observation::default()
    };
    tuner.observe(&seen(50, 2_000_000));
    tuner.resume(&seen(60_000, 2_000_000));
    for tick in 1..=5 {
        // 4 MB a second, a minute later.
        tuner.observe(&seen(60_000 + 50 * tick, 2_000_000 + 200_000 * tick));
    }
    assert_eq!(tuner.setting(), 4);
}

#[test]
fn what_a_server_refuses_is_a_decision() {
    let knob = TunedKnob::ThirdPartyFiles;
    let mut tuner = Tuner::new(knob, 8, limits(2, 64), 0, Duration::ZERO);
    let (now, latency) = (2 * SECOND, SECOND);
    tuner.observe(&Observation { now, done: 100, latency, ..Observation::default() });
    tuner.lower_max(5);
    tuner.lower_max(6);
    let found: Vec<_> = tuner.decisions().map(|it| (it.from, it.to, it.rate, it.reason)).collect();
    assert_eq!(found, [(8, 5, 50.0, Reason::Refused)]);
}

#[test]
fn what_a_server_refused_is_tried_again_after_a_minute() {
    let path = SimulatedPath { each: 3e5, ..SimulatedPath::default() };
    let mut tuner = tuner(4, 16);
    tuner.lower_max(4);
    played(&mut tuner, &path, 50 * SECOND);
    assert_eq!(tuner.settled(), Some(4));
    let later = SimulatedPath { began: 50 * SECOND, ..path };
    played(&mut tuner, &later, 100 * SECOND);
    assert_eq!(tuner.settled(), Some(16));
}

#[test]
fn signals_of_queues_depend_on_the_sender() {
    let signal = |rtt, min_rtt, sender| PathSignal {
        rtt: Some(Duration::from_millis(rtt)),
        min_rtt: Some(Duration::from_millis(min_rtt)),
        sender,
        ..PathSignal::default()
    };
    let (cubic, bbr) = (Some(CongestionControl::Cubic), Some(CongestionControl::Bbr));
    assert!(signal(140, 100, cubic).is_queued());
    assert!(!signal(110, 100, cubic).is_queued());
    assert!(!signal(200, 100, bbr).is_queued(), "BBR beside other flows");
    assert!(signal(260, 100, bbr).is_queued());
    assert!(!signal(120, 100, None).is_queued() && signal(130, 100, None).is_queued());
    assert!(!signal(4, 1, cubic).is_queued(), "a late processor");
    assert!(PathSignal { lost_share: 0.01, ..PathSignal::default() }.is_queued());
    assert!(!PathSignal { lost_share: 0.01, sender: bbr, ..PathSignal::default() }.is_queued());
}

#[test]
fn any_observations_keep_within_the_limits() {
    let mut noise = Noise::new(5);
    for _ in 0..200 {
        let start = noise.below(100);
        let max = noise.below(100);
        let mut tuner =
            Tuner::new(TunedKnob::SmallFiles, start, limits(noise.below(8), max), 0, SECOND);
        let least = tuner.limits.min;
        let mut now = Duration::ZERO;
        for _ in 0..300 {
            now += Duration::from_millis(noise.below(3_000) as u64);
            let seen = Observation {
                now,
                done: noise.below(1 << 40) as u64,
                latency: Duration::from_millis(noise.below(400) as u64),
                stages: StageTimes {
                    busy: Duration::from_millis(noise.below(1 << 30) as u64),
                    starved: Duration::from_millis(noise.below(1 << 30) as u64),
                    blocked: Duration::from_millis(noise.below(1 << 30) as u64),
                },
                workers: noise.below(100),
                active: noise.below(100),
                signal: PathSignal {
                    lost_share: noise.below(100) as f64 / 1e4,
                    ..PathSignal::default()
                },
                enough: Some(noise.below(1 << 40) as f64).filter(|_| noise.below(2) == 0),
            };
            tuner.observe(&seen);
            let most = max.max(start).max(1);
            assert!((least..=most).contains(&tuner.setting()), "{tuner:?}");
        }
    }
}
