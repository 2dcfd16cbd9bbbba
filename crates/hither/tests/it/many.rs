//! Many files: opened ahead of use, in parallel, and in any state of readiness.

use crate::support::rig::{client, file};
use hither::{Client, ErrorKind, RemoteFile};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use hither_testkit::waiting::wait_until;
use std::ops::Range;
use std::sync::LazyLock;

const CONNECTIONS: usize = 4;

fn content() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| file(0));
    &CONTENT
}

fn open_all(client: &Client, peer: &MockHttpServer, count: usize) -> Vec<RemoteFile> {
    (0..count).map(|nth| client.open(&peer.url_of(&format!("/{nth}.root"))).unwrap()).collect()
}

/// Three small ranges that opening ahead prefetches: the header, a range near it, and one near the
/// end.
fn pieces(size: u64) -> [Range<u64>; 3] {
    [0..64, 100..300, size - 2_000..size - 1_900]
}

fn read_pieces(client: &Client, opened: &RemoteFile) {
    let content = content();
    for piece in pieces(content.len() as u64) {
        let found = opened.read_ranges(client, std::slice::from_ref(&piece)).unwrap();
        let range = usize::try_from(piece.start).unwrap()..usize::try_from(piece.end).unwrap();
        assert_eq!(found, [&content[range]]);
    }
}

fn paths(peer: &MockHttpServer) -> Vec<String> {
    peer.log().into_iter().map(|it| it.target).collect()
}

#[test]
fn files_opened_one_after_the_other_are_opened_in_parallel() {
    // No response starts before there are as many requests as connections.
    let peer = MockHttpServer::start(content())
        .unwrap()
        .with_fault(FaultTrigger::Always, Fault::Hold(CONNECTIONS));
    let client = client(CONNECTIONS, None);
    let files = open_all(&client, &peer, 20);
    files.iter().for_each(|opened| read_pieces(&client, opened));
    assert_eq!((peer.log().len(), peer.connections()), (20, CONNECTIONS));
    let order = paths(&peer);
    let mut first: Vec<_> = order[..CONNECTIONS].to_vec();
    first.sort();
    assert_eq!(first, ["/0.root", "/1.root", "/2.root", "/3.root"]);
}

#[test]
fn a_single_file_and_files_used_one_by_one_cause_only_the_requests_of_their_reads() {
    let peer = MockHttpServer::start(content()).unwrap();
    let client = client(CONNECTIONS, None);
    for opened in (0..5).map(|nth| client.open(&peer.url_of(&format!("/{nth}.root"))).unwrap()) {
        opened.read_ranges(&client, &[10..20]).unwrap();
    }
    let asked: Vec<_> = peer.log().into_iter().map(|it| it.ranges.unwrap()).collect();
    assert_eq!(asked, ["10-19"; 5]);
}

#[test]
fn ranges_that_were_not_prefetched_are_requested_of_the_opened_version() {
    let content = content();
    let peer = MockHttpServer::start(content).unwrap();
    let client = client(CONNECTIONS, None);
    let files = open_all(&client, &peer, 2);
    for opened in &files {
        let found = opened.read_ranges(&client, &[500_000..500_010, 0..4, 7..7]).unwrap();
        assert_eq!(found, [&content[500_000..500_010], &content[..4], &[]]);
        assert_eq!(opened.stat(&client).unwrap().size, content.len() as u64);
    }
    let log = peer.log();
    let asked: Vec<_> = log.iter().filter(|it| it.if_range.is_some()).collect();
    assert_eq!((log.len(), asked.len()), (4, 2), "{}", crate::support::rig::log(&peer));
    assert!(asked.iter().all(|it| it.ranges.as_deref() == Some("500000-500009")), "{asked:?}");
    peer.replace(content, "\"second\"");
    let error = files[0].read_ranges(&client, &[600_000..600_001]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    let beyond = files[0].read_ranges(&client, &[2 << 30..3 << 30]).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::Corrupt);
}

#[test]
fn an_error_of_opening_is_returned_once_at_the_first_use() {
    let fault = Fault::Status { status: 404, retry_after: None };
    let peer = MockHttpServer::start(content())
        .unwrap()
        .with_fault(FaultTrigger::FirstFor("/3.root"), fault);
    let client = client(CONNECTIONS, None);
    // A server that was never seen to send several ranges may refuse them with any status, and is
    // asked for one.
    let apart: Vec<_> = (0..8).map(|nth| nth * 100_000..nth * 100_000 + 1).collect();
    client.file(&peer.url_of("/known")).unwrap().read_ranges(&client, &apart).unwrap();
    assert_eq!(peer.log().len(), 1);
    let files = open_all(&client, &peer, 6);
    let error = files[3].stat(&client).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(files[3].stat(&client).unwrap().size, content().len() as u64);
    read_pieces(&client, &files[5]);
}

