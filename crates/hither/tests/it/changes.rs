//! Files that change.

mod one_version;
mod writes;

use crate::support::rig::{check, client, draw, file};
use hither::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};

#[test]
fn a_file_that_changed_since_its_metadata_were_stored_is_reopened() {
    for faults in [vec![], vec![Fault::NoETag], vec![Fault::CloseAfter]] {
        let store = tempfile::tempdir().unwrap();
        let peer = MockHttpServer::start(file(0)).unwrap();
        check(&draw(&client(2, Some(store.path())), &peer.url()).unwrap(), 0);
        peer.replace(file(7), "\"second\"");
        faults.iter().for_each(|fault| peer.add_fault(FaultTrigger::Always, fault.clone()));
        let drawing = draw(&client(2, Some(store.path())), &peer.url()).unwrap();
        check(&drawing, 7);
        assert!(!drawing.report.metadata_from_store, "{faults:?}");
        check(&draw(&client(2, Some(store.path())), &peer.url()).unwrap(), 7);
    }
}

#[test]
fn a_file_that_shrank_since_its_metadata_were_stored_is_truncated() {
    let store = tempfile::tempdir().unwrap();
    let peer = MockHttpServer::start(file(0)).unwrap();
    check(&draw(&client(1, Some(store.path())), &peer.url()).unwrap(), 0);
    // Under the same entity tag, as from a careless server, and under another one.
    for tag in ["\"first\"", "\"second\""] {
        peer.replace(file(0)[..300_000].to_vec(), tag);
        let error = draw(&client(1, Some(store.path())), &peer.url()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("300000"), "{error}");
    }
}

#[test]
fn a_file_that_changes_during_a_draw_is_an_error() {
    let peer = MockHttpServer::start(file(0))
        .unwrap()
        .with_fault(FaultTrigger::From(2), Fault::ETag("\"second\"".to_owned()));
    let error = draw(&client(1, None), &peer.url()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}
