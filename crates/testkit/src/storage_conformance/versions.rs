//! Writes that may replace any file, no file, or only one version of it.

use super::expectation::{fails, good};
use super::{content, names, options, put, put_fails, read, write};
use hither_core::error::ErrorKind;
use hither_core::storage::{DirEntry, PutOptions, Storage};

pub(super) async fn files_are_replaced_only_on_request(storage: &dyn Storage) {
    put(storage, "file", b"first").await;
    put_fails(storage, "file", 6, ErrorKind::AlreadyExists).await;
    put_fails(storage, "file", 3_000_000, ErrorKind::AlreadyExists).await;
    assert_eq!(read(storage, "file", 5).await, b"first");
    // Another file of this name appears during the write.
    let late = good(storage.put("late", options(5, false)).await, "put");
    write(&*late, b"later", 0..5).await;
    put(storage, "late", b"early").await;
    fails(late.commit(None).await, ErrorKind::AlreadyExists, "commit over a newer file");
    assert_eq!(read(storage, "late", 5).await, b"early");
    let again = good(storage.put("file", options(6, true)).await, "put over a file");
    assert_eq!(read(storage, "file", 5).await, b"first", "the old one is there until the commit");
    write(&*again, b"second", 0..6).await;
    good(again.commit(None).await, "commit over a file on request");
    assert_eq!(read(storage, "file", 6).await, b"second");
    good(storage.remove("late").await, "remove");
    good(storage.remove("file").await, "remove");
    assert_eq!(names(storage, "").await, [""; 0]);
}

/// Sizes differ, because the dates and tags of some servers have a resolution of seconds.
pub(super) async fn only_the_version_that_was_read_is_replaced(storage: &dyn Storage) {
    let replacing = |bytes: &[u8], expected: &DirEntry| PutOptions {
        expected: Some(expected.clone()),
        ..options(bytes.len(), true)
    };
    for size in [1000, 6_000_000] {
        put(storage, "file", b"first").await;
        let first = good(storage.stat("file").await, "stat");
        let bytes = content(size, 3);
        let upload = good(storage.put("file", replacing(&bytes, &first)).await, "put over it");
        write(&*upload, &bytes, 0..bytes.len()).await;
        good(upload.commit(None).await, "commit over the version that was read");
        assert_eq!(read(storage, "file", size).await, bytes);
        fails(
            storage.put("file", replacing(&bytes, &first)).await.map(drop),
            ErrorKind::Changed,
            "put over a version that is gone",
        );
        let second = good(storage.stat("file").await, "stat");
        // Another client replaces the file during the write.
        let late = content(size + 1, 4);
        let upload = good(storage.put("file", replacing(&late, &second)).await, "put over it");
        write(&*upload, &late, 0..late.len()).await;
        let other = good(storage.put("file", options(5, true)).await, "put over a file");
        write(&*other, b"other", 0..5).await;
        good(other.commit(None).await, "commit over a file");
        fails(upload.commit(None).await, ErrorKind::Changed, "commit over a newer version");
        assert_eq!(read(storage, "file", 5).await, b"other");
        let third = good(storage.stat("file").await, "stat");
        good(storage.remove("file").await, "remove");
        fails(
            storage.put("file", replacing(&bytes, &third)).await.map(drop),
            ErrorKind::Changed,
            "put over what was removed",
        );
        assert_eq!(names(storage, "").await, [""; 0]);
    }
}
