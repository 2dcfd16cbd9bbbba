//! The result, as JSON, CSV and a table.

use super::experiment::{Axis, Experiment};
use super::journal::{Record, Run};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The confidence of intervals if there are enough runs.
const CONFIDENCE: f64 = 0.95;
/// Assumed rate of runs before any was measured, in bytes per second.
const ASSUMED_RATE: f64 = 1e8;

/// The median of some values, and an interval around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The interval between the order statistics `x(k)` and `x(n+1-k)`, with the largest `k` that
    /// gives 95 %, or from the smallest to the largest value. Also returns its confidence: `1 - 2
    /// P(B < k)`, where B is binomial with `n` and 1/2, whatever the distribution (H. A. David and
    /// H. N. Nagaraja, Order Statistics, 3rd edition, 2003, section 7.1).
    fn of(mut values: Vec<f64>) -> Option<(Self, f64)> {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let low = *values.first()?;
        let high = *values.last()?;
        let median = f64::midpoint(values[(n - 1) / 2], values[n / 2]);
        let mut found = (Self { median, low, high }, 0.0);
        // P(B = 0), and P(B < k).
        let mut exactly = 0.5_f64.powf(n as f64);
        let mut below = 0.0;
        for k in 1..=n.div_ceil(2) {
            below += exactly;
            exactly *= (n + 1 - k) as f64 / k as f64;
            let confidence = 1.0 - 2.0 * below;
            if k > 1 && confidence < CONFIDENCE {
                break;
            }
            found = (Self { median, low: values[k - 1], high: values[n - k] }, confidence.max(0.0));
        }
        Some(found)
    }
}

/// The results of one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PointReport {
    /// The name of the server.
    pub server: String,
    /// The settings.
    pub settings: BTreeMap<Axis, String>,
    /// Bytes of a run.
    pub bytes: u64,
    /// Number of completed runs.
    pub runs: usize,
    /// The confidence of the intervals; none without completed runs.
    pub confidence_percent: Option<f64>,
    /// The rate.
    pub bytes_per_second: Option<Interval>,
    /// CPU time of the server in percent of the time of the run: 100 is one CPU.
    pub load_percent: Option<Interval>,
    /// CPU time of the server per 10^9 bytes.
    pub cpu_seconds_per_gb: Option<Interval>,
}

impl PointReport {
    /// The three results, in the units of the report.
    pub(super) fn results(&self) -> [Option<Interval>; 3] {
        let megabytes = |it: Interval| Interval {
            median: it.median / 1e6,
            low: it.low / 1e6,
            high: it.high / 1e6,
        };
        [self.bytes_per_second.map(megabytes), self.load_percent, self.cpu_seconds_per_gb]
    }
}

/// The results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// The experiment file.
    pub experiment: String,
    /// The journal of its runs.
    pub journal: String,
    /// Number of completed runs.
    pub runs_done: usize,
    /// Number of missing runs.
    pub runs_left: usize,
    /// Estimated time of the missing runs: each takes as long as the average completed run, or
    /// moves 100 MB/s if there is none.
    pub seconds_left: f64,
    /// The points.
    pub points: Vec<PointReport>,
}

impl SweepReport {
    pub(super) fn new(experiment: &Experiment, record: &Record) -> Self {
        let mut of_points: Vec<Vec<Run>> = vec![Vec::new(); experiment.points.len()];
        // The journal may have more runs than the file requests.
        for run in record.runs.iter().filter(|it| it.round < experiment.runs) {
            of_points[run.point].push(*run);
        }
        let seconds: f64 = record.runs.iter().map(|it| it.seconds).sum();
        let mean = (seconds > 0.0).then(|| seconds / record.runs.len() as f64);
        let mut report = Self {
            experiment: experiment.path.display().to_string(),
            journal: experiment.journal.display().to_string(),
            runs_done: 0,
            runs_left: 0,
            seconds_left: 0.0,
            points: Vec::new(),
        };
        for (point, runs) in experiment.points.iter().zip(of_points) {
            let (_, bytes) = experiment.files(point);
            let left = experiment.runs - runs.len();
            report.runs_done += runs.len();
            report.runs_left += left;
            report.seconds_left += left as f64 * mean.unwrap_or(bytes as f64 / ASSUMED_RATE);
            let of = |value: &dyn Fn(&Run) -> Option<f64>| {
                let values: Option<Vec<f64>> = runs.iter().map(value).collect();
                Interval::of(values?)
            };
            let rate = of(&|it| Some(it.bytes as f64 / it.seconds));
            let load = of(&|it| Some(100.0 * it.cpu_seconds? / it.seconds));
            let cost = of(&|it| Some(it.cpu_seconds? / (it.bytes as f64 / 1e9)));
            report.points.push(PointReport {
                server: experiment.servers[point.server].name.clone(),
                settings: point.settings.clone(),
                bytes,
                runs: runs.len(),
                confidence_percent: rate.map(|(_, confidence)| 100.0 * confidence),
                bytes_per_second: rate.map(|(interval, _)| interval),
                load_percent: load.map(|(interval, _)| interval),
                cpu_seconds_per_gb: cost.map(|(interval, _)| interval),
            });
        }
        report
    }

    /// The values of each axis, in the order of the file.
    pub(super) fn axes(&self) -> BTreeMap<Axis, Vec<&str>> {
        let mut axes: BTreeMap<Axis, Vec<&str>> = BTreeMap::new();
        for (axis, setting) in self.points.iter().flat_map(|it| &it.settings) {
            let settings = axes.entry(*axis).or_default();
            if !settings.contains(&&**setting) {
                settings.push(setting);
            }
        }
        axes
    }

