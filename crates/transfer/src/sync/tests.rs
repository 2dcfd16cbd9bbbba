use super::*;
use crate::copy::tests::memory::{Behaviour, MemoryServer};

/// A sync that deletes, of the trees `from` and `to`. Returns its summary and the requests to the
/// target that are more than looks.
async fn synced(
    source: &MemoryServer,
    target: &MemoryServer,
    options: SyncOptions,
) -> (CopySummary, Vec<String>) {
    let options = SyncOptions { delete: true, ..options };
    let (from, to) = (source.path("from"), target.path("to"));
    let summary = sync(from, to, options, Arc::default(), |_| {}).await.unwrap();
    let is_look =
        |request: &String| ["stat", "list", "read"].iter().any(|it| request.starts_with(it));
    let changes = target.requests().into_iter().filter(|request| !is_look(request));
    (summary, changes.collect())
}

fn server(files: &[(&str, &[u8])]) -> MemoryServer {
    MemoryServer::new(Behaviour::default(), files)
}

/// A source with a file that differs and one that is equal, and a target with one more.
fn servers() -> [MemoryServer; 2] {
    [
        server(&[("from/a", b"new content"), ("from/b", b"content")]),
        server(&[("to/a", b"content"), ("to/b", b"content"), ("to/old", b"content")]),
    ]
}

#[tokio::test(start_paused = true)]
async fn names_are_deleted_after_all_copies() {
    let [source, target] = servers();
    let (summary, changes) = synced(&source, &target, SyncOptions::default()).await;
    assert_eq!((summary.files, summary.files_skipped, summary.files_deleted), (1, 1, 1));
    assert_eq!(target.content("to/a").unwrap(), b"new content");
    assert_eq!(changes.first().map(String::as_str), Some("put to/a"));
    assert_eq!(changes[changes.len() - 2..], ["commit to/a", "remove to/old"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_where_a_copy_has_failed() {
    let [source, target] = servers();
    target.fail("put to/a", ErrorKind::PermissionDenied);
    let (summary, changes) = synced(&source, &target, SyncOptions::default()).await;
    assert_eq!((summary.failures.len(), summary.files_deleted), (1, 0));
    let mut notices = summary.notices.iter();
    assert!(notices.any(|it| it.starts_with("nothing deleted, because 1 names failed")));
    assert_eq!(changes, ["put to/a"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_for_a_source_without_files_or_beyond_the_most() {
    let empty = server(&[]);
    empty.make("from/d");
    let [source, _] = servers();
    let none = SyncOptions { max_delete: 0, ..SyncOptions::default() };
    for (source, options, expected) in [
        (empty, SyncOptions::default(), "has no file, as if it were not mounted"),
        (source, none, "1 names are to be deleted, and the most are 0"),
    ] {
        let [_, target] = servers();
        let (summary, changes) = synced(&source, &target, options).await;
        let error = summary.failures[0].error.to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!changes.iter().any(|change| change.starts_with("remove")), "{changes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_what_a_sync_does_and_changes_nothing() {
    let [source, target] = servers();
    let options = SyncOptions { dry_run: true, ..SyncOptions::default() };
    let (planned, changes) = synced(&source, &target, options).await;
    assert_eq!(changes, [""; 0]);
    let (done, _) = synced(&source, &target, SyncOptions::default()).await;
    let counts = |it: &CopySummary| (it.files, it.bytes, it.files_skipped, it.files_deleted);
    assert_eq!(counts(&planned), counts(&done));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_has_appeared_in_the_source_is_not_deleted() {
    let [source, target] = servers();
    let pair = TreePair::open(source.path("from"), target.path("to")).await.unwrap();
    let mut deletions = Deletions::new(10);
    deletions.add_file("old".to_owned());
    assert!(deletions.check(true, &pair).await.is_ok());
    source.store("from/old", b"content");
    let error = deletions.check(true, &pair).await.unwrap_err();
    assert!(error.to_string().contains("old appeared in the source meanwhile"), "{error}");
}
