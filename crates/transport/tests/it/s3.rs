//! A bucket of a real object store.

use crate::real_server::Served;
use hither_core::{ErrorKind, Storage};
use hither_testkit::storage_conformance::{NAMES, StorageFeatures, check, put, read};
use hither_transport::{Network, S3Config, S3Storage, TransportConfig};
use std::sync::Arc;
use tokio::runtime::Handle;

fn config(port: u16) -> S3Config {
    S3Config {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        access_key_id: Some("hither".to_owned()),
        secret_access_key: Some("not-much-of-a-secret".to_owned()),
        ..S3Config::default()
    }
}

fn bucket(config: &S3Config) -> (S3Storage, Arc<Network>) {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    (S3Storage::new("bucket", config, Arc::clone(&network)).unwrap(), network)
}

#[tokio::test]
async fn a_bucket_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("s3s", folder.path()) else { return };
    let abilities = StorageFeatures {
        directories: false,
        needs_parents: false,
        renames_directories: false,
        resumes: true,
        names: &NAMES,
        checksums: &[],
    };
    check(&bucket(&config(served.port)).0, abilities).await;
}

#[tokio::test]
async fn a_wrong_key_is_rejected_and_the_error_contains_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::start("s3s", folder.path()) else { return };
    let right = bucket(&config(served.port)).0;
    put(&right, "file", b"12345").await;
    assert_eq!(read(&right, "file", 5).await, b"12345");
    let secret = "wrong-but-still-a-secret";
    let wrong = S3Config { secret_access_key: Some(secret.to_owned()), ..config(served.port) };
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
    let before = network.account().totals().bytes_received;
    let got = crate::fixture::read_with(&*source, &[10..20], 50, None).await.unwrap();
    let size = content.len() as u64;
    got.is_exact(&content, &[10..20, size - 50..size]).unwrap();
    let received = network.account().totals().bytes_received - before;
    assert!(received < 10_000, "{received} bytes for 60");
}
