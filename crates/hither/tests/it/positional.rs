//! Programs that read a tree basket by basket, through `read_at`.

use crate::support::rig::file;
use hither::{Client, ClientConfig};
use hither_formats::root::RootFile;
use hither_formats::{DecodeResult, SparseBytes};
use hither_testkit::mock_http::MockHttpServer;
use std::ops::Range;
use std::path::Path;

fn client(store: &Path) -> Client {
    let mut config = ClientConfig::default();
    config.store = Some(store.to_owned());
    config.decode_threads = 1;
    Client::new(config).unwrap()
}

/// The ranges of the baskets of these branches of `T`, in the order of entries.
fn baskets(data: &[u8], branches: &[&str]) -> Vec<Range<u64>> {
    let bytes = SparseBytes::whole(data.to_vec().into());
    let DecodeResult::Data(root) = RootFile::open(&bytes).unwrap() else {
        panic!("all bytes are there")
    };
    let DecodeResult::Data(tree) = root.tree(Some("T"), &bytes).unwrap() else {
        panic!("all are there")
    };
    let mut found: Vec<(u64, u64, Range<u64>)> = Vec::new();
    for name in branches {
        let baskets = tree.branch(name).unwrap().baskets();
        let places = (0..baskets.len()).filter_map(|at| Some((at, baskets.range(at)?)));
        found.extend(places.map(|(at, range)| (baskets.entries(at).start, range.start, range)));
    }
    found.sort_by_key(|(entry, start, _)| (*entry, *start));
    found.into_iter().map(|(_, _, range)| range).collect()
}

/// Reads them one after the other, and compares the bytes.
fn read(client: &Client, url: &str, data: &[u8], ranges: &[Range<u64>]) {
    let file = client.open(url).unwrap();
    for range in ranges {
        let from = usize::try_from(range.start).unwrap();
        let to = usize::try_from(range.end).unwrap();
        let mut target = vec![0; to - from];
        assert_eq!(file.read_at(client, range.start, &mut target).unwrap(), to - from);
        assert!(target == data[from..to], "bytes {range:?}");
    }
}

fn payload(peer: &MockHttpServer) -> u64 {
    peer.log().iter().map(|request| request.payload_bytes).sum()
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[test]
fn baskets_are_prefetched_and_learned_branches_are_kept_for_the_next_run() {
    let store = tempfile::tempdir().unwrap();
    let data = file(0);
    let peer = MockHttpServer::start(data.clone()).unwrap();
    let ranges = baskets(&data, &["x", "y"]);
    assert_eq!(ranges.len(), 80);
    let cold = client(store.path());
    read(&cold, &peer.url(), &data, &ranges);
    drop(cold);
    let learned = client(store.path()).learned(&peer.url(), Some("T")).unwrap();
    assert_eq!(learned.len(), 1);
    let sets = &learned[0].learned.sets;
    assert_eq!(sets.len(), 1, "{sets:?}");
    assert_eq!(sets[0].steady, ["x", "y"]);

    let requests = peer.log().len();
    let bytes = payload(&peer);
    let warm = client(store.path());
    read(&warm, &peer.url(), &data, &ranges);
    let requests = peer.log().len() - requests;
    let bytes = payload(&peer) - bytes;
    assert!(requests < 40, "{requests} requests for {} reads", ranges.len());
    assert!(bytes <= total(&ranges) * 5 / 4, "{bytes} bytes for {}", total(&ranges));
}

#[test]
fn another_file_with_the_same_schema_uses_the_learned_branches() {
    let store = tempfile::tempdir().unwrap();
    let one = file(0);
    let first = MockHttpServer::start(one.clone()).unwrap();
    let second = MockHttpServer::start(file(7)).unwrap();
    read(&client(store.path()), &first.url(), &one, &baskets(&one, &["x", "between"]));
    let learned = client(store.path()).learned(&second.url(), Some("T")).unwrap();
    assert_eq!(learned[0].learned.sets.len(), 1);
    assert_eq!(learned[0].learned.sets[0].steady, ["x", "between"]);
}

#[test]
fn a_file_that_changed_since_its_trees_were_stored_is_read_as_it_is_now() {
    let store = tempfile::tempdir().unwrap();
    let old = file(0);
    let peer = MockHttpServer::start(old.clone()).unwrap();
    let ranges = baskets(&old, &["x", "y"]);
    read(&client(store.path()), &peer.url(), &old, &ranges);
    // A longer file with other bytes at other offsets.
    let new = [file(7), vec![9; 300_000]].concat();
    peer.replace(new.clone(), "\"second\"");
    let client = client(store.path());
    read(&client, &peer.url(), &new, &ranges);
}

#[test]
fn a_file_that_has_grown_is_read_to_its_new_end() {
    let store = tempfile::tempdir().unwrap();
    let old = file(0);
    let peer = MockHttpServer::start(old.clone()).unwrap();
    read(&client(store.path()), &peer.url(), &old, &baskets(&old, &["x", "y"]));
    let new = [&old[..], &[7; 1000]].concat();
    peer.replace(new, "\"second\"");
    let end = old.len() as u64;
    let client = client(store.path());
    let grown = client.open(&peer.url()).unwrap();
    let mut target = [0; 500];
    assert_eq!(grown.read_at(&client, end + 100, &mut target).unwrap(), 500);
    assert_eq!(target, [7; 500]);
    assert_eq!(grown.read_at(&client, end + 900, &mut target).unwrap(), 100);
    assert_eq!(grown.read_at(&client, end + 1000, &mut target).unwrap(), 0);
}

#[test]
fn learned_branches_can_be_exported_and_imported() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    let data = file(0);
    let peer = MockHttpServer::start(data.clone()).unwrap();
    read(&client(here.path()), &peer.url(), &data, &baskets(&data, &["x", "y"]));
    let learned = client(here.path()).learned(&peer.url(), None).unwrap();
    let export = hither::LearnedExport::new(&learned);
    assert_eq!(export.trees().len(), 1, "nothing is learned of a tree that was not read");
    let text = serde_json::to_string(&export).unwrap();
    let other = client(there.path());
    other.import_learned(&serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(other.learned(&peer.url(), None).unwrap(), learned);
    for hostile in [
        text.replace("\"hither_learned\":1", "\"hither_learned\":2"),
        text.replace("\"x\"", "\"\""),
        text.replace("\"x\"", "\"y\""),
    ] {
        assert_ne!(hostile, text);
        assert!(other.import_learned(&serde_json::from_str(&hostile).unwrap()).is_err());
    }
    assert_eq!(other.learned(&peer.url(), None).unwrap(), learned);
}