#[test]
fn files_dropped_before_their_turn_are_not_opened() {
    let peer =
        MockHttpServer::start(content()).unwrap().with_fault(FaultTrigger::Nth(0), Fault::Hold(2));
    let client = client(1, None);
    let mut files = open_all(&client, &peer, 30);
    // The only connection is busy until the request of another client, which has its own
    // connection.
    files.drain(1..29);
    let other = crate::support::rig::client(1, None);
    other.file(&peer.url_of("/other")).unwrap().read_ranges(&other, &[0..1]).unwrap();
    files.iter().for_each(|opened| read_pieces(&client, opened));
    let order = paths(&peer);
    assert!(order.len() <= 4, "{order:?}");
}

#[test]
fn passing_errors_are_retried() {
    let peer = MockHttpServer::start(content()).unwrap();
    // Two files, at their first request.
    for path in ["0.root", "5.root"] {
        peer.add_fault(
            FaultTrigger::FirstFor(path),
            Fault::Close(hither_testkit::mock_http::ResponsePosition::Body(100)),
        );
    }
    let client = client(CONNECTIONS, None);
    for opened in open_all(&client, &peer, 40) {
        read_pieces(&client, &opened);
    }
}

#[test]
fn files_that_are_being_staged_come_last_and_delay_no_other() {
    for (status, count, seconds) in [(503, 20, 5), (202, 8, 1)] {
        let fault = Fault::Status { status, retry_after: Some(seconds) };
        let peer = MockHttpServer::start(content())
            .unwrap()
            .with_fault(FaultTrigger::For("7.root"), fault);
        let client = client(CONNECTIONS, None);
        let urls = (0..count).map(|nth| peer.url_of(&format!("/{nth}.root")));
        let late = (0..count).filter(|nth| nth % 10 == 7).count();
        let mut opened = client.open_many(urls);
        // The files are ready once all others were used.
        for _ in late..count {
            let (nth, opened) = opened.next().unwrap();
            read_pieces(&client, &opened.unwrap());
            assert!(nth % 10 != 7, "{nth}");
        }
        peer.clear_faults();
        assert_eq!(opened.map(|(_, it)| read_pieces(&client, &it.unwrap())).count(), late);
        let log = peer.log();
        let (served, refused): (Vec<_>, Vec<_>) = log.iter().partition(|it| it.status == 206);
        assert_eq!(served.len(), count, "{log:?}");
        assert!(refused.iter().all(|it| it.target.contains("7.root")), "{log:?}");
    }
}

#[test]
fn open_many_returns_files_with_their_numbers_and_errors() {
    let fault = Fault::Status { status: 404, retry_after: None };
    let peer = MockHttpServer::start(content()).unwrap();
    let without = MockHttpServer::start(content()).unwrap().with_fault(FaultTrigger::Always, fault);
    let client = client(CONNECTIONS, None);
    let folder = tempfile::tempdir().unwrap();
    let local = folder.path().join("x.root");
    std::fs::write(&local, content()).unwrap();
    let urls = [
        peer.url_of("/0.root"),
        local.to_str().unwrap().to_owned(),
        without.url_of("/2.root"),
        "gopher://h/x".to_owned(),
        "/not/there".to_owned(),
    ];
    let mut kinds = [None; 5];
    for (nth, opened) in client.open_many(urls) {
        kinds[nth] = opened.err().map(|error| error.kind());
    }
    let missing = Some(ErrorKind::NotFound);
    let unsupported = Some(ErrorKind::Unsupported);
    assert_eq!(kinds, [None, None, missing, unsupported, missing]);
}

#[test]
fn a_second_run_only_validates_and_with_staleness_requests_nothing() {
    let store = tempfile::tempdir().unwrap();
    let peer = MockHttpServer::start(content()).unwrap();
    let run = |staleness: u64| {
        let mut config = hither::ClientConfig::default();
        config.transport.max_connections = CONNECTIONS;
        config.store = Some(store.path().to_owned());
        config.staleness = std::time::Duration::from_secs(staleness);
        let client = Client::new(config).unwrap();
        let before = peer.log().len();
        for opened in open_all(&client, &peer, 10) {
            read_pieces(&client, &opened);
        }
        drop(client);
        peer.log().split_off(before)
    };
    assert_eq!(run(0).iter().filter(|it| it.payload_bytes > 8_000).count(), 10);
    let second = run(0);
    assert!(second.len() == 10 && second.iter().all(|it| it.payload_bytes == 1), "{second:?}");
    assert!(run(3600).is_empty());
    peer.replace(content(), "\"second\"");
    let changed = run(0);
    assert_eq!(changed.iter().filter(|it| it.payload_bytes > 8_000).count(), 20, "{changed:?}");
}

fn read_at(client: &Client, opened: &RemoteFile, pieces: &[Range<usize>]) {
    for piece in pieces {
        let mut target = vec![0; piece.len()];
        let read = opened.read_at(client, piece.start as u64, &mut target).unwrap();
        assert_eq!((read, &*target), (piece.len(), &content()[piece.clone()]));
    }
}

