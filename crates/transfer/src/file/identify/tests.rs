use super::*;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::destination::Target;

/// The request for the first bytes of the file `f`.
const FIRST: &str = "read f 0..12288";

/// The size that is found for the file `path`, with the number of its bytes that have arrived.
async fn identified(
    server: &MemoryServer,
    path: &str,
    entry: Option<DirEntry>,
) -> Result<(Option<u64>, u64)> {
    let item = CopyItem::new(server.path(path), entry, Target::Discard);
    let replicas = Replicas::of(&item)?;
    let (version, head) = identify(&RetryPolicy::once(), &item, &replicas, None).await?;
    Ok((version.size, head.map_or(0, |head| head.bytes)))
}

fn listed(size: u64) -> Option<DirEntry> {
    Some(DirEntry::new("f", FileKind::File, size))
}

#[tokio::test]
async fn only_a_file_that_is_listed_as_empty_is_requested_to_know_its_size() {
    let server = MemoryServer::new(Behaviour::default(), &[("f", b"content")]);
    assert_eq!(identified(&server, "f", listed(9)).await.unwrap(), (Some(9), 0));
    assert_eq!(server.requests(), [""; 0]);
    assert_eq!(FIRST, format!("read f 0..{INITIAL_REQUEST_BYTES}"));
    assert_eq!(identified(&server, "f", listed(0)).await.unwrap(), (Some(7), 7));
    assert_eq!(server.requests(), [FIRST]);
}

#[tokio::test]
async fn a_response_without_a_tag_is_compared_with_the_metadata() {
    for (states_tags, stated_size, requests, error) in [
        (true, Some(9), &[FIRST][..], None),
        (false, None, &[FIRST, "stat f"][..], None),
        (false, Some(9), &[FIRST, "stat f"][..], Some(ErrorKind::Protocol)),
        // Servers that do not know a size state 0.
        (false, Some(0), &[FIRST, "stat f"][..], None),
    ] {
        let behaviour = Behaviour { states_tags, stated_size, ..Behaviour::default() };
        let server = MemoryServer::new(behaviour, &[("f", b"content")]);
        let found = identified(&server, "f", None).await;
        assert_eq!(found.as_ref().err().map(Error::kind), error, "{stated_size:?}");
        assert!(found.is_err() || found.is_ok_and(|found| found == (Some(7), 7)));
        assert_eq!(server.requests(), requests);
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_read_may_be_a_directory() {
    let server = MemoryServer::new(Behaviour::default(), &[("d/f", b"content")]);
    let error = identified(&server, "d", None).await.unwrap_err();
    assert!(error.to_string().contains("is a directory: copy it with -r"), "{error}");
    let error = identified(&server, "none", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_file_whose_first_bytes_are_refused_is_copied_if_it_is_stated_to_have_some() {
    for (content, expected) in
        [(&b"content"[..], Ok((Some(7), 0))), (&b""[..], Err(ErrorKind::Protocol))]
    {
        let server = MemoryServer::new(Behaviour::default(), &[("f", content)]);
        server.fail(FIRST, ErrorKind::Protocol);
        let found = identified(&server, "f", None).await;
        assert_eq!(found.map_err(|error| error.kind()), expected);
    }
}

#[tokio::test]
async fn a_page_in_place_of_data_is_known_by_its_label_and_its_first_bytes() {
    let page: &[u8] = b"  <HTML>please log in";
    for (path, content, is_refused) in [
        ("f.root", page, true),
        ("f.root", &b"content"[..], false),
        ("f.html", page, false),
        ("f", page, false),
    ] {
        let behaviour = Behaviour { labels_pages: true, states_tags: true, ..Behaviour::default() };
        let server = MemoryServer::new(behaviour, &[(path, content)]);
        // The metadata do not help: they cannot be had.
        server.fail("stat f.root", ErrorKind::Unavailable);
        let found = identified(&server, path, None).await;
        let error = found.err().map(|error| error.kind());
        assert_eq!(error, is_refused.then_some(ErrorKind::Protocol), "{path}");
    }
}
