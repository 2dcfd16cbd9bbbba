//! Falcon's published rule beside the tuner: gradient descent on `T / K^n`, K = 1.02, whose step is
//! the relative change of that score (Arifuzzaman and Arslan, "Online optimization of file
//! transfers in high-speed networks", SC 2021).

use super::models::{Noise, UslCurve, interval};

struct Falcon {
    setting: f64,
    last: Option<(f64, f64)>,
    run: f64,
}

impl Falcon {
    fn end_interval(&mut self, rate: f64) {
        let score = rate / 1.02_f64.powf(self.setting);
        let Some((before, last)) = self.last.replace((self.setting, score)) else {
            self.setting += 1.0;
            return;
        };
        let gradient = (score - last) / (self.setting - before).abs().max(1.0);
        let direction = gradient.signum() * (self.setting - before).signum();
        self.run = if self.run * direction > 0.0 { self.run + direction } else { direction };
        let step = (self.setting * (gradient / score).abs()).ceil();
        self.setting = (self.setting + self.run * step.max(1.0)).clamp(1.0, 100.0);
    }
}

#[test]
fn thirty_intervals_bring_more_than_with_the_rule_of_falcon() {
    let mut noise = Noise::new(11);
    let (mut ours, mut falcons) = (0.0, 0.0);
    for _ in 0..300 {
        let curve = UslCurve::random(&mut noise);
        let best = (1..=100).map(|n| curve.rate(n)).fold(0.0, f64::max);
        let mut tuner = super::tuner(4, 100);
        let mut falcon = Falcon { setting: 1.0, last: None, run: 1.0 };
        for count in 0..30 {
            let (a, b) = (curve.rate(tuner.setting()), curve.rate(falcon.setting as usize));
            ours += a / best / 9_000.0;
            falcons += b / best / 9_000.0;
            tuner.end_interval(&interval(a * noise.factor(0.1), count));
            falcon.end_interval(b * noise.factor(0.1));
        }
    }
    assert!(ours >= 0.85 && ours > falcons + 0.05, "{ours} {falcons}");
}
