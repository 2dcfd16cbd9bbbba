//! Requests, pinned by snapshots: a change that adds a request or a byte changes a reviewed file.

use crate::support::rig::{check, client, config, draw, file, log, log_and_report};
use hither::Client;
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use insta::assert_snapshot;

#[test]
fn a_cold_draw() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let drawing = draw(&client(1, None), &peer.url()).unwrap();
    check(&drawing, 0);
    assert_snapshot!(log_and_report(&peer, &drawing));
}

#[test]
fn a_warm_draw() {
    let store = tempfile::tempdir().unwrap();
    let cold = MockHttpServer::start(file(0)).unwrap();
    check(&draw(&client(1, Some(store.path())), &cold.url()).unwrap(), 0);
    let before = cold.log().len();
    let drawing = draw(&client(1, Some(store.path())), &cold.url()).unwrap();
    check(&drawing, 0);
    assert!(drawing.report.metadata_from_store);
    let text = log_and_report(&cold, &drawing);
    let warm: Vec<_> = text
        .lines()
        .skip(before)
        .filter(|line| line.starts_with("report") || !line.contains(" round trips"))
        .collect();
    assert_snapshot!(warm.join("\n"));
}

#[test]
fn a_draw_takes_three_round_trips_cold_and_one_warm() {
    let store = tempfile::tempdir().unwrap();
    // A response that is slow on a busy machine is not split among the connections.
    let client = || {
        let mut config = config(2, Some(store.path()));
        config.reader.exact = true;
        Client::new(config).unwrap()
    };
    // Data are requested on both connections at once: neither request is answered before both are
    // there.
    let peer = MockHttpServer::start(file(0))
        .unwrap()
        .with_fault(FaultTrigger::Nth(2), Fault::Hold(4))
        .with_fault(FaultTrigger::Nth(3), Fault::Hold(4));
    let cold = draw(&client(), &peer.url()).unwrap();
    check(&cold, 0);
    assert_eq!((peer.round_trips(), peer.log().len()), (3, 4), "{}", log(&peer));
    assert_eq!((cold.report.round_trips, cold.report.requests, cold.report.retries), (3, 4, 0));
    peer.add_fault(FaultTrigger::From(4), Fault::Hold(6));
    let warm = draw(&client(), &peer.url()).unwrap();
    check(&warm, 0);
    assert_eq!((warm.report.round_trips, warm.report.retries), (1, 0));
    assert_eq!((peer.round_trips(), peer.log().len()), (4, 6), "{}", log(&peer));
}

#[test]
fn payload_exceeds_the_used_bytes_by_a_tenth_at_most() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let report = draw(&client(1, None), &peer.url()).unwrap().report;
    let payload: u64 = peer.log().iter().map(|it| it.payload_bytes).sum();
    assert_eq!((report.bytes_payload, report.requests), (payload, peer.log().len() as u64));
    assert!(report.bytes_payload <= report.bytes_used * 11 / 10, "{report:?}");
}

#[test]
fn a_listing() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let trees = client(1, None).list_trees(&peer.url(), None).unwrap().trees;
    let branches: Vec<_> = trees[0].branches.iter().map(|branch| branch.name.as_str()).collect();
    assert_eq!(branches, ["before", "x", "between", "y", "after"]);
    assert_snapshot!(log(&peer));
}

#[test]
fn a_stat() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let client = client(1, None);
    let stat = client.open(&peer.url()).unwrap().stat(&client).unwrap();
    assert_eq!(stat.size, file(0).len() as u64);
    assert_eq!(stat.validator.as_deref(), Some("\"first\""));
    assert_snapshot!(log(&peer));
}

#[test]
fn ranges_in_any_order() {
    let content = file(0);
    let peer = MockHttpServer::start(content.clone()).unwrap();
    let client = client(1, None);
    let ranges = [500_000..500_100, 0..10, 500_050..500_200, 7..7, 0..10, 300_000..310_000];
    let found = client.open(&peer.url()).unwrap().read_ranges(&client, &ranges).unwrap();
    for (range, bytes) in ranges.iter().zip(&found) {
        let (from, to) =
            (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        assert_eq!(bytes, &content[from..to], "{range:?}");
    }
    assert_snapshot!(log(&peer));
}
