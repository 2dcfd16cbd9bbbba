//! Copies between local directories: the meaning of names, and the treatment of existing targets.

use hither_checksum::Algorithm;
use hither_core::{ErrorKind, Result};
use hither_testkit::waiting::task_until;
use hither_transfer::{
    CopyOptions, CopyPath, CopyProgress, CopySummary, Destination, OverwritePolicy, Verify, copy,
    upload,
};
use hither_transport::LocalStorage;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A local path as the command interprets it.
pub(crate) fn place(path: &Path) -> CopyPath {
    let folder = path.parent().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let storage = Arc::new(LocalStorage::new(folder, Arc::default()));
    let local = Some(path.to_owned());
    CopyPath { storage, path: name, local, is_directory: false, contents: false }
}

/// The sorted names in a directory.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

async fn cp(sources: Vec<CopyPath>, target: CopyPath, options: CopyOptions) -> Result<CopySummary> {
    copy(sources, Destination::Path(target), options, Arc::default()).await
}

fn recursive() -> CopyOptions {
    let mut options = CopyOptions::default();
    options.recursive = true;
    options
}

fn existing(existing: OverwritePolicy) -> CopyOptions {
    let mut options = CopyOptions::default();
    options.existing = existing;
    options
}

/// `tree/{a, sub/{b, deeper/c}}`, with a link to a file, a link to a directory, and the remains of
/// an upload.
fn tree(folder: &Path) -> CopyPath {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("sub/deeper")).unwrap();
    fs::write(tree.join("a"), b"aaa").unwrap();
    fs::write(tree.join("sub/b"), b"").unwrap();
    fs::write(tree.join("sub/deeper/c"), vec![7; 300_000]).unwrap();
    fs::write(tree.join(hither_core::storage::partial_name(5)), b"half").unwrap();
    std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
    std::os::unix::fs::symlink("..", tree.join("sub/circle")).unwrap();
    place(&tree)
}

#[tokio::test]
async fn a_directory_is_copied_as_the_target_or_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = tree(folder.path());
    let target = folder.path().join("copy");
    let summary = cp(vec![source.clone()], place(&target), recursive()).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!((summary.files, summary.directories), (4, 3));
    assert_eq!(names_in(&target), ["a", "link", "sub"]);
    assert_eq!(names_in(&target.join("sub")), ["b", "deeper"]);
    assert_eq!(fs::read(target.join("sub/deeper/c")).unwrap(), vec![7; 300_000]);
    assert_eq!(summary.notices.len(), 1, "the circle: {:?}", summary.notices);
    cp(vec![source.clone()], place(&target), recursive()).await.unwrap();
    assert_eq!(names_in(&target), ["a", "link", "sub", "tree"]);
    let contents = CopyPath { contents: true, ..source };
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    cp(vec![contents], place(&other), recursive()).await.unwrap();
    assert_eq!(names_in(&other), ["a", "link", "sub"]);
}

