use super::*;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::copy::tests::scripted::context;
use crate::options::CopyOptions;

fn server() -> MemoryServer {
    MemoryServer::new(Behaviour::default(), &[("file", b"content"), ("d/f", b"content")])
}

#[test]
fn two_sources_do_not_become_one_target() {
    let server = server();
    let sources = |paths: [&str; 2]| paths.map(|path| server.path(path));
    let into = Destination::Path(server.path("to"));
    let error = refuse_shared_targets(&sources(["a/x", "b/x"]), &into).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("memory:/a/x and memory:/b/x"), "{error}");
    assert!(refuse_shared_targets(&sources(["a/x", "b/y"]), &into).is_ok());
    for destination in [Destination::Output, Destination::Discard] {
        assert!(refuse_shared_targets(&sources(["a/x", "b/x"]), &destination).is_ok());
    }
}

#[tokio::test]
async fn a_destination_is_made_only_if_it_is_meant_as_a_directory() {
    use ErrorKind::{Invalid, PermissionDenied};
    for (path, is_directory, several, expected, is_made) in [
        ("d", false, false, Ok(true), false),
        ("d", true, true, Ok(true), false),
        ("file", false, false, Ok(false), false),
        ("file", false, true, Err(Invalid), false),
        ("file", true, false, Err(Invalid), false),
        ("new", false, false, Ok(false), false),
        ("new", true, false, Ok(true), true),
        ("new", false, true, Ok(true), true),
        // The server cannot describe it, and may accept files.
        ("unsupported", false, false, Ok(false), false),
        ("denied", false, false, Err(PermissionDenied), false),
    ] {
        let server = server();
        server.fail("stat unsupported", ErrorKind::Unsupported);
        server.fail("stat denied", PermissionDenied);
        let destination = Destination::Path(CopyPath { is_directory, ..server.path(path) });
        let into = goes_into(&destination, several, false).await;
        assert_eq!(into.map_err(|error| error.kind()), expected, "{path}");
        let made = format!("make {path}");
        assert_eq!(server.requests().contains(&made), is_made, "{path}");
    }
}

/// The paths that are queued for the source `path`.
async fn begun(server: &MemoryServer, path: &str, recursive: bool) -> Result<Vec<String>> {
    let shared = context(CopyOptions { recursive, ..CopyOptions::default() });
    begin(&shared, server.path(path), Target::Discard).await?;
    let mut queued = Vec::new();
    while let Some((item, _)) = shared.next_small() {
        queued.push(item.path);
    }
    Ok(queued)
}

#[tokio::test]
async fn a_recursive_copy_looks_which_of_its_sources_are_directories() {
    let server = server();
    assert_eq!(begun(&server, "d", true).await.unwrap(), ["d/f"]);
    assert_eq!(server.requests(), ["stat d", "list d"]);
    assert_eq!(begun(&server, "file", true).await.unwrap(), ["file"]);
    assert_eq!(server.requests(), ["stat file"]);
    let error = begun(&server, "none", true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_directory_is_copied_only_by_a_recursive_copy() {
    let server = server();
    let shared = context(CopyOptions::default());
    let source = CopyPath { is_directory: true, ..server.path("d") };
    let error = begin(&shared, source, Target::Discard).await.unwrap_err();
    assert!(error.to_string().contains("is a directory: copy it with -r"), "{error}");
    assert_eq!(server.requests(), ["stat d"]);
    // A name without a slash is a file for now: its first bytes show the rest.
    begin(&shared, server.path("d"), Target::Discard).await.unwrap();
    assert_eq!((shared.resources.progress.figures().files_found, server.requests()), (1, vec![]));
}
