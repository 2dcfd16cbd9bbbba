//! Copies between two servers of hither.

use crate::memory::{MemoryBackend, SpaceTaken};
use crate::rig::{Reply, Served};
use hither_server::{ServerLimits, Settings, ThirdPartySettings};
use hither_testkit::mock_http::lossy_http::{LossyAct, LossyHttpServer};
use hither_testkit::mock_http::webdav::{
    ChangeFault, LOGIN_PAGE, MockWebDavServer, PlannedFault, ReadFault, StatedSizes,
    WebDavBehaviour, WebDavFault,
};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer, ResponsePosition};
use std::sync::Arc;

/// A change of the settings.
type Change = fn(&mut ThirdPartySettings);

/// A server that copies from and to servers on this machine.
fn served_with(change: impl FnOnce(&mut ThirdPartySettings)) -> Served {
    served_by(|settings| change(settings.third_party.get_or_insert_default()))
}

/// The same, with other settings.
fn served_by(change: impl FnOnce(&mut Settings)) -> Served {
    Served::new(|settings| {
        allow_copies(settings);
        change(settings);
    })
}

fn allow_copies(settings: &mut Settings) {
    settings.write = true;
    let mut third_party = ThirdPartySettings::default();
    third_party.clear_text = true;
    third_party.networks = vec!["127.0.0.1".to_owned()];
    settings.third_party = Some(third_party);
}

fn served() -> Served {
    served_with(|_| {})
}

impl Served {
    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}{name}", self.port())
    }

    fn pull(&self, target: &str, source: &str, fields: &[&str]) -> Reply {
        let source = format!("Source: {source}");
        self.ask("COPY", target, &[&[source.as_str()], fields].concat(), b"")
    }

    fn push(&self, target: &str, destination: &str, fields: &[&str]) -> Reply {
        let destination = format!("Destination: {destination}");
        self.ask("COPY", target, &[&[destination.as_str()], fields].concat(), b"")
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * n / 255 % 251).to_le_bytes()[0]).collect()
}

fn last_line(reply: &Reply) -> String {
    assert_eq!(reply.status, 202, "{} {}", reply.head, reply.text());
    reply.text().lines().next_back().unwrap_or_default().to_owned()
}

/// The byte count of the last marker.
fn counted(reply: &Reply) -> u64 {
    let text = reply.text();
    let mut lines = text.lines().filter_map(|line| line.split_once("Bytes Transferred: "));
    lines.next_back().unwrap().1.parse().unwrap()
}

#[test]
fn files_of_any_size_are_copied_in_both_directions() {
    let (here, there) = (served(), served());
    for bytes in [0, 1, 1 << 20, (1 << 20) + 1, 9_000_000] {
        let content = content(bytes);
        there.file("source", &content);
        let reply = here.pull("/pulled", &there.url("/source"), &["X-Number-Of-Streams: 3"]);
        assert_eq!(last_line(&reply), "success: Created", "{bytes}");
        assert_eq!(counted(&reply), bytes as u64);
        assert_eq!(reply.field("content-type"), Some("text/perf-marker-stream"));
        assert!(here.get("/pulled", &[]).body == content, "{bytes}");
        let reply = here.push("/pulled", &there.url("/pushed"), &[]);
        assert_eq!(last_line(&reply), "success: Created", "{bytes}");
        assert_eq!(counted(&reply), bytes as u64);
        assert!(there.get("/pushed", &[]).body == content, "{bytes}");
    }
    assert_eq!((here.names(), there.names().len()), (vec!["pulled".to_owned()], 2));
    let sum = |served: &Served, name| {
        let reply = served.ask("HEAD", name, &["Want-Digest: adler32"], b"");
        reply.field("digest").unwrap().to_owned()
    };
    assert_eq!(sum(&here, "/pulled"), sum(&there, "/source"));
}

