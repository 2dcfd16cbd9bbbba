//! Syncs and checks between local directories, one of which may return wrong listings.

use crate::local::{names_in, place};
use async_trait::async_trait;
use hither_checksum::{Algorithm, Checksum};
use hither_core::storage::{DirectoryRemoval, PutOptions, Upload};
use hither_core::{DirEntry, Error, ErrorKind, Result, Source, Storage};
use hither_transfer::{
    CheckOptions, CheckSummary, CompareBy, CopyOptions, CopyPath, CopySummary, Destination,
    DifferenceKind, Filter, FilterOptions, SyncOptions, TreeDifference, check, copy, sync,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// A fault in the listing of a directory.
#[derive(Debug, Clone)]
enum Listing {
    Fails(ErrorKind),
    /// The name appears in the second and later listings.
    Gains(String),
    /// All names are listed, but the listing states that others may exist.
    Lacks(Lack),
    /// The listing is correct, and removing the directory has this result.
    Tried(std::result::Result<DirectoryRemoval, ErrorKind>),
}

#[derive(Debug, Clone, Copy)]
enum Lack {
    /// A part could not be read.
    Part,
    /// A name cannot be used.
    Name,
    /// The server hides names.
    Hidden,
}

/// A local directory with a fault in the listing of one directory.
#[derive(Debug)]
struct Misbehaving {
    inner: Arc<dyn Storage>,
    directory: String,
    listing: Option<Listing>,
    listed: Mutex<Vec<String>>,
}

impl Misbehaving {
    fn place(path: &Path, directory: &str, listing: Option<Listing>) -> (CopyPath, Arc<Self>) {
        let inner = place(path);
        let directory = match directory {
            "" => inner.path.clone(),
            directory => hither_core::storage::join(&inner.path, directory),
        };
        let inner_storage = Arc::clone(&inner.storage);
        let listed = Mutex::default();
        let storage = Arc::new(Self { inner: inner_storage, directory, listing, listed });
        (CopyPath { storage: Arc::clone(&storage) as _, ..inner }, storage)
    }

    fn listed(&self) -> Vec<String> {
        let mut listed = self.listed.lock().unwrap().clone();
        listed.sort();
        listed
    }
}

#[async_trait]
impl Storage for Misbehaving {
    fn name(&self) -> String {
        self.inner.name()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        self.inner.stat(path).await
    }
    async fn list(&self, path: &str) -> Result<hither_core::Listing> {
        let before = self.listed.lock().unwrap().iter().filter(|it| *it == path).count();
        self.listed.lock().unwrap().push(path.to_owned());
        let mut listing = self.inner.list(path).await?;
        if path == self.directory {
            match &self.listing {
                Some(Listing::Fails(kind)) => return Err(Error::new(*kind, "as told")),
                Some(Listing::Gains(name)) if before > 0 => listing.entries.push(DirEntry::new(
                    hither_core::storage::join(path, name),
                    hither_core::FileKind::File,
                    1,
                )),
                Some(Listing::Lacks(Lack::Part)) => {
                    listing.gaps.push(Error::new(ErrorKind::Protocol, "a part is missing"));
                }
                Some(Listing::Lacks(Lack::Name)) => {
                    let refused = Error::new(ErrorKind::PermissionDenied, "refused");
                    listing.failed.push((hither_core::storage::join(path, "refused"), refused));
                }
                Some(Listing::Lacks(Lack::Hidden)) => listing.hidden = Some("it hides names"),
                _ => {}
            }
        }
        Ok(listing)
    }
    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        self.inner.source(path)
    }
    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        self.inner.put(path, options).await
    }
    async fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path).await
    }
    async fn remove_directory(&self, path: &str, _: bool) -> Result<DirectoryRemoval> {
        match self.listing {
            Some(Listing::Tried(outcome)) if path == self.directory => {
                outcome.map_err(|kind| Error::new(kind, "as told"))
            }
            _ => Ok(DirectoryRemoval::NotEmpty),
        }
    }
    async fn make_directory(&self, path: &str) -> Result<()> {
        self.inner.make_directory(path).await
    }
    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        self.inner.checksum(path, algorithm).await
    }
}

