//! Conformance tests of [`Storage`] implementations.
//!
//! A storage passes if [`check`] returns; otherwise [`check`] panics with the reason.
//! [`StorageFeatures`] states the differences between servers: a storage that claims a feature must
//! have it.

mod expectation;
mod interruptions;
mod versions;

use bytes::Bytes;
use expectation::{fails, good};
use hither_checksum::{Algorithm, Hasher};
use hither_core::error::ErrorKind;
use hither_core::storage::{DirEntry, FileKind, PutOptions, Storage, Upload};
use hither_core::sync::lock;
use hither_core::{Part, Request};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Optional features of a storage.
#[derive(Debug, Clone, Copy)]
pub struct StorageFeatures {
    /// The storage supports empty directories.
    pub directories: bool,
    /// The storage rejects a file or a directory whose parent does not exist.
    pub needs_parents: bool,
    /// [`Storage::rename`] supports directories.
    pub renames_directories: bool,
    /// Its listings contain every name. Otherwise [`Storage::remove`] removes no directory, because
    /// it cannot know that one is empty.
    pub shows_all_names: bool,
    /// An interrupted upload can be resumed.
    pub resumes: bool,
    /// Names that it supports.
    pub names: &'static [&'static str],
    /// Checksums that it returns without sending the file.
    pub checksums: &'static [Algorithm],
}

impl StorageFeatures {
    /// All features.
    pub const ALL: Self = Self {
        directories: true,
        needs_parents: true,
        renames_directories: true,
        shows_all_names: true,
        resumes: true,
        names: &NAMES,
        checksums: &Algorithm::ALL,
    };
}

/// Names that are valid everywhere and are often encoded wrongly.
pub const NAMES: [&str; 9] = [
    "plain",
    "with space",
    "100%",
    "%41",
    "a+b",
    "a&b=c",
    "q?r#s",
    "ü-größe",
    "(1) [2] {3};,:@'!$*",
];

/// Tests `storage`, which must be empty, and leaves it empty.
///
/// # Panics
///
/// The storage breaks its contract.
pub async fn check(storage: &dyn Storage, abilities: StorageFeatures) {
    assert_eq!(names(storage, "").await, [""; 0], "the storage must be empty at the beginning");
    nothing_is_where_nothing_was_put(storage).await;
    paths_are_checked(storage).await;
    files_come_back_as_written(storage).await;
    names_are_names(storage, abilities.names).await;
    versions::files_are_replaced_only_on_request(storage).await;
    versions::only_the_version_that_was_read_is_replaced(storage).await;
    what_is_aborted_is_gone(storage).await;
    wrong_checksums_are_seen(storage, abilities).await;
    if abilities.resumes {
        interruptions::uploads_are_gone_on_with(storage).await;
    }
    files_are_renamed(storage).await;
    if abilities.directories {
        directories_are_made_and_removed(storage, abilities).await;
    }
    if abilities.renames_directories {
        directories_are_renamed(storage).await;
    }
    trees_are_removed(storage, abilities).await;
    checksums_are_those_of_the_bytes(storage, abilities).await;
    assert_eq!(names(storage, "").await, [""; 0], "something was left behind");
}

async fn nothing_is_where_nothing_was_put(storage: &dyn Storage) {
    fails(storage.stat("none").await, ErrorKind::NotFound, "stat of nothing");
    fails(storage.list("none").await, ErrorKind::NotFound, "list of nothing");
    fails(storage.remove("none").await, ErrorKind::NotFound, "remove of nothing");
    fails(storage.remove_tree("none").await, ErrorKind::NotFound, "remove_tree of nothing");
    fails(storage.rename("none", "other", true).await, ErrorKind::NotFound, "rename of nothing");
    assert_eq!(good(storage.stat("").await, "stat of the root").kind, FileKind::Directory);
}

