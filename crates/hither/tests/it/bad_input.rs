//! Error messages, word for word.

use crate::support::rig::{client, config, draw, file};
use hither::{Client, ClientConfig, DrawRequest, Error, ErrorKind, ScanProgress, TreeUrl};
use hither_testkit::mock_http::{
    Fault, FaultTrigger, MockHttpServer, ResponsePosition, refusing_url,
};
use hither_testkit::root_writer::samples::mixed;
use hither_testkit::root_writer::{Style, Tree, write};
use insta::assert_snapshot;
use std::time::Duration;

/// Kind and message, without the parts that differ between runs.
fn described(error: &Error, url: &str) -> String {
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    format!("{:?}: {error}", error.kind()).replace(host, "HOST")
}

fn drawn(peer: &MockHttpServer, tree: Option<&str>, value: &str) -> String {
    let request = DrawRequest::new(value, None);
    let target = TreeUrl { url: peer.url(), tree: tree.map(str::to_owned) };
    match client(1, None).draw(&target, &request, &ScanProgress::default()) {
        Ok(drawing) => format!("{} values of {}", drawing.histogram.selected, drawing.entries),
        Err(error) => described(&error, &target.url),
    }
}

fn with_fault(when: FaultTrigger, fault: Fault) -> String {
    let peer = MockHttpServer::start(file(0)).unwrap().with_fault(when, fault);
    let mut config = config(1, None);
    config.transport.wait_for_refusing = false;
    let error = draw(&Client::new(config).unwrap(), &peer.url()).unwrap_err();
    described(&error, &peer.url())
}

#[test]
fn files_that_are_not_root() {
    let serve =
        |bytes: &[u8]| drawn(&MockHttpServer::start(bytes.to_vec()).unwrap(), Some("T"), "x");
    let whole = file(0);
    let mut texts = vec![
        serve(b""),
        serve(b"<html><body>Please log in</body></html>"),
        serve(&[0; 5_000]),
        serve(&whole[..10]),
        serve(&whole[..300]),
        serve(&whole[..300_000]),
        serve(&whole[..whole.len() - 1]),
    ];
    texts.push(serve(&write(Style::default(), &[])));
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn missing_trees_and_branches() {
    let trees = [mixed("Events", 1), mixed("deep/Runs", 1)];
    let peer = MockHttpServer::start(write(Style::default(), &trees)).unwrap();
    let texts = [
        drawn(&peer, Some("Evnts"), "E"),
        drawn(&peer, Some("Runs"), "E"),
        drawn(&peer, Some("Events;9"), "E"),
        drawn(&peer, None, "E"),
        drawn(&peer, Some("Events"), "e"),
        drawn(&peer, Some("Events"), "nothing_like_it"),
        drawn(&peer, Some("Events"), "s"),
        drawn(&peer, Some("Events"), "E>"),
    ];
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn empty_trees() {
    let mut hollow = mixed("T", 1);
    for branch in &mut hollow.branches {
        branch.baskets.clear();
        branch.embedded = None;
        branch.branches.clear();
    }
    let bare = Tree { path: "T", cycle: 1, branches: Vec::new() };
    let texts = [hollow, bare].map(|tree| {
        let peer = MockHttpServer::start(write(Style::default(), &[tree])).unwrap();
        format!("{}\n{}", drawn(&peer, None, "E"), drawn(&peer, None, "1"))
    });
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn baskets_without_entries_are_skipped() {
    let mut tree = mixed("T", 1);
    let empty = hither_testkit::root_writer::Basket::default();
    tree.branches[0].baskets.insert(1, empty.clone());
    tree.branches[0].baskets.push(empty);
    let peer = MockHttpServer::start(write(Style::default(), &[tree])).unwrap();
    assert_eq!(drawn(&peer, None, "E"), "3 values of 3");
}

#[test]
fn invalid_urls() {
    let client = client(1, None);
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.root").display().to_string();
    let described = |url: &str| match draw(&client, url) {
        Ok(_) => panic!("{url:?} works"),
        Err(error) => {
            let text = format!("{url:?} {:?}: {error}", error.kind());
            text.replace(&folder.path().display().to_string(), "FOLDER")
        }
    };
    let texts = [
        "",
        "http://",
        "http://host:99999/x",
        "http://[::1/x",
        "https://[::1/x",
        "gopher://host/x.root",
        "file:///no/such/file.root",
        "file://elsewhere/x",
        none.as_str(),
        "/",
    ]
    .map(described);
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn ranges_beyond_the_end_are_an_error_before_they_are_planned() {
    let peer = MockHttpServer::start(file(0)).unwrap();
    let client = client(1, None);
    let file = client.open(&peer.url()).unwrap();
    let error = file.read_ranges(&client, &[0..10, 0..u64::MAX]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(peer.log().len(), 1);
}

#[test]
fn unreachable_servers() {
    let client = client(1, None);
    let refusing = refusing_url().unwrap();
    // Longer than a host name may be, so no name server is asked.
    let nameless = format!("http://{}/x.root", "n".repeat(64));
    let texts = [refusing, nameless].map(|url| described(&draw(&client, &url).unwrap_err(), &url));
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn error_statuses() {
    let texts = [400, 401, 403, 404, 410, 416, 418, 429, 500, 501, 503].map(|status| {
        with_fault(FaultTrigger::Always, Fault::Status { status, retry_after: Some(0) })
    });
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn broken_responses() {
    let first = FaultTrigger::Always;
    let texts = [
        with_fault(first, Fault::Close(ResponsePosition::Answer(0))),
        with_fault(first, Fault::Close(ResponsePosition::Answer(20))),
        with_fault(first, Fault::Close(ResponsePosition::Body(0))),
        with_fault(FaultTrigger::From(1), Fault::Close(ResponsePosition::Answer(0))),
        with_fault(FaultTrigger::From(2), Fault::Close(ResponsePosition::Body(0))),
        with_fault(first, Fault::Truncate(0)),
        with_fault(first, Fault::Garbage),
        with_fault(first, Fault::OversizeHead(1_000_000)),
        with_fault(first, Fault::RangeBeyond),
        with_fault(first, Fault::NoContentRange),
        with_fault(first, Fault::Redirect("/data/file.root".to_owned())),
        with_fault(first, Fault::Redirect("ftp://host/x".to_owned())),
        with_fault(FaultTrigger::From(2), Fault::ETag("\"second\"".to_owned())),
    ];
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn stalled_servers() {
    let texts = [ResponsePosition::Answer(0), ResponsePosition::Body(0)].map(|place| {
        let mut config = ClientConfig::default();
        config.transport.max_connections = 1;
        // Only the timeout of this stall expires: a head may come late on a busy machine.
        config.transport.first_byte_timeout = Duration::from_secs(10);
        let timeout = match place {
            ResponsePosition::Answer(_) => &mut config.transport.first_byte_timeout,
            _ => &mut config.transport.no_progress_timeout,
        };
        *timeout = Duration::from_millis(100);
        let peer = MockHttpServer::start(file(0))
            .unwrap()
            .with_fault(FaultTrigger::Always, Fault::Stall(place));
        let error = draw(&Client::new(config).unwrap(), &peer.url()).unwrap_err();
        described(&error, &peer.url())
    });
    assert_snapshot!(texts.join("\n"));
}
