//! The directory is private, or it isn't used.

use crate::values::{at, key, metadata, store};
use hither_core::{Endpoint, ErrorKind};
use hither_store::{Store, StoreConfig};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn refusal(path: &Path) -> String {
    let error = Store::open(path, StoreConfig::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Local);
    let text = error.to_string();
    assert!(text.starts_with(&format!("store {}", path.display())), "{text}");
    text
}

#[test]
fn directory_and_files_are_for_their_owner_only() {
    let (folder, store) = store(StoreConfig::default());
    store.put_metadata(&key("a"), &metadata(1, &[10]), at(0));
    store.put_endpoint("h", &Endpoint::default(), at(0));
    let directory = folder.path().join("store");
    assert_eq!(mode(&directory), 0o700);
    let files: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[test]
fn missing_parents_are_created() {
    let folder = tempfile::tempdir().unwrap();
    Store::open(&folder.path().join("a/b/c/"), StoreConfig::default()).unwrap();
    assert_eq!(mode(&folder.path().join("a/b/c")), 0o700);
}

#[test]
fn a_directory_that_others_can_write_to_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for writable in [0o770, 0o702, 0o1777] {
        fs::set_permissions(folder.path(), Permissions::from_mode(writable)).unwrap();
        assert!(refusal(folder.path()).contains("chmod go-w"));
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    Store::open(folder.path(), StoreConfig::default()).unwrap();
}

#[test]
fn a_symbolic_link_is_an_error_with_and_without_a_slash() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let link = folder.path().join("link");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
    symlink(&target, &link).unwrap();
    assert!(refusal(&link).contains("links are refused"));
    let error = Store::open(&folder.path().join("link/"), StoreConfig::default()).unwrap_err();
    assert!(error.to_string().contains("links are refused"), "{error}");
}

#[test]
fn a_path_that_is_no_directory_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    refusal(file.path());
    let below = file.path().join("store");
    assert!(refusal(&below).contains("cannot make the directory"));
}

/// Needs to give a directory away, which only root can.
#[test]
fn the_directory_of_another_user_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    if chown(folder.path(), Some(65_534), None).is_err() {
        eprintln!("skipped: only root can make a directory of another user");
        return;
    }
    assert!(refusal(folder.path()).contains("belongs to user 65534"));
}

#[test]
fn unknown_files_in_the_directory_are_kept() {
    let (folder, store) = store(StoreConfig { max_bytes: 2_000, ..StoreConfig::default() });
    let directory = folder.path().join("store");
    fs::write(directory.join("notes.txt"), [0; 5_000]).unwrap();
    fs::create_dir(directory.join("metadata-directory")).unwrap();
    for byte in 0..10 {
        store.put_metadata(&key(&byte.to_string()), &metadata(byte, &[500]), at(0));
    }
    assert!(store.usage() <= 2_000);
    store.clear();
    assert_eq!(store.usage(), 0);
    assert!(directory.join("notes.txt").exists());
    assert!(directory.join("metadata-directory").exists());
}