#[test]
fn an_existing_file_is_replaced_unless_overwrite_is_f() {
    let (here, there) = (served(), served());
    here.file("file", b"here");
    there.file("file", b"there");
    let never = &["Overwrite: F"];
    for kept in [
        here.pull("/file", &there.url("/file"), never),
        here.push("/file", &there.url("/file"), never),
    ] {
        assert_eq!(kept.status, 412);
        assert!(kept.text().contains("send `Overwrite: T`"), "{}", kept.text());
    }
    assert_eq!(here.pull("/file", &there.url("/file"), &["If-None-Match: *"]).status, 412);
    assert_eq!(here.pull("/file", &there.url("/file"), &["Overwrite: X"]).status, 400);
    assert_eq!(
        (here.get("/file", &[]).text(), there.get("/file", &[]).text().len()),
        ("here".to_owned(), 5)
    );
    assert_eq!(
        last_line(&here.push("/file", &there.url("/file"), &["Overwrite: T"])),
        "success: Created"
    );
    assert_eq!(there.get("/file", &[]).text(), "here");
    there.file("file", b"again");
    assert_eq!(last_line(&here.pull("/file", &there.url("/file"), &[])), "success: Created");
    assert_eq!(here.get("/file", &[]).text(), "again");
}

#[test]
fn a_failed_copy_has_its_reason_and_leaves_nothing() {
    let (here, there) = (served(), served());
    there.file("file", b"there");
    let fails = |reply: Reply, told: &str| {
        let line = last_line(&reply);
        assert!(line.starts_with("failure: ") && line.contains(told), "{line}");
    };
    fails(here.pull("/new", &there.url("/none"), &[]), "does not exist");
    fails(here.pull("/new", "http://127.0.0.1:1024/none", &[]), "127.0.0.1:1024");
    assert_eq!(here.pull("/none/new", &there.url("/file"), &[]).status, 409);
    assert_eq!(here.pull("/", &there.url("/file"), &[]).status, 405);
    assert_eq!(here.push("/none", &there.url("/new"), &[]).status, 404);
    assert_eq!(here.push("/", &there.url("/new"), &[]).status, 403);
    here.file("file", b"here");
    fails(here.push("/file", &there.url("/none/new"), &[]), "parent directory");
    let both = format!("Destination: {}", there.url("/new"));
    assert_eq!(here.pull("/new", &there.url("/file"), &[&both]).status, 400);
    assert_eq!(here.pull("/new", "nonsense", &[]).status, 400);
    let reply = here.pull("/new", &there.url("/file"), &["Credential: gridsite"]);
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("TransferHeaderAuthorization"), "{}", reply.text());
    assert_eq!((here.names(), there.names()), (vec!["file".to_owned()], vec!["file".to_owned()]));
}

#[test]
fn a_copy_without_space_fails_before_anything_is_fetched() {
    let there = served();
    there.file("file", &content(2000));
    let here = served_by(|settings| settings.limits.file_bytes = Some(1000));
    assert_eq!(here.pull("/file", &there.url("/file"), &[]).status, 413);
    assert_eq!(here.names(), [""; 0]);
}

#[test]
fn a_file_of_unknown_size_takes_its_space_as_it_arrives() {
    // The source sends the whole file without its length, and not the end of it.
    let faults = [
        Fault::Whole,
        Fault::Chunked(100_000),
        Fault::CloseAfter,
        Fault::Stall(ResponsePosition::Body(3 << 20)),
    ];
    let source = |faults: &[Fault]| {
        let peer = MockHttpServer::start(content(8 << 20)).unwrap();
        faults.iter().for_each(|fault| peer.add_fault(FaultTrigger::Always, fault.clone()));
        peer
    };
    type Limit = fn(&mut ServerLimits);
    let cases: [(&str, Limit, &str); 3] = [
        ("/file", |it| it.file_bytes = Some(1 << 20), "larger than this server accepts"),
        ("/file", |it| it.min_free_bytes = Some(u64::MAX), "are free for uploads"),
        (
            "/.hither-0123456789abcdef.part",
            |it| it.unfinished_bytes = Some(1 << 20),
            "too many unfinished uploads",
        ),
    ];
    for (name, limit, told) in cases {
        let here = served_by(|settings| limit(&mut settings.limits));
        let peer = source(&faults);
        let line = last_line(&here.pull(name, &peer.url(), &[]));
        assert!(line.starts_with("failure: ") && line.contains(told), "{line}");
        assert_eq!(here.names(), [""; 0]);
    }
    let here = served();
    let peer = source(&faults[..3]);
    assert_eq!(last_line(&here.pull("/new", &peer.url(), &[])), "success: Created");
    assert!(here.get("/new", &[]).body == content(8 << 20));
}

