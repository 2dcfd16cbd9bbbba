//! Checksums and codings that clients state, and the conditions of WebDAV: each is respected, or
//! the request is refused.

use crate::memory::on_each_backend;
use crate::rig::{Reply, Served, reply};
use std::io::Write;

const CONTENT: &[u8] = b"hello";
const ADLER: &str = "adler=:BiwCFQ==:";
const SHA256: &str = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
const SHA512: &str = "sha-512=:m3HSJL1i83hdltRq0+o9czGb+8KJDKra4t/3JRlnPKcjI8PZm6XB\
    HXx6zG4UuMXaDEZjR1wuXDre9G9zvN7AQw==:";
const OTHER: &str = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
const PART: &str = "/.hither-0123456789abcdef.part";

fn served() -> [Served; 2] {
    on_each_backend(|settings| settings.write = true)
}

/// Sends the content in chunks, with trailers.
fn chunked(served: &Served, target: &str, fields: &str, trailers: &str) -> Reply {
    let mut stream = served.connect();
    let head = format!(
        "PUT {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
         {fields}\r\n5\r\nhello\r\n0\r\n{trailers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    reply(&mut stream)
}

#[test]
fn every_announced_digest_is_verified() {
    for served in served() {
        for (field, status) in [
            (format!("Content-Digest: {SHA256}"), 201),
            (format!("Content-Digest: {ADLER}, {SHA256}"), 204),
            (format!("Repr-Digest: unknown=:AAAA:, {SHA256}"), 204),
            (format!("Content-Digest: {SHA512}"), 204),
            (format!("Repr-Digest: {SHA512}"), 204),
            (format!("Repr-Digest: {ADLER}, {}", SHA512.replace("E", "F")), 400),
            (format!("Content-Digest: {OTHER}"), 400),
            (format!("Content-Digest: {ADLER}, {OTHER}"), 400),
            (format!("Repr-Digest: {SHA256}, {OTHER}"), 400),
            ("Digest: md5=AAAAAAAAAAAAAAAAAAAAAA==".to_owned(), 400),
            ("Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==".to_owned(), 400),
        ] {
            let told = served.ask("PUT", "/file", &[&field], CONTENT);
            assert_eq!(told.status, status, "{field}: {}", told.text());
        }
        let fields = [&*format!("Repr-Digest: {SHA256}"), &*format!("Content-Digest: {OTHER}")];
        assert_eq!(served.ask("PUT", "/other", &fields, CONTENT).status, 400);
        assert_eq!(
            served.ask("PUT", "/other", &[&format!("Content-Digest: {ADLER}")], b"").status,
            400
        );
        assert_eq!(served.names(), ["file"]);
    }
}

#[test]
fn a_digest_that_cannot_be_verified_is_refused_with_those_that_can() {
    for served in served() {
        for field in [
            "Content-Digest: sha-512=:AAAA:",
            "Content-Digest: unixsum=:AAAA:",
            "Repr-Digest: unixsum=:AAAA:",
            "Repr-Digest: adler=00000001",
            "Digest: crc64=1",
            "Digest: adler32=xyz",
            "Content-Digest:",
            "Content-MD5: 0",
        ] {
            let told = served.ask("PUT", "/file", &[field], CONTENT);
            assert_eq!(told.status, 400, "{field}: {}", told.text());
        }
        let told = served.ask("PUT", "/file", &["Repr-Digest: unixsum=:AAAA:"], CONTENT);
        assert!(told.text().contains("adler, crc32c, md5, sha-256, sha-512"), "{}", told.text());
        assert_eq!(served.names(), [""; 0]);
    }
}

#[test]
fn digests_in_trailers_are_verified() {
    for served in served() {
        for (fields, trailers, status) in [
            ("", format!("Repr-Digest: {SHA256}\r\n"), 201),
            ("", format!("Repr-Digest: {OTHER}\r\n"), 400),
            ("", "Repr-Digest: sha-512=:AAAA:\r\n".to_owned(), 400),
            ("", "Digest: adler32=00000001\r\n".to_owned(), 400),
            ("Trailer: Content-Digest\r\n", format!("Content-Digest: {SHA256}\r\n"), 204),
            ("Trailer: Content-Digest\r\n", format!("Content-Digest: {OTHER}\r\n"), 400),
            ("", format!("Content-Digest: {OTHER}\r\n"), 400),
        ] {
            let told = chunked(&served, "/file", fields, &trailers);
            assert_eq!(told.status, status, "{fields}{trailers}: {}", told.text());
        }
    }
}

#[test]
fn the_digest_of_a_part_is_verified_and_that_of_a_file_is_refused_there() {
    for served in served() {
        let put = |field: &str| {
            served.ask("PUT", PART, &["Content-Range: bytes 2-6/9", field], CONTENT).status
        };
        assert_eq!(put(&format!("Content-Digest: {SHA256}")), 204);
        assert_eq!(put(&format!("Content-Digest: {OTHER}")), 400);
        assert_eq!(put(&format!("Repr-Digest: {SHA256}")), 400);
        assert_eq!(put("Digest: adler32=062c0215"), 400);
    }
}

#[test]
fn codings_are_refused() {
    for served in served() {
        for (field, status) in [
            ("Transfer-Encoding: gzip, chunked", 501),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 501),
            ("Content-Encoding: gzip\r\nContent-Length: 5", 415),
            ("Content-Encoding: identity, br\r\nContent-Length: 5", 415),
            ("Content-Encoding: identity\r\nContent-Length: 5", 201),
        ] {
            let mut stream = served.connect();
            let body = if status == 501 { "5\r\nhello\r\n0\r\n\r\n" } else { "hello" };
            let head = format!(
                "PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n\r\n"
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            let told = reply(&mut stream);
            assert_eq!(told.status, status, "{field}: {}", told.head);
            if status == 415 {
                assert_eq!(told.field("accept-encoding"), Some("identity"));
            }
        }
        assert_eq!(served.names(), ["file"]);
    }
}

#[test]
fn the_field_if_guards_every_change() {
    for served in served() {
        served.file("file", CONTENT);
        served.file("other", b"1");
        let (tag, other) = (served.etag("/file"), served.etag("/other"));
        let proppatch: &[u8] =
            b"<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x xmlns='u'>1</x>\
            </D:prop></D:set></D:propertyupdate>";
        let changes: [(&str, &str, &[&str], &[u8]); 6] = [
            ("PUT", "/file", &[], b"new"),
            ("PROPPATCH", "/file", &[], proppatch),
            ("COPY", "/file", &["Destination: /new"], b""),
            ("MOVE", "/file", &["Destination: /new"], b""),
            ("DELETE", "/file", &[], b""),
            ("MKCOL", "/d", &[], b""),
        ];
        let ask = |condition: &str,
                   (method, target, fields, body): (&str, &str, &[&str], &[u8])| {
            let field = format!("If: {condition}");
            let fields = [fields, &[&*field]].concat();
            served.ask(method, target, &fields, body).status
        };
        for change in changes {
            for unmet in [
                "([\"other\"])".to_owned(),
                "(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2>)".to_owned(),
                "(<DAV:no-lock>)".to_owned(),
                format!("</other> ([{tag}])"),
                format!("</none> ([{tag}])"),
                format!("<http://elsewhere/other> ([{other}])"),
            ] {
                assert_eq!(ask(&unmet, change), 412, "{} {unmet}", change.0);
            }
            for malformed in ["", "([\"a\"", "(a)", "</file>", "</../file> ([\"a\"])"] {
                assert_eq!(ask(malformed, change), 400, "{} {malformed}", change.0);
            }
        }
        assert_eq!(served.get("/file", &[]).text(), "hello");
        assert_eq!(served.names(), ["file", "other"]);
        let met = [
            format!("([{tag}])"),
            "(<urn:uuid:1>) (Not <DAV:no-lock>)".to_owned(),
            format!("<http://localhost/other> ([{other}])"),
        ];
        let copy = ("COPY", "/file", &["Destination: /new"][..], &b""[..]);
        for condition in &met {
            assert!(matches!(ask(condition, copy), 201 | 204), "{condition}");
        }
        assert_eq!(ask(&met[0], ("MOVE", "/file", &["Destination: /moved"], b"")), 201);
        assert_eq!(ask(&met[0], ("DELETE", "/moved", &[], b"")), 204);
        assert_eq!(ask("(Not [\"a\"])", ("MKCOL", "/d", &[], b"")), 201);
    }
}
