//! Servers that cannot be reached, or that accept few connections.

use crate::fixture::{
    LARGE, THREE, content, network, peer, read, source, source_on, with_connections,
};
use futures_core::future::BoxFuture;
use hither_core::{Endpoint, EndpointStore, ErrorKind, Request, SlotClaim, Source};
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition, refusing_url};
use hither_testkit::mock_xrootd::MockXrootdServer;
use hither_testkit::waiting::task_until;
use hither_transport::{EgressFilter, Location, Network, Resolve, TransportConfig};
use socket2::{Domain, Socket, Type};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// A configuration with one connection at a time, and a second for all attempts to open it.
fn without_patience() -> TransportConfig {
    let mut config = with_connections(1);
    config.connect_timeout = Duration::from_secs(1);
    config
}

/// A port at which connections are refused until it is opened.
struct ClosedPort(Socket);

impl ClosedPort {
    fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }

    /// Forwards further connections to the server of `url`.
    fn open(self, url: &str) {
        let server = Location::parse(url).unwrap();
        let server = (server.host().to_owned(), server.port());
        self.0.listen(16).unwrap();
        let listener = TcpListener::from_std(self.0.into()).unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut upstream = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(async move {
                    // Either end may break the connection.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
                });
            }
        });
    }
}

/// Counts the attempts to connect.
#[derive(Debug, Default)]
struct Attempts(AtomicUsize);

