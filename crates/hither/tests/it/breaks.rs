//! Connections that break at every stage of a draw.

mod waits;

use crate::support::rig::{check, client, draw, file};
use hither::{Client, ClientConfig, ErrorKind};
use hither_testkit::mock_http::{
    Fault, FaultTrigger, Limit, MockHttpServer, OverLimit, ResponsePosition,
};
use std::time::Duration;

const PLACES: [ResponsePosition; 4] = [
    ResponsePosition::Answer(0),
    ResponsePosition::Answer(30),
    ResponsePosition::Body(0),
    ResponsePosition::Body(1_000),
];

#[test]
fn a_broken_connection_is_retried_at_any_stage() {
    for nth in 0..3 {
        for place in PLACES {
            for fault in [Fault::Close(place), Fault::Reset(place)] {
                let what = format!("request {nth}, {fault:?}");
                let peer = MockHttpServer::start(file(0))
                    .unwrap()
                    .with_fault(FaultTrigger::Nth(nth), fault);
                let drawing = draw(&client(1, None), &peer.url())
                    .unwrap_or_else(|error| panic!("{what}: {error:?}"));
                check(&drawing, 0);
                assert_eq!(peer.log().len(), 4, "{what}");
            }
        }
    }
}

#[test]
fn a_server_that_is_gone_at_any_stage_is_unavailable() {
    for from in 0..3 {
        for fault in [
            Fault::Close(ResponsePosition::Answer(0)),
            Fault::Reset(ResponsePosition::Body(0)),
            Fault::Status { status: 502, retry_after: None },
        ] {
            let what = format!("from {from} on {fault:?}");
            let peer =
                MockHttpServer::start(file(0)).unwrap().with_fault(FaultTrigger::From(from), fault);
            let error = draw(&client(1, None), &peer.url()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
            // Four attempts, the later ones with a request each for the head and for the tail; and
            // two requests for replicas.
            let requests = peer.log().len();
            assert!(requests <= from + 10, "{what}: {requests} requests");
        }
    }
}

#[test]
fn a_server_that_stays_busy_is_asked_until_the_busy_timeout() {
    for from in 0..3 {
        let busy = Fault::Status { status: 503, retry_after: Some(0) };
        let peer =
            MockHttpServer::start(file(0)).unwrap().with_fault(FaultTrigger::From(from), busy);
        let mut config = ClientConfig::default();
        config.transport.retry.busy_timeout = Duration::from_millis(500);
        let error = draw(&Client::new(config).unwrap(), &peer.url()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "from {from} on: {error}");
        assert!(peer.log().len() > from + 1, "from {from} on: {:#?}", peer.log());
    }
}

#[test]
fn a_server_that_stalls_at_any_stage_times_out() {
    for from in 0..3 {
        let mut config = ClientConfig::default();
        config.transport.max_connections = 1;
        config.transport.first_byte_timeout = Duration::from_millis(100);
        config.transport.no_progress_timeout = Duration::from_millis(100);
        let client = Client::new(config).unwrap();
        let stall = Fault::Stall(ResponsePosition::Body(0));
        let peer =
            MockHttpServer::start(file(0)).unwrap().with_fault(FaultTrigger::From(from), stall);
        let error = draw(&client, &peer.url()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "from {from} on: {error}");
    }
}

#[test]
fn all_server_behaviours_give_the_same_histogram() {
    for faults in [
        vec![Fault::Whole],
        vec![Fault::FirstOnly],
        vec![Fault::Merged],
        vec![Fault::Reversed, Fault::ExtraPartFields, Fault::NoClosingDelimiter],
        vec![Fault::SuffixRefused(416)],
        vec![Fault::SuffixIgnored, Fault::Server("XrootD/v5.5.3".to_owned())],
        vec![Fault::Most { limit: Limit::Ranges(1), over: OverLimit::Status(400) }],
        vec![Fault::Most { limit: Limit::Ranges(1), over: OverLimit::Whole }],
        vec![Fault::NoETag, Fault::CloseAfter],
    ] {
        let what = format!("{faults:?}");
        let store = tempfile::tempdir().unwrap();
        let peer = MockHttpServer::start(file(0)).unwrap();
        faults.into_iter().for_each(|fault| peer.add_fault(FaultTrigger::Always, fault));
        for _ in 0..2 {
            let drawing = draw(&client(2, Some(store.path())), &peer.url())
                .unwrap_or_else(|error| panic!("{what}: {error:?}"));
            check(&drawing, 0);
        }
    }
}
