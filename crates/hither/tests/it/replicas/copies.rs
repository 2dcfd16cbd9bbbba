//! Copies of files with several replicas.

use hither::{
    Algorithm, Client, ClientConfig, CopyOptions, CopySummary, ErrorKind, Mirror, OverwritePolicy,
};
use hither_checksum::Hasher;
use hither_testkit::mock_http::webdav::{MockWebDavServer, StatedSizes, WebDavBehaviour};
use hither_testkit::mock_http::{
    Fault, FaultTrigger, MockHttpServer, ResponsePosition, refusing_url,
};
use hither_testkit::mock_xrootd::{self as xrootd, BreakPoint, FaultStage, MockXrootdServer};
use hither_testkit::waiting::wait_until;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 40;

fn bytes() -> Vec<u8> {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..BLOCKS * BLOCK + 77).map(|_| next()).collect()
    });
    BYTES.clone()
}

fn server() -> MockHttpServer {
    MockHttpServer::start(bytes()).unwrap()
}

/// A server whose bytes are wrong in every block.
fn corrupt() -> MockHttpServer {
    let server = server();
    for block in 0..BLOCKS {
        server.add_fault(FaultTrigger::Always, Fault::FlippedBit((block * BLOCK + 11) as u64));
    }
    server
}

fn stating_checksum(server: MockHttpServer, of: &[u8]) -> MockHttpServer {
    let sum = Hasher::of(Algorithm::Adler32, of).hex();
    server.with_fault(FaultTrigger::Always, Fault::Field("Digest", format!("adler32={sum}")))
}

fn config(store: Option<&Path>, url: &str, elsewhere: &[String]) -> ClientConfig {
    let mut config = ClientConfig::default();
    config.transport.max_connections = 6;
    config.store = store.map(Path::to_owned);
    config.mirrors.add(Mirror { prefix: url.to_owned(), elsewhere: elsewhere.to_vec() });
    config
}

fn client(store: Option<&Path>, url: &str, elsewhere: &[String]) -> Client {
    Client::new(config(store, url, elsewhere)).unwrap()
}

fn copy(client: &Client, source: &str, target: &Path) -> CopySummary {
    copy_with(client, source, target, client.copy_options())
}

fn copy_with(
    client: &Client,
    source: &str,
    target: &Path,
    mut options: CopyOptions,
) -> CopySummary {
    options.block_bytes = BLOCK as u64;
    options.existing = OverwritePolicy::Replace;
    let target = target.to_str().unwrap();
    let sources = [source.to_owned()];
    client.block_on(client.copy(&sources, &[], target, options, Arc::default())).unwrap()
}

/// A copy with one worker: no replica takes a part of a block that another one sends.
fn copy_in_turn(client: &Client, source: &str, target: &Path) -> CopySummary {
    let mut options = client.copy_options();
    options.max_workers = 1;
    copy_with(client, source, target, options)
}

fn sent(server: &MockHttpServer) -> u64 {
    server.log().iter().filter(|it| it.method == "GET").map(|it| it.payload_bytes).sum()
}

/// A document about the file at `urls`, with checksums of pieces by `pieces`.
fn document(urls: &[String], pieces: Option<Algorithm>) -> String {
    let bytes = bytes();
    let mut text = format!(
        "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"file\"><size>{}</size>\
         <hash type=\"sha-256\">{}</hash>",
        bytes.len(),
        Hasher::of(Algorithm::Sha256, &bytes).hex()
    );
    text.extend(pieces.map(|algorithm| checksums_of_pieces(algorithm, BLOCK / 2)));
    for url in urls {
        write!(text, "<url>{url}</url>").unwrap();
    }
    text + "</file></metalink>"
}

fn checksums_of_pieces(algorithm: Algorithm, piece_bytes: usize) -> String {
    let name = if algorithm == Algorithm::Sha1 { "sha-1" } else { "sha-256" };
    let mut text = format!("<pieces length=\"{piece_bytes}\" type=\"{name}\">");
    for piece in bytes().chunks(piece_bytes) {
        write!(text, "<hash>{}</hash>", Hasher::of(algorithm, piece).hex()).unwrap();
    }
    text + "</pieces>"
}

