use crate::backend::LinkFilter;
use crate::backend::disk::cleanup::CleanupAges;
use crate::backend::disk::confined_dir::*;
use crate::backend::disk::copy::TreeCopy;
use crate::backend::disk::namespace::ReplacedEntry;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A tree with a file next to it that must not be reached.
fn tree() -> (tempfile::TempDir, ConfinedDir) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("d/e")).unwrap();
    std::fs::write(root.join("d/file"), "inside").unwrap();
    std::fs::write(folder.path().join("secret"), "outside").unwrap();
    let tree = ConfinedDir::open(&root, true, None).unwrap();
    (folder, tree)
}

/// The entity tag once the file is old.
fn strong_tag(meta: &DiskMetadata) -> String {
    meta.entry(meta.modified + Duration::from_secs(3_600)).version.etag
}

fn names(tree: &ConfinedDir, path: &str, max: usize) -> io::Result<Vec<String>> {
    Ok(tree
        .entries(path, max, &Cancellation::default())?
        .into_iter()
        .map(|entry| entry.name)
        .collect())
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<Errno> {
    result.unwrap_err().raw_os_error().map(Errno::from_raw_os_error)
}

#[test]
fn links_are_resolved_within_the_tree_and_never_opened() {
    let (folder, tree) = tree();
    let root = folder.path().join("root");
    symlink("d/file", root.join("near")).unwrap();
    symlink("../secret", root.join("climbing")).unwrap();
    symlink(folder.path().join("secret"), root.join("absolute")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("circle", root.join("circle")).unwrap();
    symlink("..", root.join("d/up")).unwrap();
    symlink("../..", root.join("d/out")).unwrap();
    symlink(".hither-put-1", root.join("private")).unwrap();
    std::fs::write(root.join(".hither-put-1"), "").unwrap();
    for (path, target) in [
        ("near", Some("d/file")),
        ("d/up/d/file", Some("d/file")),
        ("d/up", Some("")),
        ("private", None),
        ("climbing", None),
        ("absolute", None),
        ("magic", None),
        ("circle", None),
        ("d/out/secret", None),
        ("magic/etc/passwd", None),
    ] {
        assert_eq!(tree.resolve(path).ok().as_deref(), target, "{path}");
        assert_eq!(errno(tree.find(path)), Some(Errno::LOOP), "{path}");
        assert_eq!(errno(tree.meta(path)), Some(Errno::LOOP), "{path}");
        assert!(tree.find_now(path).is_none(), "{path}");
        assert_eq!(errno(tree.write_to(path)), Some(Errno::LOOP), "{path}");
        let cancellation = &Cancellation::default();
        let options = TreeCopy { links: None, is_in_lot: false, cancellation };
        assert!(tree.copy(path, "copy", options).is_err(), "{path}");
    }
    for path in ["d/up", "d/out"] {
        let new = format!("{path}/new");
        assert_eq!(errno(tree.begin(path)), Some(Errno::LOOP));
        assert_eq!(errno(tree.make_directory(&new)), Some(Errno::LOOP));
        assert_eq!(errno(tree.rename("d/file", &new, true)), Some(Errno::LOOP));
        assert_eq!(errno(tree.remove(&new)), Some(Errno::LOOP));
    }
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 8);
    assert_eq!(std::fs::read(folder.path().join("secret")).unwrap(), b"outside");
}

#[test]
fn what_is_opened_on_the_spot_is_what_would_have_been_opened_otherwise() {
    let (_folder, tree) = tree();
    let meta = tree.find("d/file").unwrap().meta;
    match tree.find_now("d/file") {
        Some(found) => assert_eq!(found.meta, meta),
        None => assert!(!tree.is_local, "it was opened a moment ago"),
    }
    assert!(tree.find_now("d/nothing").is_none() && tree.find_now("../secret").is_none());
}

#[test]
fn what_is_removed_is_the_link_not_what_it_leads_to() {
    let (folder, tree) = tree();
    let root = folder.path().join("root");
    symlink("../..", root.join("d/out")).unwrap();
    symlink("../../secret", root.join("d/e/climbing")).unwrap();
    tree.remove("d").unwrap();
    assert!(!root.join("d").exists() && folder.path().join("secret").exists());
    assert_eq!(errno(tree.remove("")), Some(Errno::ACCESS));
}

#[test]
fn a_file_has_a_name_when_it_is_published_and_none_before() {
    let (folder, tree) = tree();
    let entries = || std::fs::read_dir(folder.path().join("root/d/e")).unwrap().count();
    let write = |text: &str| {
        let upload = tree.begin("d/e").unwrap();
        upload.file().write_all(text.as_bytes()).unwrap();
        upload
    };
    drop(write("given up"));
    assert_eq!(entries(), 0);
    write("first").link_as(&tree, "d/e/new", false).unwrap();
    assert_eq!(errno(write("second").link_as(&tree, "d/e/new", false)), Some(Errno::EXIST));
    let read = || std::fs::read_to_string(folder.path().join("root/d/e/new")).unwrap();
    assert_eq!((read().as_str(), entries()), ("first", 1));
    write("second").link_as(&tree, "d/e/new", true).unwrap();
    assert_eq!((read().as_str(), entries()), ("second", 1));
    // Its directory has been renamed.
    let mut late = write("late");
    tree.rename("d/e", "d/f", false).unwrap();
    assert!(is_missing(&late.link_as(&tree, "d/e/late", true).unwrap_err()));
    tree.rename("d/f", "d/e", false).unwrap();
    assert_eq!(entries(), 1);
    assert!(tree.begin("none").is_err());
}

#[test]
fn what_is_being_written_is_not_shown() {
    let (folder, tree) = tree();
    let unfinished = hither_core::storage::partial_name(7);
    for name in [&*unfinished, ".hither-put-1", "shown", ".dot"] {
        std::fs::write(folder.path().join("root/d").join(name), "").unwrap();
    }
    assert_eq!(names(&tree, "d", 100).unwrap(), [".dot", "e", "file", "shown"]);
    assert_eq!(names(&tree, "d", 1).unwrap().len(), 2);
    assert_eq!(errno(names(&tree, "d/file", 100)), Some(Errno::NOTDIR));
}

#[test]
fn names_that_no_request_can_have_are_listed_with_the_reason() {
    let (folder, tree) = tree();
    let directory = folder.path().join("root/d");
    for name in [&b"new\nline"[..], b"latin-\xe9", b"back\\slash"] {
        std::fs::write(directory.join(OsStr::from_bytes(name)), "").unwrap();
    }
    std::fs::create_dir(directory.join(OsStr::from_bytes(b"run\xe9"))).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, directory.join("pipe\n"), Mode::RUSR).unwrap();
    let entries = tree.entries("d", 100, &Cancellation::default()).unwrap();
    let (refused, named): (Vec<_>, Vec<_>) = entries.iter().partition(|it| it.refusal.is_some());
    let names = |of: Vec<&DirectoryEntry>| of.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(named), ["back\\slash", "e", "file"]);
    let shown = |it: &&DirectoryEntry| (it.name.clone(), it.is_directory, it.refusal.unwrap());
    let refused: Vec<_> = refused.iter().map(shown).collect();
    let [latin, new_line, pipe, run] = &refused[..] else { panic!("{refused:?}") };
    assert!(latin.0 == "latin-%E9" && latin.2.contains("not UTF-8"), "{latin:?}");
    assert!(new_line.0 == "new%0Aline" && new_line.2.contains("control"), "{new_line:?}");
    assert!(pipe.0 == "pipe%0A" && pipe.2.contains("control"), "{pipe:?}");
    assert!(run.0 == "run%E9" && run.1, "{run:?}");
}