async fn paths_are_checked(storage: &dyn Storage) {
    for path in ["/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a\0b"] {
        fails(storage.stat(path).await, ErrorKind::Invalid, path);
        fails(storage.list(path).await, ErrorKind::Invalid, path);
        fails(storage.source(path), ErrorKind::Invalid, path);
        fails(storage.put(path, options(1, true)).await, ErrorKind::Invalid, path);
        fails(storage.remove(path).await, ErrorKind::Invalid, path);
        fails(storage.remove_tree(path).await, ErrorKind::Invalid, path);
        fails(storage.rename("a", path, true).await, ErrorKind::Invalid, path);
        fails(storage.make_directory(path).await, ErrorKind::Invalid, path);
    }
    // The root can be neither replaced nor removed.
    fails(storage.put("", options(1, true)).await, ErrorKind::Invalid, "put of the root");
    fails(storage.remove("").await, ErrorKind::Invalid, "remove of the root");
    fails(storage.remove_tree("").await, ErrorKind::Invalid, "remove_tree of the root");
    fails(storage.rename("", "a", true).await, ErrorKind::Invalid, "rename of the root");
}

async fn files_come_back_as_written(storage: &dyn Storage) {
    for size in [0, 1, 1000, 3_000_001, 20_000_000] {
        let bytes = content(size, 1);
        let upload = good(storage.put("file", options(bytes.len(), false)).await, "put");
        fails(storage.stat("file").await, ErrorKind::NotFound, "a file before its commit");
        write(&*upload, &bytes, 0..bytes.len()).await;
        fails(storage.stat("file").await, ErrorKind::NotFound, "a file before its commit");
        let expected = DirEntry::new("file", FileKind::File, size);
        let file = |it: DirEntry| DirEntry { modified: None, validator: None, ..it };
        assert_eq!(file(good(upload.commit(None).await, "commit").entry), expected);
        let told = good(storage.stat("file").await, "stat");
        assert_eq!((file(told), names(storage, "").await), (expected, vec!["file".to_owned()]));
        assert!(read(storage, "file", size).await == bytes, "{size} bytes came back as others");
        good(storage.remove("file").await, "remove");
        assert_eq!(names(storage, "").await, [""; 0]);
    }
}

async fn names_are_names(storage: &dyn Storage, all: &[&str]) {
    for name in all {
        put(storage, name, name.as_bytes()).await;
    }
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    assert_eq!(names(storage, "").await, sorted);
    for name in all {
        let size = name.len() as u64;
        assert_eq!(good(storage.stat(name).await, name).size, Some(size));
        assert_eq!(read(storage, name, size).await, name.as_bytes(), "{name}");
        good(storage.rename(name, "other", false).await, name);
        good(storage.rename("other", name, false).await, name);
        good(storage.remove(name).await, name);
    }
}

async fn what_is_aborted_is_gone(storage: &dyn Storage) {
    let bytes = content(2_000_000, 2);
    for written in [0, 500_000, bytes.len()] {
        let upload = good(storage.put("file", options(bytes.len(), false)).await, "put");
        let whole = written - written % usize::try_from(upload.block_bytes()).unwrap_or(1).max(1);
        write(&*upload, &bytes, 0..whole).await;
        good(upload.abort().await, "abort");
        assert_eq!(names(storage, "").await, [""; 0]);
    }
}

async fn wrong_checksums_are_seen(storage: &dyn Storage, abilities: StorageFeatures) {
    let bytes = content(100_000, 3);
    for &algorithm in abilities.checksums {
        let upload = good(storage.put("file", options(bytes.len(), false)).await, "put");
        write(&*upload, &bytes, 0..bytes.len()).await;
        let other = Hasher::of(algorithm, b"other");
        fails(upload.commit(Some(other)).await, ErrorKind::Corrupt, algorithm.name());
        fails(
            storage.stat("file").await,
            ErrorKind::NotFound,
            "a file that is not as it should be",
        );
    }
    // In one request, and in parts if the storage supports them.
    for size in [100_000, 12_000_000] {
        let bytes = content(size, 3);
        let read_back = PutOptions { read_back: true, ..options(bytes.len(), true) };
        let upload = good(storage.put("file", read_back).await, "put");
        write(&*upload, &bytes, 0..bytes.len()).await;
        let other = Hasher::of(Algorithm::Md5, b"other");
        fails(upload.commit(Some(other)).await, ErrorKind::Corrupt, "a file that is read back");
    }
    for algorithm in Algorithm::ALL {
        let upload = good(storage.put("file", options(bytes.len(), true)).await, "put");
        write(&*upload, &bytes, 0..bytes.len()).await;
        let right = Hasher::of(algorithm, &bytes);
        good(upload.commit(Some(right)).await, "commit of a file that is as it should be");
    }
    good(storage.remove("file").await, "remove");
}

