//! The results of a sweep, as data and as tables.

use super::heat_map::{Axis, heat_maps};
use super::sweep::{Case, Grid};
use super::{Job, JobReport, JobResult, JobSettings, Method};
use hither_chart::html;
use hither_core::error::counted;
use serde::Serialize;
use std::fmt::Write;

/// Methods whose durations differ by less than this factor count as equally fast.
const SIMILAR: f64 = 1.02;

/// The results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SimulationReport {
    /// The job.
    pub job: JobReport,
    /// The methods compared, for each link.
    pub links: Vec<LinkReport>,
    /// The runs that have finished.
    pub cases: Vec<Case>,
    /// The sweep was stopped before all runs had finished.
    pub interrupted: bool,
    #[serde(skip)]
    axes: Vec<Axis>,
}

/// A comparison of the methods over one link.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LinkReport {
    /// Round-trip time.
    pub latency_seconds: f64,
    /// Rate; none for no limit.
    pub bits_per_second: Option<u64>,
    /// Shortest duration if the files are copied first.
    pub copy_first_seconds: Option<f64>,
    /// Shortest duration without prefetching.
    pub read_through_seconds: Option<f64>,
    /// Shortest duration with prefetching.
    pub prefetch_seconds: Option<f64>,
    /// The lower bound of the duration: the job's work, or the used bytes at the rate of the link,
    /// whichever takes longer.
    pub least_seconds: f64,
    /// The fastest method; of those within 2 % of it, the one that fetches the fewest bytes.
    pub recommended: Method,
    /// The settings of its fastest run.
    pub settings: JobSettings,
}

impl LinkReport {
    /// Compares runs over the same link; none if there are no runs.
    fn of(cases: &[(&Case, JobResult)], work: f64) -> Option<Self> {
        let fastest = |method| {
            let of_method = cases.iter().filter(move |(case, _)| case.method == method);
            of_method.min_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds))
        };
        let methods = [Method::CopyFirst, Method::ReadThrough, Method::Prefetch];
        let best = methods.map(fastest);
        let shortest = best.iter().flatten().map(|(_, result)| result.seconds);
        let shortest = shortest.fold(f64::INFINITY, f64::min);
        let similar = best.iter().flatten().filter(|it| it.1.seconds <= shortest * SIMILAR);
        let (case, _) = similar.min_by_key(|(_, result)| result.bytes_fetched)?;
        let link = case.settings.link;
        let used = cases.iter().filter(|it| it.0.method != Method::CopyFirst);
        let used = used.map(|(_, result)| result.bytes_used).min().unwrap_or_default();
        let [copy_first_seconds, read_through_seconds, prefetch_seconds] =
            best.map(|it| it.map(|(_, result)| result.seconds));
        Some(Self {
            latency_seconds: link.rtt.as_secs_f64(),
            bits_per_second: link.bandwidth,
            copy_first_seconds,
            read_through_seconds,
            prefetch_seconds,
            least_seconds: link.serialisation(used).as_secs_f64().max(work),
            recommended: case.method,
            settings: case.settings,
        })
    }

    /// The comparison as a sentence.
    fn sentence(&self) -> String {
        let seconds = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
        let settings = match self.recommended {
            Method::Prefetch => format!(", {}", described(&self.settings)),
            Method::CopyFirst | Method::ReadThrough => String::new(),
        };
        format!(
            "{}: copy first {}, read through {}, prefetch {}, at least {}: {}{settings}",
            self.settings.link,
            seconds(self.copy_first_seconds),
            seconds(self.read_through_seconds),
            seconds(self.prefetch_seconds),
            self::seconds(self.least_seconds),
            self.recommended,
        )
    }
}

/// A description of the settings of a run with prefetching.
fn described(settings: &JobSettings) -> String {
    let JobSettings { cache_bytes, block_bytes, read_ahead_bytes, connections, .. } = settings;
    format!(
        "cache {}, block {}, read-ahead {}, {}",
        size(*cache_bytes),
        block_bytes.map_or_else(|| "learned".to_owned(), size),
        read_ahead_bytes.map_or_else(|| "auto".to_owned(), size),
        counted(*connections, "connection"),
    )
}