    /// One line for each point, with the medians and the ends of the intervals.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let axes: Vec<_> = Axis::ALL.iter().map(|it| it.key()).collect();
        let mut csv = format!("server,{},bytes,runs,confidence_percent", axes.join(","));
        for name in ["bytes_per_second", "load_percent", "cpu_seconds_per_gb"] {
            csv += &format!(",{name},{name}_low,{name}_high");
        }
        csv.push('\n');
        let number = |it: Option<f64>| it.map(|it| it.to_string()).unwrap_or_default();
        for point in &self.points {
            let settings = Axis::ALL.iter().map(|it| point.settings.get(it));
            let settings = settings.map(|it| it.cloned().unwrap_or_default());
            let mut fields: Vec<String> =
                std::iter::once(point.server.clone()).chain(settings).collect();
            fields.extend([point.bytes.to_string(), point.runs.to_string()]);
            fields.push(number(point.confidence_percent));
            for it in [point.bytes_per_second, point.load_percent, point.cpu_seconds_per_gb] {
                let ends = [it.map(|it| it.median), it.map(|it| it.low), it.map(|it| it.high)];
                fields.extend(ends.map(number));
            }
            csv += &(fields.join(",") + "\n");
        }
        csv
    }

    /// The table as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (varied, fixed): (BTreeMap<_, _>, _) =
            self.axes().into_iter().partition(|(_, settings)| settings.len() > 1);
        let mut text = format!(
            "{}: {} points, {} runs done, {} left, which take about {:.0} s\n",
            self.experiment,
            self.points.len(),
            self.runs_done,
            self.runs_left,
            self.seconds_left,
        );
        // Writing to a String cannot fail, here and below.
        for (axis, setting) in fixed.iter().flat_map(|(axis, all)| all.first().map(|it| (axis, it)))
        {
            let _ = writeln!(text, "  {} {}", axis.key(), short(setting));
        }
        let widest = self.points.iter().map(|it| it.server.chars().count()).max();
        let width = widest.unwrap_or_default().max("server".len());
        let _ = write!(text, "\n{:<width$}", "server");
        for axis in varied.keys() {
            let _ = write!(text, "  {:>11}", axis.key());
        }
        let _ = writeln!(text, "  runs  {:<24}  {:<24}  CPU s/GB", "MB/s", "load, %");
        for point in &self.points {
            let _ = write!(text, "{:<width$}", point.server);
            for axis in varied.keys() {
                let room = axis.key().len().max(11);
                let value = point.settings.get(axis).map(|it| short(it)).unwrap_or_default();
                let _ = write!(text, "  {value:>room$}");
            }
            let _ = write!(text, "  {:>4}", point.runs);
            for result in point.results() {
                let interval = |it: Interval| {
                    format!("{} [{}, {}]", digits(it.median), digits(it.low), digits(it.high))
                };
                let _ = write!(text, "  {:<24}", result.map(interval).unwrap_or_default());
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        let confidences = self.points.iter().filter_map(|it| it.confidence_percent);
        if let Some(least) = confidences.reduce(f64::min) {
            let _ = writeln!(
                text,
                "\nMedians, and intervals that hold with a confidence of {least:.1} % or more"
            );
        }
        text
    }

    /// A page with plots, as HTML without scripts or links.
    #[must_use]
    pub fn to_html(&self) -> String {
        super::page::page(self)
    }
}

/// A number with three significant digits.
pub(super) fn digits(number: f64) -> String {
    let decimals = match number {
        0.0 => 0,
        100.0.. => 0,
        10.0..100.0 => 1,
        1.0..10.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

/// A setting with a unit prefix instead of zeros.
pub(super) fn short(setting: &str) -> String {
    let in_unit = |(zeros, unit)| Some(format!("{}{unit}", setting.strip_suffix(zeros)?));
    let units = [("000000000", 'G'), ("000000", 'M'), ("000", 'k')];
    units.into_iter().find_map(in_unit).unwrap_or_else(|| setting.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_order_statistics() {
        for (n, rank, confidence) in
            [(1, 1, 0.0), (2, 1, 50.0), (5, 1, 93.75), (6, 1, 96.875), (9, 2, 96.093_75)]
        {
            let values = (1..=n).rev().map(f64::from).collect();
            let (interval, found) = Interval::of(values).unwrap();
            assert_eq!(interval.median, f64::from(n + 1) / 2.0);
            assert_eq!((interval.low, interval.high), (f64::from(rank), f64::from(n + 1 - rank)));
            assert!((100.0 * found - confidence).abs() < 1e-9, "{n}: {found}");
        }
        let (of_many, confidence) = Interval::of((1..=1000).map(f64::from).collect()).unwrap();
        assert_eq!((of_many.low, of_many.high), (469.0, 532.0));
        assert!((0.95..0.96).contains(&confidence), "{confidence}");
        assert_eq!(Interval::of(Vec::new()), None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.1234, 1.0, 12.34, 1234.5].map(digits),
            ["0", "0.123", "1.00", "12.3", "1234"]
        );
        let sizes = ["7", "65536", "64000", "250000000", "cubic"].map(short);
        assert_eq!(sizes, ["7", "65536", "64k", "250M", "cubic"]);
    }
}
