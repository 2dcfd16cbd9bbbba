//! The conformance tests of storages, run with hither's own client and the server.

use crate::rig::Served;
use hither_checksum::Algorithm;
use hither_core::error::ErrorKind;
use hither_core::storage::{Storage, partial_name};
use hither_testkit::storage_conformance::{StorageFeatures, check};
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use tokio::runtime::Handle;

#[test]
fn the_server_passes_the_storage_conformance_suite() {
    let served = Served::new(|settings| settings.write = true);
    block_on(used_as_storage(&served));
    assert_eq!(std::fs::read_dir(served.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn a_directory_with_parts_of_an_upload_is_removed_as_a_tree_only() {
    let served = Served::new(|settings| settings.write = true);
    std::fs::create_dir(served.path().join("d")).unwrap();
    served.file(&format!("d/{}", partial_name(7)), b"half");
    block_on(async {
        let storage = storage(&served);
        assert!(storage.list("d").await.unwrap().entries.is_empty());
        let error = storage.remove("d").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("the directory is not empty"), "{error}");
        storage.remove_tree("d").await.unwrap();
    });
    assert!(!served.path().join("d").exists());
}

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work);
}

fn storage(served: &Served) -> WebDavStorage {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    let root = Location::parse(&format!("http://127.0.0.1:{}/", served.port())).unwrap();
    WebDavStorage::new(root, network)
}

async fn used_as_storage(served: &Served) {
    let storage = storage(served);
    let all = StorageFeatures { checksums: &Algorithm::ALL, ..StorageFeatures::ALL };
    check(&storage, all).await;
    // Again with the learned endpoint.
    check(&storage, all).await;
}
