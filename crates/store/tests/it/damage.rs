//! Whatever stands in the place of a value: it reads as nothing, and is replaced by the next write.

use crate::values::{at, key, metadata, store};
use hither_store::{Store, StoreConfig};
use proptest::prelude::*;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The one file in the directory of a store.
fn only_file(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder.join("store")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    file
}

fn replaceable(store: &Store) {
    assert_eq!(store.metadata(&key("a"), at(0)), None);
    let again = metadata(2, &[30]);
    store.put_metadata(&key("a"), &again, at(0));
    assert_eq!(store.metadata(&key("a"), at(0)), Some(again));
}

proptest! {
    #[test]
    fn truncated_and_flipped_files_read_as_nothing(
        lengths in prop::collection::vec(0usize..3_000, 0..5),
        place in any::<prop::sample::Index>(),
        flip in prop::option::of(1u8..),
    ) {
        let (folder, store) = store(StoreConfig::default());
        store.put_metadata(&key("a"), &metadata(1, &lengths), at(0));
        let path = only_file(folder.path());
        let mut file = fs::read(&path).unwrap();
        let place = place.index(file.len());
        match flip {
            Some(bits) => file[place] ^= bits,
            None => file.truncate(place),
        }
        fs::write(&path, file).unwrap();
        replaceable(&store);
    }

    #[test]
    fn arbitrary_files_read_as_nothing(file in prop::collection::vec(any::<u8>(), 0..300)) {
        let (folder, store) = store(StoreConfig::default());
        store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
        fs::write(only_file(folder.path()), file).unwrap();
        replaceable(&store);
    }
}

#[test]
fn a_valid_file_under_the_name_of_another_key_reads_as_nothing() {
    let (folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("b"), &metadata(1, &[10]), at(0));
    let of_b = only_file(folder.path());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    for file in fs::read_dir(folder.path().join("store")).unwrap() {
        fs::copy(&of_b, file.unwrap().path()).ok();
    }
    replaceable(&store);
}

#[test]
fn a_file_larger_than_the_bound_is_not_read() {
    let (folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    // A sparse file: were it read, the memory for it would be asked for.
    OpenOptions::new()
        .write(true)
        .open(only_file(folder.path()))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    replaceable(&store);
}

#[test]
fn a_symbolic_link_instead_of_a_file_is_not_followed() {
    let (folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    let path = only_file(folder.path());
    let target = folder.path().join("target");
    fs::rename(&path, &target).unwrap();
    symlink(&target, &path).unwrap();
    let before = fs::read(&target).unwrap();
    replaceable(&store);
    assert_eq!(fs::read(&target).unwrap(), before);
}

#[test]
fn a_pipe_instead_of_a_file_does_not_block() {
    let (folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    let path = only_file(folder.path());
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    replaceable(&store);
}

#[test]
fn a_directory_instead_of_a_file_is_no_error() {
    let (folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    let path = only_file(folder.path());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    assert_eq!(store.metadata(&key("a"), at(0)), None);
    assert_eq!(fs::read_dir(folder.path().join("store")).unwrap().count(), 1, "no leftovers");
}

#[test]
fn a_removed_directory_is_no_error() {
    let (folder, store) = store(StoreConfig::default());
    fs::remove_dir_all(folder.path().join("store")).unwrap();
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    assert_eq!(store.metadata(&key("a"), at(0)), None);
    assert_eq!(store.usage(), 0);
    store.clear();
}
