//! HTTP/2 with servers that send one range per request: the number of connections, and failures of
//! streams and connections.

use crate::connect::http2_server::{Flaw, Multiplexer, Remembers};
use crate::connect::tls::trusting;
use crate::fixture::{LARGE, content, pass, read, read_exactly};
use hither_core::endpoint::RangeSupport;
use hither_core::{Endpoint, Source};
use hither_testkit::waiting::task_until;
use hither_transport::{HttpSource, Location, Network, TransportConfig};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;

const STREAMS: u32 = 50;

/// Ranges that are each read with their own request ([`read_exactly`]).
fn pieces(count: u64) -> Vec<Range<u64>> {
    (0..count).map(|n| n * 400..n * 400 + 200).collect()
}

fn config(server: &Multiplexer) -> TransportConfig {
    let mut config = trusting(&server.authority);
    config.max_connections = TransportConfig::default().max_connections;
    config
}

/// The endpoint as learned by an earlier process.
fn known(ranges: RangeSupport, streams: usize) -> Endpoint {
    let mut endpoint = Endpoint::default();
    endpoint.ranges = ranges;
    endpoint.streams = streams;
    endpoint
}

fn network(config: TransportConfig, known: Endpoint) -> (Arc<Network>, Arc<Remembers>) {
    let ledger = Arc::new(Remembers(Mutex::new(known)));
    let network = Network::new(config, Handle::current(), Some(Arc::clone(&ledger) as _));
    (network, ledger)
}

fn source_on(network: &Arc<Network>, server: &Multiplexer) -> HttpSource {
    HttpSource::new(Location::parse(&server.url()).unwrap(), Arc::clone(network))
}

/// Reads `count` pieces exactly from a server that is known to speak HTTP/2.
async fn exact(server: &Multiplexer, count: u64) -> Arc<Network> {
    let known = known(RangeSupport::Single, STREAMS as usize);
    let (network, _) = network(config(server), known);
    let source = source_on(&network, server);
    let got = read_exactly(&source, &pieces(count)).await.unwrap();
    got.is_exact(&content(LARGE), &pieces(count)).unwrap();
    network
}

#[tokio::test]
async fn a_known_server_gets_many_requests_on_few_connections() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::None).await;
    let network = exact(&server, 2000).await;
    let totals = network.counters().totals();
    assert_eq!((totals.requests, server.requests()), (2000, 2000));
    // The client ends a handshake first.
    assert!(task_until(|| totals.connections == server.connections() as u64).await, "{totals:?}");
    assert_eq!(server.multiplexed(), server.connections());
    assert!((2..=8).contains(&server.connections()), "{}", server.connections());
    assert_eq!((totals.bytes_requested, totals.bytes_payload), (400_000, 400_000));
    assert!(totals.bytes_received > 400_000);
    let most = server.seen.most.load(Ordering::SeqCst);
    assert!((65..=8 * STREAMS as usize).contains(&most), "{most} under way");
}

#[tokio::test]
async fn small_files_share_connections_with_servers_of_many_ranges_too() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::None).await;
    let (network, _) = network(config(&server), known(RangeSupport::Multi, 0));
    let sources: Vec<_> = (0..500).map(|_| source_on(&network, &server)).collect();
    assert_eq!(sources[0].max_small_files(), TransportConfig::default().max_connections);
    sources[0].expect_small_files();
    let range = 0..1000;
    let content = content(1000);
    let reads = sources.iter().map(|source| read(source, std::slice::from_ref(&range)));
    for got in futures_util::future::join_all(reads).await {
        got.unwrap().is_exact(&content, std::slice::from_ref(&range)).unwrap();
    }
    assert_eq!(sources[0].max_small_files(), 8 * STREAMS as usize);
    assert!((1..=8).contains(&server.multiplexed()), "{}", server.multiplexed());
}

#[tokio::test]
async fn capabilities_are_learned_in_the_first_session_and_remembered() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::None).await;
    let (network, ledger) = network(config(&server), Endpoint::default());
    let source = source_on(&network, &server);
    let got = read_exactly(&source, &pieces(2000)).await.unwrap();
    got.is_exact(&content(LARGE), &pieces(2000)).unwrap();
    network.remember_all();
    let learned = ledger.0.lock().unwrap().clone();
    assert_eq!((learned.ranges, learned.streams), (RangeSupport::Single, STREAMS as usize));
    assert!((1..=8).contains(&server.multiplexed()), "{}", server.multiplexed());
    // Until the server's limit arrives, a connection takes 100 streams (RFC 9113 section 6.5.2).
    // The server's HTTP/2 library refuses those above its limit; the server's count of requests
    // does not include them.
    let unseen = network.counters().totals().requests.checked_sub(server.requests() as u64);
    let most_unseen = server.multiplexed() as u64 * u64::from(100 - STREAMS);
    assert!(unseen.is_some_and(|unseen| unseen <= most_unseen), "{unseen:?}");
}

#[tokio::test]
async fn a_server_that_chooses_http1_is_offered_http2_once() {
    for streams in [0, STREAMS as usize] {
        let server = Multiplexer::start(LARGE, STREAMS, Flaw::Old).await;
        let (network, ledger) = network(config(&server), known(RangeSupport::Single, streams));
        let source = source_on(&network, &server);
        let got = read_exactly(&source, &pieces(500)).await.unwrap();
        got.is_exact(&content(LARGE), &pieces(500)).unwrap();
        network.remember_all();
        assert_eq!(ledger.0.lock().unwrap().streams, 1);
        assert_eq!((server.multiplexed(), server.requests()), (0, 500));
        assert!(server.seen.most.load(Ordering::SeqCst) <= 64);
    }
}