/// Two trees: `from/{same, newer, sub/{deep/a}, only, empty/}` and
/// `to/{same, newer, extra, gone/{x, y/z}, sub/{old}}`.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for directory in ["from/sub/deep", "from/empty", "to/gone/y", "to/sub"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for (path, text, seconds) in [
            ("from/same", "same", 1_000),
            ("to/same", "same", 1_000),
            ("from/newer", "new", 2_000),
            ("to/newer", "old", 1_000),
            ("from/only", "only", 1_000),
            ("from/sub/deep/a", "a", 1_000),
            ("to/extra", "extra", 1_000),
            ("to/gone/x", "x", 1_000),
            ("to/gone/y/z", "z", 1_000),
            ("to/sub/old", "old", 1_000),
        ] {
            write(&at(path), text, seconds);
        }
        Self { folder }
    }

    fn from(&self) -> PathBuf {
        self.folder.path().join("from")
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("to")
    }

    async fn sync(&self, options: SyncOptions) -> CopySummary {
        sync_places(place(&self.from()), place(&self.to()), options).await.0.unwrap()
    }

    /// Asserts that no entry that only the destination has was deleted.
    fn assert_nothing_deleted(&self, why: &str) {
        for path in ["extra", "gone/x", "gone/y/z", "sub/old"] {
            assert!(self.to().join(path).exists(), "{path}: {why}");
        }
    }
}

fn write(path: &Path, text: &str, seconds: u64) {
    fs::write(path, text).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

type Kinds = Vec<(String, DifferenceKind)>;

async fn sync_places(
    from: CopyPath,
    to: CopyPath,
    options: SyncOptions,
) -> (Result<CopySummary>, Kinds) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let found = move |it: &TreeDifference| noted.lock().unwrap().push((it.path.clone(), it.kind));
    let summary = sync(from, to, options, Arc::default(), found).await;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    (summary, seen)
}

async fn check_places(from: &Path, to: &Path, options: CheckOptions) -> (CheckSummary, Kinds) {
    let seen = Mutex::new(Vec::new());
    let found = |it: TreeDifference| seen.lock().unwrap().push((it.path, it.kind));
    let summary = check(place(from), place(to), options, Arc::default(), found).await.unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    (summary, seen)
}

fn deleting() -> SyncOptions {
    let mut options = SyncOptions::default();
    options.delete = true;
    options
}

fn rules(rules: &[&str]) -> Arc<Filter> {
    let rules = rules.iter().map(|&it| it.to_owned()).collect();
    Arc::new(Filter::new(&FilterOptions { rules, ..FilterOptions::default() }).unwrap())
}

#[tokio::test]
async fn nothing_is_deleted_in_a_directory_that_is_or_may_be_a_link() {
    let failed = |directory: &str| Some(directory.to_owned());
    for (directory, outcome, failure) in [
        ("gone", Err(ErrorKind::Unavailable), failed("gone")),
        ("gone/y", Err(ErrorKind::Unavailable), failed("gone/y")),
        ("sub", Err(ErrorKind::Unavailable), failed("sub")),
        // It is not a directory, so it cannot be removed as one.
        ("gone", Ok(DirectoryRemoval::Link), failed("gone")),
        ("sub", Ok(DirectoryRemoval::Link), None),
    ] {
        let trees = Trees::new();
        let (to, _) = Misbehaving::place(&trees.to(), directory, Some(Listing::Tried(outcome)));
        let summary = sync_places(place(&trees.from()), to, deleting()).await.0.unwrap();
        let failures = summary.failures.into_iter().map(|it| it.source).next();
        assert_eq!(failures, failure, "{directory} {outcome:?}");
        let is_there = |path: &str| trees.to().join(path).exists();
        let behind = ["gone/x", "gone/y/z", "sub/old"].map(|path| {
            let is_behind = path.starts_with(&format!("{directory}/"));
            (is_there(path), is_behind)
        });
        assert!(behind.iter().all(|(there, behind)| there == behind), "{directory} {behind:?}");
        assert!(!is_there("extra") && is_there(directory), "{directory}");
    }
}