impl SimulationReport {
    pub(super) fn new(job: &Job, grid: &Grid, cases: Vec<Case>, all: usize) -> Self {
        let work = job.work().as_secs_f64();
        let done: Vec<_> = cases.iter().filter_map(|case| Some((case, case.result?))).collect();
        let of_link = |rtt, bandwidth| {
            let is_of_link = |case: &Case| {
                (case.settings.link.rtt, case.settings.link.bandwidth) == (rtt, bandwidth)
            };
            let here: Vec<_> = done.iter().filter(|it| is_of_link(it.0)).copied().collect();
            LinkReport::of(&here, work)
        };
        let pairs = grid
            .latencies
            .iter()
            .flat_map(|rtt| grid.bandwidths.iter().map(move |bandwidth| (*rtt, *bandwidth)));
        let links = pairs.filter_map(|(rtt, bandwidth)| of_link(rtt, bandwidth)).collect();
        let interrupted = done.len() < all;
        let axes = Axis::varied(grid);
        Self { job: job.report(), links, cases, interrupted, axes }
    }

    /// The tables as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let job = &self.job;
        let mut text = format!(
            "{} of {} in {} ({}) by {}; work {}, recorded {}\n\n",
            counted(job.reads, "read"),
            size(job.bytes),
            counted(job.files, "file"),
            size(job.file_bytes),
            counted(job.threads, "thread"),
            seconds(job.work_seconds),
            seconds(job.recorded_seconds),
        );
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{:>9} {:>14}  {:<12} {:>7} {:>7} {:>7} {:>5} {:>10} {:>10} {:>8} {:>8} {:>8}  waits for",
            "latency",
            "bandwidth",
            "method",
            "cache",
            "block",
            "ahead",
            "conns",
            "duration",
            "waited",
            "requests",
            "fetched",
            "used",
        );
        for (case, result) in self.cases.iter().filter_map(|case| Some((case, case.result?))) {
            push(&mut text, case, &result);
        }
        text.push('\n');
        for link in &self.links {
            let _ = writeln!(text, "{}", link.sentence());
        }
        if self.interrupted {
            text.push_str("interrupted: some runs are missing\n");
        }
        text
    }

    /// An HTML page with the table, and with heat maps of the duration if several settings vary.
    #[must_use]
    pub fn to_html(&self, title: &str) -> String {
        let maps = heat_maps(&self.axes, &self.cases);
        let maps =
            maps.iter().map(|(title, svg)| format!("<h2>{}</h2>\n{svg}", html::escape(title)));
        html::page(title, &maps.collect::<String>(), &self.to_text())
    }
}

fn push(text: &mut String, case: &Case, result: &JobResult) {
    let settings = &case.settings;
    let only_prefetch = |value: String| match case.method {
        Method::Prefetch => value,
        Method::CopyFirst | Method::ReadThrough => "-".to_owned(),
    };
    let cache = match case.method {
        Method::CopyFirst => "-".to_owned(),
        Method::ReadThrough | Method::Prefetch => size(settings.cache_bytes),
    };
    let block = settings.block_bytes.map_or_else(|| "learned".to_owned(), size);
    let ahead = settings.read_ahead_bytes.map_or_else(|| "auto".to_owned(), size);
    let bandwidth = settings.link.bandwidth.map_or_else(|| "unlimited".to_owned(), rate);
    let _ = writeln!(
        text,
        "{:>9} {bandwidth:>14}  {:<12} {cache:>7} {:>7} {:>7} {:>5} {:>10} {:>10} {:>8} {:>8} {:>8}  {}",
        milliseconds(settings.link.rtt),
        case.method,
        only_prefetch(block),
        only_prefetch(ahead),
        settings.connections,
        seconds(result.seconds),
        seconds(result.waited_seconds),
        result.requests,
        size(result.bytes_fetched),
        size(result.bytes_used),
        causes(result),
    );
}

/// The two largest causes of waits, with their shares.
fn causes(result: &JobResult) -> String {
    let total = result.waits.total().as_secs_f64();
    let mut named = result.waits.named();
    named.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let share = |(name, time): &(&str, std::time::Duration)| {
        let percent = 100.0 * time.as_secs_f64() / total;
        (percent >= 0.5).then(|| format!("{name} {percent:.0} %"))
    };
    named.iter().take(2).filter_map(share).collect::<Vec<_>>().join(", ")
}

pub(super) fn milliseconds(time: std::time::Duration) -> String {
    format!("{} ms", (time.as_secs_f64() * 1e6).round() / 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn rate(bits: u64) -> String {
    let mega = bits as f64 / 1e6;
    // Ten digits hide what a conversion between units has added.
    format!("{} Mbit/s", (mega * 1e3).round() / 1e3)
}

pub(super) fn seconds(time: f64) -> String {
    match time {
        time if time < 0.01 => format!("{:.2} ms", time * 1e3),
        time if time < 100.0 => format!("{time:.3} s"),
        time => format!("{time:.1} s"),
    }
}

/// A number of bytes with three digits.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn size(bytes: u64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let number = format!("{value:.digits$}");
    let number =
        if digits > 0 { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    format!("{number}{}", units.get(unit).copied().unwrap_or_default())
}
