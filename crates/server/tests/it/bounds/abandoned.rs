//! Requests whose clients are gone, and short requests concurrent with long ones.

use crate::rig::Served;
use hither_testkit::waiting::wait_until;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A sparse file whose hash takes much longer than a connection of `served` waits for a response.
fn large(served: &Served, name: &str) {
    served.file(name, b"");
    let file = std::fs::File::options().write(true).open(served.path().join(name)).unwrap();
    file.set_len(400 << 30).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(100)).unwrap();
}

fn requested(served: &Served, method: &str, target: &str, field: &str) -> TcpStream {
    let mut stream = served.connect();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Waits briefly and checks that no response arrives.
fn unanswered(mut stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(stream.read(&mut [0]).is_err());
    stream
}

#[test]
fn checksums_that_nobody_waits_for_any_more_end() {
    let served = Served::new(|settings| settings.limits.disk_threads = 8);
    for name in ["small/file", "other"] {
        served.file(name, b"123456789");
    }
    for n in 0..12 {
        large(&served, &format!("large{n}"));
    }
    for n in 0..48 {
        // Several clients wait for the same checksum, and some for one that is queued.
        let target = format!("/large{}", n % 12);
        drop(unanswered(requested(&served, "HEAD", &target, "Want-Digest: adler32")));
    }
    assert_eq!(served.ask("PROPFIND", "/small/", &["Depth: 1"], b"").status, 207);
    let reply = served.ask("HEAD", "/other", &["Want-Digest: adler32"], b"");
    assert_eq!(reply.field("digest"), Some("adler32=091e01de"));
}

#[test]
fn short_requests_are_answered_while_long_ones_run() {
    let served = Served::new(|settings| {
        settings.limits.disk_threads = 1;
        settings.write = true;
    });
    served.file("d/file", b"1");
    let _waiting: Vec<_> = (0..12)
        .map(|n| {
            large(&served, &format!("large{n}"));
            unanswered(requested(&served, "HEAD", &format!("/large{n}"), "Want-Digest: sha-256"))
        })
        .collect();
    assert_eq!(served.ask("PROPFIND", "/d/", &["Depth: 1"], b"").status, 207);
    assert_eq!(served.ask("PUT", "/d/new", &[], b"2").status, 201);
    assert_eq!(served.ask("MOVE", "/d/new", &["Destination: /d/moved"], b"").status, 201);
}

#[test]
fn a_copy_whose_client_is_gone_ends_and_leaves_nothing() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.disk_threads = 8;
    });
    for n in 0..3000 {
        served.file(&format!("d/{n}"), b"1");
    }
    let stream = requested(&served, "COPY", "/d", "Destination: /e");
    let is_copying = || served.names().iter().any(|name| name.starts_with(".hither-"));
    assert!(wait_until(is_copying));
    drop(stream);
    assert!(wait_until(|| !is_copying()), "the copy is still there");
    assert!(!served.path().join("e").exists(), "the copy went on to its end");
}