#[test]
fn renaming_replaces_any_kind_of_entry_but_only_on_request() {
    let (folder, tree) = tree();
    let root = folder.path().join("root");
    std::fs::write(root.join("other"), "other").unwrap();
    assert_eq!(errno(tree.rename("d/file", "other", false)), Some(Errno::EXIST));
    let ReplacedEntry::Hidden(hidden) = tree.rename("other", "d", true).unwrap() else { panic!() };
    tree.remove(&hidden).unwrap();
    assert_eq!(std::fs::read_to_string(root.join("d")).unwrap(), "other");
    assert!(!root.join("other").exists());
    std::fs::create_dir(root.join("e")).unwrap();
    let ReplacedEntry::Hidden(hidden) = tree.rename("e", "d", true).unwrap() else { panic!() };
    assert!(root.join("d").is_dir() && !root.join("e").exists());
    assert_eq!(std::fs::read_to_string(root.join(&hidden)).unwrap(), "other");
    assert_eq!(names(&tree, "", 9).unwrap(), ["d"]);
    assert!(is_missing(&tree.rename("none", "d", true).unwrap_err()));
}

#[test]
fn copies_are_deep_and_hold_no_unfinished_files() {
    let (folder, tree) = tree();
    let root = folder.path().join("root");
    std::fs::write(root.join("d").join(hither_core::storage::partial_name(1)), "").unwrap();
    symlink("file", root.join("d/link")).unwrap();
    let links: LinkFilter = Arc::new(|target| target != "hidden");
    let copy = |deep: bool| -> io::Result<()> {
        let options = TreeCopy {
            links: deep.then_some(&links),
            is_in_lot: false,
            cancellation: &Cancellation::default(),
        };
        let hidden = tree.copy("d", "copy", options)?;
        if let ReplacedEntry::Hidden(old) = tree.rename(&hidden, "copy", true)? {
            tree.remove(&old)?;
        }
        Ok(())
    };
    copy(true).unwrap();
    assert_eq!(names(&tree, "copy", 10).unwrap(), ["e", "file", "link"]);
    // A link is the file that it leads to, also in another place.
    assert!(root.join("copy/link").symlink_metadata().unwrap().is_file());
    assert_eq!(std::fs::read_to_string(root.join("copy/link")).unwrap(), "inside");
    assert_eq!(std::fs::read_dir(root.join("copy")).unwrap().count(), 3);
    copy(false).unwrap();
    assert_eq!(names(&tree, "copy", 10).unwrap(), [""; 0]);
    symlink("nowhere", root.join("d/dangling")).unwrap();
    std::fs::write(root.join("hidden"), "hidden").unwrap();
    symlink("../hidden", root.join("d/forbidden")).unwrap();
    copy(true).unwrap();
    assert_eq!(names(&tree, "copy", 10).unwrap(), ["e", "file", "link"]);
    symlink(".", root.join("d/circle")).unwrap();
    assert_eq!(errno(copy(true)), Some(Errno::ACCESS));
    // What was there still is, and nothing is left of what failed.
    assert_eq!(names(&tree, "copy", 10).unwrap(), ["e", "file", "link"]);
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 3);
}

