//! Changes at XRootD servers: lost, late and wrong responses, and outcomes that are checked.

use crate::changes::{NEW, OLD, carry_out, put};
use crate::fixture::{network, past_stalls, patient};
use futures_util::future::join_all;
use hither_core::storage::PutOptions;
use hither_core::{Error, ErrorKind, Storage};
use hither_testkit::mock_http::webdav::OF_ANOTHER_CLIENT;
use hither_testkit::mock_xrootd::{Fault, FaultStage, FaultTrigger, MockXrootdServer};
use hither_transport::{Location, TransportConfig, XrootdStorage};
use hither_xrd::wire::{ErrorCode, Redirect};
use std::time::Duration;

/// A change, and the paths below `/d` before and after it.
const VERBS: [(&str, &[&str], &[&str]); 5] = [
    ("put by MOVE", &[], &["/d/new"]),
    ("MOVE", &["/d/old"], &["/d/new"]),
    ("DELETE", &["/d/old"], &[]),
    ("RMDIR", &["/d/old/"], &[]),
    ("MKCOL", &[], &["/d/new/"]),
];

fn storage(server: &MockXrootdServer, config: TransportConfig) -> XrootdStorage {
    XrootdStorage::new(Location::parse(&server.url_of("/d")).unwrap(), network(config))
}

fn patient_storage(server: &MockXrootdServer) -> XrootdStorage {
    storage(server, patient(TransportConfig::default().max_connections))
}

/// The number of requests that change names.
fn changes(server: &MockXrootdServer) -> usize {
    let is_change = |name: &str| matches!(name, "mv" | "rm" | "rmdir" | "mkdir");
    server.log().iter().filter(|logged| is_change(logged.name)).count()
}

/// A server with what `verb` needs, and these faults at the requests that change names that `when`
/// selects.
fn server(verb: &str, when: FaultTrigger, faults: &[Fault]) -> MockXrootdServer {
    let (_, before, _) = VERBS.iter().find(|(name, ..)| *name == verb).unwrap();
    let server = MockXrootdServer::start_tree().unwrap();
    for path in *before {
        match path.strip_suffix('/') {
            Some(directory) => server.make_directory(directory),
            None => server.store(path, OLD),
        }
    }
    faults.iter().for_each(|fault| server.add_fault(FaultStage::Change, when, fault.clone()));
    server
}

async fn changed(verb: &str, storage: &XrootdStorage) -> Result<(), Error> {
    carry_out(if verb == "RMDIR" { "DELETE" } else { verb }, storage).await
}

/// The outcome of `verb` where these faults occur once, and the server afterwards.
async fn attempted(verb: &str, faults: &[Fault]) -> (Result<(), Error>, MockXrootdServer) {
    let server = server(verb, FaultTrigger::Nth(0), faults);
    let done = changed(verb, &patient_storage(&server)).await;
    (done, server)
}

#[tokio::test]
async fn what_was_not_carried_out_is_never_a_success() {
    let nobody = Fault::Elsewhere(Redirect::to("127.0.0.1", 1));
    let always = [
        Fault::Refused(ErrorCode::NOT_AUTHORIZED),
        Fault::Refused(ErrorCode::FS_ERROR),
        Fault::Refused(ErrorCode::SERVER_ERROR),
        Fault::Refused(ErrorCode(4242)),
        Fault::Refused(ErrorCode::OVERLOADED),
        Fault::Dropped,
        Fault::Unanswered,
        Fault::LaterNever(0),
        Fault::Status(4999),
        Fault::WrongStream,
        Fault::Length(u32::MAX),
        Fault::ToItself,
        nobody,
    ];
    let trials = always.iter().flat_map(|fault| VERBS.map(|it| (fault, it)));
    join_all(trials.map(|(fault, (verb, before, _))| async move {
        // These concern a response, and so the change that it follows.
        let of_response = matches!(fault, Fault::Status(_) | Fault::WrongStream | Fault::Length(_));
        let faults =
            if of_response { vec![Fault::Undone, fault.clone()] } else { vec![fault.clone()] };
        let server = server(verb, FaultTrigger::Always, &faults);
        // A timeout that expires too early is an error like the others.
        let mut config = TransportConfig::default();
        config.first_byte_timeout = Duration::from_secs(1);
        config.no_progress_timeout = Duration::from_secs(1);
        let done = changed(verb, &storage(&server, config)).await;
        assert!(done.is_err(), "{verb} {fault:?}");
        // A partial file stays where the server refuses to remove it.
        let seen = server.paths().into_iter().filter(|path| !path.contains(".hither-"));
        assert_eq!(seen.collect::<Vec<_>>(), before, "{verb} {fault:?}: {done:?}");
    }))
    .await;
}

#[tokio::test]
async fn a_change_that_was_carried_out_succeeds_with_any_response() {
    let done = |fault| vec![Fault::Done, fault];
    let faults = [
        vec![Fault::Dropped],
        done(Fault::Dropped),
        done(Fault::LaterNever(0)),
        done(Fault::Refused(ErrorCode::FS_ERROR)),
        done(Fault::Refused(ErrorCode::SERVER_ERROR)),
        done(Fault::Refused(ErrorCode(4242))),
        vec![Fault::Later(1)],
        vec![Fault::Wait(0)],
        vec![Fault::Notice],
        vec![Fault::ToItself],
        vec![Fault::Status(4999)],
        vec![Fault::WrongStream],
        vec![Fault::Length(u32::MAX)],
        vec![Fault::Twice],
    ];
    let trials = faults.iter().flat_map(|faults| VERBS.map(|it| (faults, it)));
    join_all(trials.map(|(faults, (verb, _, after))| async move {
        let (done, server) = attempted(verb, faults).await;
        // A directory has no version: another client may have made it again.
        if verb == "RMDIR" && faults[..] == [Fault::Dropped] {
            assert!(done.unwrap_err().may_have_been_carried_out());
            return;
        }
        assert!(done.is_ok(), "{verb} {faults:?}: {done:?}");
        assert_eq!(server.paths(), after, "{verb} {faults:?}");
        let is_repeated = matches!(faults[..], [Fault::Dropped | Fault::Wait(0) | Fault::ToItself]);
        assert_eq!(changes(&server), 1 + usize::from(is_repeated), "{verb} {faults:?}");
    }))
    .await;
}

