//! The metrics of a server in Prometheus' text format 0.0.4.
//!
//! All series exist from the start, at zero, and are found without a look-up: a request costs one
//! addition to each. No label holds a name of a file, client or user, so the number of series never
//! grows.

use crate::lots::Space;
use crate::monitoring::copy_counters::CopyTotals;
use crate::monitoring::request_stats::{METHODS, MethodIndex, RequestKind, RequestStats};
use hither_core::error::{Error, ErrorKind, Result};
use prometheus::core::Collector;
use prometheus::{
    Counter, CounterVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = prometheus::TEXT_FORMAT;

/// The status classes, by the first digit minus two.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];
const WORKS: [&str; 3] = ["read", "write", "list"];
/// Upper bounds of the time buckets, in seconds.
const TIMES: [f64; 17] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];
/// The outcomes of third-party copies.
const COPIES: [&str; 5] = ["pulled", "pushed", "failed", "cancelled", "refused"];
const DIRECTIONS: [&str; 2] = ["pull", "push"];
const RANGES: [f64; 10] = [1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0];

/// The metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// By method and status class; the last class includes responses that never began.
    requests: Vec<Vec<IntCounter>>,
    open: Vec<IntGauge>,
    pub(crate) sent: IntCounter,
    pub(crate) received: IntCounter,
    broken: IntCounter,
    head: Vec<Histogram>,
    whole: Vec<Histogram>,
    ranges: Histogram,
    disk: Vec<Counter>,
    client: Counter,
    pub(crate) accepted: IntCounter,
    pub(crate) connections: IntGauge,
    pub(crate) handshakes_failed: IntCounter,
    pub(crate) accept_failed: IntCounter,
    polled: Polled,
}

/// Metrics that are set when the metrics are read.
#[derive(Debug)]
struct Polled {
    memory: IntGauge,
    max_memory: IntGauge,
    max_connections: IntGauge,
    connections_evicted: IntCounter,
    connections_refused: IntCounter,
    heads_refused: IntCounter,
    lots: IntGauge,
    lots_reserved: IntGauge,
    lots_used: IntGauge,
    lots_used_files: IntGauge,
    lines_lost: IntCounter,
    uptime: IntGauge,
    copies_open: IntGauge,
    /// In the order of [`COPIES`], and of [`DIRECTIONS`].
    copies: Vec<IntCounter>,
    copied: Vec<IntCounter>,
}

/// The values of [`Polled`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GaugeValues {
    /// File data in memory and its limit, in bytes.
    pub(crate) memory: u64,
    pub(crate) max_memory: u64,
    pub(crate) max_connections: u64,
    /// Connections that were closed to make room, or not accepted; heads without memory.
    pub(crate) connections_evicted: u64,
    pub(crate) connections_refused: u64,
    pub(crate) heads_refused: u64,
    /// Lots, and the bytes reserved and the space used in them.
    pub(crate) lots: u64,
    pub(crate) lots_reserved: u64,
    pub(crate) lots_used: Space,
    pub(crate) lines_lost: u64,
    pub(crate) uptime_seconds: u64,
    /// Third-party copies.
    pub(crate) copies: CopyTotals,
}

type MetricResult<T> = std::result::Result<T, prometheus::Error>;

impl Metrics {
    /// # Errors
    /// [`ErrorKind::Invalid`] if two metrics have the same name.
    pub(crate) fn new() -> Result<Self> {
        Self::build().map_err(|error| {
            Error::new(ErrorKind::Invalid, "cannot register the metrics").with_source(error)
        })
    }