#[test]
fn what_is_taken_away_is_gone_at_once_and_removed_in_its_own_time() {
    let (folder, tree) = tree();
    let root = folder.path().join("root");
    assert_eq!(tree.unlink_or_hide("d/file", false).unwrap(), ReplacedEntry::File(6));
    assert_eq!(tree.unlink_or_hide("d/e", false).unwrap(), ReplacedEntry::File(0));
    std::fs::write(root.join("d/file"), "inside").unwrap();
    assert!(tree.unlink_or_hide("d", false).is_err() && root.join("d/file").exists());
    let ReplacedEntry::Hidden(hidden) = tree.unlink_or_hide("d", true).unwrap() else { panic!() };
    assert_eq!(names(&tree, "", 9).unwrap(), [""; 0]);
    assert!(root.join(&hidden).join("file").exists());
    tree.remove(&hidden).unwrap();
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn leftovers_are_swept_away_when_they_are_old_enough() {
    let (folder, tree) = tree();
    let root = folder.path().join("root/d");
    let part = hither_core::storage::partial_name(7);
    let private = ".hither-put-0123456789abcdef";
    std::fs::create_dir(root.join("e").join(private)).unwrap();
    for name in [private, &part, ".hither-put-lots", "file"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    let swept = |private, unfinished| {
        let mut swept = Vec::new();
        tree.remove_stale(CleanupAges { private, unfinished }, |path| swept.push(path.to_owned()));
        swept.sort();
        swept
    };
    let past = UNIX_EPOCH;
    let future = SystemTime::now() + Duration::from_secs(9);
    assert_eq!(swept(Some(past), past), [""; 0]);
    assert_eq!(swept(None, future), [format!("d/{part}")]);
    assert_eq!(swept(Some(future), past), [format!("d/{private}"), format!("d/e/{private}")]);
}

#[test]
fn a_tree_belongs_to_one_server_that_writes() {
    let (folder, tree) = tree();
    let other = ConfinedDir::open(&folder.path().join("root"), true, None).unwrap();
    let own = tree.own_it().unwrap();
    assert!(other.own_it().is_none());
    drop(own);
    assert!(other.own_it().is_some());
}

#[test]
fn versions_differ_and_young_ones_are_weak() {
    let (_folder, tree) = tree();
    let meta = tree.meta("d/file").unwrap();
    let later = meta.modified + Duration::from_secs(5);
    assert!(meta.entry(meta.modified).version.etag.starts_with("W/"));
    assert_eq!(meta.entry(later).version.etag, strong_tag(&meta));
    let file = tree.write_to("d/file").unwrap();
    file.set_modified(later).unwrap();
    assert_ne!(strong_tag(&tree.meta("d/file").unwrap()), strong_tag(&meta));
}

#[test]
fn a_file_in_the_inode_of_another_is_another_version() {
    let (folder, tree) = tree();
    let path = folder.path().join("root/d/file");
    let noon = UNIX_EPOCH + Duration::from_secs(1 << 30);
    let mut tags = std::collections::HashSet::new();
    for content in ["inside", "beside", "astern"] {
        std::fs::write(&path, content).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(noon).unwrap();
        let meta = tree.meta("d/file").unwrap();
        // Where the file system does not state the time of creation, the inode has to suffice.
        assert!(tags.insert(strong_tag(&meta)) || meta.created.is_none(), "{meta:?}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_tree_deeper_than_any_path_is_removed() {
    let (folder, tree) = tree();
    let root = folder.path().join("root");
    let link = |from: &OwnedFd| {
        rustix::fs::mkdirat(from, "a", Mode::from_raw_mode(0o700)).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        rustix::fs::openat(from, "a", flags, Mode::empty()).unwrap()
    };
    let mut at = tree.directory("d").unwrap();
    for _ in 0..500 {
        at = link(&at);
    }
    tree.remove("d").unwrap();
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn a_copy_of_holes_takes_no_space() {
    let (folder, tree) = tree();
    let path = folder.path().join("root/d/file");
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"end", 99 << 20).unwrap();
    file.set_len(100 << 20).unwrap();
    let cancellation = &Cancellation::default();
    let options = TreeCopy { links: None, is_in_lot: false, cancellation };
    let copy = folder.path().join("root").join(tree.copy("d/file", "copy", options).unwrap());
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&copy).unwrap());
    let taken = std::fs::metadata(&copy).unwrap().blocks() * 512;
    assert!(taken < 1 << 20, "{taken}");
}

#[test]
fn a_pipe_is_not_replaced() {
    let (folder, tree) = tree();
    let pipe = folder.path().join("root/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    for from in ["d/file", "d"] {
        let error = tree.rename(from, "pipe", true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(DiskMetadata::at(&tree.root, "pipe").unwrap().kind, FileKind::Other);
}

#[test]
fn pipes_are_neither_read_nor_written() {
    let (folder, tree) = tree();
    let pipe = folder.path().join("root/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert_eq!(tree.find("pipe").unwrap_err().to_string(), NOT_SERVED);
    assert_eq!(errno(tree.write_to("pipe")), Some(Errno::ACCESS));
}
