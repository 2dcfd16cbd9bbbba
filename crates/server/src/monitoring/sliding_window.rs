//! The last minutes of a server, for its status page: throughput, latencies, the files that were sent most.
//!
//! Throughput is sampled from the running totals, so that a transfer of an hour shows all the time and not at its end.
//! Latencies and files are noted at the end of a request, in spans of [`SPAN_TICKS`] ticks of which the oldest is forgotten when
//! a new one begins. All of it is bounded: latencies in buckets of a fifth each, files by [`MAX_FILES`] in a span; when there are more, the half
//! of which least was sent is forgotten.

use crate::monitoring::request_stats::RequestStats;
use hither_core::sync::lock;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Time between samples.
pub(crate) const TICK: Duration = Duration::from_secs(2);
/// Samples that are kept: five minutes.
const SAMPLES: usize = 150;
/// Samples in a span, and spans that are kept.
const SPAN_TICKS: usize = 15;
const SPANS: usize = SAMPLES / SPAN_TICKS;
/// Files that are known in a span.
const MAX_FILES: usize = 2048;
/// Files that are told of.
const TOP_FILES: usize = 10;

/// See the module above.
#[derive(Debug, Default)]
pub(crate) struct SlidingWindow(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: WindowTotals,
    samples: VecDeque<WindowTotals>,
    spans: VecDeque<Span>,
    ticks: usize,
}

/// Running totals, and what has come to them between two samples.
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

/// What has been, as the status page shows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WindowSummary {
    pub(crate) seconds_between_samples: u64,
    /// In each of the samples, the oldest first.
    pub(crate) sent_bytes: Vec<u64>,
    pub(crate) received_bytes: Vec<u64>,
    pub(crate) requests: Vec<u64>,
    pub(crate) failures: Vec<u64>,
    /// Until the head of an answer, and until its end.
    pub(crate) head: Latency,
    pub(crate) whole: Latency,
    pub(crate) files: Vec<TopFile>,
}

/// Milliseconds within which a part of the requests was done; none if there were no requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) requests: u64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p90_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
}

/// A file of which much was sent.
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

    /// A request is over.
    pub(crate) fn end(&self, figures: &RequestStats) {
        let mut state = self.state();
        if state.spans.is_empty() {
            state.spans.push_back(Span::default());
        }
        let Some(span) = state.spans.back_mut() else { return };
        span.head.note(figures.head);
        span.whole.note(figures.whole);
        let is_content = figures.ranges.is_some() && figures.sent > 0;
        if let Some(path) = figures.file.as_ref().filter(|_| is_content) {
            span.sent(path, figures.sent);
        }
    }

    /// The totals by now: to be called every [`TICK`].
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

    pub(crate) fn past(&self) -> WindowSummary {
        let state = self.state();
        let (mut head, mut whole) = (Times::default(), Times::default());
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
            let (_, middle, more) = sizes.select_nth_unstable(MAX_FILES / 2);
            let middle = *middle;
            // Of those that are like the one in the middle, as many as there is room for.
            let larger = more.iter().filter(|bytes| **bytes > middle).count();
            let mut room = (MAX_FILES / 2).saturating_sub(larger);
            self.files.retain(|_, sent| {
                let like = sent.bytes == middle && room > 0;
                room -= usize::from(like);
                like || sent.bytes > middle
            });
        }
        self.files.insert(path.to_owned(), Sent { requests: 1, bytes });
    }
}

/// Four buckets for each doubling, from a microsecond to more than an hour.
const BUCKETS: usize = 128;

/// How often something took how long.
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
    let (octave, quarter) = (bucket / 4 + 1, bucket % 4);
    match u32::try_from(octave) {
        Ok(octave) if octave >= 2 => {
            let unit = 2f64.powi(i32::try_from(octave - 2).unwrap_or_default());
            (4.5 + [0.0, 1.0, 2.0, 3.0].get(quarter).copied().unwrap_or_default()) * unit
        }
        _ => [0.5, 1.5, 2.5, 3.5].get(quarter).copied().unwrap_or_default(),
    }
}

impl Times {
    fn note(&mut self, time: Duration) {
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

    /// What `part` in a hundred took at most, in milliseconds.
    fn percentile(&self, part: u64) -> Option<f64> {
        let all: u64 = self.0.iter().sum();
        let wanted = (all.saturating_mul(part)).div_ceil(100).max(1);
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
        assert_eq!(recent.past().sent_bytes, [0, 100, 150]);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let recent = SlidingWindow::default();
        recent.end(&request("old", 9, 7));
        for _ in 0..SAMPLES + SPAN_TICKS {
            recent.tick(WindowTotals::default());
        }
        recent.end(&request("new", 1, 7));
        let past = recent.past();
        assert_eq!(past.sent_bytes.len(), SAMPLES);
        assert_eq!(past.whole.requests, 1);
        assert_eq!(past.files, [TopFile { path: "/new".to_owned(), requests: 1, bytes: 1 }]);
    }

    #[test]
    fn files_are_bounded_and_the_most_sent_stay() {
        let recent = SlidingWindow::default();
        for n in 0..20_000u64 {
            recent.end(&request(&format!("rare{n}"), 1, 1));
            recent.end(&request("often", 5, 1));
        }
        let past = recent.past();
        assert_eq!(
            past.files[0],
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
        fn percentiles_are_right_to_a_fifth(mut micros in prop::collection::vec(4..10_000_000u64, 1..300)) {
            let mut times = Times::default();
            for time in &micros {
                times.note(Duration::from_micros(*time));
            }
            micros.sort_unstable();
            for part in [50, 90, 99, 100] {
                let wanted = (micros.len() * part).div_ceil(100).max(1) - 1;
                let exact = Duration::from_micros(micros[wanted]).as_secs_f64() * 1e3;
                let told = times.percentile(part as u64).unwrap();
                prop_assert!((told - exact).abs() <= exact * 0.2 + 0.001, "{told} for {exact}");
            }
        }
    }
}
