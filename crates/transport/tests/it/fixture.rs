//! The fixture of all tests: a source, a reader that drives it, and a check of received bytes.

use bytes::Bytes;
use hither_core::{Error, ErrorKind, ResponseMeta, Source};
use hither_read::{Reader, ReaderConfig};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use hither_testkit::waiting::task_until;
use hither_transport::{HttpSource, Location, Network, TransportConfig};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;

/// Time after which a test is considered to hang. It measures nothing, and is longer than what
/// [`past_stalls`] lets pass.
const HANGS: Duration = Duration::from_secs(600);

/// Maximum number of retries; a reader with more would never end.
const MAX_RETRIES: u64 = 200;

/// Minimum and maximum pause between attempts: short, so that no test waits for them.
const SHORT_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

/// The configuration of a reader with these pauses.
fn reader_config() -> ReaderConfig {
    let mut config = ReaderConfig::default();
    (config.retry.min_pause, config.retry.max_pause) = SHORT_PAUSES;
    config.retry.busy_timeout = Duration::from_millis(300);
    config
}

/// A file whose bytes depend on their position. They are computed once, since that is slow without
/// optimisation.
pub(crate) fn content(size: usize) -> Vec<u8> {
    static COMPUTED: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let mut bytes = COMPUTED.lock().unwrap();
    let begin = bytes.len();
    bytes.extend((begin..size).map(|i| (i * 7 + i / 251 * 3).to_le_bytes()[0]));
    bytes[..size].to_vec()
}

/// Size of a file that the client reads to its end, because it is small.
pub(crate) const SMALL: usize = 100_000;
/// Size of a file that is too large for that.
pub(crate) const LARGE: usize = 1_000_000;

/// Three ranges that are never merged.
pub(crate) const THREE: [Range<u64>; 3] = [0..100, 5_000..5_010, 20_000..29_000];

/// Short timeouts that are exceeded only by a stall.
pub(crate) fn impatient() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.first_byte_timeout = Duration::from_millis(150);
    config.no_progress_timeout = Duration::from_millis(150);
    config
}

/// Timeouts that only [`past_stalls`] lets expire: no machine is that busy.
pub(crate) fn patient(connections: usize) -> TransportConfig {
    let mut config = with_connections(connections);
    (config.first_byte_timeout, config.no_progress_timeout) = (PASSED, PASSED);
    config
}

/// The time that passes at each stall.
const PASSED: Duration = Duration::from_secs(10);

/// Sets the clock of the runtime, which must have one thread, forward. It runs again also if this
/// is dropped: advancing yields, and other work may end meanwhile.
pub(crate) async fn pass(time: Duration) {
    struct Frozen;
    impl Drop for Frozen {
        fn drop(&mut self) {
            tokio::time::resume();
        }
    }
    tokio::time::pause();
    let _frozen = Frozen;
    tokio::time::advance(time).await;
}

/// The result of `work`, during which the timeouts of [`patient`] expire whenever the number of
/// `stalls` of a server grows.
pub(crate) async fn past_stalls<T: Send>(
    stalls: impl Fn() -> usize + Send + Sync,
    work: impl Future<Output = T> + Send,
) -> T {
    let passing = async {
        for number in 1.. {
            assert!(task_until(|| stalls() >= number).await, "no stall {number}");
            pass(PASSED).await;
        }
    };
    tokio::select! {
        result = work => result,
        () = passing => unreachable!("it has no end"),
    }
}

pub(crate) fn with_connections(connections: usize) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_connections = connections;
    config
}

/// A mock server with content of this size and these faults.
pub(crate) fn peer<const N: usize>(
    size: usize,
    faults: [(FaultTrigger, Fault); N],
) -> MockHttpServer {
    let peer = MockHttpServer::start(content(size)).unwrap();
    faults.into_iter().for_each(|(when, fault)| peer.add_fault(when, fault));
    peer
}

pub(crate) fn source(url: &str, config: TransportConfig) -> HttpSource {
    source_on(&network(config), url)
}

/// Connections, counters and servers of one test.
pub(crate) fn network(mut config: TransportConfig) -> Arc<Network> {
    (config.retry.min_pause, config.retry.max_pause) = SHORT_PAUSES;
    Network::new(config, Handle::current(), None)
}

