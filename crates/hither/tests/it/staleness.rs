//! Validation of stored metadata, unless the caller accepts stale metadata.

use crate::support::rig::{draw, file};
use hither::{Client, ClientConfig};
use hither_store::{MetadataKey, Store, StoreConfig};
use hither_testkit::mock_http::MockHttpServer;
use std::path::Path;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

/// The number of requests that `work` makes with a client of its own.
fn requests(
    peer: &MockHttpServer,
    store: &Path,
    staleness: Duration,
    work: impl FnOnce(&Client, &str),
) -> usize {
    let mut config = ClientConfig::default();
    config.store = Some(store.to_owned());
    config.staleness = staleness;
    config.tree_cache.enabled = false;
    let client = Client::new(config).unwrap();
    let before = peer.log().len();
    work(&client, &peer.url());
    drop(client);
    peer.log().len() - before
}

fn list(client: &Client, url: &str) {
    assert_eq!(client.list_trees(url, Some("T")).unwrap().trees[0].entries, 40_000);
}

fn stat(client: &Client, url: &str) {
    assert!(client.file(url).unwrap().stat(client).unwrap().size > 100_000);
}

fn read_head(client: &Client, url: &str) {
    let mut head = [0; 4];
    assert_eq!(client.open(url).unwrap().read_at(client, 0, &mut head).unwrap(), 4);
    assert_eq!(&head, b"root");
}

#[test]
fn stored_metadata_are_validated_once_and_with_staleness_not_at_all() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let run = |staleness, work: fn(&Client, &str)| requests(&peer, store.path(), staleness, work);
    let works: [fn(&Client, &str); 3] = [list, stat, read_head];
    run(Duration::ZERO, |client, url| drop(draw(client, url).unwrap()));
    assert_eq!(works.map(|work| run(Duration::ZERO, work)), [1; 3]);
    assert_eq!(works.map(|work| run(HOUR, work)), [0; 3]);
}

#[test]
fn staleness_counts_from_the_last_validation() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let run = |staleness, work: fn(&Client, &str)| requests(&peer, store.path(), staleness, work);
    run(Duration::ZERO, |client, url| drop(draw(client, url).unwrap()));
    let key = MetadataKey { url: peer.url(), identity: String::new() };
    for work in [list as fn(&Client, &str), read_head] {
        let known = Store::open(store.path(), StoreConfig::default()).unwrap();
        let metadata = known.metadata(&key, SystemTime::now()).unwrap();
        known.put_metadata(&key, &metadata, SystemTime::now() - 2 * HOUR);
        assert_eq!([run(HOUR, work), run(HOUR, work)], [1, 0]);
    }
}

#[test]
fn the_first_request_for_data_detects_a_changed_file() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let run = |work: fn(&Client, &str)| requests(&peer, store.path(), HOUR, work);
    run(|client, url| drop(draw(client, url).unwrap()));
    peer.replace(file(7), "\"second\"");
    assert_eq!(run(list), 0);
    run(|client, url| crate::support::rig::check(&draw(client, url).unwrap(), 7));
}
