//! A file, a client, and the server's log as text.

use hither::{Client, ClientConfig, DrawRequest, DrawResult, Error, ScanProgress, TreeUrl};
use hither_testkit::mock_http::{LoggedRequest, MockHttpServer};
use hither_testkit::root_writer::samples::floats;
use hither_testkit::root_writer::{Branch, Style, Tree, write};
use std::fmt::Write as _;
use std::path::Path;

/// Entries of the file.
pub(crate) const ENTRIES: u16 = 40_000;
/// Entries of each basket.
const BASKET: usize = 1_000;

/// A branch of floats in baskets of [`BASKET`] entries.
fn branch(name: &'static str, value: impl Fn(u16) -> f32) -> Branch {
    let values: Vec<f32> = (0..ENTRIES).map(value).collect();
    let baskets: Vec<&[f32]> = values.chunks(BASKET).collect();
    floats(name, &baskets, false)
}

/// A file of about a megabyte with a tree `T`: `x` counts up to 100 repeatedly, from `first` on;
/// `y` counts the entries. Both lie far from head and tail, and so does the tree's object, because
/// another tree follows.
pub(crate) fn file(first: u16) -> Vec<u8> {
    let branches = vec![
        branch("before", |_| 0.5),
        branch("x", |entry| f32::from((entry + first) % 100)),
        branch("between", |_| 1.5),
        branch("y", f32::from),
        branch("after", |_| 2.5),
    ];
    let other = vec![branch("other", |_| 3.5)];
    write(
        Style::default(),
        &[Tree { path: "T", cycle: 1, branches }, Tree { path: "Z", cycle: 1, branches: other }],
    )
}

pub(crate) fn client(connections: usize, store: Option<&Path>) -> Client {
    Client::new(config(connections, store)).unwrap()
}

pub(crate) fn config(connections: usize, store: Option<&Path>) -> ClientConfig {
    let mut config = ClientConfig::default();
    config.transport.max_connections = connections;
    config.store = store.map(Path::to_owned);
    config.decode_threads = 1;
    // Tests count requests; the tree cache has its own tests, in `positional`.
    config.tree_cache.enabled = false;
    // Snapshots pin the requests of reads, not those of read-ahead.
    config.read_ahead.block_bytes = 0;
    config
}

/// `x` where `y` is at least 39,000, in ten bins.
pub(crate) fn draw(client: &Client, url: &str) -> Result<DrawResult, Error> {
    let mut request = DrawRequest::new("x", Some("y>=39000"));
    request.bins = 10;
    request.range = Some((0.0, 100.0));
    client.draw(
        &TreeUrl { url: url.to_owned(), tree: Some("T".to_owned()) },
        &request,
        &ScanProgress::default(),
    )
}

/// Asserts the one right histogram of [`file`] with this `first`.
pub(crate) fn check(drawing: &DrawResult, first: u16) {
    let mut counts = [0.0; 10];
    for entry in 39_000..ENTRIES {
        counts[usize::from((entry + first) % 100 / 10)] += 1.0;
    }
    assert_eq!(drawing.entries, u64::from(ENTRIES));
    assert_eq!(drawing.histogram.selected, 1_000);
    assert_eq!(drawing.histogram.counts, counts);
}

/// The requests, one per line, and the number of round trips.
pub(crate) fn log(peer: &MockHttpServer) -> String {
    let log = peer.log();
    let mut text = String::new();
    for LoggedRequest { method, ranges, if_range, status, payload_bytes, .. } in &log {
        let ranges = ranges.as_deref().unwrap_or("all");
        let guarded = if if_range.is_some() { " if-range" } else { "" };
        writeln!(text, "{method} {ranges}{guarded} -> {status}, {payload_bytes} bytes").unwrap();
    }
    writeln!(text, "{} requests in {} round trips", log.len(), peer.round_trips()).unwrap();
    text
}

/// The log, and the report where it does not depend on time.
pub(crate) fn log_and_report(peer: &MockHttpServer, drawing: &DrawResult) -> String {
    let report = &drawing.report;
    let mut text = log(peer);
    writeln!(
        text,
        "report: {} requests in {} round trips on {} connections, {} retries\n\
         report: {} bytes requested, {} arrived, {} used",
        report.requests,
        report.round_trips,
        report.connections,
        report.retries,
        report.bytes_requested,
        report.bytes_payload,
        report.bytes_used,
    )
    .unwrap();
    text
}