#[tokio::test]
async fn a_sync_copies_what_differs_and_deletes_the_rest_only_on_request() {
    let trees = Trees::new();
    let summary = trees.sync(SyncOptions::default()).await;
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!((summary.files, summary.files_skipped, summary.files_deleted), (3, 1, 0));
    trees.assert_nothing_deleted("without --delete");
    assert_eq!(fs::read(trees.to().join("newer")).unwrap(), b"new");
    let summary = trees.sync(deleting()).await;
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!((summary.files, summary.files_skipped), (0, 4), "all is equal the second time");
    assert_eq!((summary.files_deleted, summary.directories_deleted), (4, 2));
    assert_eq!(names_in(&trees.to()), names_in(&trees.from()));
    let (checked, differences) =
        check_places(&trees.from(), &trees.to(), CheckOptions::default()).await;
    assert!(checked.is_equal() && differences.is_empty());
    assert_eq!(checked.equal, 4);
}

#[tokio::test]
async fn an_incomplete_listing_never_deletes_anything() {
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Protocol,
        ErrorKind::Timeout,
        ErrorKind::PermissionDenied,
        ErrorKind::NotFound,
        ErrorKind::TooLarge,
    ];
    for kind in kinds {
        for (fails_in_source, directory) in [(true, "sub"), (true, ""), (false, "sub"), (false, "")]
        {
            let trees = Trees::new();
            let listing = Some(Listing::Fails(kind));
            let (from, to) = if fails_in_source {
                let from = Misbehaving::place(&trees.from(), directory, listing).0;
                (from, place(&trees.to()))
            } else {
                let to = Misbehaving::place(&trees.to(), directory, listing).0;
                (place(&trees.from()), to)
            };
            let why = format!("{kind:?} of {directory:?}, in source: {fails_in_source}");
            let summary = sync_places(from, to, deleting()).await.0.unwrap();
            assert!(!summary.failures.is_empty(), "{why}");
            assert_eq!(summary.files_deleted + summary.directories_deleted, 0, "{why}");
            trees.assert_nothing_deleted(&why);
        }
    }
}

#[tokio::test]
async fn a_listing_that_may_lack_names_deletes_nothing_and_copies_what_it_has() {
    for lack in [Lack::Part, Lack::Name, Lack::Hidden] {
        for directory in ["", "sub"] {
            let trees = Trees::new();
            let lacks = Some(Listing::Lacks(lack));
            let from = Misbehaving::place(&trees.from(), directory, lacks).0;
            let summary = sync_places(from, place(&trees.to()), deleting()).await.0.unwrap();
            let why = format!("{lack:?} in {directory:?}: {summary:?}");
            assert_eq!(summary.failures.len(), 1, "{why}");
            assert_eq!((summary.files, summary.files_deleted), (3, 0), "{why}");
            trees.assert_nothing_deleted(&why);
        }
    }
    let trees = Trees::new();
    let hides = Some(Listing::Lacks(Lack::Hidden));
    let from = Misbehaving::place(&trees.from(), "sub", hides).0;
    let to = place(&trees.to());
    let summary = sync_places(from, to, SyncOptions::default()).await.0.unwrap();
    assert!(summary.failures.is_empty(), "{summary:?}");
    assert!(summary.notices.iter().any(|it| it.contains("it hides names")), "{summary:?}");
}

#[tokio::test]
async fn a_listing_that_changes_never_deletes_anything() {
    for (directory, name) in [("", "extra"), ("sub", "old"), ("", "gone")] {
        let trees = Trees::new();
        let gains = Some(Listing::Gains(name.to_owned()));
        let from = Misbehaving::place(&trees.from(), directory, gains).0;
        let summary = sync_places(from, place(&trees.to()), deleting()).await.0.unwrap();
        let error = summary.error().unwrap();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        trees.assert_nothing_deleted("the source has changed");
    }
}

#[tokio::test]
async fn a_copy_that_fails_or_a_conflict_prevents_deletions() {
    let trees = Trees::new();
    fs::create_dir(trees.to().join("only")).unwrap();
    let summary = trees.sync(deleting()).await;
    assert_eq!(summary.failures.len(), 1, "{:?}", summary.failures);
    assert!(summary.notices.iter().any(|it| it.contains("nothing deleted")));
    trees.assert_nothing_deleted("a file where there is a directory");
}