#[test]
fn a_copy_uses_all_replicas_and_survives_one_that_dies_one_that_hangs_and_a_corrupt_one() {
    let good = stating_checksum(server(), &bytes());
    let dying =
        server().with_fault(FaultTrigger::From(3), Fault::Reset(ResponsePosition::Body(BLOCK / 2)));
    let hanging =
        server().with_fault(FaultTrigger::From(2), Fault::Stall(ResponsePosition::Body(100)));
    let corrupt = corrupt();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let others = [dying.url(), hanging.url(), corrupt.url()];
    let mut config = config(None, &good.url(), &others);
    config.transport.first_byte_timeout = Duration::from_secs(1);
    config.transport.no_progress_timeout = Duration::from_secs(1);
    let client = Client::new(config).unwrap();
    let summary = copy(&client, &good.url(), &target);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes());
    assert_eq!(summary.sources.len(), 4, "{:?}", summary.sources);
    // A request may still be on its way when the copy has ended.
    assert!(wait_until(|| [&good, &dying, &corrupt].iter().all(|server| sent(server) > 0)));
    // The corrupt one is named only for blocks that it sent alone.
    let notices = summary.notices.join("\n");
    assert!(!notices.contains(&format!("{}: sent wrong", good.url())), "{notices}");
    // At most three replicas are tried alone, each for the blocks that others have sent. The rest
    // is what the dying one and the hanging one had begun.
    assert!(summary.bytes_resent <= 4 * summary.bytes, "{summary:?}");
}

#[test]
fn the_first_replica_may_be_the_corrupt_one() {
    let corrupt = corrupt();
    let good = stating_checksum(server(), &bytes());
    let other = stating_checksum(server(), &bytes());
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let client = client(None, &corrupt.url(), &[good.url(), other.url()]);
    let summary = copy_in_turn(&client, &corrupt.url(), &target);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes());
    let notices = summary.notices.join("\n");
    assert!(notices.contains(&format!("{}: sent wrong bytes", corrupt.url())), "{notices}");
}

#[test]
fn a_replica_of_another_checksum_or_size_is_named_and_left_out() {
    let first = stating_checksum(server(), &bytes());
    let other = stating_checksum(server(), b"something else");
    let shorter = MockHttpServer::start(bytes()[1..].to_vec()).unwrap();
    let agreeing = stating_checksum(server(), &bytes());
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let others = [other.url(), shorter.url(), agreeing.url()];
    let client = client(None, &first.url(), &others);
    let summary = copy(&client, &first.url(), &target);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes());
    let notices = summary.notices.join("\n");
    assert!(notices.contains(&format!("{}: the server states adler32", other.url())), "{notices}");
    assert!(notices.contains("bytes on the server, expected"), "{notices}");
}

#[test]
fn pieces_of_a_document_find_wrong_blocks_at_once() {
    // By the algorithm of the whole file they say all about it; by another, it is summed up too.
    for (algorithm, name) in [(Algorithm::Sha1, "sha1"), (Algorithm::Sha256, "sha256")] {
        expect_wrong_blocks_found(algorithm, name);
    }
}

fn expect_wrong_blocks_found(algorithm: Algorithm, name: &str) {
    let corrupt = corrupt();
    let good = server();
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.meta4");
    std::fs::write(&list, document(&[corrupt.url(), good.url()], Some(algorithm))).unwrap();
    let into = folder.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let client = client(None, "", &[]);
    let summary = copy_in_turn(&client, list.to_str().unwrap(), &into);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(into.join("file")).unwrap(), bytes());
    let notices = summary.notices.join("\n");
    let named = format!("{}: bytes ", corrupt.url());
    let states = format!("the catalogue states {name}");
    assert!(notices.contains(&named) && notices.contains(&states), "{notices}");
    // It was left out at its first wrong block: only what was on its way came as well.
    assert!(summary.bytes_resent <= 8 * BLOCK as u64, "{summary:?}");
    assert!(summary.checksums[0].compared);
}

/// A document whose only checksums are those of pieces.
fn document_of_pieces(urls: &[String], pieces: &str) -> String {
    let sha256 = Hasher::of(Algorithm::Sha256, &bytes()).hex();
    document(urls, None).replace(&format!("<hash type=\"sha-256\">{sha256}</hash>"), pieces)
}

