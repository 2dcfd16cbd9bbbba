//! Servers that files can be written to over HTTP: real ones, and what they do with names.

use crate::served::Served;
use hither_testkit::storage_conformance::{NAMES, StorageFeatures, check};
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

const PLAIN: StorageFeatures = StorageFeatures {
    directories: true,
    needs_parents: true,
    renames_directories: true,
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
    // Once more, with what was learned.
    check(&storage(&served, &network), abilities).await;
}

#[tokio::test]
async fn apache_does_what_storages_do() {
    let folder = tempfile::tempdir().unwrap();
    passes("apache", folder.path(), StorageFeatures { resumes: true, ..PLAIN }).await;
}

#[tokio::test]
async fn nginx_does_what_storages_do() {
    let folder = tempfile::tempdir().unwrap();
    passes("nginx", folder.path(), PLAIN).await;
}

#[tokio::test]
async fn xrootd_does_what_storages_do() {
    let folder = tempfile::tempdir().unwrap();
    // Its lists do not encode names, so that a "%" in one cannot be told from a code; "?" begins something else there.
    let names = &["plain", "with space", "a+b", "ü-größe", "(1) [2] {3};,:@'!$*"];
    passes("xrootd", folder.path(), StorageFeatures { names, needs_parents: false, ..PLAIN }).await;
}

#[tokio::test]
async fn rclone_does_what_storages_do() {
    let folder = tempfile::tempdir().unwrap();
    passes("rclone", folder.path(), PLAIN).await;
}
