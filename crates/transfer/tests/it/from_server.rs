//! Downloads.

use crate::local::{names_in, place};
use crate::server_files::ServerFiles;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::{ErrorKind, Result};
use hither_testkit::mock_http::webdav::{
    MockWebDavServer, PlannedFault, ReadFault, WebDavBehaviour, WebDavFault,
};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer, ResponsePosition as At};
use hither_transfer::{
    CopyOptions, CopyPath, CopyProgress, CopySummary, Destination, Verify, copy,
};
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

const BLOCK: usize = 64 * 1024;

fn content(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

fn options(journal: Option<&Path>) -> CopyOptions {
    let mut options = CopyOptions::default();
    options.block_bytes = BLOCK as u64;
    options.max_workers = 4;
    options.journal = journal.map(Path::to_owned);
    options
}

async fn fetch(source: CopyPath, target: &Path, options: CopyOptions) -> Result<CopySummary> {
    let destination = Destination::Path(place(target));
    copy(vec![source], destination, options, Arc::new(CopyProgress::default())).await
}

#[tokio::test]
async fn a_file_arrives_complete_and_every_byte_is_requested_once() {
    let bytes = content(10 * BLOCK + 777);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = ServerFiles::of(&peer).place("data/file");
    let summary = fetch(source, &target, options(None)).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!((summary.files, summary.bytes_resent), (1, 0));
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
    assert_eq!(names_in(folder.path()), ["copy"]);
    let sent: u64 = peer.log().iter().map(|it| it.payload_bytes).sum();
    assert_eq!(sent, bytes.len() as u64);
}

#[tokio::test]
async fn small_and_empty_files_need_one_request() {
    for size in [0, 1, 5_000] {
        let bytes = content(size);
        let peer = MockHttpServer::start(bytes.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let source = ServerFiles::of(&peer).with_listing(3, size as u64).place("tree");
        let mut options = options(None);
        options.recursive = true;
        let target = folder.path().join("copy");
        let summary = fetch(source, &target, options).await.unwrap();
        assert_eq!((summary.files, summary.directories), (3, 1), "{:?}", summary.failures);
        assert_eq!(names_in(&target), ["file-0", "file-1", "file-2"]);
        assert_eq!(std::fs::read(target.join("file-1")).unwrap(), bytes);
        // A size of 0 in a listing may mean that the server does not know the size.
        assert_eq!(peer.log().len(), 3);
    }
}

#[tokio::test]
async fn a_server_without_ranges_sends_the_file_at_most_twice() {
    let bytes = content(20 * BLOCK);
    let peer = MockHttpServer::start(bytes.clone())
        .unwrap()
        .with_fault(FaultTrigger::Always, Fault::Whole);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = ServerFiles::of(&peer).place("data/file");
    let summary = fetch(source, &target, options(None)).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
    assert!(peer.log().len() <= 2, "{:?}", peer.log());
}

#[tokio::test]
async fn an_interrupted_copy_continues_with_the_missing_blocks() {
    let bytes = content(40 * BLOCK);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    peer.add_fault(FaultTrigger::From(20), Fault::Close(At::Body(0)));
    let folder = tempfile::tempdir().unwrap();
    let journal = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = || ServerFiles::of(&peer).place("data/file");
    let first = fetch(source(), &target, options(Some(journal.path()))).await.unwrap();
    assert_eq!(first.failures[0].error.kind(), ErrorKind::Unavailable);
    assert!(first.can_go_on() && !target.exists());
    peer.clear_faults();
    let before = peer.log().len();
    let second = fetch(source(), &target, options(Some(journal.path()))).await.unwrap();
    assert!(second.failures.is_empty(), "{:?}", second.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
    let sent: u64 = peer.log()[before..].iter().map(|it| it.payload_bytes).sum();
    assert!(second.bytes_resumed >= 10 * BLOCK as u64, "{}", second.bytes_resumed);
    // The first bytes are requested again to learn the version.
    let missing = bytes.len() as u64 - second.bytes_resumed;
    assert!((missing..=missing + 14_480).contains(&sent), "{sent} for {missing}");
    assert_eq!(names_in(folder.path()), ["copy"]);
    assert_eq!(names_in(journal.path()), [""; 0]);
}

#[tokio::test]
async fn blocks_damaged_on_disk_are_fetched_again() {
    let bytes = content(30 * BLOCK);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    peer.add_fault(FaultTrigger::From(20), Fault::Close(At::Body(0)));
    let folder = tempfile::tempdir().unwrap();
    let journal = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = || ServerFiles::of(&peer).place("data/file");
    fetch(source(), &target, options(Some(journal.path()))).await.unwrap();
    let part = folder.path().join(&names_in(folder.path())[0]);
    let mut torn = std::fs::read(&part).unwrap();
    torn[..BLOCK].fill(0);
    std::fs::write(&part, torn).unwrap();
    peer.clear_faults();
    let second = fetch(source(), &target, options(Some(journal.path()))).await.unwrap();
    assert!(second.failures.is_empty() && second.bytes_resumed > 0);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
}

#[tokio::test]
async fn a_file_that_changed_between_two_attempts_is_copied_again() {
    let peer = MockHttpServer::start(content(40 * BLOCK)).unwrap();
    peer.add_fault(FaultTrigger::From(20), Fault::Close(At::Body(0)));
    let folder = tempfile::tempdir().unwrap();
    let journal = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = || ServerFiles::of(&peer).place("data/file");
    fetch(source(), &target, options(Some(journal.path()))).await.unwrap();
    peer.clear_faults();
    let mut bytes = content(40 * BLOCK);
    bytes.reverse();
    peer.replace(bytes.clone(), "\"second\"");
    let second = fetch(source(), &target, options(Some(journal.path()))).await.unwrap();
    assert!(second.failures.is_empty(), "{:?}", second.failures);
    assert_eq!(second.bytes_resumed, 0);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
}

#[tokio::test]
async fn a_file_that_changes_during_the_copy_is_restarted_and_reported() {
    let bytes = content(40 * BLOCK);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    peer.add_fault(FaultTrigger::Nth(7), Fault::ETag("\"other\"".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = ServerFiles::of(&peer).place("data/file");
    let summary = fetch(source, &target, options(None)).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(summary.notices.len(), 1, "{:?}", summary.notices);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
}

#[tokio::test]
async fn broken_connections_lose_only_the_bytes_in_flight() {
    let bytes = content(40 * BLOCK);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    for nth in [0, 3, 8, 9, 15] {
        peer.add_fault(FaultTrigger::Nth(nth), Fault::Reset(At::Body(BLOCK / 3)));
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = ServerFiles::of(&peer).place("data/file");
    let summary = fetch(source, &target, options(None)).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
    assert_eq!(summary.bytes_resent, 0);
}

#[tokio::test]
async fn every_checksum_is_that_of_the_file() {
    let bytes = content(10 * BLOCK + 5);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    for algorithm in Algorithm::ALL {
        let right = Hasher::of(algorithm, &bytes);
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy");
        for verify in [Verify::Algorithm(algorithm), Verify::Value(right.clone())] {
            let mut options = options(None);
            options.verify = verify;
            let source = ServerFiles::of(&peer).with_checksum(right.clone()).place("data/file");
            let summary = fetch(source, &target, options.clone()).await.unwrap();
            assert_eq!(summary.checksums[0].checksum, right);
            assert!(summary.checksums[0].compared);
            let source = ServerFiles::of(&peer).place("data/file");
            let nowhere =
                copy(vec![source], Destination::Discard, options, Arc::default()).await.unwrap();
            assert_eq!(nowhere.checksums[0].checksum, right, "without a file");
        }
    }
}

#[tokio::test]
async fn a_wrong_checksum_leaves_nothing_under_the_final_name() {
    let bytes = content(6 * BLOCK);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    let wrong = Checksum::new(Algorithm::Adler32, &[1, 2, 3, 4]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    std::fs::write(&target, b"old").unwrap();
    let source = ServerFiles::of(&peer).with_checksum(wrong).place("data/file");
    let summary = fetch(source, &target, options(None)).await.unwrap();
    assert_eq!(summary.error().unwrap().kind(), ErrorKind::Corrupt);
    assert_eq!(std::fs::read(&target).unwrap(), b"old");
    assert_eq!(names_in(folder.path()), ["copy"]);
    // The whole file was fetched exactly twice.
    let sent: u64 = peer.log().iter().map(|it| it.payload_bytes).sum();
    assert_eq!(sent, 2 * bytes.len() as u64);
}

#[tokio::test]
async fn bits_flipped_in_transit_are_detected_and_fetched_again() {
    let bytes = content(12 * BLOCK);
    let right = Hasher::of(Algorithm::Adler32, &bytes);
    let peer = MockHttpServer::start(bytes.clone()).unwrap();
    peer.add_fault(FaultTrigger::Before(9), Fault::FlippedBit(5 * BLOCK as u64 + 11));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let source = ServerFiles::of(&peer).with_checksum(right).place("data/file");
    let mut options = options(None);
    options.max_workers = 1;
    let summary = fetch(source, &target, options).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(std::fs::read(&target).unwrap(), bytes);
    assert!(
        summary.notices[0].contains("1 damaged block was fetched again"),
        "{:?}",
        summary.notices
    );
}

#[tokio::test]
async fn one_failure_does_not_stop_the_others() {
    let bytes = content(100);
    let peer = MockHttpServer::start(bytes).unwrap();
    peer.add_fault(FaultTrigger::Nth(3), Fault::Status { status: 403, retry_after: None });
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(None);
    options.recursive = true;
    let source = ServerFiles::of(&peer).with_listing(8, 100).place("tree");
    let summary = fetch(source, &folder.path().join("copy"), options).await.unwrap();
    assert_eq!((summary.files, summary.failures.len()), (7, 1));
    assert_eq!(summary.error().unwrap().kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_page_instead_of_a_file_of_another_size_is_an_error() {
    for fault in [ReadFault::Login(302), ReadFault::Login(303), ReadFault::Page] {
        let planned =
            PlannedFault { method: "GET", nth: 0, times: 1, fault: WebDavFault::Read(fault) };
        let server = MockWebDavServer::behaving(WebDavBehaviour::default(), vec![planned]).unwrap();
        server.store("/d/file", &content(100));
        let network = Network::new(TransportConfig::default(), Handle::current(), None);
        let root = Location::parse(&server.url_of("/d/")).unwrap();
        let storage = Arc::new(WebDavStorage::new(root, network));
        let path = "file".to_owned();
        let source = CopyPath { storage, path, local: None, is_directory: false, contents: false };
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy");
        std::fs::write(&target, b"good").unwrap();
        let summary = fetch(source, &target, options(None)).await.unwrap();
        let error = summary.error().unwrap();
        assert!(error.to_string().contains("48 bytes, but the server states 100"), "{error}");
        assert_eq!(std::fs::read(&target).unwrap(), b"good");
    }
}