async fn files_are_renamed(storage: &dyn Storage) {
    put(storage, "a", b"a").await;
    put(storage, "b", b"bb").await;
    fails(storage.rename("a", "b", false).await, ErrorKind::AlreadyExists, "rename over a file");
    assert_eq!(
        (read(storage, "a", 1).await, read(storage, "b", 2).await),
        (b"a".into(), b"bb".into())
    );
    good(storage.rename("a", "b", true).await, "rename over a file on request");
    assert_eq!(names(storage, "").await, ["b"]);
    assert_eq!(read(storage, "b", 1).await, b"a");
    for overwrite in [true, false] {
        fails(storage.rename("b", "b", overwrite).await, ErrorKind::Invalid, "rename onto itself");
    }
    assert!(storage.copy_file("b", "b").await.is_err(), "copy onto itself");
    assert_eq!(read(storage, "b", 1).await, b"a");
    good(storage.rename("b", "c", false).await, "rename");
    assert_eq!(names(storage, "").await, ["c"]);
    good(storage.remove("c").await, "remove");
}

async fn directories_are_made_and_removed(storage: &dyn Storage, abilities: StorageFeatures) {
    good(storage.make_directory("d").await, "make_directory");
    fails(storage.make_directory("d").await, ErrorKind::AlreadyExists, "make_directory again");
    fails(storage.make_directory("x/y").await, ErrorKind::NotFound, "make_directory in nothing");
    if abilities.needs_parents {
        put_fails(storage, "x/y", 1, ErrorKind::NotFound).await;
        put_fails(storage, "x/y", 3_000_000, ErrorKind::NotFound).await;
    }
    assert_eq!(good(storage.stat("d").await, "stat").kind, FileKind::Directory);
    assert_eq!(names(storage, "d").await, [""; 0]);
    put(storage, "d/ä b", b"x").await;
    good(storage.make_directory("d/e").await, "make_directory below");
    let entries = good(storage.list("d").await, "list").entries;
    let told: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.kind, e.size)).collect();
    assert_eq!(told, [("d/e", FileKind::Directory, Some(0)), ("d/ä b", FileKind::File, Some(1))]);
    file_does_not_replace_directory(storage, "d").await;
    fails(storage.remove("d").await, ErrorKind::Invalid, "remove of a directory that is not empty");
    assert_eq!(names(storage, "d").await, ["d/e", "d/ä b"]);
    fails(storage.list("d/ä b").await, ErrorKind::Invalid, "list of a file");
    put(storage, "file", b"f").await;
    fails(
        storage.make_directory("file").await,
        ErrorKind::AlreadyExists,
        "make_directory of a file",
    );
    good(storage.remove("file").await, "remove");
    good(storage.remove("d/ä b").await, "remove");
    for empty in ["d/e", "d"] {
        let removed = storage.remove(empty).await;
        if abilities.shows_all_names {
            good(removed, "remove of an empty directory");
        } else {
            fails(removed, ErrorKind::Unsupported, "remove of a directory that may not be empty");
            good(storage.remove_tree(empty).await, "remove_tree of an empty directory");
        }
    }
}

async fn file_does_not_replace_directory(storage: &dyn Storage, directory: &str) {
    put(storage, "file", b"f").await;
    let renamed = storage.rename("file", directory, true).await;
    fails(renamed, ErrorKind::Invalid, "rename of a file over a directory");
    let bytes = Bytes::from_static(b"x");
    let put = async {
        let upload = storage.put(directory, options(1, true)).await?;
        upload.write(0, bytes).await?;
        upload.commit(None).await
    };
    fails(put.await, ErrorKind::Invalid, "put over a directory");
    good(storage.remove("file").await, "remove");
}

async fn directories_are_renamed(storage: &dyn Storage) {
    good(storage.make_directory("d").await, "make_directory");
    put(storage, "d/f", b"f").await;
    good(storage.rename("d", "e", false).await, "rename of a directory");
    assert_eq!(names(storage, "").await, ["e"]);
    assert_eq!(read(storage, "e/f", 1).await, b"f");
    good(storage.remove_tree("e").await, "remove_tree");
}

