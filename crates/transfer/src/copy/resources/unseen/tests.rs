use super::*;
use crate::copy::tests::memory::{Behaviour, MemoryServer};

/// An upload of seven bytes that no listing has confirmed.
fn upload(path: &str) -> UnseenName {
    let version = FileVersion { size: Some(7), ..FileVersion::default() };
    let file = Some((version, 7));
    let [source, key, path] = [path; 3].map(str::to_owned);
    UnseenName { source, key, path, file, has_size: false }
}

/// An upload whose size is confirmed, and whose name is not.
fn named(path: &str) -> UnseenName {
    UnseenName { has_size: true, ..upload(path) }
}

/// Looks at `uploads`. Returns those with a result, each with the kind of its error, by path.
async fn looked(
    server: &MemoryServer,
    uploads: impl IntoIterator<Item = UnseenName>,
) -> Vec<(String, Option<ErrorKind>)> {
    let unseen = UnseenUploads::default();
    uploads.into_iter().for_each(|name| unseen.add(&server.storage(), name));
    let looked = unseen.look(true).await.into_iter();
    let mut looked: Vec<_> = looked
        .map(|(name, seen)| {
            let error = seen.and_then(|seen| name.check(&seen)).err();
            (name.path, error.map(|error| error.kind()))
        })
        .collect();
    looked.sort_by(|a, b| a.0.cmp(&b.0));
    looked
}

fn confirmed(paths: &[&str]) -> Vec<(String, Option<ErrorKind>)> {
    paths.iter().map(|path| ((*path).to_owned(), None)).collect()
}

#[tokio::test]
async fn few_files_of_a_directory_are_requested_one_by_one() {
    let server =
        MemoryServer::new(Behaviour::default(), &[("d/a", b"content"), ("d/b", b"content")]);
    let looked = looked(&server, ["d/a", "d/b"].map(upload)).await;
    assert_eq!(looked, confirmed(&["d/a", "d/b"]));
    assert_eq!(server.requests(), ["stat d/a", "stat d/b"]);
}

#[tokio::test]
async fn one_listing_confirms_a_directory_and_hidden_files_are_requested() {
    let files: [(&str, &[u8]); 3] = [("d/a", b"content"), ("d/b", b"content"), ("d/c", b"content")];
    let server = MemoryServer::new(Behaviour { hidden: &["d/c"], ..Behaviour::default() }, &files);
    let looked = looked(&server, ["d/a", "d/b", "d/c"].map(upload)).await;
    assert_eq!(looked, confirmed(&["d/a", "d/b", "d/c"]));
    assert_eq!(server.requests(), ["list d", "stat d/c"]);
}

#[tokio::test]
async fn a_file_that_is_missing_or_has_another_size_fails() {
    let files: [(&str, &[u8]); 2] = [("d/a", b"content"), ("d/b", b"con")];
    let server = MemoryServer::new(Behaviour::default(), &files);
    let looked = looked(&server, ["d/a", "d/b", "d/c"].map(upload)).await;
    let failed = |path: &str, kind| (path.to_owned(), Some(kind));
    let expected = [
        ("d/a".to_owned(), None),
        failed("d/b", ErrorKind::Corrupt),
        failed("d/c", ErrorKind::NotFound),
    ];
    assert_eq!(looked, expected);
}

#[tokio::test]
async fn an_unusual_name_that_only_metadata_show_is_stored_under_another_one() {
    let files: [(&str, &[u8]); 2] = [("d/a:b", b"content"), ("d/E:F", b"content")];
    let behaviour = Behaviour { hidden: &["d/a:b"], ..Behaviour::default() };
    let server = MemoryServer::new(behaviour, &files);
    // `d/e:f` is listed in another spelling, and `d/plain` may be hidden as any file may be.
    let looked = looked(&server, ["d/a:b", "d/e:f", "d/plain"].map(named)).await;
    assert_eq!(looked, [("d/a:b".to_owned(), Some(ErrorKind::Invalid))]);
    assert_eq!(server.requests(), ["list d", "stat d/a:b"]);
}

#[tokio::test]
async fn no_file_is_requested_before_the_end_of_the_job() {
    let server = MemoryServer::new(Behaviour::default(), &[("d/a", b"content")]);
    let unseen = UnseenUploads::default();
    unseen.add(&server.storage(), upload("d/a"));
    assert!(unseen.look(false).await.is_empty());
    assert_eq!(server.requests(), [""; 0]);
    assert_eq!(unseen.look(true).await.len(), 1);
    assert!(unseen.look(true).await.is_empty());
}
