//! The conformance suite of storages, run with our own client against the server.

use crate::rig::Served;
use hither_core::checksum::Algorithm;
use hither_testkit::storage_conformance::{StorageFeatures, check};
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use std::sync::Arc;
use tokio::runtime::Handle;

#[test]
fn the_server_passes_the_storage_conformance_suite() {
    let served = Served::new(|settings| settings.write = true);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(used_as_storage(&served));
    assert_eq!(std::fs::read_dir(served.path()).unwrap().count(), 0, "something was left behind");
}

async fn used_as_storage(served: &Served) {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    let root = Location::parse(&format!("http://127.0.0.1:{}/", served.port())).unwrap();
    let storage = WebDavStorage::new(root, Arc::clone(&network));
    let all = StorageFeatures { checksums: &Algorithm::ALL, ..StorageFeatures::ALL };
    check(&storage, all).await;
    // Once more, with what was learned.
    check(&storage, all).await;
}
