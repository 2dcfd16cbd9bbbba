//! Reads of files as bytes, through the cache.

use crate::support::rig::{client, log};
use crate::support::takeover;
use hither::{Client, ClientConfig, ErrorKind, OpenOptions, RemoteFile};
use hither_netem::Link;
use hither_testkit::mock_http::MockHttpServer;
use hither_testkit::tcp_proxy::{TcpProxy, TcpProxyConfig};
use std::time::Duration;

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251 * 3).to_le_bytes()[0]).collect()
}

fn read(client: &Client, file: &RemoteFile, offset: usize, len: usize) -> Vec<u8> {
    let mut target = vec![0; len];
    let bytes = file.read_at(client, offset as u64, &mut target).unwrap();
    target.truncate(bytes);
    target
}

/// The requested bytes, each once, except the first one, which also validates the version, and what
/// was taken over from a slow request.
fn asked(peer: &MockHttpServer, size: usize) -> Vec<u8> {
    let mut asked = vec![0u8; size];
    let log = peer.log();
    let taken: Vec<_> = (0..log.len()).filter_map(|slow| takeover::of(&log, slow)).collect();
    let sent = log.iter().filter(|it| !taken.contains(it));
    for ranges in sent.filter_map(|it| it.ranges.clone()).filter(|it| it != "0-0") {
        for range in ranges.split(',') {
            let (first, last) = range.trim().split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            asked[first..=last.min(size - 1)].iter_mut().for_each(|times| *times += 1);
        }
    }
    asked
}

/// A proxy that answers handshakes itself, as a tunnel does, and delays everything else.
struct Tunnel {
    url: String,
    _proxy: TcpProxy,
    _runtime: tokio::runtime::Runtime,
}

impl Tunnel {
    fn start(peer: &MockHttpServer, rtt: Duration) -> Self {
        let server = peer.url().trim_start_matches("http://").split('/').next().unwrap().to_owned();
        let link = TcpProxyConfig { link: Link::new(rtt, None), ..TcpProxyConfig::default() };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listen = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let proxy = runtime.block_on(TcpProxy::start(listen, server.as_str(), link)).unwrap();
        let url = peer.url().replace(&server, &proxy.address().to_string());
        Self { url, _proxy: proxy, _runtime: runtime }
    }
}

/// Read-ahead as by default.
fn default_client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

/// The requests, connections and round trips of a sequential read of 5 MB over 50 ms.
fn sequential_read(bytes: &[u8], piece: usize) -> [u64; 3] {
    let peer = MockHttpServer::start(bytes.to_vec()).unwrap();
    let tunnel = Tunnel::start(&peer, Duration::from_millis(50));
    let client = default_client();
    let file = client.open(&tunnel.url).unwrap();
    for at in (0..bytes.len()).step_by(piece) {
        let end = bytes.len().min(at + piece);
        assert_eq!(read(&client, &file, at, piece), bytes[at..end]);
    }
    [peer.log().len() as u64, peer.connections() as u64, client.report().round_trips]
}

#[test]
fn a_sequential_read_through_a_tunnel_takes_few_round_trips_requests_and_connections() {
    // At rest 12 requests, 8 connections and 4 round trips in pieces of 8 kB, and 16, 8 and 5 in
    // those of 256 KiB. On a busy machine a response takes longer, and a longer path gets more: in
    // 40 runs with seven processes for each core up to 19, 11 and 6, and 19, 9 and 5; beside other
    // tests and a build 31 connections were seen. So it runs alone (`.config/nextest.toml`).
    let bytes = content(5_000_000);
    for (piece, bounds) in [(8 << 10, [24, 16, 9]), (256 << 10, [40, 16, 12])] {
        let seen = sequential_read(&bytes, piece);
        let few = seen.iter().zip(bounds).all(|(seen, bound)| *seen <= bound);
        assert!(few, "requests, connections, round trips of reads of {piece}: {seen:?}");
    }
}