/// The space that a pull of `source` takes until it has succeeded.
fn space_taken(source: &str) -> Vec<SpaceTaken> {
    let memory = MemoryBackend::default();
    let here = Served::over(Arc::new(memory.clone()), Box::new(memory.clone()), allow_copies);
    assert_eq!(last_line(&here.pull("/new", source, &[])), "success: Created");
    assert!(here.get("/new", &[]).body == content(3 << 20));
    memory.taken()
}

#[test]
fn a_pull_takes_the_announced_space_once_the_size_is_known() {
    let size = 3 << 20;
    // Its first response does not state the size, and the first one with bytes does.
    let fault = WebDavFault::Status(403);
    let planned = PlannedFault { method: "HEAD", nth: 0, times: usize::MAX, fault };
    let there = MockWebDavServer::behaving(WebDavBehaviour::default(), vec![planned]).unwrap();
    there.store("/d/file", &content(3 << 20));
    let taken = space_taken(&there.url_of("/d/file"));
    assert_eq!(taken, [SpaceTaken::Begun(None), SpaceTaken::Begun(Some(size))]);
    // The first response states another size.
    there.clear_faults();
    there.state_sizes(StatedSizes::ByGet);
    let taken = space_taken(&there.url_of("/d/file"));
    assert_eq!(taken, [SpaceTaken::Begun(Some(0)), SpaceTaken::Begun(Some(size))]);
    // No response does, and all bytes arrive before the size is known.
    let peer = MockHttpServer::start(content(3 << 20)).unwrap();
    for fault in [Fault::Whole, Fault::Chunked(100_000), Fault::CloseAfter] {
        peer.add_fault(FaultTrigger::Always, fault);
    }
    let taken = space_taken(&peer.url());
    let [SpaceTaken::Begun(None), arriving @ .., last] = &*taken else { panic!("{taken:?}") };
    assert_eq!(*last, SpaceTaken::Reserved { end: size, is_whole: true });
    let is_arriving = |it: &SpaceTaken| matches!(it, SpaceTaken::Reserved { is_whole: false, .. });
    assert!(!arriving.is_empty() && arriving.iter().all(is_arriving), "{taken:?}");
}

#[test]
fn connections_need_to_be_allowed_by_the_settings() {
    let there = served();
    there.file("file", b"there");
    let closed = Served::new(|settings| settings.write = true);
    closed.file("file", b"here");
    assert_eq!(closed.pull("/new", &there.url("/file"), &[]).status, 501);
    assert_eq!(closed.push("/file", &there.url("/new"), &[]).status, 502);
    let (url, port) = (there.url("/file"), there.port());
    let private = |it: &mut ThirdPartySettings| it.networks.clear();
    let cases: [(String, &str, Change); 7] = [
        (url.clone(), "public", private),
        (url.clone(), "without TLS", |it| it.clear_text = false),
        (url.clone(), "hosts", |it| it.hosts = vec!["*.cern.ch".to_owned()]),
        (url, "ports", |it| it.ports = vec!["443".to_owned()]),
        (format!("http://localhost:{port}/file"), "public", private),
        (format!("http://127.1:{port}/file"), "public", private),
        (format!("http://[::ffff:127.0.0.1]:{port}/file"), "public", private),
    ];
    for (url, told, change) in cases {
        let here = served_with(change);
        here.file("file", b"here");
        for reply in [here.pull("/new", &url, &[]), here.push("/file", &url, &[])] {
            assert_eq!(reply.status, 403, "{url} {told}");
            assert!(reply.text().contains(told), "{url}: {}", reply.text());
        }
        assert_eq!(here.names(), ["file"]);
    }
    assert_eq!(there.get("/file", &[]).text(), "there");
}

#[test]
fn a_required_checksum_that_is_missing_fails_the_copy() {
    let here = served();
    let peer = MockHttpServer::start(content(5_000_000)).unwrap();
    let required = &["RequireChecksumVerification: true"];
    let line = last_line(&here.pull("/new", &peer.url(), required));
    assert!(line.starts_with("failure: ") && line.contains("checksum"), "{line}");
    assert_eq!(here.names(), [""; 0]);
    assert_eq!(last_line(&here.pull("/new", &peer.url(), &[])), "success: Created");
    assert!(here.get("/new", &[]).body == content(5_000_000));
}

