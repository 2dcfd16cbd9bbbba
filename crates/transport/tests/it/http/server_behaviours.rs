//! All known behaviours of servers that receive a request for many ranges.
//!
//! 5,000 random ranges are read from each server and compared byte for byte. After a first read,
//! from which the client learns, the number of requests is at most 1.2 times the minimum for this
//! server on one connection, and three times that on four connections, which learn in parallel.
//! The whole file is downloaded at most once, which is reported.

use crate::fixture::{content, network, peer, read, source_on, with_connections};
use hither_core::{ErrorKind, Source, range};
use hither_netem::random::Random;
use hither_testkit::mock_http::{
    Fault, FaultTrigger, HttpBehaviour, RequestBound, ResponsePosition, behaviours,
};
use std::ops::Range;

/// The size of the file. Downloading all of it is expensive compared with one request.
const SIZE: u64 = 2_000_000;
/// The number of ranges of a read.
const RANGES: usize = 5_000;
/// Maximum bytes of framing and headers, for one part and for one response.
const PART: u64 = 250;
const ANSWER: u64 = 1_000;

fn random_ranges(seed: u64, count: usize) -> Vec<Range<u64>> {
    let mut random = Random::new(seed);
    let range = |_| {
        let start = random.next_u64() % SIZE;
        start..(start + 1 + random.next_u64() % 100).min(SIZE)
    };
    (0..count).map(range).collect()
}

async fn expect_on(behaviour: &HttpBehaviour, connections: usize) {
    let HttpBehaviour { name, faults, bound } = behaviour;
    let what = format!("{name}: {faults:?} on {connections} connections");
    let content = content(usize::try_from(SIZE).unwrap());
    let peer = peer(content.len(), []);
    faults.iter().for_each(|(when, fault)| peer.add_fault(*when, fault.clone()));
    let network = network(with_connections(connections));
    let source = source_on(&network, &peer.url());
    // A very low limit of a server is learned immediately.
    let learn = if matches!(bound, RequestBound::Ranges(..=2)) { RANGES / 10 } else { RANGES };
    for (seed, count) in [(1, learn), (2, RANGES)] {
        let ranges = random_ranges(seed, count);
        let wanted = range::merged(&ranges, 0);
        let (sent, before) = (peer.log().len(), network.counters().totals());
        let got = read(&source, &ranges).await.unwrap_or_else(|error| {
            panic!("{what}: {error:?} after {} requests", peer.log().len())
        });
        got.is_exact(&content, &ranges).unwrap_or_else(|error| panic!("{what}: {error}"));
        // Temporary rejections cannot be avoided. On several connections the order of responses
        // determines what is learned at which time: a request may be refused as the one trial of a
        // larger size, or be sent in two pieces beside it, so each may cost three.
        let statuses: Vec<_> = peer.log()[sent..].iter().map(|it| it.status).collect();
        let requests = statuses.iter().filter(|status| !matches!(status, 429 | 503)).count();
        let fewest = bound.fewest(&wanted).max(connections);
        let learned = source.endpoint();
        assert!(
            seed == 1 || requests * 5 <= fewest * if connections == 1 { 6 } else { 3 * 6 },
            "{what}: {requests} requests, {fewest} would do; {learned:?}; {statuses:?}"
        );
        let after = network.counters().totals();
        let received = after.bytes_received - before.bytes_received;
        let useful = range::total_bytes(&wanted) + PART * wanted.len() as u64;
        let most = useful * 5 / 4 + ANSWER * requests as u64 + SIZE;
        assert!(received <= most, "{what}: {received} bytes received, {useful} would do");
    }
    let whole_files = network.counters().totals().whole_files;
    let expected = u64::from(matches!(bound, RequestBound::Whole));
    assert_eq!(whole_files, expected, "{what}");
}

#[tokio::test]
async fn every_server_delivers_every_byte_on_one_connection() {
    for behaviour in behaviours() {
        expect_on(&behaviour, 1).await;
    }
}

#[tokio::test]
async fn every_server_delivers_every_byte_on_four_connections() {
    for behaviour in behaviours() {
        expect_on(&behaviour, 4).await;
    }
}

/// A read ends with an error instead of ten thousand requests.
#[tokio::test]
async fn connections_that_close_after_a_few_bytes() {
    for connections in [1, 4] {
        let peer = peer(usize::try_from(SIZE).unwrap(), []);
        peer.add_fault(FaultTrigger::Always, Fault::Close(ResponsePosition::Body(300)));
        let source = source_on(&network(with_connections(connections)), &peer.url());
        let error = read(&source, &random_ranges(1, RANGES)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        let requests = peer.log().len();
        assert!(requests <= 6 * connections, "{requests} requests on {connections} connections");
        // A small read still succeeds.
        let ranges = [7..150, 1_000..1_200];
        let got = read(&source, &ranges).await.unwrap();
        got.is_exact(&content(usize::try_from(SIZE).unwrap()), &ranges).unwrap();
    }
}
