//! Hostile requests: ambiguous framing, expanding bodies, paths out of the tree, abuse of HTTP/2.

mod host;
mod links;
mod seeds;

use crate::rig::{Served, reply};
use hither_testkit::waiting::wait_until;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sends bytes, and reads until the end of the connection.
fn said(served: &Served, bytes: &[u8]) -> String {
    let mut stream = served.connect();
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came);
    String::from_utf8_lossy(&came).into_owned()
}

fn writing() -> Served {
    let served = Served::new(|settings| settings.write = true);
    served.file("file", b"content");
    served
}

#[test]
fn a_request_with_ambiguous_framing_is_rejected() {
    let served = writing();
    let smuggled = "DELETE /file HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for head in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 0\r\n folded\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 0\r\n",
    ] {
        let text = format!("PUT /new HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{smuggled}");
        let told = said(&served, text.as_bytes());
        let first = told.get(..12).unwrap_or("HTTP/1.1 400");
        assert!(
            first.starts_with("HTTP/1.1 4") || first.starts_with("HTTP/1.1 501"),
            "{head:?}: {told}"
        );
        assert!(!told.contains("204 No Content"), "{head:?}: {told}");
    }
    // With both fields, the request is read as the standard demands, and the connection is not used
    // any more.
    let both = "PUT /new HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let told = said(&served, format!("{both}{smuggled}").as_bytes());
    assert_eq!(told.matches("HTTP/1.1 ").count(), 1, "{told}");
    assert_eq!(served.get("/file", &[]).text(), "content");
}

#[test]
fn oversized_heads_and_chunks_are_rejected() {
    let served = writing();
    let many: String = (0..5_000).map(|n| format!("X-{n}: y\r\n")).collect();
    let told =
        said(&served, format!("GET /file HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").as_bytes());
    assert!(told.starts_with("HTTP/1.1 431"), "{told}");
    let head = "PUT /new HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = "x".repeat(100_000);
    for body in [
        format!("1;{long}\r\na\r\n0\r\n\r\n"),
        format!("0\r\nTrailer: {}\r\n\r\n", long.repeat(20)),
        "ffffffffffffffffffff\r\na\r\n0\r\n\r\n".to_owned(),
        "-1\r\na\r\n0\r\n\r\n".to_owned(),
        "1\na\n0\n\n".to_owned(),
        "5\r\nabcdefgh\r\n0\r\n\r\n".to_owned(),
    ] {
        let told = said(&served, format!("{head}{body}").as_bytes());
        let refused = told.is_empty() || told.starts_with("HTTP/1.1 4");
        assert!(refused, "{}: {told}", &body[..10.min(body.len())]);
        assert!(!served.path().join("new").exists());
    }
    for target in ["a".repeat(70_000), "/a".repeat(500), format!("/{}", "%41".repeat(4_200))] {
        let told = served.get(&target, &[]);
        assert!(matches!(told.status, 400 | 414 | 431), "{}", told.head);
    }
}

#[test]
fn documents_that_expand_are_rejected() {
    let served = writing();
    let mut laughs = "<!DOCTYPE p [<!ENTITY a0 \"ha\">".to_owned();
    for n in 1..40 {
        laughs.push_str(&format!("<!ENTITY a{n} \"&a{};&a{};\">", n - 1, n - 1));
    }
    laughs.push_str("]><propfind xmlns=\"DAV:\"><prop><x>&a39;</x></prop></propfind>");
    let outside = "<!DOCTYPE p [<!ENTITY a SYSTEM \"file:///etc/passwd\">]>\
        <propfind xmlns=\"DAV:\"><prop><x>&a;</x></prop></propfind>";
    let deep = format!("<propfind xmlns=\"DAV:\">{}", "<a>".repeat(200_000));
    let wide =
        format!("<propfind xmlns=\"DAV:\"><prop>{}</prop></propfind>", "<a/>".repeat(300_000));
    for text in [laughs.as_str(), outside, &deep, &wide] {
        for method in ["PROPFIND", "PROPPATCH"] {
            let told = served.ask(method, "/file", &["Depth: 0"], text.as_bytes());
            assert!(matches!(told.status, 400 | 413), "{}", told.head);
            assert!(told.body.len() < 1_000);
        }
    }
}