#[test]
fn a_small_file_takes_one_request_or_two_and_none_beyond_its_end() {
    for (size, most) in [(645, 1), (77_000, 1), (131_072, 1), (1_000_000, 1), (1_114_113, 2)] {
        let peer = MockHttpServer::start(content(size)).unwrap();
        // Over one connection: after a slow response, a read would be split among several.
        let mut config = ClientConfig::default();
        config.transport.max_connections = 1;
        let client = Client::new(config).unwrap();
        // The first file of an unknown server, and others.
        for name in ["/a", "/b", "/c"] {
            let before = peer.log().len();
            let file = client.open(&peer.url_of(name)).unwrap();
            assert_eq!(read(&client, &file, 0, 2 << 20), content(size));
            assert_eq!(file.stat(&client).unwrap().size, size as u64);
            let requests = peer.log().split_off(before);
            let most = if name == "/a" { 2 } else { most };
            assert!(requests.len() <= most, "{size} bytes: {}", log(&peer));
            assert!(requests.iter().all(|it| it.status == 206), "{size} bytes: {}", log(&peer));
        }
    }
}

#[test]
fn a_long_read_is_planned_in_windows_and_costs_no_request_for_the_size() {
    const SIZE: usize = 70 << 20;
    let bytes = content(1_000_003).repeat(74)[..SIZE].to_vec();
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    let client = client(2, None);
    let file = client.open(&peer.url()).unwrap();
    assert_eq!(read(&client, &file, 0, 1_000), bytes[..1_000]);
    let before = peer.log().len();
    let all = 0..SIZE as u64;
    let found = file.read_ranges(&client, &[all.clone(), 5..10, all]).unwrap();
    assert!(found[0] == bytes && found[1] == bytes[5..10] && found[2] == bytes);
    let requests = peer.log().split_off(before);
    let lengths = requests.iter().map(|it| {
        let (first, last) = it.ranges.as_deref().unwrap().split_once('-').unwrap();
        last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap()
    });
    assert!(lengths.clone().all(|length| (2..=32 << 20).contains(&length)), "{}", log(&peer));
    let payload: u64 = requests.iter().map(|it| it.payload_bytes).sum();
    assert!(payload < SIZE as u64 * 5 / 4, "{}", log(&peer));
}

#[test]
fn sixty_four_threads_fetch_every_byte_once() {
    const SIZE: usize = 2_000_000;
    const PIECE: usize = 10_000;
    let bytes = content(SIZE);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    let tunnel = Tunnel::start(&peer, Duration::from_millis(90));
    let client = client(16, None);
    let file = client.open(&tunnel.url).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let client = &client;
            let file = file.clone();
            let bytes = &bytes;
            scope.spawn(move || {
                let pieces = SIZE / PIECE;
                for i in 0..pieces {
                    // Each in its own order: 67 is coprime to the number of pieces.
                    let at = (i * 67 + thread * 3) % pieces * PIECE;
                    assert_eq!(read(client, &file, at, PIECE), bytes[at..at + PIECE]);
                }
            });
        }
    });
    assert!(asked(&peer, SIZE).iter().all(|&times| times == 1));
    let log = peer.log();
    let taken = (0..log.len()).filter_map(|slow| takeover::of(&log, slow));
    let twice: u64 = taken.map(|it| it.payload_bytes).sum();
    let (reads, size) = (client.reads(), SIZE as u64);
    assert_eq!(reads.reads, 64 * 200);
    assert!((size..=size + twice).contains(&reads.bytes_fetched), "{} bytes", reads.bytes_fetched);
}

#[test]
fn open_files_of_one_client_share_bytes_and_clients_share_nothing() {
    let peer = MockHttpServer::start(content(100_000)).unwrap();
    let one = client(2, None);
    let other = client(2, None);
    let first = one.open(&peer.url()).unwrap();
    assert_eq!(read(&one, &first, 1_000, 50_000), content(100_000)[1_000..51_000]);
    let payload = || peer.log().iter().map(|it| it.payload_bytes).sum::<u64>();
    let before = payload();
    let second = one.open(&peer.url()).unwrap();
    assert_eq!(read(&one, &second, 2_000, 1_000), content(100_000)[2_000..3_000]);
    assert!(payload() <= before + 1, "{} {before}", payload());
    let elsewhere = other.open(&peer.url()).unwrap();
    assert_eq!(read(&other, &elsewhere, 2_000, 1_000), content(100_000)[2_000..3_000]);
    assert!(payload() >= before + 1_000);
}

