//! The first-byte timeout and the no-progress timeout.

use crate::fixture::{LARGE, expect_bytes, expect_error, patient, peer};
use hither_core::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};

#[tokio::test]
async fn a_stall_costs_a_timeout_and_a_connection() {
    for place in [
        ResponsePosition::Answer(0),
        ResponsePosition::Answer(20),
        ResponsePosition::PartHead(1),
        ResponsePosition::PartData(2),
    ] {
        let peer = peer(LARGE, [(FaultTrigger::Nth(0), Fault::Stall(place))]);
        expect_bytes(&format!("{place:?}"), &peer, patient(1), 2).await;
        assert_eq!(peer.connections(), 2, "{place:?}");
    }
}

#[tokio::test]
async fn a_server_that_always_stalls_ends_with_an_error() {
    for place in [ResponsePosition::Answer(0), ResponsePosition::Body(0)] {
        let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Stall(place))]);
        // Four on each of two connections, and those that one connection sends before it is known
        // that the other has failed.
        expect_error(&format!("{place:?}"), &peer, patient(2), ErrorKind::Timeout, 10).await;
    }
}

#[tokio::test]
async fn a_stalled_body_of_a_redirect_does_not_stop_it() {
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Nth(0), Fault::Redirect("/elsewhere".to_owned())),
            (FaultTrigger::Nth(0), Fault::Stall(ResponsePosition::Body(3))),
        ],
    );
    expect_bytes("redirect", &peer, patient(1), 2).await;
}
