//! Throughput, latencies and most-sent files of the last minutes, for the status page.
//!
//! Throughput is sampled from running totals, so a transfer of an hour shows all the time and not
//! at its end. Latencies and files are counted at the end of a request, in spans of [`SPAN_TICKS`]
//! ticks; a new span replaces the oldest. Memory is bounded: latencies are counted in buckets with
//! an error of at most a fifth, files up to [`MAX_FILES`] per span. When there are more, the half
//! with the fewest bytes sent is dropped.

use crate::monitoring::request_stats::RequestStats;
use hither_core::sync::lock;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The time between samples.
pub(crate) const TICK: Duration = Duration::from_secs(2);
/// The number of samples kept: five minutes.
const SAMPLES: usize = 150;
/// The number of samples in a span, and of spans kept.
const SPAN_TICKS: usize = 15;
const SPANS: usize = SAMPLES / SPAN_TICKS;
/// The maximum number of files counted in a span.
const MAX_FILES: usize = 2048;
/// The number of files shown.
const TOP_FILES: usize = 10;

/// Statistics of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct SlidingWindow(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: WindowTotals,
    samples: VecDeque<WindowTotals>,
    spans: VecDeque<Span>,
    ticks: usize,
}

/// Running totals, or their increase between two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowTotals {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) requests: u64,
    pub(crate) failures: u64,
}

impl WindowTotals {
    fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
            requests: self.requests.saturating_sub(before.requests),
            failures: self.failures.saturating_sub(before.failures),
        }
    }
}

#[derive(Debug, Default)]
struct Span {
    head: Times,
    whole: Times,
    files: HashMap<String, Sent>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    requests: u64,
    bytes: u64,
}

/// The last minutes, as the status page shows them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WindowSummary {
    pub(crate) seconds_between_samples: u64,
    /// One value per sample, the oldest first.
    pub(crate) sent_bytes: Vec<u64>,
    pub(crate) received_bytes: Vec<u64>,
    pub(crate) requests: Vec<u64>,
    pub(crate) failures: Vec<u64>,
    /// To the head of a response, and to its end.
    pub(crate) head: Latency,
    pub(crate) whole: Latency,
    pub(crate) files: Vec<TopFile>,
}

/// Percentiles of a time in milliseconds; none without requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) requests: u64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p90_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
}

/// One of the files with the most bytes sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TopFile {
    pub(crate) path: String,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl SlidingWindow {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Counts a finished request.
    pub(crate) fn end(&self, figures: &RequestStats) {
        let mut state = self.state();
        if state.spans.is_empty() {
            state.spans.push_back(Span::default());
        }
        let Some(span) = state.spans.back_mut() else { return };
        span.head.count(figures.head);
        span.whole.count(figures.whole);
        let is_content = figures.ranges.is_some() && figures.sent > 0;
        if let Some(path) = figures.file.as_ref().filter(|_| is_content) {
            span.sent(path, figures.sent);
        }
    }

    /// Takes a sample of the totals; called every [`TICK`].
    pub(crate) fn tick(&self, totals: WindowTotals) {
        let mut state = self.state();
        let sample = totals.since(state.last);
        state.last = totals;
        state.samples.push_back(sample);
        if state.samples.len() > SAMPLES {
            state.samples.pop_front();
        }
        state.ticks += 1;
        if state.ticks.is_multiple_of(SPAN_TICKS) {
            state.spans.push_back(Span::default());
            if state.spans.len() > SPANS {
                state.spans.pop_front();
            }
        }
    }

    pub(crate) fn summary(&self) -> WindowSummary {
        let state = self.state();
        let mut head = Times::default();
        let mut whole = Times::default();
        let mut files: HashMap<&str, Sent> = HashMap::new();
        for span in &state.spans {
            head.add(&span.head);
            whole.add(&span.whole);
            for (path, sent) in &span.files {
                let sum = files.entry(path).or_default();
                sum.requests += sent.requests;
                sum.bytes = sum.bytes.saturating_add(sent.bytes);
            }
        }
        let files = files.into_iter().map(|(path, Sent { requests, bytes })| TopFile {
            path: format!("/{path}"),
            requests,
            bytes,
        });
        let mut files: Vec<_> = files.collect();
        files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        files.truncate(TOP_FILES);
        let each = |of: fn(&WindowTotals) -> u64| state.samples.iter().map(of).collect();
        WindowSummary {
            seconds_between_samples: TICK.as_secs(),
            sent_bytes: each(|sample| sample.sent),
            received_bytes: each(|sample| sample.received),
            requests: each(|sample| sample.requests),
            failures: each(|sample| sample.failures),
            head: head.latency(),
            whole: whole.latency(),
            files,
        }
    }
}

