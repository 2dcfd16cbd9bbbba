//! Changes at WebDAV servers: responses that are trusted, outcomes that are checked, and requests
//! that are repeated.

use crate::fixture::pass;
use bytes::Bytes;
use hither_checksum::Hasher;
use hither_core::storage::PutOptions;
use hither_core::{Error, ErrorKind, Storage};
use hither_testkit::mock_http::lossy_http::{LossyAct, LossyHttpServer};
use hither_testkit::mock_http::webdav::{
    ChangeFault, LOGIN_PAGE, MockWebDavServer, OF_ANOTHER_CLIENT, PiecesTaken, PlannedFault,
    ReadFault, StatedSizes, StatedValidators, WebDavBehaviour, WebDavFault,
};
use hither_testkit::waiting::task_until;
use hither_transport::{Location, Network, TransportConfig, WebDavStorage};
use tokio::runtime::Handle;

pub(crate) const OLD: &[u8] = b"old";
pub(crate) const NEW: &[u8] = b"new bytes";

fn storage(server: &MockWebDavServer) -> WebDavStorage {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    WebDavStorage::new(Location::parse(&server.url_of("/d/")).unwrap(), network)
}

pub(crate) async fn put(
    storage: &dyn Storage,
    path: &str,
    options: PutOptions,
) -> Result<bool, Error> {
    let options = PutOptions { size: NEW.len() as u64, ..options };
    let upload = storage.put(path, options).await?;
    upload.write(0, Bytes::from_static(NEW)).await?;
    upload.commit(None).await.map(|done| done.is_seen)
}

/// A change, and the paths below `/d/` before and after it.
const VERBS: [(&str, &[&str], &[&str]); 6] = [
    ("PUT", &[], &["/d/new"]),
    ("put by MOVE", &[], &["/d/new"]),
    ("MOVE", &["/d/old"], &["/d/new"]),
    ("COPY", &["/d/old"], &["/d/new", "/d/old"]),
    ("DELETE", &["/d/old"], &[]),
    ("MKCOL", &[], &["/d/new/"]),
];

/// Carries out the change that is named by an HTTP method, or by "put by MOVE".
pub(crate) async fn carry_out(verb: &str, storage: &dyn Storage) -> Result<(), Error> {
    match verb {
        "PUT" | "put by MOVE" => put(storage, "new", PutOptions::default()).await.map(drop),
        "MOVE" => storage.rename("old", "new", false).await,
        "COPY" => storage.copy_file("old", "new").await,
        "DELETE" => storage.remove("old").await,
        _ => storage.make_directory("new").await,
    }
}

/// The outcome of `verb` with `fault`, and the server afterwards.
async fn attempted(
    verb: &'static str,
    fault: ChangeFault,
) -> (Result<(), Error>, MockWebDavServer) {
    let (_, before, _) = VERBS.iter().find(|(name, ..)| *name == verb).unwrap();
    let method = if verb == "put by MOVE" { "MOVE" } else { verb };
    let server = MockWebDavServer::start(Some((method, fault))).unwrap();
    before.iter().for_each(|path| server.store(path, OLD));
    let done = carry_out(verb, &storage(&server)).await;
    (done, server)
}

#[tokio::test]
async fn what_was_not_carried_out_is_never_a_success() {
    let page = "text/html";
    for fault in [
        ChangeFault::Login(301),
        ChangeFault::Login(302),
        ChangeFault::Login(303),
        ChangeFault::Login(307),
        ChangeFault::Login(308),
        ChangeFault::Claim(200, page, LOGIN_PAGE),
        ChangeFault::Claim(201, page, LOGIN_PAGE),
        ChangeFault::Claim(200, "text/plain", ""),
        ChangeFault::Claim(202, "text/plain", ""),
        ChangeFault::Claim(203, "text/plain", "done"),
        ChangeFault::Claim(206, "text/plain", ""),
        ChangeFault::Claim(226, "text/plain", ""),
        ChangeFault::Claim(304, "text/plain", ""),
        ChangeFault::Claim(500, "text/plain", ""),
    ] {
        for (verb, before, _) in VERBS {
            let (done, server) = attempted(verb, fault).await;
            assert!(done.is_err(), "{verb} {fault:?}");
            assert_eq!(server.paths(), before, "{verb} {fault:?}: {done:?}");
        }
    }
}

