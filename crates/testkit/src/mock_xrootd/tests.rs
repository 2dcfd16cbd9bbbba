//! Properties of the mock server, observed with the protocol's client.

use super::*;
use bytes::Buf;
use hither_xrd::client::{
    Completion, Pipelining, RequestError, Session, SessionConfig, SessionError, SessionEvent,
};
use hither_xrd::wire::{ErrorCode, OpenRequest};
use std::io::{Read, Write};
use std::net::TcpStream;

fn content() -> Vec<u8> {
    (0..50_000_usize).map(|i| (i * 7 + i / 251).to_le_bytes()[0]).collect()
}

/// All events of a session that opens a file and reads these ranges, either with checksums or as a
/// vector.
fn events(
    peer: &MockXrootdServer,
    pages: bool,
    ranges: &[Range<u64>],
) -> (Vec<SessionEvent>, Option<SessionError>) {
    let mut setup = SessionConfig::new("peer");
    setup.pipelining = Pipelining::Login;
    let mut session = Session::new(setup);
    let (file, _) = session.open(OpenRequest::for_reading("/f"));
    if pages {
        for range in ranges {
            session.read_pages(file, range.clone(), false);
        }
    } else {
        session.read_vector(file, ranges);
    }
    let mut stream = TcpStream::connect(peer.address()).unwrap();
    let mut buffer = [0; 4096];
    let mut events = Vec::new();
    let mut ends = 0;
    while ends < 1 + if pages { ranges.len() } else { 1 } {
        let out = session.outgoing();
        let bytes = out.copy_to_bytes(out.remaining());
        drop(stream.write_all(&bytes));
        let read = stream.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            let error = session.ended();
            return (events, Some(error));
        }
        let mut bytes = Bytes::copy_from_slice(&buffer[..read]);
        loop {
            match session.receive(&mut bytes) {
                Ok(Some(event)) => {
                    ends += usize::from(matches!(
                        event,
                        SessionEvent::Done { .. } | SessionEvent::Failed { .. }
                    ));
                    events.push(event);
                }
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    (events, None)
}

fn delivered(events: &[SessionEvent]) -> Vec<(u64, Bytes)> {
    let data = events.iter().filter_map(|event| match event {
        SessionEvent::Data { offset, bytes, .. } => Some((*offset, bytes.clone())),
        _ => None,
    });
    data.collect()
}

#[test]
fn without_faults_it_is_a_good_server() {
    let peer = MockXrootdServer::start(content()).unwrap();
    for pages in [false, true] {
        let (events, error) = events(&peer, pages, &[5..10, 40_000..49_999]);
        assert_eq!(error, None);
        let mut found = 0;
        for (offset, bytes) in delivered(&events) {
            let at = usize::try_from(offset).unwrap();
            assert_eq!(bytes, content()[at..at + bytes.len()]);
            found += bytes.len();
        }
        assert_eq!(found, 5 + 9_999);
    }
    let reads: Vec<_> = peer.log().into_iter().filter(|it| !it.ranges.is_empty()).collect();
    assert_eq!(reads.len(), 3);
    assert_eq!(reads[0].ranges, [5..10, 40_000..49_999]);
    assert_eq!((reads[1].name, reads[1].connection), ("pgread", 1));
}

#[test]
fn a_connection_breaks_at_the_byte_that_was_named() {
    let peer = MockXrootdServer::start(content()).unwrap();
    for (point, crossed) in
        [(BreakPoint::ToServer(30), (30, 16)), (BreakPoint::ToClient(10), (20, 10))]
    {
        for fault in [Fault::Close(point), Fault::Reset(point)] {
            peer.clear_faults();
            peer.add_fault(FaultStage::Connection, FaultTrigger::Nth(0), fault);
            let (_, error) = events(&peer, false, &[5..10]);
            assert!(error.is_some(), "{point:?}");
            let seen = *peer.crossed().last().unwrap();
            let wanted = match point {
                BreakPoint::ToServer(_) => (seen.0, crossed.0),
                _ => (seen.1, crossed.1),
            };
            assert_eq!(wanted.0, wanted.1, "{point:?}");
        }
    }
}

#[test]
fn faults_strike_what_they_are_for() {
    let peer = MockXrootdServer::start(content()).unwrap();
    peer.add_fault(FaultStage::Read, FaultTrigger::Nth(1), Fault::Refused(ErrorCode::IO_ERROR));
    peer.add_fault(FaultStage::Open, FaultTrigger::Always, Fault::Handles(9));
    let refusals = |events: &[SessionEvent]| {
        let failed = events.iter().filter(|event| {
            matches!(
                event,
                SessionEvent::Failed {
                    failure: RequestError::Refused { code: ErrorCode::IO_ERROR, .. },
                    ..
                }
            )
        });
        failed.count()
    };
    assert_eq!(refusals(&events(&peer, false, &[0..1]).0), 0);
    assert_eq!(refusals(&events(&peer, false, &[0..1]).0), 1);
    assert_eq!(refusals(&events(&peer, false, &[0..1]).0), 0);
}

#[test]
fn pages_are_damaged_at_the_requested_positions() {
    let peer = MockXrootdServer::start(content()).unwrap();
    peer.add_fault(
        FaultStage::Read,
        FaultTrigger::Always,
        Fault::Damaged { every: 3, again: false },
    );
    let (events, _) = events(&peer, true, std::slice::from_ref(&(100..30_000)));
    let damaged = events.iter().find_map(|event| match event {
        SessionEvent::Done { completion: Completion::Read { damaged, .. }, .. } => {
            Some(damaged.clone())
        }
        _ => None,
    });
    assert_eq!(damaged.unwrap(), [100..4096, 12_288..16_384, 24_576..28_672]);
}