#[test]
fn no_spelling_of_a_path_leads_out_of_the_tree() {
    let served = Served::new(|settings| {
        std::fs::write(settings.root.join("secret"), "secret").unwrap();
        settings.root = settings.root.join("tree");
        std::fs::create_dir_all(settings.root.join("d")).unwrap();
        settings.write = true;
    });
    symlink("../secret", served.path().join("tree/link")).unwrap();
    symlink("..", served.path().join("tree/up")).unwrap();
    for target in [
        "/../secret",
        "/%2e%2e/secret",
        "/.%2e/secret",
        "/d/../../secret",
        "/d/..%2f..%2fsecret",
        "/%c0%ae%c0%ae/secret",
        "/%c0%ae%c0%ae%c0%afsecret",
        "/%u002e%u002e/secret",
        "/secret%00",
        "/d%00/../secret",
        "//../secret",
        "/link",
        "/up/secret",
        "/up/tree/../secret",
        "http://localhost/../secret",
    ] {
        let told = served.get(target, &[]);
        assert!(told.status >= 400, "{target}: {}", told.head);
        // The link itself may be replaced, because it is in the tree.
        let is_own = target == "/link";
        let told = served.ask("PUT", target, &[], b"other");
        assert!(told.status >= 400 || is_own, "{target}: {}", told.head);
        let told = served.ask("COPY", "/d", &[&format!("Destination: {target}")], b"");
        assert!(told.status >= 400 || is_own, "{target}: {}", told.head);
    }
    // A backslash and double encoding have no special meaning.
    for target in ["/..%5csecret", "/%252e%252e%252fsecret"] {
        assert_eq!(served.get(target, &[]).status, 404);
        assert_eq!(served.ask("PUT", target, &[], b"other").status, 201);
    }
    assert_eq!(std::fs::read(served.path().join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(served.path()).unwrap().count(), 2);
}

#[test]
fn a_link_that_changes_during_requests_never_leads_out() {
    let served = Served::new(|settings| {
        std::fs::create_dir(settings.root.join("outside")).unwrap();
        std::fs::write(settings.root.join("outside/file"), "secret").unwrap();
        settings.root = settings.root.join("tree");
        std::fs::create_dir_all(settings.root.join("inside")).unwrap();
        std::fs::write(settings.root.join("inside/file"), "public").unwrap();
        (settings.write, settings.durable) = (true, false);
    });
    let tree = served.path().join("tree");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in ["../outside", "inside"].into_iter().cycle() {
                symlink(target, tree.join("next")).unwrap();
                std::fs::rename(tree.join("next"), tree.join("link")).unwrap();
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for n in 0..300 {
            let told = served.get("/link/file", &[]);
            assert!(matches!(told.status, 200 | 403 | 404), "{}", told.head);
            assert_ne!(told.text(), "secret");
            let told = served.ask("PUT", &format!("/link/new{n}"), &[], b"x");
            assert!(matches!(told.status, 201 | 403 | 404 | 409), "{}", told.head);
        }
        let is_found = wait_until(|| served.get("/link/file", &[]).status == 200);
        over.store(true, Ordering::Relaxed);
        assert!(is_found, "the link was never inside");
    });
    assert_eq!(std::fs::read_dir(served.path().join("outside")).unwrap().count(), 1);
}

/// An HTTP/2 frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn begun(served: &Served) -> TcpStream {
    let mut stream = served.connect();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap();
    stream
}

/// The HPACK fields of `GET /file`.
const GET_FILE: &[u8] = b"\x82\x86\x44\x05/file\x41\x09localhost";

