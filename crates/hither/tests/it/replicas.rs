//! Draws from a file with several replicas.

mod copies;

use crate::support::rig::{check, draw, file};
use hither::{Client, ClientConfig, DrawResult, ErrorKind, Mirror};
use hither_testkit::mock_http::{
    Fault, FaultTrigger, LoggedRequest, MockHttpServer, ResponsePosition, refusing_url,
};
use std::time::Duration;

fn peer(faults: impl IntoIterator<Item = (FaultTrigger, Fault)>) -> MockHttpServer {
    let peer = MockHttpServer::start(file(0)).unwrap();
    faults.into_iter().for_each(|(when, fault)| peer.add_fault(when, fault));
    peer
}

fn config(url: &str, elsewhere: &[String]) -> ClientConfig {
    let mut config = ClientConfig::default();
    config.transport.max_connections = 2;
    // A server that is slow because the machine is busy gets no help from another one.
    config.transport.replicas.hedge_after = Duration::from_secs(600);
    config.decode_threads = 1;
    config.mirrors.add(Mirror { prefix: url.to_owned(), elsewhere: elsewhere.to_vec() });
    config
}

/// Draws from a file at `url` with replicas; the histogram must be right.
fn draw_from(url: &str, elsewhere: &[String]) -> DrawResult {
    draw_with(config(url, elsewhere), url)
}

fn draw_with(config: ClientConfig, url: &str) -> DrawResult {
    let client = Client::new(config).unwrap();
    let drawing = draw(&client, url).unwrap_or_else(|error| panic!("{url}: {error:?}"));
    check(&drawing, 0);
    drawing
}

fn failures() -> Vec<Fault> {
    let status = |status| Fault::Status { status, retry_after: None };
    vec![
        status(401),
        status(403),
        status(404),
        status(410),
        status(418),
        status(429),
        status(500),
        status(503),
        Fault::Close(ResponsePosition::Answer(0)),
        Fault::Reset(ResponsePosition::Answer(30)),
        Fault::Reset(ResponsePosition::Body(100)),
        Fault::Stall(ResponsePosition::Answer(0)),
        Fault::Stall(ResponsePosition::Body(100)),
        Fault::Truncate(100),
        Fault::RangeBeyond,
        Fault::RangeTotal(77),
        Fault::NoContentRange,
        Fault::Garbage,
        Fault::Redirect("/data/file.root".to_owned()),
        Fault::OversizeHead(1 << 20),
        Fault::ETag("\"other\"".to_owned()),
    ]
}

/// Acceptance test T4 over sockets: every failure at every stage, permanently.
#[test]
fn any_failure_of_the_first_server_is_covered_by_the_second() {
    for fault in failures() {
        for from in 0..3 {
            let dying = peer([(FaultTrigger::From(from), fault.clone())]);
            let other = peer([]);
            let mut config = config(&dying.url(), &[other.url()]);
            if matches!(fault, Fault::Stall(_)) {
                config.transport.first_byte_timeout = Duration::from_secs(1);
                config.transport.no_progress_timeout = Duration::from_secs(1);
            }
            let drawing = draw_with(config, &dying.url());
            let what = format!("{fault:?} from request {from} on");
            // A changed entity tag is an error only after it has changed.
            let harmless = from == 0 && matches!(fault, Fault::ETag(_));
            assert_eq!(drawing.report.sources.len(), 2, "{what}");
            assert_eq!(drawing.report.sources[0].failures == 0, harmless, "{what}");
            // Where the first server works, the second is asked only if the first is slow.
            assert!(harmless || !other.log().is_empty(), "{what}");
        }
    }
}

#[test]
fn a_second_server_gets_no_requests_while_the_first_responds() {
    let (first, second) = (peer([]), peer([]));
    let mut config = config(&first.url(), &[second.url()]);
    // However slow a response is on a busy machine, the first one has room for another request.
    config.transport.max_connections = 64;
    draw_with(config, &first.url());
    assert_eq!((first.log().is_empty(), second.log().len()), (false, 0));
}

#[test]
fn an_unreachable_server_is_skipped_with_a_notice() {
    let dead = refusing_url().unwrap();
    let other = peer([]);
    let drawing = draw_from(&dead, &[other.url()]);
    let notices = drawing.report.notices.join("\n");
    assert!(notices.contains("skipped for a while"), "{notices}");
    assert!(notices.contains("Connection refused"), "{notices}");
}

#[test]
fn bytes_that_arrived_are_not_fetched_again() {
    let dying = peer([(FaultTrigger::From(2), Fault::Reset(ResponsePosition::Body(2_000)))]);
    let other = peer([]);
    let clean = peer([]);
    // No connection takes over a part of another one's request because that is slow.
    let drawn = |url: &str, elsewhere: &[String]| {
        let mut config = config(url, elsewhere);
        config.reader.exact = true;
        draw_with(config, url).report
    };
    let report = drawn(&dying.url(), &[other.url()]);
    let least = drawn(&clean.url(), &[]).bytes_payload;
    assert!(report.bytes_payload <= least + 4_096, "{} of {least}", report.bytes_payload);
}

