//! The host that a request addresses.

use crate::rig::{Reply, Served, reply};
use std::io::{Read, Write};

/// The response to a request with this head, from the server or from its metrics address.
fn said(served: &Served, at_metrics: bool, head: &str) -> Reply {
    let server = served.server.as_ref().unwrap();
    let metrics = server.metrics_address().filter(|_| at_metrics);
    let address = metrics.unwrap_or_else(|| server.addresses()[0]);
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    reply(&mut stream)
}

fn served(auth: &str) -> Served {
    let settings = hither_server::Settings::from_toml(auth).unwrap();
    let served = Served::new(|it| {
        it.metrics = Some("127.0.0.1:0".parse().unwrap());
        (it.auth, it.names) = (settings.auth, vec!["se.example".to_owned()]);
    });
    served.file("metrics", b"content");
    served
}

#[test]
fn a_request_has_one_valid_host() {
    for (auth, at_metrics) in [("", false), ("", true), ("[auth]\nanonymous = ['/']", false)] {
        let served = served(auth);
        for (head, status) in [
            ("HTTP/1.1\r\nHost: localhost\r\n", 200),
            ("HTTP/1.1\r\nhost:localhost:\r\n", 200),
            ("HTTP/1.1\r\nHost: LocalHost:8080\r\n", 200),
            ("HTTP/1.0\r\n", 200),
            ("HTTP/1.0\r\nHost: localhost\r\n", 200),
            ("HTTP/1.1\r\n", 400),
            ("HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
            ("HTTP/1.1\r\nHost: localhost\r\nX: y\r\nhost: se.example\r\n", 400),
            ("HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n", 400),
            ("HTTP/1.1\r\nHost:\r\n", 400),
            ("HTTP/1.1\r\nHost: :80\r\n", 400),
            ("HTTP/1.1\r\nHost: localhost:port\r\n", 400),
            ("HTTP/1.1\r\nHost: localhost:99999\r\n", 400),
            ("HTTP/1.1\r\nHost: me@localhost\r\n", 400),
            ("HTTP/1.1\r\nHost: localhost/x\r\n", 400),
            ("HTTP/1.1\r\nHost: localhost, localhost\r\n", 400),
            ("HTTP/1.1\r\nHost: local host\r\n", 400),
            ("HTTP/1.1\r\nHost: [::1\r\n", 400),
        ] {
            for method in ["GET", "HEAD"] {
                let told = said(&served, at_metrics, &format!("{method} /metrics {head}"));
                assert_eq!(told.status, status, "{method} {head}");
            }
        }
    }
}

#[test]
fn the_host_is_that_of_an_absolute_target() {
    let served = served("");
    for (target, host, status) in [
        ("http://localhost/metrics", "localhost", 200),
        ("http://localhost:80/metrics", "LOCALHOST", 200),
        ("http://localhost:81/metrics", "localhost", 400),
        ("http://se.example/metrics", "localhost", 400),
        ("http://localhost/metrics", "se.example", 400),
        ("http://me@localhost/metrics", "localhost", 400),
        ("http://evil.example/metrics", "evil.example", 421),
    ] {
        let told = said(&served, false, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n"));
        assert_eq!(told.status, status, "{target} {host}");
    }
    assert_eq!(said(&served, false, "GET http://localhost/metrics HTTP/1.1\r\n").status, 400);
}

#[test]
fn a_loopback_address_without_auth_answers_to_its_own_names_only() {
    let open = served("");
    for host in
        ["localhost", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::ffff:127.0.0.1]:1", "SE.example"]
    {
        for at_metrics in [false, true] {
            let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n");
            assert_eq!(said(&open, at_metrics, &head).status, 200, "{host}");
        }
    }
    let auth = served("[auth]\nanonymous = ['/']");
    for host in [
        "evil.example",
        "localhost.evil.example",
        "evil.localhost",
        "192.0.2.1",
        "[2001:db8::1]",
        "0",
    ] {
        for method in ["GET", "OPTIONS", "PROPFIND"] {
            let head = format!("{method} /metrics HTTP/1.1\r\nHost: {host}\r\n");
            let told = said(&open, false, &head);
            assert_eq!(told.status, 421, "{method} {host}");
            let (told, name) = (told.text(), host.trim_matches(['[', ']']));
            assert!(told.contains("`names`") && told.contains(name), "{told}");
        }
        let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(said(&auth, false, &head).status, 200, "rights come from credentials: {host}");
        for served in [&open, &auth] {
            assert_eq!(said(served, true, &head).status, 421, "metrics at {host}");
        }
    }
}

/// The status of an HTTP/2 response to `GET /metrics` with these HPACK fields.
fn http2_status(served: &Served, fields: &[u8]) -> Option<u8> {
    let head = [b"\x82\x86\x44\x08/metrics", fields].concat();
    let mut stream = served.connect();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let length = u8::try_from(head.len()).unwrap();
    stream.write_all(&[&[0, 0, length, 1, 5, 0, 0, 0, 1], &*head].concat()).unwrap();
    loop {
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).ok()?;
        let mut payload = vec![0; usize::from(frame[1]) << 8 | usize::from(frame[2])];
        stream.read_exact(&mut payload).ok()?;
        match frame[3] {
            // The first field of a response is its status: 200 and 400 are in HPACK's static table.
            1 => return payload.first().copied(),
            // The stream is reset, or the connection ends.
            3 | 7 => return None,
            _ => {}
        }
    }
}

#[test]
fn the_authority_of_http_2_is_checked_like_a_host() {
    const OK: Option<u8> = Some(0x88);
    const BAD_REQUEST: Option<u8> = Some(0x8c);
    let served = served("");
    assert_eq!(http2_status(&served, b"\x41\x09localhost"), OK);
    assert_eq!(http2_status(&served, b"\x66\x09localhost"), OK);
    assert_eq!(http2_status(&served, b"\x41\x09localhost\x66\x09localhost"), OK);
    for fields in [
        &b"\x41\x09localhost\x66\x0ase.example"[..],
        b"\x66\x09localhost\x66\x09localhost",
        b"\x41\x0cme@localhost",
        b"",
    ] {
        let status = http2_status(&served, fields);
        assert!(status == BAD_REQUEST || status.is_none(), "{status:?} {fields:?}");
    }
    let elsewhere = http2_status(&served, b"\x41\x0cevil.example");
    assert!(![OK, BAD_REQUEST, None].contains(&elsewhere), "{elsewhere:?}");
}
