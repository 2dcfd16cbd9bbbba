//! Requests whose clients are gone, and short requests concurrent with long ones.

use crate::rig::Served;
use crate::running::metric;
use hither_server::{AccessRequest, Authorizer, Decision, PrepareFuture};
use hither_testkit::waiting::wait_until;
use http::HeaderMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
fn checksums_end_once_no_client_waits_for_them() {
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

/// Allows everything, and holds the reader of a link to `held` until it is opened.
#[derive(Debug, Default)]
struct Gate {
    is_reached: AtomicBool,
    is_open: AtomicBool,
}

impl Authorizer for Gate {
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision {
        if asking.path == "held" {
            self.is_reached.store(true, Ordering::Release);
            assert!(wait_until(|| self.is_open.load(Ordering::Acquire)), "the gate stays closed");
        }
        Decision::Allowed
    }

    fn writes(&self) -> bool {
        true
    }

    fn hides(&self) -> bool {
        false
    }

    fn name(&self, _: &AccessRequest<'_>) -> Result<String, Decision> {
        Ok(String::new())
    }

    fn prepare(&self, _: &HeaderMap) -> Option<PrepareFuture> {
        None
    }
}

#[test]
fn a_copy_whose_client_is_gone_ends_and_leaves_nothing() {
    let gate = Arc::new(Gate::default());
    let served = Served::with(Arc::<Gate>::clone(&gate));
    for name in ["held", "d/file"] {
        served.file(name, b"1");
    }
    // Whatever the order of the names, the copy of one link is followed by that of the other.
    for link in ["one", "two"] {
        symlink("../held", served.path().join("d").join(link)).unwrap();
    }
    let stream = requested(&served, "COPY", "/d", "Destination: /e");
    assert!(wait_until(|| gate.is_reached.load(Ordering::Acquire)));
    drop(stream);
    let open = || metric(&served, "hither_connections_open");
    assert!(wait_until(|| open() == 0.0), "{} connections", open());
    gate.is_open.store(true, Ordering::Release);
    let is_left = || served.names().iter().any(|name| name.starts_with(".hither-"));
    assert!(wait_until(|| !is_left()), "the copy is still there");
    assert!(!served.path().join("e").exists(), "the copy went on to its end");
}