#[tokio::test]
async fn nothing_is_written_behind_a_link_unless_it_is_the_named_destination() {
    for archive in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["from/data/in", "to", "shared"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("from/data/f"), b"new").unwrap();
        fs::write(at("shared/f"), b"precious").unwrap();
        fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o700)).unwrap();
        for link in ["to/data", "to/from", "named"] {
            std::os::unix::fs::symlink(at("shared"), at(link)).unwrap();
        }
        let options = || {
            let mut options = recursive();
            options.archive = archive;
            options
        };
        let contents = || CopyPath { contents: true, ..place(&at("from")) };
        for (source, failed) in [(contents(), "from/data"), (place(&at("from")), "from")] {
            let summary = cp(vec![source], place(&at("to")), options()).await.unwrap();
            let failure = &summary.failures[..];
            assert_eq!(failure.len(), 1, "{failure:?}");
            assert_eq!(failure[0].source, at(failed).display().to_string());
            assert!(failure[0].error.to_string().contains("is a symbolic link"), "{failure:?}");
        }
        assert_eq!(fs::read(at("shared/f")).unwrap(), b"precious");
        assert_eq!(names_in(&at("shared")), ["f"]);
        assert_eq!(fs::metadata(at("shared")).unwrap().permissions().mode() & 0o777, 0o700);
        // A link to a file is replaced, and what it leads to stays.
        fs::remove_file(at("to/data")).unwrap();
        fs::create_dir(at("to/data")).unwrap();
        std::os::unix::fs::symlink(at("shared/f"), at("to/data/f")).unwrap();
        let summary = cp(vec![contents()], place(&at("to")), options()).await.unwrap();
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        assert_eq!(fs::read(at("shared/f")).unwrap(), b"precious");
        assert_eq!(fs::read(at("to/data/f")).unwrap(), b"new");
        assert!(!at("to/data/f").is_symlink());
        let summary = cp(vec![contents()], place(&at("named")), options()).await.unwrap();
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        assert_eq!(names_in(&at("shared")), ["data", "f"]);
    }
}

#[tokio::test]
async fn several_sources_need_a_directory_as_target() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["x", "y"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let sources = ["x", "y"].map(|name| place(&folder.path().join(name))).to_vec();
    let target = folder.path().join("both");
    cp(sources.clone(), place(&target), CopyOptions::default()).await.unwrap();
    assert_eq!(names_in(&target), ["x", "y"]);
    let error = cp(sources, place(&folder.path().join("x")), CopyOptions::default()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn two_sources_of_one_target_are_refused_before_anything_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    for run in ["run1", "run2"] {
        fs::create_dir(folder.path().join(run)).unwrap();
        fs::write(folder.path().join(run).join("hist.root"), run).unwrap();
    }
    let target = folder.path().join("out");
    fs::create_dir(&target).unwrap();
    let files = ["run1", "run2"].map(|run| place(&folder.path().join(run).join("hist.root")));
    let contents =
        ["run1", "run2"].map(|run| CopyPath { contents: true, ..place(&folder.path().join(run)) });
    for sources in [files, contents] {
        let error = cp(sources.to_vec(), place(&target), recursive()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let message = error.to_string();
        assert!(message.contains("run1") && message.contains("run2"), "{message}");
        assert_eq!(names_in(&target), [""; 0]);
    }
}

#[tokio::test]
async fn contradictory_arguments_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = tree(folder.path());
    let kind = |summary: CopySummary| summary.error().unwrap().kind();
    let target = place(&folder.path().join("copy"));
    let flat = cp(vec![source.clone()], target, CopyOptions::default()).await.unwrap();
    assert_eq!(kind(flat), ErrorKind::Invalid, "a directory without -r");
    let inside = place(&folder.path().join("tree/sub"));
    let nested = cp(vec![source], inside, recursive()).await.unwrap();
    assert_eq!(kind(nested), ErrorKind::Invalid, "a directory into itself");
    let a = place(&folder.path().join("tree/a"));
    let same = cp(vec![a.clone()], a.clone(), CopyOptions::default()).await.unwrap();
    assert_eq!(kind(same), ErrorKind::Invalid, "a file onto itself");
    assert_eq!(fs::read(folder.path().join("tree/a")).unwrap(), b"aaa");
    let none = place(&folder.path().join("none"));
    let missing = cp(vec![none], place(&folder.path().join("x")), CopyOptions::default()).await;
    assert_eq!(kind(missing.unwrap()), ErrorKind::NotFound);
    let nowhere = place(&folder.path().join("no/such/folder"));
    let lost = cp(vec![a], nowhere, CopyOptions::default()).await.unwrap();
    assert_eq!(kind(lost), ErrorKind::NotFound);
}

#[tokio::test]
async fn existing_files_are_replaced_kept_or_updated() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let to = folder.path().join("to");
    let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let write = |path: &Path, text: &str, modified| {
        fs::write(path, text).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    };
    for (rule, target_time, expected) in [
        (OverwritePolicy::Replace, 2_000, "new"),
        (OverwritePolicy::Keep, 500, "old"),
        (OverwritePolicy::Update, 2_000, "old"),
        (OverwritePolicy::Update, 500, "new"),
    ] {
        write(&from, "new", time(1_000));
        write(&to, "old", time(target_time));
        cp(vec![place(&from)], place(&to), existing(rule)).await.unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), expected, "{rule:?} {target_time}");
    }
    assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), time(1_000));
}

