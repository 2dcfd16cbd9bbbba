//! Local files, read like remote files.

use crate::fixture::{content, read, read_with};
use hither_core::ErrorKind;
use hither_transport::LocalSource;
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path) -> Result<LocalSource, hither_core::Error> {
    LocalSource::open(path, Arc::default())
}

#[tokio::test]
async fn ranges_and_tails_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for size in [1_usize, 300, 10_000, 1_000_000] {
        std::fs::write(&path, content(size)).unwrap();
        let source = open(&path).unwrap();
        let n = size as u64;
        let ranges = [n / 2..n, 0..n / 3, n / 4..n / 2, 5..5];
        read(&source, &ranges).await.unwrap().is_exact(&content(size), &ranges).unwrap();
        let got = read_with(&source, &[0..300], 5_000, None).await.unwrap();
        let wanted = [0..300.min(n), n.saturating_sub(5_000)..n];
        got.is_exact(&content(size), &wanted).unwrap();
        assert_eq!(got.answer.size, Some(n));
    }
}

#[tokio::test]
async fn a_file_shorter_than_its_ranges_is_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, content(1_000)).unwrap();
    let source = open(&path).unwrap();
    for range in [900..1_001, 5_000..6_000, 0..100_000_000] {
        let error = read(&source, std::slice::from_ref(&range)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{range:?}");
    }
}

#[tokio::test]
async fn a_file_that_shrinks_fails_and_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, content(1_000_000)).unwrap();
    let source = open(&path).unwrap();
    std::fs::write(&path, content(10)).unwrap();
    let error = read(&source, &[0..1_000_000]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error:?}");
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}

#[test]
fn a_path_that_is_no_file_is_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (path, kind) in [
        (folder.path().join("none"), ErrorKind::NotFound),
        (folder.path().to_owned(), ErrorKind::Invalid),
        (folder.path().join("none/below"), ErrorKind::NotFound),
    ] {
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_file_that_the_kernel_makes_up_is_not_empty() {
    let error = open(Path::new("/proc/version")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(open(empty.path()).unwrap().size(), 0);
}
