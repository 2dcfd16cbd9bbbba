//! Sizes that no response states: the end of a response without a length shows the size.

use crate::fixture::{LARGE, SMALL, THREE, content, network, peer, read, read_with, source_on};
use futures_util::future::BoxFuture;
use hither_core::{Error, ErrorKind, Request, Result, Source};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer, ResponsePosition};
use hither_transport::{HttpSource, SpoolSpace, TransportConfig};
use std::sync::Arc;

fn source(peer: &MockHttpServer) -> HttpSource {
    source_on(&network(TransportConfig::default()), &peer.url())
}

fn methods(peer: &MockHttpServer) -> Vec<String> {
    peer.log().into_iter().map(|request| request.method).collect()
}

#[tokio::test]
async fn a_size_that_the_server_contradicts_is_an_error() {
    for cut in [0, 1, 60_000, LARGE - 1] {
        let first = FaultTrigger::Nth(0);
        let faults = [Fault::Whole, Fault::Chunked(7_000), Fault::Truncate(cut)];
        let peer = peer(LARGE, faults.map(|fault| (first, fault)));
        let source = source(&peer);
        let wanted = format!("ended after {cut} bytes, but the server states {LARGE}");
        // The kept bytes remain unconfirmed.
        for requests in [["GET", "HEAD"].as_slice(), &["GET", "HEAD", "HEAD"]] {
            let error = read_with(&source, &[], 1, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
            assert!(error.to_string().contains(&wanted), "{error}");
            assert_eq!(methods(&peer), requests);
        }
    }
}

#[tokio::test]
async fn a_file_that_goes_on_after_its_expected_end_has_changed() {
    for (size, is_changed) in [(7_000, true), (50_000, true), (LARGE as u64, false)] {
        let faults = [Fault::Whole, Fault::Chunked(7_000), Fault::NoETag];
        let peer = peer(LARGE, faults.map(|fault| (FaultTrigger::Always, fault)));
        let request = Request { ranges: vec![0..size], size: Some(size), ..Request::default() };
        let fetched = source(&peer).fetch(request, Box::new(drop)).await;
        let kind = fetched.err().map(|error| error.kind());
        assert_eq!(kind, is_changed.then_some(ErrorKind::Changed), "{size}");
        assert_eq!(methods(&peer), ["GET"]);
    }
}

/// Space for this number of bytes.
#[derive(Debug)]
struct Space(u64);

impl SpoolSpace for Space {
    fn take(&self, bytes: u64) -> BoxFuture<'_, Result<()>> {
        let full = || Err(Error::new(ErrorKind::NoSpace, "there is no more space"));
        let taken = if bytes > self.0 { full() } else { Ok(()) };
        Box::pin(std::future::ready(taken))
    }
}

#[tokio::test]
async fn bytes_after_the_expected_end_that_do_not_fit_are_an_error_of_space() {
    for (space, expected) in [(7_000, ErrorKind::NoSpace), (14_000, ErrorKind::Changed)] {
        let faults = [Fault::Whole, Fault::Chunked(7_000), Fault::NoETag];
        let peer = peer(LARGE, faults.map(|fault| (FaultTrigger::Always, fault)));
        let request = Request { ranges: vec![0..7_000], size: Some(7_000), ..Request::default() };
        let source = source(&peer).with_spool_space(Arc::new(Space(space)));
        let error = source.fetch(request, Box::new(drop)).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{space}: {error}");
    }
}

#[tokio::test]
async fn a_size_that_the_server_confirms_is_asked_for_once() {
    let peer =
        peer(LARGE, [Fault::Whole, Fault::Chunked(7_000)].map(|it| (FaultTrigger::Nth(0), it)));
    let source = source(&peer);
    let end = LARGE as u64 - 1..LARGE as u64;
    for (wanted, tail) in [(vec![], 1), (vec![], 1), (vec![0..10], 0)] {
        let got = read_with(&source, &wanted, tail, None).await.unwrap();
        assert_eq!(got.answer.size, Some(LARGE as u64));
        let wanted = if tail > 0 { vec![end.clone()] } else { wanted };
        got.is_exact(&content(LARGE), &wanted).unwrap();
    }
    assert_eq!(methods(&peer), ["GET", "HEAD"]);
}

#[tokio::test]
async fn a_size_that_is_stated_nowhere_is_believed() {
    let faults = [Fault::Whole, Fault::Chunked(7_000), Fault::Truncate(60_000)];
    let peer = peer(LARGE, faults.map(|fault| (FaultTrigger::Always, fault)));
    let got = read_with(&source(&peer), &[], 1, None).await.unwrap();
    assert_eq!(got.answer.size, Some(60_000));
    assert_eq!(methods(&peer), ["GET", "HEAD", "PROPFIND"]);
}

#[tokio::test]
async fn a_size_is_not_believed_while_the_server_cannot_be_asked() {
    let broken = Fault::Status { status: 502, retry_after: None };
    for fault in [broken, Fault::Close(ResponsePosition::Answer(0))] {
        let cut = [Fault::Whole, Fault::Chunked(7_000), Fault::Truncate(60_000)];
        let peer = peer(LARGE, cut.map(|fault| (FaultTrigger::Nth(0), fault)));
        peer.add_fault(FaultTrigger::From(1), fault);
        let error = read_with(&source(&peer), &[], 1, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("ended after 60000 bytes, and its size"), "{error}");
        let methods = methods(&peer);
        assert!(methods.iter().skip(1).all(|method| method == "HEAD"), "{methods:?}");
    }
}

#[tokio::test]
async fn a_stated_size_causes_no_request() {
    for faults in [vec![], vec![Fault::Whole], vec![Fault::Chunked(100)], vec![Fault::FirstOnly]] {
        let peer = peer(SMALL, []);
        faults.iter().for_each(|fault| peer.add_fault(FaultTrigger::Always, fault.clone()));
        let source = source(&peer);
        read(&source, &THREE).await.unwrap();
        read_with(&source, &[], 1, None).await.unwrap();
        let methods = methods(&peer);
        assert!(methods.iter().all(|method| method == "GET"), "{faults:?} {methods:?}");
    }
}

#[tokio::test]
async fn a_download_that_is_begun_again_may_not_end_before_what_it_had() {
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Always, Fault::Whole),
            (FaultTrigger::Nth(0), Fault::Close(ResponsePosition::Body(50_000))),
            (FaultTrigger::From(1), Fault::Chunked(7_000)),
            (FaultTrigger::From(1), Fault::Truncate(40_000)),
        ],
    );
    let error = read_with(&source(&peer), &[], 1, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
