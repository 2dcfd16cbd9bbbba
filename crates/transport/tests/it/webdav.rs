//! Real WebDAV servers, and their treatment of file names.

use crate::fixture::with_connections;
use crate::real_server::Served;
use futures_util::StreamExt;
use hither_core::{ErrorKind, FileKind, Storage};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use hither_testkit::storage_conformance::{NAMES, StorageFeatures, check};
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

const PLAIN: StorageFeatures = StorageFeatures {
    directories: true,
    needs_parents: true,
    renames_directories: true,
    shows_all_names: true,
    resumes: false,
    names: &NAMES,
    checksums: &[],
};

fn network() -> Arc<Network> {
    Network::new(TransportConfig::default(), Handle::current(), None)
}

fn storage(served: &Served, network: &Arc<Network>) -> WebDavStorage {
    let root = Location::parse(&format!("http://127.0.0.1:{}/", served.port)).unwrap();
    WebDavStorage::new(root, Arc::clone(network))
}

async fn passes(server: &str, root: &Path, abilities: StorageFeatures) {
    let Some(served) = Served::start(server, root) else { return };
    let network = network();
    check(&storage(&served, &network), abilities).await;
    // Again with the learned capabilities.
    check(&storage(&served, &network), abilities).await;
}

#[tokio::test]
async fn apache_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    passes("apache", folder.path(), StorageFeatures { resumes: true, ..PLAIN }).await;
}

#[tokio::test]
async fn nginx_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    // Its index omits names that begin with a dot, and its DELETE removes them together with a
    // directory.
    passes("nginx", folder.path(), StorageFeatures { shows_all_names: false, ..PLAIN }).await;
}

#[tokio::test]
async fn xrootd_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    // Its listings do not encode names, so a "%" in a name looks like an encoded byte; "?" starts
    // the opaque information.
    let names = &["plain", "with space", "a+b", "ü-größe", "(1) [2] {3};,:@'!$*"];
    passes("xrootd", folder.path(), StorageFeatures { names, needs_parents: false, ..PLAIN }).await;
}

#[tokio::test]
async fn rclone_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    passes("rclone", folder.path(), PLAIN).await;
}

/// The kind of `/new` by a second look with a slash, and the number of requests, where the server
/// refuses PROPFIND, has nothing at `/new`, and responds to `HEAD /new/` with `status`.
async fn second_look(software: &str, status: u16) -> (Result<FileKind, ErrorKind>, usize) {
    let server = MockHttpServer::start(Vec::new()).unwrap();
    server.add_fault(FaultTrigger::Always, Fault::Server(software.to_owned()));
    for (nth, status) in [(0, 405), (1, 404), (2, status)] {
        let fault = Fault::Status { status, retry_after: None };
        server.add_fault(FaultTrigger::Nth(nth), fault);
    }
    let storage = WebDavStorage::new(Location::parse(&server.url_of("/")).unwrap(), network());
    let named = storage.stat_named("new").await;
    let targets: Vec<_> = server.log().into_iter().map(|it| (it.method, it.target)).collect();
    let all = [("PROPFIND", "/new"), ("HEAD", "/new"), ("HEAD", "/new/")];
    let all = all.map(|(method, target)| (method.to_owned(), target.to_owned()));
    assert_eq!(targets, all[..targets.len()]);
    (named.map(|it| it.kind).map_err(|it| it.kind()), targets.len())
}

#[tokio::test]
async fn a_directory_that_is_known_only_with_a_slash_is_shown_and_not_guessed() {
    let (nothing, directory) = (Err(ErrorKind::NotFound), Ok(FileKind::Directory));
    for (software, status, kind, requests) in [
        ("nginx/1.22.1", 200, directory, 3),
        ("nginx/1.22.1", 403, directory, 3),
        ("nginx/1.22.1", 404, nothing, 3),
        ("nginx/1.22.1", 405, nothing, 3),
        ("nginx/1.22.1", 400, nothing, 3),
        ("hither/0.1.0", 200, nothing, 2),
        ("XrootD/v5.5.3", 200, nothing, 2),
    ] {
        let seen = second_look(software, status).await;
        assert_eq!(seen, (kind, requests), "{software} {status}");
    }
}

#[tokio::test]
async fn a_listing_that_is_not_read_frees_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3_000 {
        std::fs::write(folder.path().join(format!("file-{number}")), b"1").unwrap();
    }
    let Some(served) = Served::start("apache", folder.path()) else { return };
    let network = Network::new(with_connections(1), Handle::current(), None);
    let storage = storage(&served, &network);
    let mut batches = storage.list_batches("");
    let first = batches.next().await.unwrap().unwrap();
    // As in a copy whose queue is full of files to fetch.
    let asked = tokio::time::timeout(Duration::from_secs(30), storage.stat("file-1")).await;
    assert_eq!(asked.expect("the listing has the only connection").unwrap().size, Some(1));
    let rest: Vec<_> = batches.map(|batch| batch.unwrap().entries).concat().await;
    assert_eq!(first.entries.len() + rest.len(), 3_000);
}