#[test]
fn a_replica_with_another_file_is_excluded_with_a_notice() {
    let dying = peer([(FaultTrigger::From(2), Fault::Close(ResponsePosition::Answer(0)))]);
    let shorter = file(0).split_off(1);
    let other = MockHttpServer::start(shorter).unwrap();
    let client = Client::new(config(&dying.url(), &[other.url()])).unwrap();
    let error = draw(&client, &dying.url()).unwrap_err();
    assert!(error.to_string().contains("bytes on the server, expected"), "{error}");
    let mut asked: Vec<_> = other.log().into_iter().map(|it| it.ranges).collect();
    asked.sort();
    let count = asked.len();
    asked.dedup();
    assert_eq!(asked.len(), count, "each request is sent there once and never again: {asked:?}");
}

#[test]
fn links_in_responses_name_replicas() {
    let other = peer([]);
    let link = Fault::Field("Link", format!("<{}>; rel=duplicate; pri=1", other.url()));
    let dying = peer([
        (FaultTrigger::Always, link),
        (FaultTrigger::From(2), Fault::Close(ResponsePosition::Answer(0))),
    ]);
    draw_from(&dying.url(), &[]);
    assert!(!other.log().is_empty());
}

fn document(urls: &[String], size: usize) -> String {
    let urls: String = urls.iter().map(|url| format!("<url>{url}</url>")).collect();
    format!(
        "<?xml version=\"1.0\"?><metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\
         <file name=\"file.root\"><size>{size}</size>{urls}</file></metalink>"
    )
}

#[test]
fn a_metalink_document_stands_for_the_file() {
    let dead = refusing_url().unwrap();
    let other = peer([]);
    let text = document(&[dead, other.url()], file(0).len());
    let catalogue = MockHttpServer::start(text.into_bytes()).unwrap();
    draw_from(&catalogue.url_of("/file.root.meta4"), &[]);
    assert!(!other.log().is_empty());
}

#[test]
fn replicas_that_contradict_the_metalink_document_are_excluded() {
    let other = peer([]);
    let catalogue = MockHttpServer::start(document(&[other.url()], 77).into_bytes()).unwrap();
    let url = catalogue.url_of("/file.root.meta4");
    let error = draw(&Client::new(config(&url, &[])).unwrap(), &url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}

#[test]
fn a_federation_is_asked_for_replicas_when_its_redirect_fails() {
    let dead = refusing_url().unwrap();
    let other = peer([]);
    let text = document(&[dead.clone(), other.url()], file(0).len());
    // The document comes first in the table: a client that accepts one is not redirected.
    let federation = peer([
        (FaultTrigger::Always, Fault::Metalink(text)),
        (FaultTrigger::Always, Fault::Redirect(dead)),
    ]);
    draw_from(&federation.url(), &[]);
    assert!(!other.log().is_empty());
}

#[test]
fn the_document_of_a_redirect_is_at_the_server_that_redirects() {
    let other = peer([]);
    let dying = peer([(FaultTrigger::From(2), Fault::Close(ResponsePosition::Answer(0)))]);
    let text = document(&[dying.url(), other.url()], file(0).len());
    let link = "</data/file.root?metalink>; rel=describedby; type=\"application/metalink4+xml\"";
    let federation = peer([
        (FaultTrigger::Always, Fault::Metalink(text)),
        (FaultTrigger::Always, Fault::Field("Link", link.to_owned())),
        (FaultTrigger::Always, Fault::Redirect(dying.url())),
    ]);
    draw_from(&federation.url(), &[]);
    let is_document = |it: &LoggedRequest| it.target.contains("metalink");
    assert_eq!(federation.log().iter().filter(|it| is_document(it)).count(), 1);
    assert!(!dying.log().iter().any(is_document) && !other.log().is_empty());
}

#[test]
fn a_server_behind_a_redirect_that_breaks_off_is_not_asked_again_while_there_is_another() {
    let other = peer([]);
    let dying = peer([(FaultTrigger::From(2), Fault::Close(ResponsePosition::Answer(0)))]);
    let links = [dying.url(), other.url()].map(|url| format!("<{url}>; rel=duplicate"));
    let federation = peer([
        (FaultTrigger::Always, Fault::Field("Link", links.join(", "))),
        (FaultTrigger::Always, Fault::Redirect(dying.url())),
    ]);
    draw_from(&federation.url(), &[]);
    // A request that was lost goes elsewhere: not to the server's other name, nor to it through the
    // federation again. The first connection had been used, so it may have been closed before.
    let asked = dying.log();
    let lost = &asked[2..];
    for (position, request) in lost.iter().enumerate() {
        let mut before = lost[..position].iter().filter(|it| it.ranges == request.ranges);
        assert!(before.next().is_none_or(|it| it.connection == 0), "{asked:?}");
        assert!(before.next().is_none(), "{asked:?}");
    }
    assert!(!other.log().is_empty());
}