impl Span {
    fn sent(&mut self, path: &str, bytes: u64) {
        if let Some(sent) = self.files.get_mut(path) {
            sent.requests += 1;
            sent.bytes = sent.bytes.saturating_add(bytes);
            return;
        }
        if self.files.len() >= MAX_FILES {
            let mut sizes: Vec<u64> = self.files.values().map(|sent| sent.bytes).collect();
            let (_, median, more) = sizes.select_nth_unstable(MAX_FILES / 2);
            let median = *median;
            // Of the files that equal the median, as many stay as there is room for.
            let larger = more.iter().filter(|bytes| **bytes > median).count();
            let mut room = (MAX_FILES / 2).saturating_sub(larger);
            self.files.retain(|_, sent| {
                let equal = sent.bytes == median && room > 0;
                room -= usize::from(equal);
                equal || sent.bytes > median
            });
        }
        self.files.insert(path.to_owned(), Sent { requests: 1, bytes });
    }
}

/// The number of buckets: four per doubling, from a microsecond to more than an hour.
const BUCKETS: usize = 128;

/// A histogram of times.
#[derive(Debug, Clone)]
struct Times([u64; BUCKETS]);

impl Default for Times {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

fn bucket(micros: u64) -> usize {
    let Some(octave) = micros.checked_ilog2().filter(|octave| *octave >= 2) else {
        return usize::try_from(micros).unwrap_or_default();
    };
    let quarter = usize::try_from((micros >> (octave - 2)) & 3).unwrap_or_default();
    ((octave as usize - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// The middle of a bucket in microseconds.
fn middle(bucket: usize) -> f64 {
    let octave = bucket / 4 + 1;
    let quarter = bucket % 4;
    match u32::try_from(octave) {
        Ok(octave) if octave >= 2 => {
            let unit = 2f64.powi(i32::try_from(octave - 2).unwrap_or_default());
            (4.5 + [0.0, 1.0, 2.0, 3.0].get(quarter).copied().unwrap_or_default()) * unit
        }
        _ => [0.5, 1.5, 2.5, 3.5].get(quarter).copied().unwrap_or_default(),
    }
}

impl Times {
    fn count(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.0.get_mut(bucket(micros)) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// The time within which `percent` of the requests ended, in milliseconds.
    fn percentile(&self, percent: u64) -> Option<f64> {
        let all: u64 = self.0.iter().sum();
        let wanted = (all.saturating_mul(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some((middle(found)).round() / 1e3)
    }

    fn latency(&self) -> Latency {
        Latency {
            requests: self.0.iter().sum(),
            p50_ms: self.percentile(50),
            p90_ms: self.percentile(90),
            p99_ms: self.percentile(99),
            max_ms: self.percentile(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use proptest::prelude::*;

    fn request(path: &str, sent: u64, millis: u64) -> RequestStats {
        let time = Duration::from_millis(millis);
        let file = Some(path.to_owned());
        RequestStats {
            sent,
            file,
            ranges: Some(1),
            head: time / 2,
            whole: time,
            ..RequestStats::of(&Method::GET)
        }
    }

    #[test]
    fn a_long_transfer_shows_while_it_runs() {
        let recent = SlidingWindow::default();
        for sent in [0, 100, 250] {
            recent.tick(WindowTotals { sent, ..WindowTotals::default() });
        }
        assert_eq!(recent.summary().sent_bytes, [0, 100, 150]);
    }

    #[test]
    fn old_requests_leave_the_window() {
        let recent = SlidingWindow::default();
        recent.end(&request("old", 9, 7));
        for _ in 0..SAMPLES + SPAN_TICKS {
            recent.tick(WindowTotals::default());
        }
        recent.end(&request("new", 1, 7));
        let summary = recent.summary();
        assert_eq!(summary.sent_bytes.len(), SAMPLES);
        assert_eq!(summary.whole.requests, 1);
        assert_eq!(summary.files, [TopFile { path: "/new".to_owned(), requests: 1, bytes: 1 }]);
    }

    #[test]
    fn files_are_bounded_and_the_most_sent_remain() {
        let recent = SlidingWindow::default();
        for n in 0..20_000u64 {
            recent.end(&request(&format!("rare{n}"), 1, 1));
            recent.end(&request("often", 5, 1));
        }
        let summary = recent.summary();
        assert_eq!(
            summary.files[0],
            TopFile { path: "/often".to_owned(), requests: 20_000, bytes: 100_000 }
        );
        assert!(recent.state().spans[0].files.len() <= MAX_FILES);
    }

    #[test]
    fn without_requests_there_is_no_latency() {
        assert_eq!(Times::default().latency().p50_ms, None);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_fifth(mut micros in prop::collection::vec(4..10_000_000u64, 1..300)) {
            let mut times = Times::default();
            for time in &micros {
                times.count(Duration::from_micros(*time));
            }
            micros.sort_unstable();
            for percent in [50, 90, 99, 100] {
                let wanted = (micros.len() * percent).div_ceil(100).max(1) - 1;
                let exact = Duration::from_micros(micros[wanted]).as_secs_f64() * 1e3;
                let found = times.percentile(percent as u64).unwrap();
                prop_assert!((found - exact).abs() <= exact * 0.2 + 0.001, "{found} for {exact}");
            }
        }
    }
}