    fn build() -> MetricResult<Self> {
        let builder = MetricsBuilder(Registry::new());
        let build =
            builder.gauges("hither_build_info", "Version of the server; always 1.", "version")?;
        build.get_metric_with_label_values(&[env!("CARGO_PKG_VERSION")])?.set(1);
        let requests = builder.keep(IntCounterVec::new(
            Opts::new("hither_requests_total", "Finished requests by method and status class."),
            &["method", "code"],
        )?)?;
        let open = "Active requests by method; those of PUT are uploads.";
        let open = builder.gauges("hither_requests_open", open, "method")?;
        let refused = builder.keep(IntCounterVec::new(
            Opts::new(
                "hither_connections_failed_total",
                "Connections that failed before the first request, by reason.",
            ),
            &["reason"],
        )?)?;
        let disk = builder.keep(CounterVec::new(
            Opts::new("hither_disk_seconds_total", "Time spent reading and writing files."),
            &["work"],
        )?)?;
        let whole = "Time from the request head to the last byte of the response.";
        let head = "Time from the request head to the response head.";
        let ranges = HistogramOpts::new("hither_request_ranges", "Ranges or files per response.");
        let ranges = builder.keep(Histogram::with_opts(ranges.buckets(RANGES.to_vec()))?)?;
        let class = |method: &str| {
            let series =
                CLASSES.iter().map(|class| requests.get_metric_with_label_values(&[method, class]));
            series.collect::<MetricResult<Vec<_>>>()
        };
        Ok(Self {
            requests: METHODS.iter().map(|method| class(method)).collect::<MetricResult<_>>()?,
            open: METHODS
                .iter()
                .map(|method| open.get_metric_with_label_values(&[method]))
                .collect::<MetricResult<_>>()?,
            sent: builder.count("hither_sent_bytes_total", "Bytes of response bodies sent.")?,
            received: builder
                .count("hither_received_bytes_total", "Bytes of request bodies received.")?,
            broken: builder
                .count("hither_responses_incomplete_total", "Responses that ended early.")?,
            head: builder.times("hither_request_first_byte_seconds", head)?,
            whole: builder.times("hither_request_seconds", whole)?,
            ranges,
            disk: WORKS
                .iter()
                .map(|work| disk.get_metric_with_label_values(&[work]))
                .collect::<MetricResult<_>>()?,
            client: builder.keep(Counter::new(
                "hither_client_wait_seconds_total",
                "Time that responses waited for clients to read.",
            )?)?,
            accepted: builder.count("hither_connections_total", "Accepted connections.")?,
            connections: builder.level("hither_connections_open", "Open connections.")?,
            handshakes_failed: refused.get_metric_with_label_values(&["handshake"])?,
            accept_failed: refused.get_metric_with_label_values(&["accept"])?,
            polled: Polled::new(&builder)?,
            registry: builder.0,
        })
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&self, method: MethodIndex) {
        if let Some(open) = self.open.get(method.0) {
            open.inc();
        }
    }

    /// Counts a finished request.
    pub(crate) fn end(&self, figures: &RequestStats) {
        let method = figures.method;
        let kind = method.kind();
        if let Some(open) = self.open.get(method.0) {
            open.dec();
        }
        // A response that never began is the client's doing, and counts as 4xx, as in nginx.
        let class = usize::from(figures.status / 100).checked_sub(2).unwrap_or(2);
        if let Some(requests) = self.requests.get(method.0).and_then(|by| by.get(class)) {
            requests.inc();
        }
        if !figures.complete {
            self.broken.inc();
        }
        let at = match kind {
            RequestKind::Read => 0,
            RequestKind::Write => 1,
            RequestKind::List => 2,
        };
        if let (Some(head), Some(whole), Some(disk)) =
            (self.head.get(at), self.whole.get(at), self.disk.get(at))
        {
            head.observe(figures.head.as_secs_f64());
            whole.observe(figures.whole.as_secs_f64());
            disk.inc_by(figures.disk.as_secs_f64());
        }
        self.client.inc_by(figures.client.as_secs_f64());
        if let Some(ranges) = figures.ranges {
            // The settings limit ranges to far less than a double holds exactly.
            self.ranges.observe(u32::try_from(ranges).map_or(f64::MAX, f64::from));
        }
    }