#[tokio::test]
async fn what_was_carried_out_is_a_success_without_a_response() {
    for (verb, _, after) in VERBS {
        let server = server(verb, FaultTrigger::Nth(0), &[Fault::Done, Fault::Unanswered]);
        let storage = patient_storage(&server);
        let done = past_stalls(|| server.stalls(), changed(verb, &storage)).await;
        assert!(done.is_ok(), "{verb}: {done:?}");
        assert_eq!((server.stalls(), changes(&server)), (1, 1), "{verb}");
        assert_eq!(server.paths(), after, "{verb}");
    }
}

/// A manager hands each change to a server that has the file: that one's response counts.
#[tokio::test]
async fn a_change_is_that_of_the_server_to_which_a_manager_redirects() {
    for (verb, before, after) in VERBS.into_iter().filter(|(verb, ..)| *verb != "put by MOVE") {
        for is_refused in [false, true] {
            let data = MockXrootdServer::start_tree().unwrap();
            let manager = MockXrootdServer::start_tree().unwrap();
            for path in before {
                for server in [&data, &manager] {
                    match path.strip_suffix('/') {
                        Some(directory) => server.make_directory(directory),
                        None => server.store(path, OLD),
                    }
                }
            }
            let to = Fault::Elsewhere(Redirect::to("127.0.0.1", data.address().port()));
            manager.add_fault(FaultStage::Change, FaultTrigger::Always, to);
            if is_refused {
                let fault = Fault::Refused(ErrorCode::FS_ERROR);
                data.add_fault(FaultStage::Change, FaultTrigger::Always, fault);
            }
            let done = changed(verb, &patient_storage(&manager)).await;
            assert_eq!(done.is_err(), is_refused, "{verb}: {done:?}");
            assert_eq!(data.paths(), if is_refused { before } else { after }, "{verb}");
            assert_eq!(manager.paths(), before, "{verb}");
        }
    }
}

#[tokio::test]
async fn a_removal_is_not_repeated_where_another_client_has_made_the_file_again() {
    let faults = [Fault::Done, Fault::MadeAgain, Fault::Dropped];
    for verb in ["DELETE", "RMDIR"] {
        let (done, server) = attempted(verb, &faults).await;
        done.unwrap();
        assert_eq!(changes(&server), 1, "{verb}");
        assert_eq!(server.bytes("/d/old").unwrap(), OF_ANOTHER_CLIENT, "{verb}");
    }
}

#[tokio::test]
async fn a_rename_is_not_repeated_where_another_client_has_made_the_file_again() {
    let faults = [Fault::Done, Fault::MadeAgain, Fault::Dropped];
    let (done, server) = attempted("MOVE", &faults).await;
    done.unwrap();
    assert_eq!(changes(&server), 1);
    let held = ["/d/new", "/d/old"].map(|path| server.bytes(path).unwrap());
    assert_eq!(held, [OLD, OF_ANOTHER_CLIENT]);
}

#[tokio::test]
async fn a_file_that_was_there_before_does_not_show_a_rename() {
    let server = MockXrootdServer::start_tree().unwrap();
    server.store("/d/old", OLD);
    server.store("/d/new", b"NEW");
    for fault in [Fault::Removed, Fault::Dropped] {
        server.add_fault(FaultStage::Change, FaultTrigger::Nth(0), fault);
    }
    let error = patient_storage(&server).rename("old", "new", true).await.unwrap_err();
    assert!(error.may_have_been_carried_out(), "{error}");
    assert_eq!(server.bytes("/d/new").unwrap(), b"NEW");
    // The same with an upload, whose partial file is gone.
    let server = MockXrootdServer::start_tree().unwrap();
    server.store("/d/new", b"old bytes");
    for fault in [Fault::Removed, Fault::Dropped] {
        server.add_fault(FaultStage::Change, FaultTrigger::Nth(0), fault);
    }
    let options = PutOptions { overwrite: true, ..PutOptions::default() };
    let error = put(&patient_storage(&server), "new", options).await.unwrap_err();
    assert!(error.may_have_been_carried_out(), "{error}");
    assert_eq!(server.bytes("/d/new").unwrap(), b"old bytes");
}

#[tokio::test]
async fn a_file_that_is_stored_in_part_replaces_nothing() {
    let server = MockXrootdServer::start_tree().unwrap();
    server.store("/d/file", OLD);
    server.add_fault(FaultStage::Write, FaultTrigger::Always, Fault::Short(5));
    let options = PutOptions { overwrite: true, ..PutOptions::default() };
    let error = put(&patient_storage(&server), "file", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let expected = format!("4 bytes on the server, expected {}", NEW.len());
    assert!(error.to_string().contains(&expected), "{error}");
    assert_eq!((server.bytes("/d/file").unwrap(), server.paths().len()), (OLD.to_vec(), 1));
}
