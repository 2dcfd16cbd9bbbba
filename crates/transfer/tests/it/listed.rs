//! Copies of files, and of ranges, that the caller has listed.

use crate::local::{names_in, place};
use hither_checksum::{Algorithm, Hasher};
use hither_core::storage::{PutOptions, TreeFile};
use hither_core::{DirEntry, ErrorKind, FileKind};
use hither_transfer::{CopyOptions, CopyPath, copy_listed, copy_range, source_name};
use std::fs;

fn listed(source: &CopyPath, relative: &str) -> TreeFile {
    let place = source.local.as_ref().unwrap().join(relative);
    let metadata = fs::metadata(&place).ok();
    let path = format!("{}/{relative}", source.path);
    let size = metadata.as_ref().map_or(0, fs::Metadata::len);
    let modified = metadata.and_then(|it| it.modified().ok());
    let entry = DirEntry { modified, ..DirEntry::new(path, FileKind::File, size) };
    TreeFile { relative: relative.to_owned(), entry, mode: None }
}

#[tokio::test]
async fn exactly_the_listed_files_come_and_one_that_is_gone_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tree");
    fs::create_dir_all(source.join("sub/deeper")).unwrap();
    fs::write(source.join("sub/deeper/small"), b"small").unwrap();
    fs::write(source.join("large"), vec![5; 3 << 20]).unwrap();
    fs::write(source.join("unlisted"), b"").unwrap();
    fs::create_dir(folder.path().join("copy")).unwrap();
    let (source, target) = (place(&source), place(&folder.path().join("copy")));
    let files = ["sub/deeper/small", "large", "gone"].map(|it| listed(&source, it)).to_vec();
    let options = CopyOptions::default();
    let copying = copy_listed(source.clone(), files, target, options, Default::default());
    let summary = copying.await.unwrap();
    let copy = folder.path().join("copy");
    assert_eq!(fs::read(copy.join("sub/deeper/small")).unwrap(), b"small");
    assert_eq!(fs::read(copy.join("large")).unwrap(), vec![5; 3 << 20]);
    assert_eq!(names_in(&copy), ["large", "sub"]);
    let failed: Vec<_> = summary.failures.iter().map(|it| &*it.source).collect();
    assert_eq!(failed, [source_name(&source, "gone")]);
}

#[tokio::test]
async fn nothing_is_made_in_a_directory_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tree");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("sub/a"), b"a").unwrap();
    fs::write(source.join("b"), vec![5; 3 << 20]).unwrap();
    let (source, target) = (place(&source), place(&folder.path().join("gone")));
    let files = ["sub/a", "b"].map(|it| listed(&source, it)).to_vec();
    let options = CopyOptions::default();
    let summary = copy_listed(source, files, target, options, Default::default()).await.unwrap();
    assert_eq!(summary.failures.len(), 2);
    assert_eq!(names_in(folder.path()), ["tree"]);
}

const SIZE: u64 = (10 << 20) + 7;

struct Begun {
    folder: tempfile::TempDir,
    content: Vec<u8>,
    source: CopyPath,
    target: CopyPath,
    options: PutOptions,
}

impl Begun {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..SIZE).map(|n| u8::try_from(n % 251).unwrap()).collect();
        fs::write(folder.path().join("from"), &content).unwrap();
        let (source, target) =
            (place(&folder.path().join("from")), place(&folder.path().join("to")));
        let options = PutOptions { size: SIZE, overwrite: true, ..PutOptions::default() };
        Self { folder, content, source, target, options }
    }

    async fn range(
        &self,
        range: std::ops::Range<u64>,
        token: &str,
    ) -> hither_transfer::CopySummary {
        let entry = match self.source.storage.stat("from").await {
            Ok(entry) if entry.kind == FileKind::File => entry,
            _ => DirEntry::new("from", FileKind::File, SIZE),
        };
        let (source, target) = (self.source.clone(), self.target.clone());
        let options = CopyOptions::default();
        let token = token.to_owned();
        copy_range(source, entry, range, target, token, options, Default::default()).await.unwrap()
    }
}

fn at(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

#[tokio::test]
async fn ranges_of_one_upload_have_checksums_of_their_own_and_commit_nothing() {
    let begun = Begun::new();
    let storage = &begun.target.storage;
    let upload = storage.put("to", begun.options.clone()).await.unwrap();
    let token = upload.token().unwrap();
    for range in [8 << 20..SIZE, 0..8 << 20] {
        let summary = begun.range(range.clone(), &token).await;
        assert!(summary.error().is_none(), "{:?}", summary.failures);
        let bytes = &begun.content[at(range.start)..at(range.end)];
        let sums: Vec<_> = summary.checksums.into_iter().map(|it| it.checksum).collect();
        assert_eq!(sums, [Algorithm::Crc32c, Algorithm::Adler32].map(|it| Hasher::of(it, bytes)));
        assert_eq!(summary.bytes, range.end - range.start);
        assert!(!begun.folder.path().join("to").exists());
    }
    upload.commit(None).await.unwrap();
    assert!(fs::read(begun.folder.path().join("to")).unwrap() == begun.content);
}

#[tokio::test]
async fn a_range_of_an_upload_that_has_ended_fails_and_leaves_nothing() {
    let begun = Begun::new();
    let upload = begun.target.storage.put("to", begun.options.clone()).await.unwrap();
    let token = upload.token().unwrap();
    upload.abort().await.unwrap();
    let summary = begun.range(0..4 << 20, &token).await;
    assert_eq!(summary.error().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(names_in(begun.folder.path()), ["from"]);
}

#[tokio::test]
async fn a_range_that_fails_leaves_the_upload_to_the_others() {
    let begun = Begun::new();
    let upload = begun.target.storage.put("to", begun.options.clone()).await.unwrap();
    let token = upload.token().unwrap();
    fs::remove_file(begun.folder.path().join("from")).unwrap();
    fs::create_dir(begun.folder.path().join("from")).unwrap();
    let summary = begun.range(0..4 << 20, &token).await;
    assert!(summary.error().is_some());
    assert!(begun.folder.path().join(token).is_file());
}
