use super::*;
use crate::copy::tests::scripted::{Scripted, context, entry};
use crate::filter::{Filter, FilterOptions};
use crate::options::CopyOptions;
use hither_core::storage::partial_name;

fn named(name: &str, kind: FileKind) -> DirEntry {
    DirEntry::new(format!("tree/{name}"), kind, 1)
}

fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "it is not there")
}

/// Walks through a tree with these listings. Links lead to `links`, in their order. Returns the
/// files that were queued.
async fn walked(
    shared: &Arc<CopyContext>,
    target: Target,
    listings: impl IntoIterator<Item = (&'static str, Result<Listing>)>,
    links: impl IntoIterator<Item = Result<DirEntry>>,
) -> Result<Vec<String>> {
    let storage = Scripted::with_listings(listings.into_iter().collect(), links);
    walk(shared, storage.path("tree"), target).await?;
    let mut found = Vec::new();
    while let Some((item, _)) = shared.next_small() {
        found.push(item.path);
    }
    found.sort_unstable();
    Ok(found)
}

fn failed(shared: &CopyContext) -> Vec<String> {
    let summary = shared.results().summary();
    let mut names: Vec<_> = summary.failures.iter().map(|it| it.source.clone()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn names_that_cannot_be_copied_fail_and_others_that_are_no_files_are_noted() {
    let listing = Listing {
        entries: vec![
            named("file", FileKind::File),
            named(&partial_name(1), FileKind::File),
            named("unnamed", FileKind::Unnamed),
            named("pipe", FileKind::Other),
            named("link", FileKind::Link),
            named("link to a directory", FileKind::Link),
            named("broken", FileKind::Link),
            named("..", FileKind::Directory),
        ],
        failed: vec![("tree/refused".to_owned(), missing())],
        gaps: vec![missing()],
        hidden: Some("some names are not listed"),
    };
    let shared = context(CopyOptions::default());
    let file = DirEntry { path: "tree/link".to_owned(), ..entry(1) };
    let links = [Ok(file), Ok(named("d", FileKind::Directory)), Err(missing())];
    let found = walked(&shared, Target::Discard, [("tree", Ok(listing))], links).await.unwrap();
    assert_eq!(found, ["tree/file", "tree/link"]);
    let tree = "scripted:/tree";
    let names = [tree, tree, "scripted:/tree/refused", "scripted:/tree/unnamed"];
    assert_eq!(failed(&shared), names);
    let mut notices = shared.results().summary().notices.clone();
    notices.sort_unstable();
    assert_eq!(
        notices,
        [
            "scripted:/tree/broken: broken link, left out",
            "scripted:/tree/link to a directory: a link to something else than a file, left out",
            "scripted:/tree/pipe: neither a file nor a directory, left out",
            "scripted:: some names are not listed",
        ]
    );
}

#[tokio::test]
async fn a_directory_that_cannot_be_listed_fails_beside_the_others() {
    let directories = vec![named("a", FileKind::Directory), named("b", FileKind::Directory)];
    let listings = [
        ("tree", Ok(directories.into())),
        ("tree/a", Err(missing())),
        ("tree/b", Ok(vec![named("b/file", FileKind::File)].into())),
    ];
    let shared = context(CopyOptions::default());
    assert_eq!(walked(&shared, Target::Discard, listings, []).await.unwrap(), ["tree/b/file"]);
    assert_eq!(failed(&shared), ["scripted:/tree/a"]);
}

#[tokio::test]
async fn a_tree_that_cannot_be_listed_is_an_error() {
    let shared = context(CopyOptions::default());
    let walked = walked(&shared, Target::Discard, [("tree", Err(missing()))], []).await;
    assert_eq!(walked.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn directories_are_made_where_a_filter_leaves_files_in_them() {
    let listings = || {
        let directories = vec![named("a", FileKind::Directory), named("b", FileKind::Directory)];
        [
            ("tree", Ok(directories.into())),
            ("tree/a", Ok(vec![named("a/x.log", FileKind::File)].into())),
            ("tree/b", Ok(vec![named("b/x.root", FileKind::File)].into())),
        ]
    };
    let rules = FilterOptions { include: vec!["*.root".to_owned()], ..FilterOptions::default() };
    let folder = tempfile::tempdir().unwrap();
    let some =
        CopyOptions { filter: Arc::new(Filter::new(&rules).unwrap()), ..CopyOptions::default() };
    for (options, name, files, directories) in [
        (CopyOptions::default(), "all", &["tree/a/x.log", "tree/b/x.root"][..], 3),
        (some, "some", &["tree/b/x.root"], 2),
    ] {
        let shared = context(options);
        let target = Target::Local(folder.path().join(name));
        assert_eq!(walked(&shared, target, listings(), []).await.unwrap(), files);
        assert_eq!(shared.results().summary().directories, directories, "{name}");
    }
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("a");
    std::fs::create_dir_all(from.join("b")).unwrap();
    let source = CopyPath { local: Some(from.clone()), ..Scripted::default().path("a") };
    for (target, is_refused) in [
        (from.clone(), true),
        (from.join("b"), true),
        (from.join("new"), true),
        (folder.path().join("ab"), false),
    ] {
        let result = refuse_nesting(&source, &Target::Local(target.clone()));
        assert_eq!(result.is_err(), is_refused, "{}", target.display());
    }
}
