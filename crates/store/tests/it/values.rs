//! A remembered value comes back unchanged; and makers of values for the other tests.

use bytes::Bytes;
use hither_core::{Endpoint, RangeSupport};
use hither_store::{FileMetadata, MetadataKey, Store, StoreConfig};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A store in a directory that goes with the guard.
pub(crate) fn store(config: StoreConfig) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store"), config).unwrap();
    (folder, store)
}

/// A moment, in seconds after an arbitrary one.
pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

pub(crate) fn key(url: &str) -> MetadataKey {
    MetadataKey { url: url.into(), identity: String::new() }
}

/// Metadata whose pieces are all made of `byte`, learned at `at(0)`.
pub(crate) fn metadata(byte: u8, lengths: &[usize]) -> FileMetadata {
    FileMetadata {
        size: 1 << 40,
        validator: Some(format!("\"{byte}\"")),
        pieces: (0..)
            .zip(lengths)
            .map(|(at, length)| (at << 30, Bytes::from(vec![byte; *length])))
            .collect(),
        learned: at(0),
    }
}

#[test]
fn metadata_is_read_back_complete() {
    let (_folder, store) = store(StoreConfig::default());
    let learned = metadata(7, &[1_000, 0, 1_500_000]);
    assert_eq!(store.metadata(&key("http://a/b"), at(0)), None);
    store.put_metadata(&key("http://a/b"), &learned, at(0));
    assert_eq!(store.metadata(&key("http://a/b"), at(1)), Some(learned));
    assert_eq!(store.metadata(&key("http://a/c"), at(1)), None);
}

#[test]
fn parts_share_one_buffer() {
    let (_folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("u"), &metadata(7, &[100, 200]), at(0));
    let pieces = store.metadata(&key("u"), at(0)).unwrap().pieces;
    assert_eq!(pieces[0].1.as_ptr_range().end, pieces[1].1.as_ptr());
}

#[test]
fn identities_do_not_share_metadata() {
    let (_folder, store) = store(StoreConfig::default());
    let of = |identity: &str| MetadataKey { url: "http://a/b".into(), identity: identity.into() };
    store.put_metadata(&of("alice"), &metadata(1, &[10]), at(0));
    assert_eq!(store.metadata(&of("bob"), at(0)), None);
    assert_eq!(store.metadata(&of(""), at(0)), None);
    store.put_metadata(&of("bob"), &metadata(2, &[10]), at(0));
    assert_eq!(store.metadata(&of("alice"), at(0)), Some(metadata(1, &[10])));
}

#[test]
fn removing_a_file_keeps_others() {
    let (_folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    store.put_metadata(&key("b"), &metadata(2, &[10]), at(0));
    store.remove_metadata(&key("a"));
    store.remove_metadata(&key("never there"));
    assert_eq!(store.metadata(&key("a"), at(0)), None);
    assert_eq!(store.metadata(&key("b"), at(0)), Some(metadata(2, &[10])));
}

#[test]
fn clearing_removes_everything() {
    let (_folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    store.put_endpoint("http://a", &Endpoint::default(), at(0));
    assert!(store.usage() > 0);
    store.clear();
    assert_eq!(store.usage(), 0);
    assert_eq!(store.metadata(&key("a"), at(0)), None);
    assert_eq!(store.endpoint("http://a", at(0)), None);
}

#[test]
fn invalid_metadata_is_not_stored() {
    let (_folder, store) = store(StoreConfig::default());
    let mut beyond = metadata(1, &[10]);
    beyond.size = 9;
    let mut injected = metadata(1, &[10]);
    injected.validator = Some("\"a\"\r\nHost: elsewhere".into());
    for impossible in [beyond, injected] {
        store.put_metadata(&key("a"), &impossible, at(0));
        assert_eq!(store.metadata(&key("a"), at(0)), None);
    }
}

#[test]
fn endpoints_are_merged_with_stored_ones() {
    let (_folder, store) = store(StoreConfig::default());
    let mut first = Endpoint::default();
    first.ranges = RangeSupport::Multi;
    first.range_count.current = 400;
    first.rtt_micros = 300;
    first.first_byte_micros = 700;
    first.bandwidth = 1_000;
    let mut second = first.clone();
    second.range_count.current = 500;
    second.rtt_micros = 900;
    second.first_byte_micros = 1_000;
    second.bandwidth = 5_000;
    store.put_endpoint("http://a", &first, at(0));
    assert_eq!(store.endpoint("http://a", at(1)), Some(first));
    store.put_endpoint("http://a", &second, at(1));
    let both = store.endpoint("http://a", at(2)).unwrap();
    assert_eq!((both.range_count.current, both.bandwidth), (500, 5_000));
    assert_eq!((both.rtt_micros, both.first_byte_micros), (300, 700));
    assert_eq!(store.endpoint("http://a:81", at(2)), None);
}

#[test]
fn extreme_values_of_an_endpoint_are_clamped() {
    let (_folder, store) = store(StoreConfig::default());
    let mut absurd = Endpoint::default();
    absurd.range_count.current = 0;
    absurd.header_bytes.current = u64::MAX;
    absurd.max_connections = usize::MAX;
    store.put_endpoint("http://a", &absurd, at(0));
    assert_eq!(store.endpoint("http://a", at(0)), Some(absurd.clamped()));
}
