//! Rates of the settings that were tried, and a curve through them.

use std::collections::BTreeMap;

/// Loss on the fitted curve, as a logarithm: half of what a smaller setting may cost, because the
/// curve has errors.
const MAX_LOSS: f64 = 0.015;
/// The largest difference between rates of short intervals that is noise.
const NOISE: f64 = 0.24;

/// Logarithms of rates by setting; the mean where a setting was measured more than once.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseCurve {
    rates: BTreeMap<usize, (f64, f64)>,
}

impl ResponseCurve {
    pub(super) fn record(&mut self, setting: usize, ln_rate: f64) {
        let (sum, count) = self.rates.entry(setting).or_default();
        *sum += ln_rate;
        *count += 1.0;
    }

    pub(super) fn rate(&self, setting: usize) -> Option<f64> {
        self.rates.get(&setting).map(|(sum, count)| sum / count)
    }

    pub(super) fn lowest(&self) -> Option<usize> {
        self.rates.keys().next().copied()
    }

    fn points(&self) -> impl Iterator<Item = (usize, f64)> {
        self.rates.iter().map(|(setting, (sum, count))| (*setting, sum / count))
    }

    /// Returns true if all settings above the lowest were slower by more than `loss`, and the rates
    /// lie on a curve.
    pub(super) fn falls_from_lowest(&self, loss: f64) -> bool {
        let mut points = self.points();
        let Some((_, lowest)) = points.next() else { return false };
        let falls = points.all(|(_, rate)| rate < lowest - loss);
        falls && self.rates.len() > 1 && self.law().is_some()
    }

    /// The law that fits all rates; none if they lie on no curve.
    fn law(&self) -> Option<ScalabilityLaw> {
        let points: Vec<_> = self.points().collect();
        ScalabilityLaw::fit(&points).filter(|law| law.deviation(&points) <= NOISE)
    }

    /// Returns true if about half of `setting` was tried and was slower by more than the noise.
    pub(super) fn is_slower_at_half(&self, setting: usize) -> bool {
        let half = self.points().take_while(|(tried, _)| 3 * tried <= 2 * setting).last();
        let top = self.points().map(|(_, rate)| rate).fold(f64::NEG_INFINITY, f64::max);
        half.is_some_and(|(_, rate)| rate < top - NOISE)
    }

    /// The smallest setting within 3 % of the best one, on the fitted curve; `best` where
    /// too few are known, or they lie on no curve: a server that sends in bursts shows rates of
    /// short intervals that mean nothing.
    pub(super) fn smallest_good(&self, best: usize) -> usize {
        let (Some(lowest), Some(highest)) = (self.lowest(), self.rates.keys().next_back()) else {
            return best;
        };
        let Some(law) = self.law() else { return best };
        let top = (lowest..=*highest).map(|n| law.ln_rate(n)).fold(f64::NEG_INFINITY, f64::max);
        let mut settings = lowest..=*highest;
        settings.find(|setting| law.ln_rate(*setting) >= top - MAX_LOSS).unwrap_or(best)
    }
}

/// The universal scalability law (Gunther): the rate of `n` workers is
/// `n / (a + b (n - 1) + c n (n - 1))`, where `b` is contention (workers wait for each other) and
/// `c` is coherency (the cost of coordination).
#[derive(Debug, Clone, Copy)]
struct ScalabilityLaw([f64; 3]);

impl ScalabilityLaw {
    fn terms(setting: usize) -> [f64; 3] {
        let n = as_float(setting);
        [1.0, n - 1.0, n * (n - 1.0)]
    }

    fn ln_rate(self, setting: usize) -> f64 {
        let cost: f64 = Self::terms(setting).iter().zip(self.0).map(|(term, it)| term * it).sum();
        as_float(setting).ln() - cost.max(f64::MIN_POSITIVE).ln()
    }

    /// The root mean square deviation of the points from the curve.
    fn deviation(self, points: &[(usize, f64)]) -> f64 {
        let squares = points.iter().map(|(setting, rate)| (rate - self.ln_rate(*setting)).powi(2));
        (squares.sum::<f64>() / as_float(points.len())).sqrt()
    }

    /// Fits the law to settings and logarithms of rates: `n / rate` is linear in the three numbers.
    /// Parameters that would be negative are left out. None where that is impossible.
    fn fit(points: &[(usize, f64)]) -> Option<Self> {
        let mut used = [true, points.len() > 1, points.len() > 2];
        loop {
            let found = least_squares(points, used)?;
            let lowest = (0..3).min_by(|a, b| found[*a].total_cmp(&found[*b]))?;
            if found[lowest] >= 0.0 {
                return Some(Self(found));
            }
            used[lowest] = false;
        }
    }
}

/// The best fit of the parameters in use, by the normal equations; the errors are those of the
/// logarithms.
fn least_squares(points: &[(usize, f64)], used: [bool; 3]) -> Option<[f64; 3]> {
    let mut rows = [[0.0; 4]; 3];
    // Rates and settings are scaled to about 1, so that the coefficients are comparable.
    for (setting, ln_rate) in points {
        let target = as_float(*setting) * (-ln_rate).exp();
        let terms = ScalabilityLaw::terms(*setting);
        let scaled = [0, 1, 2].map(|n| if used[n] { terms[n] / target } else { 0.0 });
        for (row, scale) in rows.iter_mut().zip(scaled) {
            for (sum, factor) in row.iter_mut().zip(scaled.into_iter().chain([1.0])) {
                *sum += scale * factor;
            }
        }
    }
    for n in (0..3).filter(|n| !used[*n]) {
        rows[n][n] = 1.0;
    }
    solve(rows)
}

/// Solves three linear equations by elimination.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for n in 0..3 {
        let largest = (n..3).max_by(|a, b| rows[*a][n].abs().total_cmp(&rows[*b][n].abs()))?;
        rows.swap(n, largest);
        let pivot = rows[n];
        if pivot[n].abs() < f64::MIN_POSITIVE {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != n) {
            let factor = row[n] / pivot[n];
            for (value, above) in row.iter_mut().zip(pivot) {
                *value -= factor * above;
            }
        }
    }
    let found = [0, 1, 2].map(|n| rows[n][3] / rows[n][n]);
    found.iter().all(|it| it.is_finite()).then_some(found)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn as_float(setting: usize) -> f64 {
    setting.max(1) as f64
}

/// The setting some octaves above another.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers; the cast saturates"
)]
pub(super) fn at_octave(setting: usize, octaves: f64) -> usize {
    ((as_float(setting) * octaves.exp2()).round() as usize).max(1)
}
