//! Temporary refusals.

use crate::fixture::{content, network};
use hither_core::{ErrorKind, Retry, Storage};
use hither_testkit::mock_http::webdav::{
    MockWebDavServer, PlannedFault, Protocol, ReadFault, WebDavBehaviour, WebDavFault,
};
use hither_testkit::mock_xrootd::{Fault, FaultStage, FaultTrigger, MockXrootdServer};
use hither_transport::{Location, TransportConfig, XrootdStorage};
use hither_xrd::wire::ErrorCode;
use std::time::Duration;

fn storage(server: &MockXrootdServer) -> XrootdStorage {
    let mut config = TransportConfig::default();
    config.retry.busy_timeout = Duration::from_millis(300);
    XrootdStorage::new(Location::parse(&server.url_of("/data")).unwrap(), network(config))
}

fn count(server: &MockXrootdServer, name: &str) -> usize {
    server.log().iter().filter(|logged| logged.name == name).count()
}

/// A server with this fault from the second request on.
async fn with_fault(fault: Fault) -> (MockXrootdServer, XrootdStorage) {
    let server = MockXrootdServer::start(content(10)).unwrap();
    let storage = storage(&server);
    storage.stat("a").await.unwrap();
    server.add_fault(FaultStage::Request, FaultTrigger::Always, fault);
    (server, storage)
}

#[tokio::test]
async fn a_listing_of_which_nothing_has_arrived_is_requested_again() {
    let fault = WebDavFault::Read(ReadFault::Dropped);
    let lost = PlannedFault { method: "PROPFIND", nth: 0, times: 1, fault };
    let behaviour = WebDavBehaviour { protocol: Protocol::Xrootd, ..WebDavBehaviour::default() };
    let server = MockWebDavServer::behaving(behaviour, vec![lost]).unwrap();
    server.store("/d/a", b"1");
    let location = Location::parse(&server.url_of("/d")).unwrap();
    let storage = XrootdStorage::new(location, network(TransportConfig::default()));
    let listing = storage.list("").await.unwrap();
    let names: Vec<_> = listing.entries.iter().map(|entry| &*entry.path).collect();
    assert_eq!((names, server.count("PROPFIND")), (vec!["a"], 2));
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_until_the_busy_timeout() {
    let (server, storage) = with_fault(Fault::Refused(ErrorCode::OVERLOADED)).await;
    let error = storage.stat("a").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::OtherServer));
    // The first one went well.
    assert!(count(&server, "stat") > 2, "{:?}", server.log());
}