#[tokio::test]
async fn a_change_that_was_carried_out_succeeds_with_any_response() {
    let page = "text/html";
    let created = "<!DOCTYPE html><html><head><title>201 Created</title></head></html>";
    for fault in [
        ChangeFault::Done(200, "text/plain", ""),
        ChangeFault::Done(202, "text/plain", ""),
        ChangeFault::Done(201, page, created),
        ChangeFault::Done(200, page, LOGIN_PAGE),
        ChangeFault::Done(303, page, LOGIN_PAGE),
        ChangeFault::Done(500, "text/plain", "after the change"),
        ChangeFault::Moved(307),
        ChangeFault::Moved(308),
        ChangeFault::Lost,
        ChangeFault::Dropped,
    ] {
        for (verb, _, after) in VERBS {
            // A copy cannot be distinguished from an earlier file; a failed PUT is removed.
            if verb == "COPY" || verb == "PUT" && matches!(fault, ChangeFault::Done(500, ..)) {
                continue;
            }
            let (done, server) = attempted(verb, fault).await;
            assert!(done.is_ok(), "{verb} {fault:?}: {done:?}");
            assert_eq!(server.paths(), after, "{verb} {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_removal_is_not_repeated_where_another_client_has_made_the_file_again() {
    let (done, server) = attempted("DELETE", ChangeFault::LostAndMadeAgain).await;
    done.unwrap();
    assert_eq!(server.count("DELETE"), 1);
    assert_eq!(server.bytes("/d/old").unwrap(), b"of another client");
    // A DELETE that was not executed is repeated.
    let (done, server) = attempted("DELETE", ChangeFault::Dropped).await;
    done.unwrap();
    assert_eq!((server.count("DELETE"), server.paths().len()), (2, 0));
}

/// Removing a tree takes a server minutes, and a tree has no version to compare.
#[tokio::test]
async fn a_removal_of_a_directory_that_outlasts_the_timeout_is_not_repeated() {
    const TREE: &str = "<D:multistatus xmlns:D='DAV:'><D:response><D:href>/tree/</D:href>\
        <D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop>\
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>";
    let there = LossyAct::Respond(207, "", TREE);
    for (later, is_gone) in [(LossyAct::Respond(404, "", ""), true), (there, false)] {
        let server = LossyHttpServer::start(move |method, _, nth| match method {
            "DELETE" => LossyAct::Silence,
            "PROPFIND" if nth == 0 => there,
            _ => later,
        });
        let server = server.unwrap();
        let config = TransportConfig::default();
        let timeout = config.first_byte_timeout;
        let network = Network::new(config, Handle::current(), None);
        let root = Location::parse(&server.url_of("/")).unwrap();
        let storage = WebDavStorage::new(root, network);
        let passing = async {
            assert!(task_until(|| server.count("DELETE") == 1).await);
            pass(timeout).await;
            std::future::pending().await
        };
        let done = tokio::select! {
            done = storage.remove_tree("tree") => done,
            () = passing => unreachable!("it has no end"),
        };
        assert_eq!(server.count("DELETE"), 1, "{done:?}");
        let error = done.err().map(|error| error.to_string());
        let is_told = |error: String| error.contains("may have been carried out");
        assert_eq!(error.clone().map(is_told), (!is_gone).then_some(true), "{error:?}");
    }
}

/// A server that removes only empty directories at first, so that their names are listed.
#[tokio::test]
async fn a_directory_whose_listing_lacks_names_is_not_removed() {
    let listed = |fault: Option<ReadFault>| {
        let fault = fault.map(|fault| ("PROPFIND", 1, WebDavFault::Read(fault)));
        let refused = ("DELETE", 0, WebDavFault::Status(409));
        let planned = |(method, nth, fault)| PlannedFault { method, nth, times: 1, fault };
        let faults = fault.into_iter().chain([refused]).map(planned).collect();
        let server = MockWebDavServer::behaving(WebDavBehaviour::default(), faults).unwrap();
        ["/d/tree/a", "/d/tree/b"].iter().for_each(|path| server.store(path, OLD));
        server
    };
    for (fault, told) in [
        (None, None),
        (Some(ReadFault::Insufficient), Some("the list of names is not complete")),
        (Some(ReadFault::Refuses(403)), Some("403")),
        (Some(ReadFault::Refuses(404)), Some("404")),
    ] {
        let server = listed(fault.clone());
        let removed = storage(&server).remove_tree("tree").await;
        let requests = server.log();
        assert_eq!(removed.is_err(), told.is_some(), "{fault:?}: {removed:?} {requests:?}");
        if let (Err(error), Some(told)) = (removed, told) {
            // Which `rm -f` would take for success.
            assert_ne!(error.kind(), ErrorKind::NotFound);
            let text = error.to_string();
            assert!(text.contains("cannot remove what is in") && text.contains(told), "{text}");
            assert_eq!(server.paths(), ["/d/tree/", "/d/tree/a", "/d/tree/b"], "{requests:?}");
        }
        assert_eq!(server.paths().is_empty(), fault.is_none(), "{requests:?}");
    }
}

#[tokio::test]
async fn a_move_is_not_repeated_where_another_client_has_made_the_file_again() {
    let (done, server) = attempted("MOVE", ChangeFault::LostAndMadeAgain).await;
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(server.count("MOVE"), 1);
    let held = ["/d/new", "/d/old"].map(|path| server.bytes(path).unwrap());
    assert_eq!(held, [OLD, OF_ANOTHER_CLIENT]);
}

/// The outcome of a rename of `old` to `new`, where a file of the same size exists, with `fault` in
/// the `nth` MOVE; and the server afterwards.
async fn renamed(
    validators: StatedValidators,
    (nth, fault): (usize, ChangeFault),
) -> (Result<(), Error>, MockWebDavServer) {
    let behaviour = WebDavBehaviour { validators, ..WebDavBehaviour::default() };
    let fault = WebDavFault::Change(fault);
    let faults = vec![PlannedFault { method: "MOVE", nth, times: 1, fault }];
    let server = MockWebDavServer::behaving(behaviour, faults).unwrap();
    server.store("/d/old", OLD);
    server.store("/d/new", b"NEW");
    let done = storage(&server).rename("old", "new", true).await;
    (done, server)
}

/// The first MOVE must not replace a file; the second may replace the version that was seen.
#[tokio::test]
async fn a_file_that_was_there_before_does_not_show_a_move() {
    use StatedValidators::{Dates, Nothing, Tags, TagsAndDates};
    for validators in [Tags, TagsAndDates, Dates, Nothing] {
        for nth in [0, 1] {
            let (done, server) = renamed(validators, (nth, ChangeFault::DroppedAndRemoved)).await;
            let error = done.unwrap_err();
            assert!(error.may_have_been_carried_out(), "{validators:?} {nth}: {error}");
            assert_eq!(server.bytes("/d/new").unwrap(), b"NEW", "{validators:?} {nth}");
        }
        let (done, server) = renamed(validators, (1, ChangeFault::Lost)).await;
        assert_eq!(server.bytes("/d/new").unwrap(), OLD, "{validators:?}");
        let is_told = |error: Error| error.may_have_been_carried_out();
        let expected = if validators == Nothing { Err(true) } else { Ok(()) };
        assert_eq!(done.map_err(is_told), expected, "{validators:?}");
    }
}

#[tokio::test]
async fn an_upload_that_the_server_has_lost_is_not_the_file_that_was_there_before() {
    let fault = WebDavFault::Change(ChangeFault::DroppedAndRemoved);
    let faults = vec![PlannedFault { method: "MOVE", nth: 1, times: 1, fault }];
    let server = MockWebDavServer::behaving(WebDavBehaviour::default(), faults).unwrap();
    server.store("/d/new", b"old bytes");
    let options = PutOptions { overwrite: true, ..PutOptions::default() };
    let error = put(&storage(&server), "new", options).await.unwrap_err();
    assert!(error.may_have_been_carried_out(), "{error}");
}

#[tokio::test]
async fn nothing_is_replaced_in_place_where_no_look_would_show_the_new_file() {
    let behaviour = WebDavBehaviour {
        sizes: StatedSizes::Never,
        refuses_moves: Some(405),
        ..WebDavBehaviour::default()
    };
    let server = MockWebDavServer::behaving(behaviour, Vec::new()).unwrap();
    server.store("/d/old", OLD);
    let storage = storage(&server);
    // The first upload detects that the server refuses MOVE.
    let options = PutOptions { is_looked_at: true, ..PutOptions::default() };
    let error = put(&storage, "new", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let options = PutOptions { overwrite: true, ..PutOptions::default() };
    let error = put(&storage, "old", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(server.bytes("/d/old").unwrap(), OLD);
}

#[tokio::test]
async fn a_conflict_does_not_show_that_a_name_is_gone() {
    let fault = |method, nth, fault| PlannedFault { method, nth, times: usize::MAX, fault };
    let claim = WebDavFault::Change(ChangeFault::Claim(202, "text/plain", ""));
    let faults = vec![
        fault("DELETE", 0, claim),
        fault("PROPFIND", 1, WebDavFault::Status(409)),
        fault("HEAD", 0, WebDavFault::Status(409)),
    ];
    let server = MockWebDavServer::behaving(WebDavBehaviour::default(), faults).unwrap();
    server.store("/d/old", OLD);
    let error = storage(&server).remove("old").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    assert!(!error.to_string().contains("parent directory"), "{error}");
}

/// A server that responds with 409 to `times` requests with `method`.
fn with_conflicts(method: &'static str, times: usize, more: &[&'static str]) -> MockWebDavServer {
    let fault = |method, times, status| {
        let fault = WebDavFault::Status(status);
        PlannedFault { method, nth: 0, times, fault }
    };
    let mut faults = vec![fault(method, times, 409)];
    faults.extend(more.iter().map(|method| fault(method, usize::MAX, 403)));
    MockWebDavServer::behaving(WebDavBehaviour::default(), faults).unwrap()
}

#[tokio::test]
async fn a_conflict_is_what_a_look_at_the_parent_shows() {
    for (verb, before, after) in VERBS.into_iter().filter(|(verb, ..)| *verb != "DELETE") {
        let method = if verb == "put by MOVE" { "MOVE" } else { verb };
        // The conflict is not caused by a missing parent.
        let server = with_conflicts(method, usize::MAX, &[]);
        before.iter().for_each(|path| server.store(path, OLD));
        let error = carry_out(verb, &storage(&server)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{verb}: {error}");
        let text = error.to_string();
        assert!(text.contains("409 (Conflict)") && text.contains("the parent directory exists"));
        assert_eq!(server.count(method), 2, "{verb}");
        // Another client has created the parent since the request.
        let server = with_conflicts(method, 1, &[]);
        before.iter().for_each(|path| server.store(path, OLD));
        carry_out(verb, &storage(&server)).await.unwrap();
        assert_eq!(server.paths(), after, "{verb}");
        assert_eq!(server.count(method), 2, "{verb}");
    }
}

#[tokio::test]
async fn a_conflict_is_not_found_also_where_no_request_can_show_the_parent() {
    let server = MockWebDavServer::start(None).unwrap();
    server.store("/d/old", OLD);
    let dav = storage(&server);
    let options = PutOptions::default;
    for done in [
        put(&dav, "none/new", options()).await.map(drop),
        dav.rename("old", "none/new", false).await,
        dav.copy_file("old", "none/new").await,
        dav.make_directory("none/new").await,
    ] {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let is_told = ["parent directory does not exist", "/d/none does not exist"];
        assert!(is_told.iter().any(|it| error.to_string().contains(it)), "{error}");
    }
    let server = with_conflicts("PUT", usize::MAX, &["PROPFIND", "HEAD"]);
    let error = put(&storage(&server), "new", options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("the parent directory may not exist"), "{error}");
}

/// The file of a piece may be gone: a server would create another file.
#[tokio::test]
async fn a_piece_is_not_sent_again_after_a_conflict() {
    let fault = WebDavFault::Status(409);
    // The probes of an unknown server come first.
    let planned = PlannedFault { method: "PUT", nth: 2, times: usize::MAX, fault };
    let behaviour = WebDavBehaviour { pieces: PiecesTaken::AsPieces, ..WebDavBehaviour::default() };
    let server = MockWebDavServer::behaving(behaviour, vec![planned]).unwrap();
    let size = 3 << 20;
    let options = PutOptions { size, ..PutOptions::default() };
    let upload = storage(&server).put("file", options).await.unwrap();
    let error = upload.write(0, Bytes::from(vec![1; 1 << 20])).await.unwrap_err();
    assert_eq!((error.kind(), server.count("PUT")), (ErrorKind::Unavailable, 3), "{error}");
}

#[tokio::test]
async fn a_rename_looks_for_the_target_where_the_server_may_replace_it() {
    let behaviour = WebDavBehaviour { ignores_overwrite: true, ..WebDavBehaviour::default() };
    let server = MockWebDavServer::behaving(behaviour, Vec::new()).unwrap();
    server.store("/d/old", OLD);
    server.store("/d/new", NEW);
    let error = storage(&server).rename("old", "new", false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(server.bytes("/d/new").unwrap(), NEW);
}

#[tokio::test]
async fn an_error_claims_no_more_than_the_look_has_shown() {
    // The new name cannot be seen, and the old name is gone.
    let faults = vec![PlannedFault {
        method: "MOVE",
        nth: 0,
        times: 1,
        fault: WebDavFault::Change(ChangeFault::Done(202, "text/plain", "")),
    }];
    let server = MockWebDavServer::behaving(WebDavBehaviour::default(), faults).unwrap();
    server.state_sizes(StatedSizes::Never);
    server.store("/d/old", OLD);
    let error = storage(&server).rename("old", "new", false).await.unwrap_err();
    assert_eq!(server.paths(), ["/d/new"]);
    assert!(error.to_string().contains("does not show that it was carried out"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_stored_in_part_replaces_nothing() {
    for is_looked_at in [false, true] {
        let server = MockWebDavServer::start(Some(("PUT", ChangeFault::Half))).unwrap();
        server.store("/d/file", OLD);
        let options = PutOptions { overwrite: true, is_looked_at, ..PutOptions::default() };
        let error = put(&storage(&server), "file", options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("4 bytes on the server, expected 9"), "{error}");
        assert_eq!(server.bytes("/d/file").unwrap(), OLD);
        assert_eq!(server.paths(), ["/d/file"]);
    }
}

#[tokio::test]
async fn a_size_that_is_not_stated_is_requested_by_get_and_never_assumed() {
    for (sizes, expected) in
        [(StatedSizes::ByGet, Ok(true)), (StatedSizes::Never, Err(ErrorKind::Corrupt))]
    {
        let server = MockWebDavServer::start(None).unwrap();
        server.state_sizes(sizes);
        let done = put(&storage(&server), "file", PutOptions::default()).await;
        assert_eq!(done.map_err(|error| error.kind()), expected, "{sizes:?}");
        assert_eq!(server.paths().len(), usize::from(expected.is_ok()), "{sizes:?}");
        assert_eq!(server.count("GET"), 1, "{:?}", server.log());
    }
    // The response to a MOVE was lost, and no request can show its outcome.
    let server = MockWebDavServer::start(Some(("MOVE", ChangeFault::Lost))).unwrap();
    server.state_sizes(StatedSizes::Never);
    server.store("/d/old", OLD);
    let error = storage(&server).rename("old", "new", false).await.unwrap_err();
    assert!(error.may_have_been_carried_out(), "{error}");
    assert_eq!(server.count("MOVE"), 1);
}

#[tokio::test]
async fn a_look_costs_one_request_unless_the_caller_looks() {
    for (is_looked_at, looks) in [(false, 1), (true, 0)] {
        let server = MockWebDavServer::start(None).unwrap();
        let options = PutOptions { is_looked_at, ..PutOptions::default() };
        let is_seen = put(&storage(&server), "file", options).await.unwrap();
        assert_eq!(is_seen, !is_looked_at);
        let counts = ["PUT", "MOVE", "PROPFIND", "HEAD"].map(|method| server.count(method));
        assert_eq!(counts, [1, 1, looks, 0], "{:?}", server.log());
    }
}

#[tokio::test]
async fn a_checksum_that_no_server_tells_is_compared_by_reading_back() {
    for (read_back, bytes, expected) in
        [(true, NEW, Ok(true)), (true, OLD, Err(ErrorKind::Corrupt)), (false, NEW, Ok(false))]
    {
        let server = MockWebDavServer::start(None).unwrap();
        let storage = storage(&server);
        let size = NEW.len() as u64;
        let options = PutOptions { size, read_back, ..PutOptions::default() };
        let upload = storage.put("file", options).await.unwrap();
        upload.write(0, Bytes::from_static(NEW)).await.unwrap();
        let sum = Hasher::of(hither_checksum::Algorithm::Md5, bytes);
        let done = upload.commit(Some(sum)).await;
        let done = done.map(|done| done.is_compared).map_err(|error| error.kind());
        assert_eq!(done, expected);
        assert_eq!(server.paths().is_empty(), expected.is_err());
    }
}

#[tokio::test]
async fn a_file_that_is_put_in_place_after_all_is_compared_there() {
    let behaviour = WebDavBehaviour { refuses_moves: Some(405), ..WebDavBehaviour::default() };
    let damaged = WebDavFault::Change(ChangeFault::Damaged);
    let faults = vec![PlannedFault { method: "PUT", nth: 1, times: 1, fault: damaged }];
    let server = MockWebDavServer::behaving(behaviour, faults).unwrap();
    server.store("/d/file", OLD);
    let size = NEW.len() as u64;
    let options = PutOptions { size, overwrite: true, read_back: true, ..PutOptions::default() };
    let upload = storage(&server).put("file", options).await.unwrap();
    upload.write(0, Bytes::from_static(NEW)).await.unwrap();
    let sum = Hasher::of(hither_checksum::Algorithm::Md5, NEW);
    let error = upload.commit(Some(sum)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(server.count("PUT"), 2, "{:?}", server.log());
    assert_eq!(server.paths(), [""; 0], "what was damaged is not left for the file");
}

#[tokio::test]
async fn a_wrong_file_is_removed_only_in_the_version_that_was_seen() {
    let server = MockWebDavServer::start(None).unwrap();
    let storage = storage(&server);
    server.store("/d/file", OLD);
    let seen = storage.stat("file").await.unwrap();
    server.store("/d/file", OLD);
    assert!(storage.remove_version(&seen).await.is_err());
    assert_eq!(server.bytes("/d/file").unwrap(), OLD);
    let seen = storage.stat("file").await.unwrap();
    assert!(storage.remove_version(&seen).await.unwrap());
    assert_eq!(server.paths(), [""; 0]);
}

#[tokio::test]
async fn a_page_in_response_to_head_tells_nothing_of_a_file() {
    for fault in [ReadFault::Page, ReadFault::Login(302)] {
        let fault = WebDavFault::Read(fault);
        let planned = PlannedFault { method: "HEAD", nth: 0, times: 9, fault };
        let behaviour = WebDavBehaviour { has_index: true, ..WebDavBehaviour::default() };
        let server = MockWebDavServer::behaving(behaviour, vec![planned]).unwrap();
        server.store("/d/old", OLD);
        let entry = storage(&server).stat("old").await.unwrap();
        assert_eq!(entry.size, Some(OLD.len() as u64));
    }
}

#[tokio::test]
async fn a_refusal_in_one_directory_is_not_believed_of_another() {
    // PROPFIND is refused once, for the first directory; the index contains neither sizes nor names
    // that begin with a dot.
    for status in [405, 501] {
        let fault = WebDavFault::Status(status);
        let planned = PlannedFault { method: "PROPFIND", nth: 0, times: 1, fault };
        let server = MockWebDavServer::behaving(WebDavBehaviour::default(), vec![planned]).unwrap();
        server.store("/d/static/file", OLD);
        server.store("/d/dav/.hidden", OLD);
        let storage = storage(&server);
        drop(storage.list("static").await);
        let listing = storage.list("dav").await.unwrap();
        let names: Vec<_> = listing.entries.iter().map(|it| (&*it.path, it.size)).collect();
        assert_eq!(names, [("dav/.hidden", Some(OLD.len() as u64))], "{:?}", server.log());
        assert!(listing.hidden.is_none() && listing.gaps.is_empty(), "{listing:?}");
    }
}
