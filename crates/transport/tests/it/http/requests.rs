//! Requests other than reads.

use crate::fixture::{SMALL, content, network, peer};
use hither_core::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};
use hither_transport::{HttpRequest, Location, TransportConfig};
use http::{Method, StatusCode};

fn call(url: &str) -> HttpRequest {
    let mut call = HttpRequest::new(Method::GET, Location::parse(url).unwrap());
    call.max_reply_bytes = SMALL;
    call
}

#[tokio::test]
async fn a_response_is_read_whole_and_the_connection_used_again() {
    let peer = peer(SMALL, []);
    let network = network(TransportConfig::default());
    for _ in 0..3 {
        let reply = network.call(call(&peer.url())).await.unwrap();
        assert_eq!((reply.status, &reply.body[..]), (StatusCode::OK, &content(SMALL)[..]));
    }
    assert_eq!((peer.log().len(), peer.connections()), (3, 1));
}

#[tokio::test]
async fn every_status_is_a_response() {
    let refusal = Fault::Status { status: 404, retry_after: None };
    let peer = peer(SMALL, [(FaultTrigger::Always, refusal)]);
    let reply = network(TransportConfig::default()).call(call(&peer.url())).await.unwrap();
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn redirects_are_followed_but_a_loop_ends_with_an_error() {
    let there = peer(SMALL, []);
    let here = peer(SMALL, [(FaultTrigger::Nth(0), Fault::Redirect(there.url()))]);
    let network = network(TransportConfig::default());
    let reply = network.call(call(&here.url())).await.unwrap();
    assert_eq!(reply.location.to_string(), there.url());
    let circle = peer(SMALL, [(FaultTrigger::Always, Fault::Redirect("?again".to_owned()))]);
    let error = network.call(call(&circle.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_response_that_is_too_long_is_an_error() {
    let peer = peer(SMALL + 1, []);
    let network = network(TransportConfig::default());
    let error = network.call(call(&peer.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_stale_connection_is_replaced() {
    let close = Fault::Close(ResponsePosition::Answer(usize::MAX));
    let peer = peer(SMALL, [(FaultTrigger::Always, close)]);
    let network = network(TransportConfig::default());
    for _ in 0..5 {
        assert_eq!(network.call(call(&peer.url())).await.unwrap().status, StatusCode::OK);
    }
}
