//! Properties of the mock server, observed over a plain socket.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251).to_le_bytes()[0]).collect()
}

/// Sends one request and reads until the server closes.
fn ask(peer: &MockHttpServer, fields: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(peer.running.address()).unwrap();
    let head = format!("GET /x HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A reset ends it, too.
    drop(stream.read_to_end(&mut answer));
    answer
}

fn peer(fault: Fault) -> MockHttpServer {
    let peer = MockHttpServer::start(content(1000)).unwrap();
    peer.with_fault(FaultTrigger::Always, fault)
}

#[test]
fn ranges_are_answered_in_the_order_asked_for() {
    let answer = ask(&peer(Fault::CloseAfter), "Range: bytes=900-,0-1,-3\r\n");
    let text = String::from_utf8_lossy(&answer);
    let places: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("Content-Range: ")).collect();
    assert_eq!(places, ["bytes 900-999/1000", "bytes 0-1/1000", "bytes 997-999/1000"]);
}

#[test]
fn a_response_is_cut_at_the_requested_position() {
    let whole = ask(&peer(Fault::CloseAfter), "Range: bytes=0-9,20-29\r\n");
    assert_eq!(ask(&peer(Fault::Close(ResponsePosition::Answer(7))), "").len(), 7);
    for place in
        [ResponsePosition::PartHead(1), ResponsePosition::PartData(1), ResponsePosition::Body(3)]
    {
        let cut = ask(&peer(Fault::Close(place)), "Range: bytes=0-9,20-29\r\n");
        assert!(cut.len() < whole.len() && cut.len() > 100, "{place:?}");
    }
    let cut = ask(&peer(Fault::Reset(ResponsePosition::PartData(0))), "Range: bytes=0-9\r\n");
    assert!(cut.len() < whole.len());
}

#[test]
fn if_range_of_an_older_version_gets_the_whole_file() {
    let peer = peer(Fault::CloseAfter);
    peer.replace(content(50), "\"second\"");
    ask(&peer, "Range: bytes=0-9\r\nIf-Range: \"first\"\r\n");
    ask(&peer, "Range: bytes=0-9\r\nIf-Range: \"second\"\r\n");
    let seen: Vec<_> = peer.log().iter().map(|it| (it.status, it.payload_bytes)).collect();
    assert_eq!(seen, [(200, 50), (206, 10)]);
}

#[test]
fn held_answers_wait_for_each_other() {
    let peer = peer(Fault::CloseAfter).with_fault(FaultTrigger::Always, Fault::Hold(2));
    std::thread::scope(|scope| {
        scope.spawn(|| ask(&peer, "Range: bytes=0-0\r\n"));
        scope.spawn(|| ask(&peer, "Range: bytes=1-1\r\n"));
    });
    assert_eq!((peer.round_trips(), peer.connections()), (1, 2));
    ask(&peer, "Range: bytes=2-2\r\n");
    assert_eq!(peer.round_trips(), 2);
}

#[test]
fn no_client_connects_once_the_listener_is_closed() {
    let peer = peer(Fault::CloseAfter).with_fault(FaultTrigger::Nth(0), Fault::NoMoreConnections);
    assert!(!ask(&peer, "").is_empty());
    assert!(TcpStream::connect(peer.running.address()).is_err());
    let url = refusing_url().unwrap();
    let port = url.trim_start_matches("http://").split('/').next().unwrap();
    assert!(TcpStream::connect(port).is_err());
}

#[test]
fn faults_strike_the_requests_that_they_are_for() {
    let status = |status| Fault::Status { status, retry_after: Some(3) };
    let peer = peer(Fault::CloseAfter)
        .with_fault(FaultTrigger::Nth(1), status(503))
        .with_fault(FaultTrigger::From(2), Fault::Redirect("/y".to_owned()))
        .with_fault(FaultTrigger::Before(1), status(404));
    for _ in 0..3 {
        ask(&peer, "");
    }
    let seen: Vec<_> = peer.log().iter().map(|it| it.status).collect();
    assert_eq!(seen, [404, 503, 302]);
    peer.clear_faults();
}