#[tokio::test]
async fn an_upload_gets_exactly_its_name_and_replaces_nothing_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let to = folder.path().join("to");
    fs::write(&from, vec![5; 100_000]).unwrap();
    let put =
        |target: &Path, what| upload(place(&from), place(target), existing(what), Arc::default());
    assert_eq!(put(&to, OverwritePolicy::Refuse).await.unwrap().size, Some(100_000));
    fs::write(&to, b"kept").unwrap();
    let refused = put(&to, OverwritePolicy::Refuse).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    assert_eq!(fs::read(&to).unwrap(), b"kept");
    assert_eq!(put(&to, OverwritePolicy::Replace).await.unwrap().size, Some(100_000));
    // A file is not written into a directory with the target's name.
    let directory = folder.path().join("directory");
    fs::create_dir(&directory).unwrap();
    assert!(put(&directory, OverwritePolicy::Replace).await.is_err());
    assert_eq!(names_in(&directory), [""; 0]);
    assert_eq!(names_in(folder.path()), ["directory", "from", "to"]);
}

/// Content in which neighbouring mebibytes, and neighbouring bytes in each of them, differ.
fn blocks(mib: u8) -> Vec<u8> {
    let mebibyte = |number| (0..251_u8).cycle().take(1 << 20).map(move |byte| byte ^ number);
    (0..mib).flat_map(mebibyte).collect()
}

#[tokio::test]
async fn a_large_file_is_copied_with_its_holes_time_and_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let file = sparse(&source);
    file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    file.set_modified(modified).unwrap();
    let summary = cp(vec![place(&source)], place(&target), CopyOptions::default()).await.unwrap();
    assert_eq!((summary.files, summary.bytes, summary.failures.len()), (1, 40 << 20, 0));
    assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
    let metadata = fs::metadata(&target).unwrap();
    assert_eq!(metadata.modified().unwrap(), modified);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert!(metadata.blocks() <= fs::metadata(&source).unwrap().blocks() + 64, "holes were filled");
    // Data that an attempt for another version has left must not appear in the holes.
    fs::write(&source, vec![b'x'; 40 << 20]).unwrap();
    let journal = tempfile::tempdir().unwrap();
    interrupted(&source, &target, resuming(journal.path())).await;
    let file = fs::File::create(&source).unwrap();
    file.set_len(40 << 20).unwrap();
    let summary = resumed(&source, &target, journal.path()).await;
    assert_eq!((summary.files, summary.bytes_resumed), (1, 0));
    assert!(fs::read(&target).unwrap() == vec![0; 40 << 20]);
}

fn resuming(journal: &Path) -> CopyOptions {
    let mut options = CopyOptions::default();
    options.block_bytes = 64 << 10;
    options.journal = Some(journal.to_owned());
    options
}

/// Interrupts a copy, and returns after its threads have ended. Returns false if the file system
/// had already shared all of the file.
async fn interrupted(source: &Path, target: &Path, options: CopyOptions) -> bool {
    let progress = Arc::new(CopyProgress::default());
    let journal = options.journal.clone().unwrap();
    let destination = Destination::Path(place(target));
    let copying = copy(vec![place(source)], destination, options, Arc::clone(&progress));
    let some_is_done = task_until(|| progress.figures().bytes_done >= 1 << 20);
    tokio::select! {
        biased;
        is_done = some_is_done => assert!(is_done),
        summary = copying => panic!("{summary:?}"),
    }
    let journal = fs::File::open(journal.join(&names_in(&journal)[0])).unwrap();
    assert!(task_until(|| journal.try_lock().is_ok()).await);
    progress.figures().bytes_done < fs::metadata(source).unwrap().len()
}