#[test]
fn a_read_ends_at_the_end_of_the_file() {
    let peer = MockHttpServer::start(content(10_000)).unwrap();
    let client = client(2, None);
    let file = client.open(&peer.url()).unwrap();
    assert_eq!(read(&client, &file, 9_000, 100_000), content(10_000)[9_000..]);
    assert_eq!(read(&client, &file, 10_000, 10), b"");
    assert_eq!(read(&client, &file, 1 << 40, 10), b"");
    let beyond = client.open(&peer.url()).unwrap();
    assert_eq!(read(&client, &beyond, 20_000, 10), b"");
    let error = file.read_ranges(&client, &[0..10, 9_999..10_001]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn local_files_are_read_directly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, content(10_000)).unwrap();
    let client = client(2, None);
    let file = client.open(path.to_str().unwrap()).unwrap();
    assert_eq!(read(&client, &file, 9_000, 100_000), content(10_000)[9_000..]);
    assert_eq!(read(&client, &file, 10_000, 10), b"");
    assert!(file.hint(&[0..10], Duration::ZERO).is_none());
    assert_eq!(client.reads().reads, 0);
}

#[test]
fn an_empty_local_file_has_size_0() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let client = client(2, None);
    let file = client.open(empty.path().to_str().unwrap()).unwrap();
    assert_eq!(file.stat(&client).unwrap().size, 0);
    assert_eq!(read(&client, &file, 0, 10), b"");
}

#[test]
fn no_byte_is_returned_after_the_file_changed() {
    let peer = MockHttpServer::start(content(100_000)).unwrap();
    let client = client(2, None);
    let file = client.open(&peer.url()).unwrap();
    assert_eq!(read(&client, &file, 0, 1_000), content(100_000)[..1_000]);
    let mut other = content(100_000);
    other.iter_mut().for_each(|byte| *byte ^= 0xff);
    peer.replace(other.clone(), "\"other\"");
    let error = file.read_at(&client, 50_000, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    let error = file.read_at(&client, 0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    let again = client.open(&peer.url()).unwrap();
    assert_eq!(read(&client, &again, 0, 1_000), other[..1_000]);
}

#[test]
fn a_file_that_is_opened_again_is_read_in_the_same_version() {
    let first = content(100_000);
    let other: Vec<u8> = first.iter().map(|byte| byte ^ 0xff).collect();
    for is_read in [true, false] {
        let peer = MockHttpServer::start(first.clone()).unwrap();
        let client = client(2, None);
        let file = client.open(&peer.url()).unwrap();
        if is_read {
            assert_eq!(read(&client, &file, 0, 1_000), first[..1_000]);
        }
        let again = file.open_again(&client, OpenOptions::default()).unwrap();
        let requests = peer.log().len();
        assert_eq!(requests, 1, "{:?}", peer.log());
        if is_read {
            // The bytes that the first one has read are in memory.
            assert_eq!(read(&client, &again, 500, 500), first[500..1_000]);
            assert_eq!(peer.log().len(), requests, "{:?}", peer.log());
        }
        peer.replace(other.clone(), "\"other\"");
        for file in [&again, &file] {
            let error = file.read_at(&client, 50_000, &mut [0; 10]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        }
        // Another one, that has read the new version, changes nothing for them.
        let new = client.open(&peer.url()).unwrap();
        assert_eq!(read(&client, &new, 50_000, 10), other[50_000..50_010]);
        for file in [&again, &file, &again.open_again(&client, OpenOptions::default()).unwrap()] {
            let error = file.read_at(&client, 50_000, &mut [0; 10]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        }
    }
}

#[test]
fn hinted_ranges_are_fetched_in_a_few_requests() {
    let peer = MockHttpServer::start(content(1_000_000)).unwrap();
    let client = client(2, None);
    let file = client.open(&peer.url()).unwrap();
    let pieces: Vec<_> = (0..100u64).map(|i| i * 10_000..i * 10_000 + 1_000).collect();
    file.hint(&pieces, Duration::ZERO).unwrap();
    for piece in &pieces {
        let at = usize::try_from(piece.start).unwrap();
        let len = 1_000;
        assert_eq!(read(&client, &file, at, len), content(1_000_000)[at..at + len]);
    }
    assert!(peer.log().len() <= 6, "{}", log(&peer));
    assert!(asked(&peer, 1_000_000).iter().all(|&times| times <= 1));
    drop(file);
}
