//! Real WebDAV servers, and their treatment of file names.

use crate::real_server::Served;
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
    // Once more, with the learned capabilities.
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
    passes("nginx", folder.path(), PLAIN).await;
}

#[tokio::test]
async fn xrootd_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    // Its listings do not encode names, so a "%" in a name looks like an encoded byte; "?" begins
    // the opaque information.
    let names = &["plain", "with space", "a+b", "ü-größe", "(1) [2] {3};,:@'!$*"];
    passes("xrootd", folder.path(), StorageFeatures { names, needs_parents: false, ..PLAIN }).await;
}

#[tokio::test]
async fn rclone_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    passes("rclone", folder.path(), PLAIN).await;
}