#[test]
fn pieces_are_compared_or_a_notice_states_that_they_are_not() {
    // Blocks hold pieces of at most 64 MiB; larger ones are compared at the end.
    const LARGE: usize = 128 << 20;
    let whole = checksums_of_pieces(Algorithm::Sha1, LARGE);
    let blocks = checksums_of_pieces(Algorithm::Sha1, BLOCK);
    let last = blocks.rfind("<hash>").unwrap();
    let one_missing = format!("{}</pieces>", &blocks[..last]);
    let [corrupt, good] = [corrupt(), server()];
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("file.meta4");
    let target = folder.path().join("copy");
    let client = client(None, "", &[]);
    for (urls, pieces, error) in [
        (vec![corrupt.url()], &whole, Some("the catalogue states sha1")),
        (vec![corrupt.url(), good.url()], &whole, None),
        (vec![good.url()], &one_missing, Some("do not cover")),
        (vec![good.url()], &whole, None),
    ] {
        std::fs::write(&list, document_of_pieces(&urls, pieces)).unwrap();
        let summary = copy(&client, list.to_str().unwrap(), &target);
        let failure = summary.error().map(|error| (error.kind(), error.to_string()));
        assert_eq!(failure.is_some(), error.is_some(), "{failure:?}");
        if let (Some((kind, message)), Some(error)) = (failure, error) {
            assert!(kind == ErrorKind::Corrupt && message.contains(error), "{message}");
            assert!(!target.exists(), "{message}");
        } else {
            assert_eq!(std::fs::read(&target).unwrap(), bytes());
            std::fs::remove_file(&target).unwrap();
        }
    }
    let upload = MockWebDavServer::start(None).unwrap();
    for (pieces, is_told) in [(&whole, true), (&blocks, false)] {
        std::fs::write(&list, document_of_pieces(&[good.url()], pieces)).unwrap();
        let url = upload.url_of("/d/copy");
        let summary = copy(&client, list.to_str().unwrap(), Path::new(&url));
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        let notices = summary.notices.join("\n");
        assert_eq!(notices.contains("are not compared"), is_told, "{notices}");
    }
}

#[test]
fn a_document_without_a_good_replica_is_an_error_that_names_the_bytes() {
    let corrupt = corrupt();
    let folder = tempfile::tempdir().unwrap();
    let document = document(&[corrupt.url()], Some(Algorithm::Sha1));
    let described = MockHttpServer::start(document.into_bytes()).unwrap();
    let client = client(None, "", &[]);
    let target = folder.path().join("copy");
    let summary = copy(&client, &described.url_of("/file.meta4"), &target);
    let error = summary.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("the catalogue states"), "{error}");
    assert!(!target.exists());
}

#[test]
fn the_checksum_of_a_document_finds_the_corrupt_replica_without_pieces() {
    let corrupt = corrupt();
    let good = server();
    let urls = [corrupt.url(), good.url()];
    let described = MockHttpServer::start(document(&urls, None).into_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let client = client(None, "", &[]);
    let summary = copy_in_turn(&client, &described.url_of("/file.meta4"), &target);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes());
    let notices = summary.notices.join("\n");
    assert!(notices.contains(&format!("{}: sent wrong bytes", corrupt.url())), "{notices}");
}

#[test]
fn a_weak_checksum_that_is_right_excuses_no_strong_one_that_is_wrong() {
    let served = server();
    let hash = |name: &str, algorithm, of: &[u8]| {
        format!("<hash type=\"{name}\">{}</hash>", Hasher::of(algorithm, of).hex())
    };
    let sha256 = hash("sha-256", Algorithm::Sha256, &bytes());
    let md5 = hash("md5", Algorithm::Md5, &bytes());
    let wrong = hash("sha-256", Algorithm::Sha256, b"other");
    let described = document(&[served.url()], None);
    assert!(described.contains(&sha256), "{described}");
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("file.meta4");
    let target = folder.path().join("copy");
    for (hashes, is_right) in [
        (format!("{md5}{wrong}"), false),
        (format!("{wrong}{md5}"), false),
        (format!("{md5}{sha256}"), true),
    ] {
        std::fs::write(&list, described.replace(&sha256, &hashes)).unwrap();
        let summary = copy(&client(None, "", &[]), list.to_str().unwrap(), &target);
        let kind = summary.error().map(|error| error.kind());
        assert_eq!(kind, (!is_right).then_some(ErrorKind::Corrupt), "{hashes}");
        assert_eq!(target.exists(), is_right, "{hashes}");
    }
}