#[tokio::test]
async fn a_link_is_broken_only_if_it_leads_nowhere() {
    let trees = Trees::new();
    let link = |to: &str, name: &str| symlink(to, trees.from().join(name)).unwrap();
    link("nowhere", "broken");
    let one = place(&trees.folder.path().join("one"));
    let mut options = CopyOptions::default();
    options.recursive = true;
    let copied = |options| {
        copy(vec![place(&trees.from())], Destination::Path(one.clone()), options, Arc::default())
    };
    for (summary, failures) in
        [(copied(options.clone()).await.unwrap(), 0), (trees.sync(SyncOptions::default()).await, 0)]
    {
        assert!(summary.notices[0].contains("broken link"), "{:?}", summary.notices);
        assert_eq!(summary.failures.len(), failures, "{:?}", summary.failures);
    }
    // The targets of these links cannot be examined.
    link("loop", "loop");
    link("same/x", "through a file");
    for summary in [copied(options).await.unwrap(), trees.sync(deleting()).await] {
        assert_eq!(summary.failures.len(), 2, "{:?}", summary.failures);
    }
    trees.assert_nothing_deleted("a link may lead to a file");
}

#[tokio::test]
async fn a_source_without_files_deletes_nothing() {
    let trees = Trees::new();
    fs::remove_dir_all(trees.from()).unwrap();
    fs::create_dir(trees.from()).unwrap();
    let error = trees.sync(deleting()).await.error().unwrap();
    assert!(error.to_string().contains("as if it were not mounted"), "{error}");
    trees.assert_nothing_deleted("the source is empty");
}

#[tokio::test]
async fn more_names_than_the_most_are_not_deleted() {
    let trees = Trees::new();
    let mut options = deleting();
    options.max_delete = 5;
    let error = trees.sync(options.clone()).await.error().unwrap();
    assert!(error.to_string().contains("6 names"), "{error}");
    trees.assert_nothing_deleted("the most are five");
    options.max_delete = 6;
    assert_eq!(trees.sync(options).await.files_deleted, 4);
}

#[tokio::test]
async fn a_dry_run_tells_what_a_sync_does_and_does_nothing() {
    let trees = Trees::new();
    let mut options = deleting();
    options.dry_run = true;
    let (planned, told) =
        sync_places(place(&trees.from()), place(&trees.to()), options.clone()).await;
    let planned = planned.unwrap();
    trees.assert_nothing_deleted("it is a dry run");
    assert!(!trees.to().join("only").exists());
    let (done, did) = sync_places(place(&trees.from()), place(&trees.to()), deleting()).await;
    let done = done.unwrap();
    assert_eq!(told, did);
    assert_eq!((planned.files, planned.bytes), (done.files, done.bytes));
    assert_eq!(planned.files_deleted, done.files_deleted);
    assert_eq!(planned.directories_deleted, done.directories_deleted);
    assert_eq!(planned.directories, done.directories);
}

#[tokio::test]
async fn a_check_tells_differences_both_ways_and_how_files_differ() {
    let trees = Trees::new();
    let by = |by| CheckOptions { by, ..CheckOptions::default() };
    let owned = |kinds: &[(&str, DifferenceKind)]| -> Kinds {
        kinds.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    };
    use DifferenceKind::{OnlyInSource, OnlyInTarget, Time};
    let all = [
        ("extra", OnlyInTarget),
        ("gone/x", OnlyInTarget),
        ("gone/y/z", OnlyInTarget),
        ("newer", Time),
        ("only", OnlyInSource),
        ("sub/deep/a", OnlyInSource),
        ("sub/old", OnlyInTarget),
    ];
    let (summary, seen) = check_places(&trees.from(), &trees.to(), by(CompareBy::Time)).await;
    assert_eq!(seen, owned(&all));
    assert_eq!((summary.only_in_source, summary.only_in_target, summary.different), (2, 4, 1));
    assert!(!summary.is_equal());
    let one_way = CheckOptions { one_way: true, ..by(CompareBy::Size) };
    let (_, seen) = check_places(&trees.from(), &trees.to(), one_way).await;
    assert_eq!(seen, owned(&[("only", OnlyInSource), ("sub/deep/a", OnlyInSource)]));
    // Other content, with the same size and time.
    write(&trees.to().join("same"), "sane", 1_000);
    for (by_what, kind) in
        [(CompareBy::Time, None), (CompareBy::Checksum, Some(DifferenceKind::Checksum))]
    {
        let (_, seen) = check_places(&trees.from(), &trees.to(), by(by_what)).await;
        let same = seen.iter().find(|(path, _)| path == "same").map(|(_, kind)| *kind);
        assert_eq!(same, kind, "{by_what:?}");
    }
}