#[test]
fn ranges_that_are_read_of_a_few_files_are_prefetched_of_the_others() {
    const PIECES: [Range<usize>; 2] = [300_000..300_100, 500_000..500_010];
    const UNUSED: usize = 3;
    let peer = MockHttpServer::start(content()).unwrap();
    let client = client(CONNECTIONS, None);
    let asked = |nth| -> Vec<_> {
        let path = format!("/{nth}.root");
        let log = peer.log().into_iter().filter(|it| it.target == path);
        log.filter_map(|it| it.ranges).collect()
    };
    let open = |nth| client.open(&peer.url_of(&format!("/{nth}.root"))).unwrap();
    let first: Vec<_> = (0..=UNUSED).map(open).collect();
    assert!(wait_until(|| peer.log().len() == first.len()), "{:?}", peer.log());
    first[..UNUSED].iter().for_each(|opened| read_at(&client, opened, &PIECES));
    // A file that is open and unused gets them, too.
    let is_prefetched = || {
        let asked = asked(UNUSED).join(",");
        ["300000-300099", "500000-500009"].iter().all(|it| asked.contains(it))
    };
    assert!(wait_until(is_prefetched), "{:?}", asked(UNUSED));
    let before = asked(UNUSED);
    read_at(&client, &first[UNUSED], &PIECES);
    assert_eq!(asked(UNUSED), before);
    let later = UNUSED + 1..100;
    let opened: Vec<_> = later.clone().map(open).collect();
    opened.iter().for_each(|opened| read_at(&client, opened, &PIECES));
    let requests: Vec<_> = later.map(|nth| asked(nth).len()).collect();
    assert!(requests.iter().all(|it| *it == 1), "{requests:?}");
}

#[test]
fn only_the_ranges_that_are_read_are_fetched_and_the_next_run_only_validates() {
    const FILES: usize = 100;
    const FEW: usize = 5;
    let store = tempfile::tempdir().unwrap();
    let peer = MockHttpServer::start(content()).unwrap();
    let run = || {
        // Read-ahead and the tree cache are on by default, and must not fetch anything here.
        let mut config = hither::ClientConfig::default();
        config.transport.max_connections = CONNECTIONS;
        config.store = Some(store.path().to_owned());
        let client = Client::new(config).unwrap();
        let before = peer.log().len();
        // There is a pattern before most files are opened.
        for numbers in [0..FEW, FEW..FILES] {
            let open = |nth| client.open(&peer.url_of(&format!("/{nth}.root"))).unwrap();
            for opened in numbers.map(open).collect::<Vec<_>>() {
                // As in a ROOT file: header, list of keys, and the object behind it.
                read_at(&client, &opened, &[0..300, 1_318..1_624, 1_624..2_624]);
            }
        }
        drop(client);
        peer.log().split_off(before)
    };
    let cold = run();
    for it in &cold {
        let ranges = it.ranges.as_deref().unwrap();
        let ends = ranges.split(',').filter(|range| !range.starts_with('-')).map(|range| {
            range.rsplit_once('-').and_then(|(_, end)| end.trim().parse::<usize>().ok()).unwrap()
        });
        assert!(ends.max() <= Some(2_624), "{ranges}");
    }
    // One request per file, and the reads of the first files, before there was a pattern.
    let most = FILES + 2 * FEW;
    assert!((FILES..=most).contains(&cold.len()), "{} requests", cold.len());
    let warm = run();
    assert!((FILES..=most).contains(&warm.len()), "{} requests", warm.len());
}

#[test]
fn the_disk_cache_serves_later_processes_until_the_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let peer = MockHttpServer::start(content()).unwrap();
    let pieces = [200_000..260_000, 500_000..500_100, 0..10_u64];
    let run = || {
        let mut config = hither::ClientConfig::default();
        config.store = Some(folder.path().join("store"));
        // This test counts the reads of the program.
        config.read_ahead.block_bytes = 0;
        config.tree_cache.enabled = false;
        config.disk_cache = Some(hither::DiskCacheConfig { bytes: 10 << 20 });
        let client = Client::new(config).unwrap();
        let before = peer.log().len();
        let opened = client.open(&peer.url()).unwrap();
        for piece in [&pieces[..1], &pieces[1..]] {
            let found = opened.read_ranges(&client, piece).unwrap();
            for (range, bytes) in piece.iter().zip(found) {
                let range =
                    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                assert_eq!(bytes, &content()[range]);
            }
        }
        drop(client);
        peer.log()[before..].iter().map(|it| it.payload_bytes).sum::<u64>()
    };
    assert!(run() >= 60_110);
    // The first read asks the server, which names the version; the others need no request.
    let second = run();
    assert!((60_000..60_100).contains(&second), "{second}");
    peer.replace(content(), "\"second\"");
    assert!(run() >= 60_110);
    for damaged in std::fs::read_dir(folder.path().join("store/blocks")).unwrap() {
        let path = damaged.unwrap().path();
        let mut log = std::fs::read(&path).unwrap();
        log.iter_mut().skip(200).step_by(50).for_each(|byte| *byte ^= 1);
        std::fs::write(&path, log).unwrap();
    }
    assert!(run() >= 60_110);
}