/// Sends up to `count` frames; returns true if the server ends the connection.
fn flood(served: &Served, count: u32, frames: impl Fn(u32) -> Vec<u8>) -> bool {
    let mut stream = begun(served);
    let mut reading = stream.try_clone().unwrap();
    let came = std::thread::spawn(move || {
        let mut came = Vec::new();
        let _ = reading.read_to_end(&mut came);
        came
    });
    let refused = (0..count).any(|n| stream.write_all(&frames(n)).is_err());
    let _ = stream.shutdown(Shutdown::Write);
    let came = came.join().unwrap();
    // The server has reset the connection, or has sent a GOAWAY.
    refused || came.windows(5).any(|head| head[3] == 7 && head[0] == 0)
}

#[test]
fn a_flood_of_reset_streams_ends_the_connection() {
    let served = writing();
    let ended = flood(&served, 20_000, |n| {
        let stream = 2 * n + 1;
        [frame(1, 5, stream, GET_FILE), frame(3, 0, stream, &8u32.to_be_bytes())].concat()
    });
    assert!(ended, "twenty thousand requests were given up, and the server went on");
    assert_eq!(served.get("/file", &[]).text(), "content");
}

#[test]
fn an_endless_header_ends_the_connection() {
    let served = Served::new(|settings| settings.limits.header_bytes = 64 << 10);
    served.file("file", b"content");
    let field = [&[0, 4][..], b"name", &[127, 0x81, 0x77], &[b'v'; 15_488]].concat();
    let ended = flood(&served, 2_000, |n| match n {
        0 => frame(1, 1, 1, GET_FILE),
        _ => frame(9, 0, 1, &field),
    });
    assert!(ended, "thirty megabytes of header were taken");
    assert!(flood(&served, 200_000, |n| match n {
        0 => frame(1, 1, 1, GET_FILE),
        _ => frame(9, 0, 1, &[]),
    }));
    assert_eq!(served.get("/file", &[]).text(), "content");
}

/// The beginning of an HTTP/2 connection that requests a file `times` times, and whose streams have
/// a window of this many bytes.
pub(crate) fn requesting(path: &[u8], times: u32, window: u8) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let fields = [&[0x82, 0x86, 0x44, length], path, b"\x41\x09localhost"].concat();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, window]));
    (0..times).for_each(|n| sent.extend(frame(1, 5, 2 * n + 1, &fields)));
    sent
}

#[test]
fn streams_above_the_limit_are_refused_and_others_are_served() {
    let served = writing();
    served.file("large", &vec![7; 8 << 20]);
    let mut greedy = served.connect();
    // The server may end the connection before it has read everything.
    let _ = greedy.write_all(&requesting(b"/large", 1_000, 0));
    for _ in 0..5 {
        assert_eq!(served.get("/file", &[]).text(), "content");
    }
}

#[test]
fn a_client_that_grants_no_window_is_disconnected() {
    let served = Served::new(|settings| settings.limits.stall_seconds = 0.3);
    served.file("large", &vec![7; 8 << 20]);
    served.file("file", b"content");
    for path in [&b"/large"[..], b"/file"] {
        let mut stream = served.connect();
        // The server replies to the ping (6), so the connection is alive. All of it is there before
        // the server waits for a window: a client that is stopped meanwhile changes nothing.
        let ping = frame(6, 0, 0, &[1; 8]);
        stream.write_all(&[requesting(path, 1, 0), ping].concat()).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        let acknowledged = frame(6, 1, 0, &[1; 8]);
        let is_alive = came.windows(acknowledged.len()).any(|part| part == acknowledged);
        assert!(is_alive, "{}: {came:?}", String::from_utf8_lossy(path));
    }
}

#[test]
fn an_impossible_length_is_rejected_before_the_body() {
    let served = writing();
    for length in ["9223372036854775808", "18446744073709551614"] {
        let mut stream = served.connect();
        let head = format!(
            "PUT /new HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let told = reply(&mut stream);
        assert!(matches!(told.status, 400 | 413 | 431 | 507), "{}", told.head);
    }
}