#[tokio::test]
async fn a_check_says_that_it_does_not_compare_directories() {
    let trees = Trees::new();
    trees.sync(deleting()).await;
    fs::create_dir(trees.from().join("alone")).unwrap();
    for in_target in ["one", "two"] {
        fs::create_dir(trees.to().join(in_target)).unwrap();
    }
    let end = "without files to compare, in one of the two only: directories are not compared";
    for (one_way, count) in [(false, "3 directories"), (true, "1 directory")] {
        let options = CheckOptions { one_way, ..CheckOptions::default() };
        let (summary, seen) = check_places(&trees.from(), &trees.to(), options).await;
        assert!(summary.is_equal() && seen.is_empty());
        assert_eq!(summary.notices, [format!("{count} {end}")]);
    }
}

#[tokio::test]
async fn excluded_directories_are_not_listed_and_excluded_names_not_deleted() {
    let trees = Trees::new();
    let filter = rules(&["- /sub/**", "- gone/x", "- *.bak"]);
    let (from, from_storage) = Misbehaving::place(&trees.from(), "", None);
    let (to, to_storage) = Misbehaving::place(&trees.to(), "", None);
    let mut options = deleting();
    options.copy.filter = filter;
    let summary = sync_places(from.clone(), to, options.clone()).await.0.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert_eq!(from_storage.listed(), ["from", "from", "from/empty"]);
    assert_eq!(to_storage.listed(), ["to", "to/gone", "to/gone/y"]);
    assert!(trees.to().join("sub/old").exists() && trees.to().join("gone/x").exists());
    assert!(!trees.to().join("sub/deep").exists() && !trees.to().join("gone/y").exists());
    // The same filter for a copy.
    let target = place(&trees.folder.path().join("copy"));
    options.copy.recursive = true;
    let copied = copy(vec![from], Destination::Path(target), options.copy, Arc::default());
    assert_eq!(copied.await.unwrap().files, 3);
    assert_eq!(names_in(&trees.folder.path().join("copy")), ["newer", "only", "same"]);
}

#[tokio::test]
async fn a_list_of_files_is_copied_and_a_missing_one_reported() {
    let trees = Trees::new();
    let files = Some(vec!["sub/deep/a".to_owned(), "not there".to_owned()]);
    let named = FilterOptions { files, ..FilterOptions::default() };
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.filter = Arc::new(Filter::new(&named).unwrap());
    let target = trees.folder.path().join("copy");
    let copied = copy(
        vec![place(&trees.from())],
        Destination::Path(place(&target)),
        options,
        Arc::default(),
    );
    let summary = copied.await.unwrap();
    assert_eq!((summary.files, summary.failures.len()), (1, 1));
    assert_eq!(summary.failures[0].source, "not there");
    assert_eq!(names_in(&target), ["sub"]);
}

#[tokio::test]
async fn trees_within_each_other_are_refused() {
    let trees = Trees::new();
    let inner = trees.from().join("sub");
    for (from, to) in [
        (trees.from(), inner.clone()),
        (inner.clone(), trees.from()),
        (trees.from(), trees.from()),
        (trees.from(), inner.join("not/there/yet")),
    ] {
        let error = sync_places(place(&from), place(&to), deleting()).await.0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(names_in(&trees.from()), ["empty", "newer", "only", "same", "sub"]);
    let file = place(&trees.from().join("same"));
    let error = sync_places(file, place(&trees.to()), deleting()).await.0.unwrap_err();
    assert!(error.to_string().contains("expected a directory"), "{error}");
}