#[test]
fn an_interrupted_copy_resumes_from_other_replicas() {
    let store = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let first = stating_checksum(server(), &bytes());
    first.add_fault(FaultTrigger::From(20), Fault::Close(ResponsePosition::Answer(0)));
    let url = first.url();
    let begun = copy(&client(Some(store.path()), &url, &[]), &url, &target);
    assert!(begun.can_go_on(), "{:?}", begun.failures);
    drop(first);
    let second = stating_checksum(server(), &bytes());
    let resumed = copy(&client(Some(store.path()), &url, &[second.url()]), &url, &target);
    assert!(resumed.failures.is_empty(), "{:?}", resumed.failures);
    assert!(resumed.bytes_resumed > 5 * BLOCK as u64, "{resumed:?}");
    assert_eq!(std::fs::read(&target).unwrap(), bytes());
}

#[test]
fn replicas_may_speak_other_protocols() {
    let folder = tempfile::tempdir().unwrap();
    for is_grid_first in [true, false] {
        let grid = MockXrootdServer::start(bytes()).unwrap();
        let web = server();
        // The first one fails, so that the other one has to go on.
        let (first, other) = if is_grid_first {
            for (when, bytes) in [(FaultTrigger::Nth(0), 10 * BLOCK), (FaultTrigger::From(1), 0)] {
                let fault = xrootd::Fault::Reset(BreakPoint::ToClient(bytes));
                grid.add_fault(FaultStage::Connection, when, fault);
            }
            (grid.url(), web.url())
        } else {
            web.add_fault(FaultTrigger::From(3), Fault::Close(ResponsePosition::Answer(0)));
            (web.url(), grid.url())
        };
        let target = folder.path().join("copy");
        let client = client(None, &first, std::slice::from_ref(&other));
        let summary = copy_in_turn(&client, &first, &target);
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        assert_eq!(std::fs::read(&target).unwrap(), bytes());
        let brought: Vec<_> = summary.sources.values().map(|(bytes, _)| *bytes).collect();
        assert!(brought.len() == 2 && brought.iter().all(|it| *it > 0), "{:?}", summary.sources);
        assert!(brought.iter().sum::<u64>() >= bytes().len() as u64, "{:?}", summary.sources);
    }
}

#[test]
fn links_and_rules_for_directories_name_replicas_of_copies() {
    let linked = server();
    let link = Fault::Field("Link", format!("<{}>; rel=duplicate; pri=1", linked.url()));
    let first = server().with_fault(FaultTrigger::Always, link);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let summary = copy(&client(None, "", &[]), &first.url(), &target);
    assert_eq!(summary.sources.len(), 2, "{:?}", summary.sources);
    assert_eq!(std::fs::read(&target).unwrap(), bytes());

    let dead = refusing_url().unwrap();
    let dead = dead.rsplit_once('/').unwrap().0;
    let client = client(None, dead, &[linked.url_of("/other")]);
    let summary = copy(&client, &format!("{dead}/x/file"), &target);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert!(linked.log().iter().any(|it| it.target == "/other/x/file"), "{:?}", linked.log());
}

#[test]
fn a_replica_that_tells_no_size_is_not_read() {
    let bytes = bytes();
    let server = server();
    let behaviour = WebDavBehaviour { sizes: StatedSizes::Never, ..WebDavBehaviour::default() };
    let other = MockWebDavServer::behaving(behaviour, Vec::new()).unwrap();
    // An older version, which was longer.
    let old: Vec<u8> = bytes.iter().map(|byte| !byte).chain([0; BLOCK]).collect();
    other.store("/d/file.root", &old);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("file");
    let client = client(None, &server.url(), &[other.url_of("/d/file.root")]);
    let summary = copy(&client, &server.url(), &target);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert!(other.count("GET") > 0, "it was asked");
    assert!(std::fs::read(&target).unwrap() == bytes, "{:?}", summary.notices);
}
