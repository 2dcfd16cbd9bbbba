//! The directory stays within its bound, and what was used last stays in it.

use crate::values::{at, key, metadata, store};
use hither_core::Endpoint;
use hither_store::{Store, StoreConfig};
use std::fs::{self, File, FileTimes};
use std::path::Path;

const MAX_BYTES: u64 = 100_000;

fn bounded() -> StoreConfig {
    StoreConfig { max_bytes: MAX_BYTES, ..StoreConfig::default() }
}

#[test]
fn the_limit_is_exceeded_by_at_most_a_sixteenth() {
    let (_folder, store) = store(bounded());
    for number in 0..300 {
        let bytes = 500 + usize::try_from(number).unwrap() * 37 % 5_000;
        store.put_metadata(&key(&number.to_string()), &metadata(1, &[bytes]), at(number));
        assert!(store.usage() <= MAX_BYTES + MAX_BYTES / 16, "after {number}");
    }
    assert!(store.usage() > MAX_BYTES / 2, "the bound is used");
}

#[test]
fn least_recently_used_values_go_first() {
    let (_folder, store) = store(bounded());
    let remembered = |number: u64| store.metadata(&key(&number.to_string()), at(100_000)).is_some();
    for number in 0..9 {
        store.put_metadata(&key(&number.to_string()), &metadata(1, &[10_000]), at(number));
    }
    // Reading counts as use.
    assert!(store.metadata(&key("0"), at(1_000)).is_some());
    for number in 9..14 {
        store.put_metadata(&key(&number.to_string()), &metadata(1, &[10_000]), at(1_000 + number));
    }
    assert!(remembered(0) && remembered(13));
    assert!(!remembered(1) && !remembered(2));
}

#[test]
fn a_value_above_the_limit_is_not_stored_and_evicts_nothing() {
    let (_folder, store) = store(bounded());
    store.put_metadata(&key("small"), &metadata(1, &[10_000]), at(0));
    store.put_metadata(&key("large"), &metadata(2, &[100_000]), at(1));
    assert_eq!(store.metadata(&key("large"), at(1)), None);
    assert_eq!(store.metadata(&key("small"), at(1)), Some(metadata(1, &[10_000])));
}

#[test]
fn a_limit_of_zero_stores_nothing() {
    let (_folder, store) = store(StoreConfig { max_bytes: 0, ..StoreConfig::default() });
    store.put_endpoint("h", &Endpoint::default(), at(0));
    store.put_metadata(&key("a"), &metadata(1, &[]), at(0));
    assert_eq!(store.usage(), 0);
}

#[test]
fn the_number_of_files_is_limited() {
    let (folder, store) = store(StoreConfig::default());
    for number in 0..5_000 {
        store.put_endpoint(&number.to_string(), &Endpoint::default(), at(number));
    }
    let count = fs::read_dir(folder.path().join("store")).unwrap().count();
    assert!((3_600..=4_096 + 256).contains(&count), "{count} files");
}

fn leave_temporary(directory: &Path, name: &str, seconds: u64) {
    let file = File::create(directory.join(name)).unwrap();
    file.set_times(FileTimes::new().set_modified(at(seconds))).unwrap();
}

#[test]
fn files_of_a_dead_process_are_removed_after_an_hour() {
    let (folder, first) = store(bounded());
    let directory = folder.path().join("store");
    leave_temporary(&directory, "temporary-1-0", 0);
    leave_temporary(&directory, "temporary-1-1", 3_000);
    drop(first);
    let second = Store::open(&directory, bounded()).unwrap();
    second.put_endpoint("h", &Endpoint::default(), at(3_601));
    assert!(!directory.join("temporary-1-0").exists());
    assert!(directory.join("temporary-1-1").exists(), "it may still be written");
}

#[test]
fn temporary_names_of_an_earlier_process_with_the_same_id_are_skipped() {
    let (folder, store) = store(bounded());
    let directory = folder.path().join("store");
    for serial in 0..5 {
        leave_temporary(&directory, &format!("temporary-{}-{serial}", std::process::id()), 0);
    }
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(1));
    assert!(store.metadata(&key("a"), at(1)).is_some());
}
