//! Other rules compared with the tuner, on the same curves and with the same noise.
//!
//! - Falcon's: gradient descent on `T / K^n`, K = 1.02, whose step is the relative change of that
//!   score (Arifuzzaman and Arslan, "Online optimization of file transfers in high-speed networks",
//!   SC 2021).
//! - FTS's (3.14, its default mode): begins in the middle of 2 to 60; every minute one more, unless
//!   the moving average of the rate has fallen by a decade.
//! - The rule before the tuner: doubles while that gains 25 %, else goes back and stays.

use super::models::{Noise, UslCurve, interval};

/// An interval, in which the tuner decides.
const INTERVAL_SECONDS: usize = 1;
const FTS_SECONDS: usize = 60;

/// The next number of connections after an interval with this rate, by its count.
type Rule = Box<dyn FnMut(f64, usize) -> usize>;

fn tuner() -> Rule {
    let mut tuner = super::tuner(4, 100);
    Box::new(move |rate, count| {
        tuner.end_interval(&interval(rate, count));
        tuner.setting()
    })
}

fn falcon() -> Rule {
    let (mut setting, mut last, mut run) = (1.0_f64, None, 1.0_f64);
    Box::new(move |rate, _| {
        let score = rate / 1.02_f64.powf(setting);
        if let Some((before, last)) = last.replace((setting, score)) {
            let gradient: f64 = (score - last) / f64::abs(setting - before).max(1.0);
            let direction = gradient.signum() * f64::signum(setting - before);
            run = if run * direction > 0.0 { run + direction } else { direction };
            let step = (setting * (gradient / score).abs()).ceil();
            setting = (setting + run * step.max(1.0)).clamp(1.0, 100.0);
        } else {
            setting += 1.0;
        }
        setting as usize
    })
}

fn fts() -> Rule {
    let (mut setting, mut average) = (31, None);
    Box::new(move |rate, count| {
        if count.is_multiple_of(FTS_SECONDS / INTERVAL_SECONDS) {
            let before = average.unwrap_or(rate);
            let now = 0.1 * rate + 0.9 * before;
            average = Some(now);
            if now >= before {
                setting = (setting + 1).min(60);
            } else if now.log10().round() < before.log10().round() {
                setting = (setting - 1).max(2);
            }
        }
        setting
    })
}

fn doubling() -> Rule {
    let (mut setting, mut last, mut is_over) = (4, 0.0, false);
    Box::new(move |rate, _| {
        if !is_over && rate >= 1.25 * last {
            setting = (2 * setting).min(100);
        } else if !is_over {
            setting /= 2;
            is_over = true;
        }
        last = rate;
        setting
    })
}

/// Shares of the best that each rule brings over `intervals`, with 10 % of noise: the means of 300
/// curves whose best number lies between 2 and 100.
fn shares(intervals: usize) -> [f64; 4] {
    let mut noise = Noise::new(11);
    let mut found = [0.0; 4];
    for _ in 0..300 {
        let curve = UslCurve::random(&mut noise);
        let best = (1..=100).map(|n| curve.rate(n)).fold(0.0, f64::max);
        let rules = [(4, tuner()), (1, falcon()), (31, fts()), (4, doubling())];
        for (share, (mut setting, mut rule)) in found.iter_mut().zip(rules) {
            for count in 1..=intervals {
                let rate = curve.rate(setting);
                *share += rate / best / (300 * intervals) as f64;
                setting = rule(rate * noise.factor(0.1), count);
            }
        }
    }
    found
}

#[test]
fn the_tuner_brings_more_than_other_rules_in_half_a_minute_and_in_half_an_hour() {
    for (intervals, least) in [(30, 0.90), (1800, 0.94)] {
        let [ours, others @ ..] = shares(intervals);
        assert!(ours >= least, "{ours} in {intervals}");
        assert!(others.iter().all(|other| ours > other + 0.03), "{ours} {others:?} in {intervals}");
    }
}
