//! Local directories as storages.

use bytes::Bytes;
use hither_core::ErrorKind;
use hither_core::storage::{DirEntry, FileKind, PutOptions, Storage};
use hither_testkit::storage_conformance::{StorageFeatures, check, put};
use hither_transport::LocalStorage;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

fn storage(root: &Path) -> LocalStorage {
    LocalStorage::new(root, Arc::default())
}

fn options(size: u64, overwrite: bool) -> PutOptions {
    PutOptions { size, overwrite, ..PutOptions::default() }
}

#[tokio::test]
async fn a_local_directory_conforms_to_storage() {
    let folder = tempfile::tempdir().unwrap();
    check(&storage(folder.path()), StorageFeatures::ALL).await;
}

#[tokio::test]
async fn links_are_shown_and_removed_but_not_entered() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("tree/inner")).unwrap();
    std::fs::create_dir(root.join("outside")).unwrap();
    std::fs::write(root.join("outside/precious"), "x").unwrap();
    symlink("../outside", root.join("tree/to-outside")).unwrap();
    symlink("../outside/precious", root.join("tree/to-file")).unwrap();
    symlink("nowhere", root.join("tree/dangling")).unwrap();
    let storage = storage(root);
    let kinds: Vec<_> =
        storage.list("tree").await.unwrap().entries.into_iter().map(|e| e.kind).collect();
    let (link, directory) = (FileKind::Link, FileKind::Directory);
    assert_eq!(kinds, [link, directory, link, link]);
    assert_eq!(storage.stat("tree/to-file").await.unwrap().size, Some(1));
    assert_eq!(storage.stat("tree/to-outside").await.unwrap().kind, directory);
    assert_eq!(storage.stat("tree/dangling").await.unwrap_err().kind(), ErrorKind::NotFound);
    storage.remove_tree("tree").await.unwrap();
    assert!(!root.join("tree").exists() && root.join("outside/precious").exists());
    symlink("outside", root.join("link")).unwrap();
    storage.remove_tree("link").await.unwrap();
    assert!(root.join("outside/precious").exists());
}

#[tokio::test]
async fn a_file_put_over_a_link_replaces_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::write(root.join("target"), "old").unwrap();
    symlink("target", root.join("link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let storage = storage(root);
    for name in ["link", "dangling"] {
        let kept = storage.put(name, options(3, false)).await.unwrap_err();
        assert_eq!(kept.kind(), ErrorKind::AlreadyExists);
        let upload = storage.put(name, options(3, true)).await.unwrap();
        upload.write(0, Bytes::from_static(b"new")).await.unwrap();
        upload.commit(None).await.unwrap();
        assert!(!std::fs::symlink_metadata(root.join(name)).unwrap().is_symlink());
    }
    assert_eq!(std::fs::read(root.join("target")).unwrap(), b"old");
}

#[tokio::test]
async fn a_special_file_is_written_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(Path::new("/dev"));
    let upload = storage.put("null", options(4, false)).await.unwrap();
    assert!(upload.parallel() > 1 && upload.token().is_none());
    upload.write(0, Bytes::from_static(b"gone")).await.unwrap();
    upload.commit(None).await.unwrap();
    let full = storage.put("full", options(4, true)).await.unwrap();
    let error = full.write(0, Bytes::from_static(b"full")).await.unwrap_err();
    assert_eq!((full.parallel(), error.kind()), (1, ErrorKind::NoSpace));
    let directory = LocalStorage::new(folder.path(), Arc::default());
    directory.make_directory("d").await.unwrap();
    let error = directory.put("d", options(1, true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_new_version_keeps_the_permissions_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    put(&storage, "file", b"1").await;
    let path = folder.path().join("file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let upload = storage.put("file", options(1, true)).await.unwrap();
    upload.write(0, Bytes::from_static(b"2")).await.unwrap();
    upload.commit(None).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn names_that_are_not_unicode_are_listed_beside_the_others() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(name));
    std::fs::write(path(b"name"), "x").unwrap();
    std::fs::create_dir(path(b"\xff")).unwrap();
    std::fs::write(path(b"\xff/below"), "x").unwrap();
    std::fs::write(path(b"\xffx"), "xyz").unwrap();
    let entries = storage(folder.path()).list("").await.unwrap().entries;
    let seen = |it: &DirEntry| (it.path.clone(), it.kind, it.size, it.check_reachable().is_ok());
    let expected = [
        ("name".to_owned(), FileKind::File, Some(1), true),
        ("\u{fffd}".to_owned(), FileKind::Unnamed, None, false),
        ("\u{fffd}x".to_owned(), FileKind::Unnamed, Some(3), true),
    ];
    assert_eq!(entries.iter().map(seen).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn nothing_is_written_beyond_the_announced_size() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let upload = storage.put("file", options(4, false)).await.unwrap();
    for (offset, bytes) in [(4, &b"x"[..]), (0, b"12345"), (u64::MAX, b"1")] {
        let error = upload.write(offset, Bytes::from_static(bytes)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_disk_that_is_too_small_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    // More than any file system can store.
    let error = storage.put("file", options(1 << 62, false)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(storage.list("").await.unwrap().entries, []);
}