    /// The number of finished requests.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.iter().flatten().map(IntCounter::get).sum()
    }

    /// The number of those that failed at the server.
    pub(crate) fn failures(&self) -> u64 {
        self.requests.iter().filter_map(|by| by.last()).map(IntCounter::get).sum()
    }

    /// The number of active requests, and that of uploads among them.
    pub(crate) fn active(&self) -> (i64, i64) {
        let put = METHODS.iter().position(|method| *method == "PUT");
        let puts = put.and_then(|put| self.open.get(put)).map_or(0, IntGauge::get);
        (self.open.iter().map(IntGauge::get).sum(), puts)
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self, levels: &GaugeValues) -> String {
        self.polled.set(levels);
        // Only metrics without samples cannot be written; there are none.
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

impl Polled {
    fn new(builder: &MetricsBuilder) -> MetricResult<Self> {
        Ok(Self {
            memory: builder.level("hither_memory_bytes", "File data in memory.")?,
            max_memory: builder
                .level("hither_memory_bytes_limit", "Maximum of file data in memory.")?,
            max_connections: builder
                .level("hither_connections_limit", "Maximum of open connections.")?,
            connections_evicted: builder.count(
                "hither_connections_evicted_total",
                "Idle connections that were closed to make room for new ones.",
            )?,
            connections_refused: builder.count(
                "hither_connections_refused_total",
                "Connections that were refused because their address has too many.",
            )?,
            heads_refused: builder.count(
                "hither_heads_refused_total",
                "Connections that ended because no memory was left for the head of a request.",
            )?,
            lots: builder.level("hither_lots", "Space reservations (lots).")?,
            lots_reserved: builder
                .level("hither_lots_reserved_bytes", "Bytes reserved in lots.")?,
            lots_used: builder.level("hither_lots_used_bytes", "Bytes used in lots.")?,
            lots_used_files: builder
                .level("hither_lots_used_files", "Files and directories in lots.")?,
            lines_lost: builder.count(
                "hither_log_lines_lost_total",
                "Access log lines that were dropped or could not be written.",
            )?,
            uptime: builder.level("hither_uptime_seconds", "Time since the server started.")?,
            copies_open: builder.level("hither_copies_open", "Running third-party copies.")?,
            copies: builder.counts(
                "hither_copies_total",
                "Finished and refused third-party copies.",
                "outcome",
                &COPIES,
            )?,
            copied: builder.counts(
                "hither_copied_bytes_total",
                "File bytes moved by third-party copies.",
                "direction",
                &DIRECTIONS,
            )?,
        })
    }

    fn set(&self, levels: &GaugeValues) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.memory.set(number(levels.memory));
        self.max_memory.set(number(levels.max_memory));
        self.max_connections.set(number(levels.max_connections));
        self.lots.set(number(levels.lots));
        self.lots_reserved.set(number(levels.lots_reserved));
        self.lots_used.set(number(levels.lots_used.bytes));
        self.lots_used_files.set(number(levels.lots_used.files));
        for (counter, now) in [
            (&self.lines_lost, levels.lines_lost),
            (&self.connections_evicted, levels.connections_evicted),
            (&self.connections_refused, levels.connections_refused),
            (&self.heads_refused, levels.heads_refused),
        ] {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
        self.uptime.set(number(levels.uptime_seconds));
        let CopyTotals {
            active,
            pulled,
            pushed,
            bytes_pulled,
            bytes_pushed,
            failed,
            cancelled,
            refused,
        } = levels.copies;
        self.copies_open.set(number(active));
        let now = [pulled, pushed, failed, cancelled, refused, bytes_pulled, bytes_pushed];
        for (counter, now) in self.copies.iter().chain(&self.copied).zip(now) {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }
}

/// Creates metrics and registers them.
struct MetricsBuilder(Registry);

impl MetricsBuilder {
    fn keep<C: Collector + Clone + 'static>(&self, metric: C) -> MetricResult<C> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn count(&self, name: &str, help: &str) -> MetricResult<IntCounter> {
        self.keep(IntCounter::new(name, help)?)
    }

    /// A counter for each value of a label.
    fn counts(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: &[&str],
    ) -> MetricResult<Vec<IntCounter>> {
        let vector = self.keep(IntCounterVec::new(Opts::new(name, help), &[label])?)?;
        values.iter().map(|value| vector.get_metric_with_label_values(&[value])).collect()
    }

    fn level(&self, name: &str, help: &str) -> MetricResult<IntGauge> {
        self.keep(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, label: &str) -> MetricResult<IntGaugeVec> {
        self.keep(IntGaugeVec::new(Opts::new(name, help), &[label])?)
    }

    /// A histogram for each kind of work.
    fn times(&self, name: &str, help: &str) -> MetricResult<Vec<Histogram>> {
        let options = HistogramOpts::new(name, help).buckets(TIMES.to_vec());
        let vector = self.keep(HistogramVec::new(options, &["work"])?)?;
        WORKS.iter().map(|work| vector.get_metric_with_label_values(&[work])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use std::time::Duration;

    #[test]
    fn requests_are_counted_by_method_and_status() {
        let metrics = Metrics::new().unwrap();
        let mut figures = RequestStats::of(&Method::GET);
        metrics.begin(figures.method);
        figures.status = 206;
        figures.ranges = Some(3);
        figures.head = Duration::from_millis(2);
        figures.whole = Duration::from_millis(20);
        figures.complete = true;
        assert_eq!(metrics.active(), (1, 0));
        metrics.end(&figures);
        let unexpected =
            RequestStats { status: 503, ..RequestStats::of(&Method::from_bytes(b"BREW").unwrap()) };
        metrics.begin(unexpected.method);
        metrics.end(&unexpected);
        let copies = CopyTotals { failed: 2, bytes_pushed: 7, active: 1, ..CopyTotals::default() };
        let levels = GaugeValues { lines_lost: 5, copies, ..GaugeValues::default() };
        let text = metrics.text(&levels);
        for line in [
            "hither_requests_total{code=\"2xx\",method=\"GET\"} 1",
            "hither_requests_total{code=\"5xx\",method=\"other\"} 1",
            "hither_requests_open{method=\"GET\"} 0",
            "hither_request_first_byte_seconds_bucket{work=\"read\",le=\"0.0025\"} 1",
            "hither_request_first_byte_seconds_bucket{work=\"read\",le=\"0.001\"} 0",
            "hither_request_ranges_sum 3",
            "hither_responses_incomplete_total 1",
            "hither_log_lines_lost_total 5",
            "hither_copies_open 1",
            "hither_copies_total{outcome=\"failed\"} 2",
            "hither_copied_bytes_total{direction=\"push\"} 7",
            "# TYPE hither_requests_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert_eq!((metrics.requests(), metrics.failures()), (2, 1));
        assert_eq!(metrics.text(&levels), text);
    }
}
