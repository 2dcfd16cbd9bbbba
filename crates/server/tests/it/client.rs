//! Hither's own client and the server: all ranges in one `QUERY`, and the storage interface.

mod storage;

use crate::rig::Served;
use hither_core::{Request, Source};
use hither_read::schedule::{Reader, ReaderConfig};
use hither_transport::{HttpSource, Location, Network, TransportConfig};
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

const SIZE: u64 = 30_000_000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|n| u8::try_from((n * n / 13 + n) % 251).unwrap()).collect()
}

fn asking(ranges: &[Range<u64>], tail: u64, validator: Option<String>) -> Request {
    Request { ranges: ranges.to_vec(), tail, validator, ..Request::default() }
}

/// Reads `ranges`, and checks their bytes.
async fn reads(source: &dyn Source, content: &[u8], ranges: &[Range<u64>]) {
    let mut reader = Reader::new(source, None, ReaderConfig::default());
    reader.push(ranges, usize::MAX);
    let mut came = 0;
    while let Some(part) = reader.next().await {
        let part = part.unwrap();
        reader.release(part.bytes.len() as u64);
        let from = usize::try_from(part.offset).unwrap();
        assert!(part.bytes == content[from..from + part.bytes.len()]);
        came += part.bytes.len() as u64;
    }
    assert_eq!(came, ranges.iter().map(|range| range.end - range.start).sum::<u64>());
}

fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reads ten thousand ranges after a first response has shown what the server supports; returns the
/// access log.
fn ten_thousand(most: usize) -> Vec<Value> {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("access.json");
    let mut served = Served::new(|settings| {
        settings.access_log = Some(log.clone());
        settings.limits.ranges = most;
        // A busy machine may take longer than usual to log what the client has read.
        settings.limits.stop_seconds = 30.0;
    });
    let content = content();
    served.file("file", &content);
    let url = format!("http://127.0.0.1:{}/file", served.port());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = TransportConfig::default();
        config.max_connections = 1;
        let network = Network::new(config, Handle::current(), None);
        let source = HttpSource::new(Location::parse(&url).unwrap(), Arc::clone(&network));
        // The response contains the size and a validator.
        let request = asking(&[0..512], 8000, None);
        let first = source.fetch(request, Box::new(|_| {})).await.unwrap();
        assert_eq!((first.size, source.endpoint().query), (Some(SIZE), Some(true)));
        let ranges: Vec<_> = (0..10_000).map(|n| n * 3000..n * 3000 + 700).collect();
        reads(&source, &content, &ranges).await;
    });
    drop(runtime);
    let server = served.server.take().unwrap();
    server.stopper().stop();
    server.wait();
    lines(&log)
}

fn methods(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["method"].as_str().unwrap()).collect()
}

#[test]
fn ten_thousand_ranges_are_one_request_once_the_server_is_known() {
    let lines = ten_thousand(20_000);
    assert_eq!(methods(&lines), ["GET", "QUERY"]);
    assert_eq!(lines[1]["ranges"], 10_000);
    let sent = lines[1]["sent"].as_u64().unwrap();
    assert_eq!(sent, 10_000 * (700 + 16) + 16, "the frames are all that is sent besides");
}

#[test]
fn a_server_with_a_lower_limit_of_ranges_gets_shorter_lists() {
    let lines = ten_thousand(1000);
    let (first, others) = lines.split_first().unwrap();
    assert_eq!(first["method"], "GET");
    assert!(methods(others).iter().all(|method| *method == "QUERY"), "{:?}", methods(others));
    let refused = others.iter().filter(|line| line["status"] == 413).count();
    assert!((1..=12).contains(&refused), "{refused} refusals");
    let ranges = others.iter().filter_map(|line| line["ranges"].as_u64());
    assert_eq!(ranges.sum::<u64>(), 10_000, "none is sent twice");
}

#[test]
fn a_file_that_changed_is_noticed_by_a_query() {
    let served = Served::for_reading();
    served.file("file", &content());
    let url = format!("http://127.0.0.1:{}/file", served.port());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let network = Network::new(TransportConfig::default(), Handle::current(), None);
        let source = HttpSource::new(Location::parse(&url).unwrap(), network);
        let ranges = vec![0..10, 1_000_000..1_000_010];
        let request = asking(&ranges, 0, None);
        let first = source.fetch(request, Box::new(|_| {})).await.unwrap();
        served.file("file", &vec![1; 3_000_000]);
        let request = asking(&ranges, 0, first.validator);
        let error = source.fetch(request, Box::new(|_| {})).await.unwrap_err();
        assert_eq!(error.kind(), hither_core::ErrorKind::Changed, "{error}");
    });
}
