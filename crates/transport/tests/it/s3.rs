//! A bucket of a real object store.

use crate::real_server::Served;
use hither_auth::Secret;
use hither_core::storage::FileKind;
use hither_core::{ErrorKind, Storage};
use hither_read::{Reader, ReaderConfig};
use hither_testkit::mock_http::webdav::{
    MockWebDavServer, PlannedFault, Protocol, WebDavBehaviour, WebDavFault,
};
use hither_testkit::storage_conformance::{NAMES, StorageFeatures, check, put, read};
use hither_transport::{Network, S3Config, S3Storage, TransportConfig};
use std::sync::Arc;
use tokio::runtime::Handle;

fn config(port: u16) -> S3Config {
    S3Config {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        access_key_id: Some("hither".to_owned()),
        secret_access_key: Some(Secret::new("not-much-of-a-secret")),
        ..S3Config::default()
    }
}

fn bucket(config: &S3Config) -> (S3Storage, Arc<Network>) {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    (S3Storage::new("bucket", config, Arc::clone(&network)).unwrap(), network)
}

#[tokio::test]
async fn an_endpoint_is_the_url_of_a_server() {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    for endpoint in ["127.0.0.1:9000", "localhost", "ftp://127.0.0.1", "http://", ""] {
        let config = S3Config { endpoint: Some(endpoint.to_owned()), ..config(9000) };
        let error = S3Storage::new("bucket", &config, Arc::clone(&network)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{endpoint}");
        assert!(error.to_string().contains("expected https://host:port"), "{error}");
    }
}

#[tokio::test]
async fn a_bucket_conforms_to_storage() {
    conforms("s3s").await;
}

#[tokio::test]
#[ignore = "versitygw takes Go and minutes to build, for make soak"]
async fn a_bucket_of_a_gateway_conforms_to_storage() {
    conforms("versitygw").await;
}

async fn conforms(server: &str) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    std::fs::create_dir(&root).unwrap();
    let Some(served) = Served::start(server, &root) else { return };
    let abilities = StorageFeatures {
        directories: false,
        needs_parents: false,
        renames_directories: false,
        shows_all_names: true,
        resumes: true,
        names: &NAMES,
        checksums: &[],
    };
    check(&bucket(&config(served.port)).0, abilities).await;
}

/// s3s-fs has directories, and responds to a HEAD of one with 500.
#[tokio::test]
async fn a_directory_of_a_store_that_fails_at_its_head_is_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("s3s", folder.path()) else { return };
    let (storage, network) = bucket(&config(served.port));
    put(&storage, "dir/file", b"12345").await;
    let requests = || network.counters().totals().requests;
    let before = requests();
    assert_eq!(storage.stat("dir").await.unwrap().kind, FileKind::Directory);
    // A HEAD, a list of what is below it, a list of its own key, and one more of what is below.
    assert_eq!(requests() - before, 4);
    assert_eq!(storage.stat("other").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(requests() - before, 6);
}

/// Other stores have objects below an object, and may fail at its HEAD for a moment.
#[tokio::test]
async fn an_object_with_others_below_it_is_a_file_though_its_head_fails() {
    let fault = WebDavFault::Status(500);
    let failed = PlannedFault { method: "HEAD", nth: 0, times: 2, fault };
    let behaviour = WebDavBehaviour { protocol: Protocol::S3, ..WebDavBehaviour::default() };
    let server = MockWebDavServer::behaving(behaviour, vec![failed]).unwrap();
    server.store("/bucket/a/b", b"1");
    server.store("/bucket/a", b"12345");
    let config = S3Config { endpoint: Some(server.origin()), ..config(0) };
    let found = bucket(&config).0.stat("a").await.unwrap();
    assert_eq!((found.kind, found.size), (FileKind::File, Some(5)), "{:?}", server.log());
}

#[tokio::test]
async fn a_wrong_key_is_rejected_and_the_error_contains_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("s3s", folder.path()) else { return };
    let right = bucket(&config(served.port)).0;
    put(&right, "file", b"12345").await;
    assert_eq!(read(&right, "file", 5).await, b"12345");
    let secret = "wrong-but-still-a-secret";
    let wrong = S3Config { secret_access_key: Some(Secret::new(secret)), ..config(served.port) };
    assert!(!format!("{wrong:?}").contains(secret));
    let error = bucket(&wrong).0.stat("file").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    let listed = bucket(&wrong).0.list("").await.unwrap_err();
    assert_eq!(listed.kind(), ErrorKind::PermissionDenied, "{listed:?}");
    assert!(!format!("{error:?}").contains(secret));
}

#[tokio::test]
async fn the_end_of_a_file_is_read_by_a_signed_url() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("s3s", folder.path()) else { return };
    let (storage, network) = bucket(&config(served.port));
    let content: Vec<_> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    put(&storage, "dir/a b", &content).await;
    let source = storage.source("dir/a b").unwrap();
    assert!(!format!("{source:?}").contains("Signature"), "{source:?}");
    let before = network.counters().totals().bytes_received;
    let got = crate::fixture::read_with(&*source, &[10..20], 50, None).await.unwrap();
    let size = content.len() as u64;
    got.is_exact(&content, &[10..20, size - 50..size]).unwrap();
    let received = network.counters().totals().bytes_received - before;
    assert!(received < 10_000, "{received} bytes for 60");
}

#[tokio::test]
async fn thousands_of_pieces_close_together_are_read_by_few_requests() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("s3s", folder.path()) else { return };
    let (storage, network) = bucket(&config(served.port));
    let content: Vec<_> = (0..500_000_u32).flat_map(u32::to_le_bytes).collect();
    put(&storage, "file", &content).await;
    let source = storage.source("file").unwrap();
    let pieces: Vec<_> = (0..4_884_u64).map(|nth| nth * 400..nth * 400 + 100).collect();
    let before = network.counters().totals();
    let mut reader = Reader::new(&*source, None, ReaderConfig::default());
    reader.push(&pieces, usize::MAX);
    let mut found = vec![0; content.len()];
    while let Some(part) = reader.next().await {
        let part = part.unwrap();
        let start = usize::try_from(part.offset).unwrap();
        found[start..start + part.bytes.len()].copy_from_slice(&part.bytes);
        reader.release(part.bytes.len() as u64);
    }
    let at = |piece: &std::ops::Range<u64>| {
        usize::try_from(piece.start).unwrap()..usize::try_from(piece.end).unwrap()
    };
    assert!(pieces.iter().all(|piece| found[at(piece)] == content[at(piece)]));
    let after = network.counters().totals();
    let (requests, bytes) =
        (after.requests - before.requests, after.bytes_received - before.bytes_received);
    // One request per connection, and some that take over from slow ones.
    assert!(requests <= 80, "{requests} requests for {} pieces", pieces.len());
    assert!(bytes < 2 * content.len() as u64, "{bytes} bytes for {}", content.len());
}

#[test]
fn a_file_is_opened_without_keys_and_outside_of_the_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let network = Network::new(TransportConfig::default(), runtime.handle().clone(), None);
    let nobody = S3Config { access_key_id: None, secret_access_key: None, ..config(1) };
    let storage = S3Storage::new("bucket", &nobody, network).unwrap();
    let object = storage.object("dir/file").unwrap();
    assert_eq!(object.url, "http://127.0.0.1:1/bucket/dir/file");
    assert_eq!(object.identity, "");
}