impl EgressFilter for Attempts {
    fn pass(&self, _: &Location, _: SocketAddr) -> hither_core::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for() {
    let http = peer(LARGE, []);
    let xrootd = MockXrootdServer::start(content(LARGE)).unwrap();
    for url in [http.url(), xrootd.url()] {
        let port = ClosedPort::new();
        let attempts = Arc::new(Attempts::default());
        let mut config = with_connections(4);
        config.gate = Some(Arc::clone(&attempts) as Arc<dyn EgressFilter>);
        let network = network(config);
        let location = Location::parse(&url).unwrap();
        let closed =
            url.replace(&format!(":{}/", location.port()), &format!(":{}/", port.address().port()));
        let source = network.replica(Location::parse(&closed).unwrap()).source;
        let mut reading = pin!(read(&*source, &THREE));
        // It opens after the first attempt, however long this process is stopped: a wait for a
        // server that was never reached ends after some seconds.
        tokio::select! {
            early = &mut reading => panic!("{url}: {early:?}"),
            has_tried = task_until(|| attempts.0.load(Ordering::Relaxed) > 0) => assert!(has_tried),
        }
        port.open(&url);
        reading.await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
        assert_eq!(source.max_connections(), 4, "{url}: refusals are taken for a limit");
    }
}

#[tokio::test]
async fn a_server_that_may_be_replaced_by_another_is_not_waited_for() {
    let port = ClosedPort::new();
    for scheme in ["http", "root"] {
        let url = format!("{scheme}://{}//x", port.address());
        let attempts = Arc::new(Attempts::default());
        let mut config = with_connections(1);
        config.gate = Some(Arc::clone(&attempts) as Arc<dyn EgressFilter>);
        let source = network(config).replica(Location::parse(&url).unwrap()).source;
        let ranges = THREE.to_vec();
        let request = Request { ranges, failover: true, ..Request::default() };
        let error = source.fetch(request, Box::new(drop)).await.unwrap_err();
        assert!(error.is_refused_connection(), "{url}: {error}");
        // One that is waited for is tried again until five seconds have passed.
        assert_eq!(attempts.0.load(Ordering::Relaxed), 1, "{url}");
    }
}

#[tokio::test]
async fn a_closed_port_is_named_in_the_error() {
    let url = refusing_url().unwrap();
    let error = read(&source(&url, without_patience()), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().starts_with("cannot connect to http://127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_named_in_the_error() {
    // The name is too long, so no name server is queried.
    let url = format!("http://{}/x", "n".repeat(70));
    let error = read(&source(&url, with_connections(8)), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("does not resolve"), "{error}");
}

/// A socket with a full accept queue, so that the kernel drops further attempts; and the connection
/// that fills it.
#[cfg(target_os = "linux")]
fn black_hole() -> (SocketAddr, (Socket, std::net::TcpStream)) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let first = std::net::TcpStream::connect(address).unwrap();
    (address, (listener, first))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn lost_packets_end_in_a_connect_timeout() {
    let (address, _held) = black_hole();
    let mut config = TransportConfig::default();
    config.connect_timeout = Duration::from_millis(100);
    let source = source(&format!("http://{address}/x"), config);
    let error = read(&source, &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
}

/// A single-threaded server, which serves one connection until it is closed. It responds with the
/// first hundred bytes of the content.
fn one_thread(content: Vec<u8>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for _request in lines.map_while(Result::ok).filter(String::is_empty) {
                let size = content.len();
                let head = format!(
                    "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-99/{size}\r\n\
                     content-length: 100\r\netag: \"x\"\r\n\r\n"
                );
                stream.write_all(&[head.as_bytes(), &content[..100]].concat()).unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn idle_connections_do_not_block_a_single_threaded_server() {
    let content = content(1000);
    let url = format!("http://{}/x", one_thread(content.clone()));
    let network = network(with_connections(8));
    let pool = network.pool(&Location::parse(&url).unwrap());
    pool.warm(3);
    assert!(task_until(|| pool.idle_connections() >= 3).await);
    // The request is not sent on the connection that the server accepted first.
    let got = read(&source_on(&network, &url), &[0..100]).await.unwrap();
    got.is_exact(&content, &[0..100]).unwrap();
}

/// A resolver that always returns these addresses.
#[derive(Debug)]
pub(crate) struct Says(pub(crate) Vec<SocketAddr>);

impl Resolve for Says {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_dead_address_among_several_is_skipped() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::CloseAfter)]);
    let alive = peer.url()["http://".len()..].split('/').next().unwrap().parse().unwrap();
    let (dead, _held) = black_hole();
    let mut config = with_connections(1);
    config.resolver = Arc::new(Says(vec![dead, alive]));
    let source = source("http://several.example/x", config);
    for _ in 0..3 {
        let got = read(&source, &THREE).await.unwrap();
        got.is_exact(&content(LARGE), &THREE).unwrap();
    }
    assert!(peer.connections() >= 3);
}

#[tokio::test]
async fn an_error_counts_the_addresses_that_failed() {
    let refusing = refusing_url().unwrap();
    let dead = refusing["http://".len()..].split('/').next().unwrap().parse().unwrap();
    let mut config = without_patience();
    config.resolver = Arc::new(Says(vec![dead, dead]));
    let error = read(&source("http://several.example/x", config), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().starts_with("neither of 2 addresses responds: cannot connect"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_accepts_one_connection_gets_one() {
    let peer = peer(LARGE, [(FaultTrigger::Nth(0), Fault::NoMoreConnections)]);
    let source = source(&peer.url(), with_connections(8));
    read(&source, &[0..1]).await.unwrap();
    for _ in 0..3 {
        let got = read(&source, &[0..200_000]).await.unwrap();
        got.is_exact(&content(LARGE), &[0..200_000]).unwrap();
    }
    assert_eq!((peer.connections(), source.max_connections()), (1, 1));
}

#[tokio::test]
async fn a_server_that_disappears_ends_with_an_error() {
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Nth(0), Fault::NoMoreConnections),
            (FaultTrigger::Nth(0), Fault::Close(ResponsePosition::Body(20))),
        ],
    );
    let source = source(&peer.url(), without_patience());
    let error = read(&source, &[0..200_000]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_dropped_reader_releases_its_connection() {
    let peer = peer(LARGE, [(FaultTrigger::Before(2), Fault::Stall(ResponsePosition::Body(0)))]);
    let source = source(&peer.url(), with_connections(1));
    for seen in 1..=2 {
        let gone = read(&source, &THREE);
        tokio::select! {
            _ = gone => panic!("the peer stalls"),
            has_stalled = task_until(|| peer.log().len() >= seen) => assert!(has_stalled),
        }
    }
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!(peer.connections(), 3);
}

/// A store that grants this number of connections, because other processes use the rest.
#[derive(Debug)]
struct Crowded(AtomicUsize);

impl EndpointStore for Crowded {
    fn get(&self, _: &str) -> Option<Endpoint> {
        None
    }

    fn put(&self, _: &str, _: &Endpoint) {}

    fn claim_slot(&self, _: &str, _: usize) -> SlotClaim {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        left.map_or(SlotClaim::Full, |_| SlotClaim::Granted(Box::new(())))
    }
}

#[tokio::test]
async fn connections_of_other_processes_count_but_one_is_always_allowed() {
    for (left, connections) in [(0, 1), (1, 1), (3, 3)] {
        let peer = peer(LARGE, []);
        let ledger = Arc::new(Crowded(AtomicUsize::new(left)));
        let network = Network::new(with_connections(8), Handle::current(), Some(ledger));
        let source = source_on(&network, &peer.url());
        source.preconnect(8);
        let ranges: Vec<_> = (0..40).map(|i| i * 20_000..i * 20_000 + 9_000).collect();
        let got = read(&source, &ranges).await.unwrap();
        got.is_exact(&content(LARGE), &ranges).unwrap();
        assert_eq!(peer.connections(), connections, "{left} left");
    }
}