async fn resumed(source: &Path, target: &Path, journal: &Path) -> CopySummary {
    cp(vec![place(source)], place(target), resuming(journal)).await.unwrap()
}

#[tokio::test]
async fn an_interrupted_local_copy_continues() {
    let folder = tempfile::tempdir().unwrap();
    let journal = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::write(&source, blocks(64)).unwrap();
    let was_partial = interrupted(&source, &target, resuming(journal.path())).await;
    assert!(!target.exists());
    let summary = resumed(&source, &target, journal.path()).await;
    assert_eq!(summary.files, 1, "{:?}", summary.failures);
    assert!(summary.bytes_resumed >= 1 << 20 || !was_partial, "{}", summary.bytes_resumed);
    assert!(fs::read(&target).unwrap() == blocks(64));
    assert_eq!(names_in(folder.path()), ["source", "target"]);
}

/// The partial file of a copy into `folder`.
fn part_in(folder: &Path) -> fs::File {
    let name = names_in(folder).into_iter().find(|name| name.starts_with(".hither-")).unwrap();
    fs::File::options().write(true).open(folder.join(name)).unwrap()
}

/// A sparse file of 40 MiB with nine MiB of data.
fn sparse(path: &Path) -> fs::File {
    let file = fs::File::create(path).unwrap();
    file.write_all_at(&blocks(9), 13 << 20).unwrap();
    file.set_len(40 << 20).unwrap();
    file
}

#[tokio::test]
async fn holes_of_a_resumed_copy_hold_nothing_of_what_the_partial_file_held() {
    let folder = tempfile::tempdir().unwrap();
    let journal = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let from = sparse(&source);
    if !interrupted(&source, &target, resuming(journal.path())).await {
        return;
    }
    // The state that a crash of the system may leave if data were not flushed.
    part_in(folder.path()).write_all_at(&vec![b'x'; 40 << 20], 0).unwrap();
    let summary = resumed(&source, &target, journal.path()).await;
    assert_eq!((summary.files, summary.bytes_resumed), (1, 0));
    assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
    let blocks = |file: &fs::File| file.metadata().unwrap().blocks();
    let to = fs::File::open(&target).unwrap();
    assert!(blocks(&to) <= blocks(&from) + 64, "holes were filled");
}

#[tokio::test]
async fn no_byte_of_an_older_version_is_in_the_holes_of_a_copy_that_was_begun_with_a_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let journal = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut checked = resuming(journal.path());
    checked.verify = Verify::Algorithm(Algorithm::Crc32c);
    fs::write(&source, vec![b'x'; 40 << 20]).unwrap();
    interrupted(&source, &target, checked.clone()).await;
    // As if the copy of the older version had reached the end of the file.
    part_in(folder.path()).write_all_at(&vec![b'x'; 40 << 20], 0).unwrap();
    fs::remove_file(&source).unwrap();
    sparse(&source);
    interrupted(&source, &target, checked).await;
    let summary = resumed(&source, &target, journal.path()).await;
    assert_eq!(summary.files, 1, "{:?}", summary.failures);
    assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
}

#[tokio::test]
async fn files_that_the_kernel_makes_up_are_not_copied_as_empty_ones() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("copy");
    let made_up = place(Path::new("/proc/sys/kernel/random"));
    let summary = cp(vec![made_up], place(&target), recursive()).await.unwrap();
    assert_eq!((summary.files, names_in(&target).len()), (0, 0), "{:?}", summary.failures);
    assert!(summary.failures.len() >= 3, "{:?}", summary.failures);
}
