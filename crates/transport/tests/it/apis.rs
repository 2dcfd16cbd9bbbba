//! The APIs of servers for tapes and lots: which responses confirm a change, and what the states of
//! files mean.

use crate::fixture::network;
use hither_core::error::ErrorKind;
use hither_core::storage::StagingState;
use hither_testkit::mock_http::lossy_http::LossyAct::{self, Read, Respond};
use hither_testkit::mock_http::lossy_http::LossyHttpServer;
use hither_transport::{Location, LotsApi, TapeApi, TransportConfig};

const HTML: &str = "Content-Type: text/html\r\n";
const PAGE: &str = "<!DOCTYPE html><title>Sign in</title><form></form>";
const LOGIN: &str = "Location: /login\r\n";
/// Responses of a proxy or a portal: the server has not seen the request.
const FOREIGN: [LossyAct; 5] = [
    Respond(200, HTML, PAGE),
    Respond(202, "", ""),
    Respond(302, LOGIN, ""),
    Respond(303, LOGIN, ""),
    Respond(307, LOGIN, ""),
];
const WAITING: &str = r#"{"files": [{"path": "/a", "state": "STARTED"}]}"#;
const CANCELLED: &str = r#"{"files": [{"path": "/a", "state": "CANCELLED"}]}"#;

/// A server that responds to changes with `act`, and to other requests with `state`.
fn server(act: LossyAct, state: &'static str) -> LossyHttpServer {
    let decide = move |method: &str, target: &str, _| match (method, target) {
        (_, "/login") => Respond(200, HTML, PAGE),
        ("GET", "/.well-known/wlcg-tape-rest-api") => {
            Respond(200, "", r#"{"endpoints": [{"uri": "/api", "version": "v1"}]}"#)
        }
        ("GET", _) => Respond(200, "", state),
        _ => act,
    };
    LossyHttpServer::start(decide).unwrap()
}

fn location(server: &LossyHttpServer) -> Location {
    Location::parse(&server.url_of("/")).unwrap()
}

async fn tape(server: &LossyHttpServer) -> TapeApi {
    TapeApi::discover(&location(server), network(TransportConfig::default())).await.unwrap()
}

fn paths() -> Vec<String> {
    vec!["/a".to_owned()]
}

#[tokio::test]
async fn a_page_confirms_no_change_of_a_request_for_tapes() {
    for act in FOREIGN {
        let server = server(act, WAITING);
        let tape = tape(&server).await;
        for (what, done) in [
            ("release", tape.release("7", &paths()).await),
            ("cancel", tape.cancel("7", &paths()).await),
            ("stage", tape.stage(&paths()).await.map(drop)),
        ] {
            assert!(done.is_err(), "{what} {act:?}");
        }
    }
    let server = server(Respond(200, "", r#"{"requestId": "7"}"#), WAITING);
    let tape = tape(&server).await;
    tape.release("7", &paths()).await.unwrap();
    tape.cancel("7", &paths()).await.unwrap();
    assert_eq!(tape.stage(&paths()).await.unwrap(), "7");
}

#[tokio::test]
async fn a_look_shows_whether_files_are_still_being_staged() {
    for act in [Read, FOREIGN[0]] {
        let server = server(act, CANCELLED);
        let tape = tape(&server).await;
        tape.cancel("7", &paths()).await.unwrap();
        assert_eq!(server.count("POST"), 1, "{act:?}");
        // Nothing shows which files are released.
        tape.release("7", &paths()).await.unwrap_err();
        assert_eq!(server.count("POST"), 2, "{act:?}");
    }
    let server = server(Read, WAITING);
    tape(&server).await.cancel("7", &paths()).await.unwrap_err();
    assert!(server.count("POST") > 1, "a lost request that was not carried out is sent again");
}

#[tokio::test]
async fn a_file_is_staged_unless_the_same_response_contradicts_that() {
    let failed = |why: &str| StagingState::Failed(why.to_owned());
    for (state, expected) in [
        (r#"[{"path": "a/", "state": "COMPLETED"}]"#, StagingState::Online),
        (r#"[{"path": "a", "state": "COMPLETED", "onDisk": true}]"#, StagingState::Online),
        (r#"[{"path": "a", "state": "COMPLETED", "error": ""}]"#, StagingState::Online),
        (r#"[{"path": "a", "state": "COMPLETED", "error": "torn"}]"#, failed("torn")),
        (
            r#"[{"path": "a", "state": "COMPLETED", "onDisk": false, "error": "offline"}]"#,
            failed("offline"),
        ),
        (
            r#"[{"path": "a", "state": "COMPLETED", "onDisk": false}]"#,
            failed("the server says COMPLETED, and that the file is not on disk"),
        ),
        (r#"[{"path": "a", "state": "FAILED"}]"#, failed("the server states no reason")),
        (r#"[{"path": "a", "onDisk": true}]"#, StagingState::Online),
        (r#"[{"path": "a", "onDisk": false}]"#, StagingState::Waiting),
        (r#"[{"path": "a", "onDisk": false, "error": "torn"}]"#, failed("torn")),
        (r#"[{"path": "a", "state": "SUBMITTED"}]"#, StagingState::Waiting),
        (r#"[{"path": "b", "onDisk": true}]"#, StagingState::Unlisted),
        ("[]", StagingState::Unlisted),
    ] {
        let progress: &'static str = format!("{{\"files\": {state}}}").leak();
        let server = server(Read, progress);
        let states = tape(&server).await.progress("7", &paths()).await.unwrap();
        assert_eq!(states, [expected], "{state}");
    }
}

#[tokio::test]
async fn a_lot_is_released_when_the_server_says_so_or_has_it_no_more() {
    let lot: &'static str = r#"[{"id": "7a", "path": "/a", "bytes": 1, "used_bytes": 0, "files": 1,
        "used_files": 0, "expires": 1, "lease_seconds": 1}]"#;
    for act in FOREIGN {
        let api = |state| {
            let server = server(act, state);
            (LotsApi::new(&location(&server), network(TransportConfig::default())), server)
        };
        let (lots, _server) = api(lot);
        lots.release("7a").await.unwrap_err();
        let lease = std::time::Duration::from_secs(60);
        lots.renew("7a", None, Some(lease)).await.unwrap_err();
        lots.reserve("/a", 1, lease).await.unwrap_err();
        let (lots, _server) = api("[]");
        lots.release("7a").await.unwrap();
    }
    for (act, expected) in [
        (Respond(204, "", ""), Ok(())),
        (Respond(404, "", ""), Err(ErrorKind::NotFound)),
        (Respond(400, "", ""), Err(ErrorKind::Invalid)),
    ] {
        let server = server(act, lot);
        let lots = LotsApi::new(&location(&server), network(TransportConfig::default()));
        let done = lots.release("7a").await.map_err(|error| error.kind());
        assert_eq!(done, expected, "{act:?}");
    }
}