#[test]
fn an_interrupted_source_is_asked_for_the_rest() {
    let here = served();
    let content = content(8_000_000);
    let fault = Fault::Close(ResponsePosition::Body(700_000));
    let peer =
        MockHttpServer::start(content.clone()).unwrap().with_fault(FaultTrigger::Every(3), fault);
    assert_eq!(last_line(&here.pull("/new", &peer.url(), &[])), "success: Created");
    assert!(here.get("/new", &[]).body == content);
}

#[test]
fn a_push_is_repeated_only_if_the_other_server_cannot_have_the_file() {
    let here = served();
    // More than the capacity of all buffers between the two servers.
    here.file("file", &content(64 << 20));
    let created = LossyAct::Respond(201, "", "");
    for (act, count, outcome) in [
        (LossyAct::HalfRead, 3, "success: Created"),
        (LossyAct::Respond(503, "", ""), 3, "success: Created"),
        (LossyAct::Read, 1, "failure: "),
        (LossyAct::Respond(500, "", ""), 1, "failure: "),
    ] {
        let there = LossyHttpServer::start(move |method, _, nth| match method {
            "PUT" if nth < 2 => act,
            "PUT" => created,
            // The client may not read the target.
            _ => LossyAct::Respond(403, "", ""),
        });
        let there = there.unwrap();
        let line = last_line(&here.push("/file", &there.url_of("/file"), &[]));
        assert!(line.starts_with(outcome), "{act:?}: {line}");
        assert_eq!(there.count("PUT"), count, "{act:?}: {line}");
    }
}

#[test]
fn a_push_is_a_success_only_if_the_file_was_seen() {
    let here = served();
    let page = ChangeFault::Claim(200, "text/html", LOGIN_PAGE);
    for bytes in [1000, 3 << 20] {
        here.file("file", &content(bytes));
        for fault in [
            ChangeFault::Login(302),
            ChangeFault::Login(303),
            ChangeFault::Login(307),
            ChangeFault::Claim(200, "text/plain", ""),
            ChangeFault::Claim(202, "text/plain", ""),
            ChangeFault::Claim(201, "text/plain", ""),
            ChangeFault::Half,
            page,
        ] {
            let there = MockWebDavServer::start(Some(("PUT", fault))).unwrap();
            let line = last_line(&here.push("/file", &there.url_of("/d/file"), &[]));
            assert!(line.starts_with("failure: "), "{bytes} {fault:?}: {line}");
        }
        for fault in
            [None, Some(("PUT", ChangeFault::Lost)), Some(("PUT", ChangeFault::Done(200, "", "")))]
        {
            let there = MockWebDavServer::start(fault).unwrap();
            let line = last_line(&here.push("/file", &there.url_of("/d/file"), &[]));
            assert_eq!(line, "success: Created", "{bytes} {fault:?}");
            assert!(there.bytes("/d/file").unwrap() == content(bytes));
            assert_eq!(there.count("PUT"), 1, "{bytes} {fault:?}");
        }
    }
    // HEAD states a size of 0 for every file.
    let there = MockWebDavServer::start(None).unwrap();
    there.state_sizes(StatedSizes::ByGet);
    assert_eq!(last_line(&here.push("/file", &there.url_of("/d/file"), &[])), "success: Created");
    let there = MockWebDavServer::start(Some(("PUT", ChangeFault::Half))).unwrap();
    there.state_sizes(StatedSizes::ByGet);
    let line = last_line(&here.push("/file", &there.url_of("/d/file"), &[]));
    assert!(line.contains("has 1572864 bytes, expected 3145728"), "{line}");
    // A file of the same size existed before.
    let there = MockWebDavServer::start(Some(("PUT", page))).unwrap();
    there.store("/d/file", &vec![0; 3 << 20]);
    let line = last_line(&here.push("/file", &there.url_of("/d/file"), &[]));
    assert!(line.starts_with("failure: "), "{line}");
    assert!(there.bytes("/d/file").unwrap() == vec![0; 3 << 20]);
}