#[tokio::test]
async fn servers_that_send_several_ranges_are_not_offered_http2() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::None).await;
    let (network, _) = network(config(&server), known(RangeSupport::Multi, 0));
    read(&source_on(&network, &server), &[0..100]).await.unwrap();
    assert_eq!((server.connections(), server.multiplexed()), (1, 0));
}

#[tokio::test]
async fn a_caller_who_allows_one_connection_gets_one() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::None).await;
    let known = known(RangeSupport::Single, STREAMS as usize);
    let mut config = config(&server);
    config.max_connections = 1;
    let (network, _) = network(config, known);
    let source = source_on(&network, &server);
    let mut wanted = pieces(1000);
    wanted.push(500_000..900_000);
    let got = read_exactly(&source, &wanted).await.unwrap();
    got.is_exact(&content(LARGE), &wanted).unwrap();
    assert_eq!((server.connections(), server.multiplexed()), (1, 1));
}

#[tokio::test]
async fn large_responses_get_connections_of_their_own() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::None).await;
    let (network, _) = network(config(&server), known(RangeSupport::Single, STREAMS as usize));
    let source = source_on(&network, &server);
    let wanted = std::slice::from_ref(&(0..LARGE as u64));
    read(&source, wanted).await.unwrap().is_exact(&content(LARGE), wanted).unwrap();
    assert!(server.connections() > server.multiplexed());
}

#[tokio::test]
async fn a_goaway_loses_nothing() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::GoAway(60)).await;
    exact(&server, 1500).await;
    assert!(server.connections() > 8, "{}", server.connections());
    assert_eq!(server.multiplexed(), server.connections());
}

#[tokio::test]
async fn requests_of_a_broken_connection_are_sent_again() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::Break(100)).await;
    exact(&server, 1500).await;
    assert!(server.connections() > 8, "{}", server.connections());
    assert!(server.requests() > 1500);
}

#[tokio::test]
async fn a_reset_affects_only_its_stream() {
    for flaw in [Flaw::Reset(7), Flaw::ResetBody(7)] {
        let server = Multiplexer::start(LARGE, STREAMS, flaw).await;
        exact(&server, 700).await;
        assert!(server.requests() > 750, "{flaw:?}: {}", server.requests());
        assert!(server.connections() <= 8, "{flaw:?}: {}", server.connections());
    }
}

#[tokio::test]
async fn refused_streams_lower_the_number_of_parallel_requests() {
    for flaw in [Flaw::Refuse(30), Flaw::Busy(30)] {
        let server = Multiplexer::start(LARGE, STREAMS, flaw).await;
        exact(&server, 2000).await;
        let refused = server.seen.refused.load(Ordering::SeqCst);
        assert!((1..1500).contains(&refused), "{flaw:?}: {refused} refused");
    }
}

#[tokio::test]
async fn a_server_that_breaks_every_http2_connection_is_read_over_http1() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::Break(0)).await;
    let (network, ledger) = network(config(&server), known(RangeSupport::Single, 50));
    let source = source_on(&network, &server);
    // This server never responds over HTTP/1.1; the accepted connection is the evidence.
    let reading = read(&source, &[0..100]);
    let asked = task_until(|| server.connections() != server.multiplexed());
    tokio::select! {
        got = reading => panic!("{got:?}"),
        is_asked = asked => assert!(is_asked),
    }
    network.remember_all();
    assert_eq!(ledger.0.lock().unwrap().streams, 1);
}

#[tokio::test]
async fn a_cancelled_request_leaves_its_connection_open() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::Stall(1)).await;
    let (network, _) = network(config(&server), known(RangeSupport::Single, STREAMS as usize));
    let source = source_on(&network, &server);
    read(&source, &[0..100]).await.unwrap();
    {
        let stalled = read(&source, &[1000..1100]);
        tokio::select! {
            got = stalled => panic!("{got:?}"),
            is_asked = task_until(|| server.requests() >= 2) => assert!(is_asked),
        }
    }
    // The server receives the cancellation.
    server.seen.given_up.notified().await;
    read(&source, &[2000..2100]).await.unwrap();
    assert_eq!((server.connections(), server.requests()), (1, 3));
}

#[tokio::test]
async fn a_stream_without_a_response_ends_in_its_own_timeout() {
    let server = Multiplexer::start(LARGE, STREAMS, Flaw::Stall(3)).await;
    let config = config(&server);
    let timeout = config.first_byte_timeout;
    let (network, _) = network(config, known(RangeSupport::Single, STREAMS as usize));
    let source = source_on(&network, &server);
    let passing = async {
        let has_others = || network.counters().totals().bytes_payload == 9 * 200;
        assert!(task_until(has_others).await, "{:?}", network.counters().totals());
        pass(timeout).await;
        std::future::pending().await
    };
    let wanted = pieces(10);
    let got = tokio::select! {
        got = read_exactly(&source, &wanted) => got.unwrap(),
        () = passing => unreachable!("it has no end"),
    };
    got.is_exact(&content(LARGE), &wanted).unwrap();
    assert_eq!((got.retries, server.requests()), (1, 11));
    assert_eq!(source.endpoint().streams, STREAMS as usize);
}