pub(crate) fn source_on(network: &Arc<Network>, url: &str) -> HttpSource {
    HttpSource::new(Location::parse(url).unwrap(), Arc::clone(network))
}

/// The received parts.
pub(crate) struct Got {
    pieces: Vec<(u64, Bytes)>,
    pub(crate) answer: ResponseMeta,
    pub(crate) retries: u64,
}

impl std::fmt::Debug for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} parts, {} retries", self.pieces.len(), self.retries)
    }
}

impl Got {
    /// Checks that every byte of `ranges` has arrived, and that every received byte equals that of
    /// `content` at its offset.
    pub(crate) fn is_exact(&self, content: &[u8], ranges: &[Range<u64>]) -> Result<(), String> {
        let mut seen = vec![false; content.len()];
        for (offset, bytes) in &self.pieces {
            let at = usize::try_from(*offset).unwrap();
            if content.get(at..at + bytes.len()) != Some(bytes) {
                return Err(format!("{} wrong bytes at {offset}", bytes.len()));
            }
            seen[at..at + bytes.len()].fill(true);
        }
        let missing =
            ranges.iter().flat_map(Clone::clone).find(|at| !seen[usize::try_from(*at).unwrap()]);
        missing.map_or(Ok(()), |at| Err(format!("byte {at} is missing")))
    }
}

/// Reads `ranges` and the last `tail` bytes of a version of the file.
pub(crate) async fn read_with(
    source: &dyn Source,
    ranges: &[Range<u64>],
    tail: u64,
    validator: Option<&str>,
) -> Result<Got, Error> {
    let reader = Reader::new(source, validator.map(str::to_owned), reader_config());
    drive(reader, ranges, tail).await
}

/// Reads `ranges` without the gaps between them, regardless of the cost of requests, from a server
/// that refuses some of them for as long as it takes.
pub(crate) async fn read_exactly(source: &dyn Source, ranges: &[Range<u64>]) -> Result<Got, Error> {
    let mut config = reader_config();
    config.exact = true;
    config.retry.busy_timeout = HANGS;
    drive(Reader::new(source, None, config), ranges, 0).await
}

async fn drive(mut reader: Reader<'_>, ranges: &[Range<u64>], tail: u64) -> Result<Got, Error> {
    if tail > 0 {
        reader.push_tail(ranges, tail);
    } else {
        reader.push(ranges, usize::MAX);
    }
    let mut pieces = Vec::new();
    let reading = async {
        while let Some(part) = reader.next().await {
            let part = part?;
            reader.release(part.bytes.len() as u64);
            assert!(reader.retries() < MAX_RETRIES, "the reader does not give up");
            pieces.push((part.offset, part.bytes));
        }
        Ok::<(), Error>(())
    };
    tokio::time::timeout(HANGS, reading).await.unwrap_or_else(|_| panic!("the reader hangs"))?;
    Ok(Got { pieces, answer: reader.response().clone(), retries: reader.retries() })
}

pub(crate) async fn read(source: &dyn Source, ranges: &[Range<u64>]) -> Result<Got, Error> {
    read_with(source, ranges, 0, None).await
}

/// Reads [`THREE`] from a mock server, exactly.
pub(crate) async fn expect_bytes(
    what: &str,
    peer: &MockHttpServer,
    config: TransportConfig,
    requests: usize,
) {
    let source = source(&peer.url(), config);
    let got = past_stalls(|| peer.stalls(), read(&source, &THREE)).await;
    let got = got.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    got.is_exact(&content(LARGE), &THREE).unwrap_or_else(|error| panic!("{what}: {error}"));
    let sent = peer.log().len();
    assert!(sent <= requests, "{what}: {sent} requests, expected at most {requests}");
}

/// Expects that a read of [`THREE`] from a mock server fails with this error.
pub(crate) async fn expect_error(
    what: &str,
    peer: &MockHttpServer,
    config: TransportConfig,
    kind: ErrorKind,
    requests: usize,
) {
    let source = source(&peer.url(), config);
    match past_stalls(|| peer.stalls(), read(&source, &THREE)).await {
        Ok(_) => panic!("{what}: went well, expected {kind:?}"),
        Err(error) => assert_eq!(error.kind(), kind, "{what}: {error:?}"),
    }
    let sent = peer.log().len();
    assert!(sent <= requests, "{what}: {sent} requests, expected at most {requests}");
}