#[test]
fn a_failed_push_spares_the_file_of_another_client() {
    let here = served();
    here.file("file", &content(3 << 20));
    let other = vec![7; 3 << 20];
    let behaviour = WebDavBehaviour { has_checksums: true, ..WebDavBehaviour::default() };
    let planned = |method, nth, fault| PlannedFault { method, nth, times: 1, fault };
    for fault in [ChangeFault::Half, ChangeFault::Damaged] {
        let wrong = planned("PUT", 0, WebDavFault::Change(fault));
        let pushed = |faults| {
            let there = MockWebDavServer::behaving(behaviour, faults).unwrap();
            let line = last_line(&here.push("/file", &there.url_of("/d/file"), &[]));
            assert!(line.starts_with("failure: "), "{fault:?}: {line}");
            there
        };
        let there = pushed(vec![wrong.clone()]);
        assert_eq!(there.paths().is_empty(), fault == ChangeFault::Damaged, "{:?}", there.log());
        // The last HEAD belongs to the clean-up.
        let looks = there.count("HEAD");
        let replaced = WebDavFault::Read(ReadFault::Replaced(other.clone()));
        let there = pushed(vec![wrong, planned("HEAD", looks - 1, replaced)]);
        assert_eq!((there.count("HEAD"), there.happened().len()), (looks, 2), "{fault:?}");
        assert!(there.bytes("/d/file").is_some_and(|bytes| bytes == other), "{:?}", there.log());
    }
}

#[test]
fn a_pull_gets_the_right_bytes_or_fails() {
    let here = served();
    let content = content(3 << 20);
    // HEAD states a size of 0 for every file.
    let there = MockWebDavServer::start(None).unwrap();
    there.store("/d/file", &content);
    there.state_sizes(StatedSizes::ByGet);
    assert_eq!(last_line(&here.pull("/new", &there.url_of("/d/file"), &[])), "success: Created");
    assert!(here.get("/new", &[]).body == content);
    for fault in [ReadFault::Less, ReadFault::Coded] {
        let fault = WebDavFault::Read(fault);
        let planned = PlannedFault { method: "GET", nth: 0, times: usize::MAX, fault };
        let there = MockWebDavServer::behaving(WebDavBehaviour::default(), vec![planned]).unwrap();
        there.store("/d/file", &content);
        let line = last_line(&here.pull("/other", &there.url_of("/d/file"), &[]));
        assert!(line.starts_with("failure: "), "{:?}: {line}", there.happened());
        assert_eq!(here.names(), ["new"], "{:?}", there.happened());
    }
}

#[test]
fn a_page_in_place_of_the_source_replaces_nothing() {
    let here = served();
    here.file("file.root", b"good");
    for fault in [ReadFault::Page, ReadFault::Login(302)] {
        let planned = ["HEAD", "GET"].map(|method| PlannedFault {
            method,
            nth: 0,
            times: usize::MAX,
            fault: WebDavFault::Read(fault.clone()),
        });
        let there = MockWebDavServer::behaving(WebDavBehaviour::default(), planned.to_vec());
        let there = there.unwrap();
        there.store("/d/file.root", b"root");
        let source = there.url_of("/d/file.root");
        let line = last_line(&here.pull("/file.root", &source, &["Overwrite: T"]));
        assert!(line.starts_with("failure: ") && line.contains("HTML page"), "{fault:?}: {line}");
        assert_eq!(here.get("/file.root", &[]).text(), "good", "{fault:?}");
        // A page that is named as one is the file.
        let page = here.pull("/file.html", &there.url_of("/d/file.html"), &["Overwrite: T"]);
        assert_eq!(last_line(&page), "success: Created", "{fault:?}");
    }
}

#[test]
fn copies_above_the_limit_are_rejected() {
    let (here, there) = (served_with(|it| it.transfers = 1), served());
    there.file("file", b"there");
    // A server that does not respond occupies the only permit.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| here.pull("/first", &url, &[]));
        let (held, _) = silent.accept().unwrap();
        let second = here.pull("/second", &there.url("/file"), &[]);
        assert_eq!((second.status, second.field("retry-after")), (503, Some("10")));
        drop((held, silent));
        assert!(last_line(&first.join().unwrap()).starts_with("failure: "));
    });
    assert_eq!(last_line(&here.pull("/second", &there.url("/file"), &[])), "success: Created");
}