async fn trees_are_removed(storage: &dyn Storage, abilities: StorageFeatures) {
    if abilities.directories {
        good(storage.make_directory("d").await, "make_directory");
        good(storage.make_directory("d/e").await, "make_directory");
        good(storage.make_directory("d/empty").await, "make_directory");
    }
    for path in ["d/1", "d/2", "d/e/3", "d2"] {
        put(storage, path, path.as_bytes()).await;
    }
    good(storage.remove_tree("d").await, "remove_tree");
    assert_eq!(names(storage, "").await, ["d2"], "what only begins the same stays");
    good(storage.remove_tree("d2").await, "remove_tree of a file");
}

async fn checksums_are_those_of_the_bytes(storage: &dyn Storage, abilities: StorageFeatures) {
    let bytes = content(1_234_567, 5);
    put(storage, "file", &bytes).await;
    for algorithm in Algorithm::ALL {
        let told = good(storage.checksum("file", algorithm).await, "checksum");
        if abilities.checksums.contains(&algorithm) || told.is_some() {
            assert_eq!(told, Some(Hasher::of(algorithm, &bytes)));
        }
    }
    good(storage.remove("file").await, "remove");
}

/// Tests that writing a file of this size fails: at the start, during the transfer or at the end.
async fn put_fails(storage: &dyn Storage, path: &str, size: u64, kind: ErrorKind) {
    let bytes = content(size, 6);
    let failure = async {
        let upload = storage.put(path, options(bytes.len(), false)).await?;
        upload.write(0, bytes.into()).await?;
        upload.commit(None).await
    };
    fails(failure.await, kind, path);
}

/// Writes a whole file.
pub async fn put(storage: &dyn Storage, path: &str, bytes: &[u8]) {
    let upload = good(storage.put(path, options(bytes.len(), false)).await, path);
    write(&*upload, bytes, 0..bytes.len()).await;
    good(upload.commit(None).await, path);
}

/// Writes `range` of `bytes` at its offset: in order, or with the last block first if the storage
/// allows it.
pub async fn write(upload: &dyn Upload, bytes: &[u8], range: Range<usize>) {
    let unit = usize::try_from(upload.block_bytes()).unwrap_or(1).max(1);
    let block = 700_001_usize.div_ceil(unit) * unit;
    let mut starts: Vec<_> = range.clone().step_by(block).collect();
    if upload.parallel() > 1 {
        starts.reverse();
    }
    for start in starts {
        let piece = bytes.get(start..range.end.min(start + block)).unwrap_or_default();
        let written = upload.write(start as u64, Bytes::copy_from_slice(piece)).await;
        good(written, "write");
    }
}

/// The first `size` bytes of a file.
pub async fn read(storage: &dyn Storage, path: &str, size: u64) -> Vec<u8> {
    let source = good(storage.source(path), path);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    if size == 0 {
        return bytes;
    }
    let parts: Arc<Mutex<Vec<Part>>> = Arc::default();
    let sink = Arc::clone(&parts);
    let request = Request { ranges: vec![0..size], ..Request::default() };
    let fetched = source.fetch(request, Box::new(move |part| lock(&sink).push(part))).await;
    good(fetched, path);
    for part in lock(&parts).iter() {
        let start = usize::try_from(part.offset).unwrap_or(usize::MAX);
        let place = bytes.get_mut(start..).and_then(|b| b.get_mut(..part.bytes.len()));
        assert!(place.is_some(), "{path}: bytes at {start} that were not asked for");
        place.into_iter().for_each(|place| place.copy_from_slice(&part.bytes));
    }
    bytes
}

async fn names(storage: &dyn Storage, path: &str) -> Vec<String> {
    let listed = good(storage.list(path).await, "list").entries;
    listed.into_iter().map(|DirEntry { path, .. }| path).collect()
}

fn options(size: usize, overwrite: bool) -> PutOptions {
    PutOptions { size: size as u64, overwrite, ..PutOptions::default() }
}

/// Bytes that depend on their offset; `kind` distinguishes files.
fn content(size: u64, kind: u64) -> Vec<u8> {
    let byte = |at: u64| (at * 7 + at / 251 * 3 + at / 65_537 + kind).to_le_bytes()[0];
    (0..size).map(byte).collect()
}
