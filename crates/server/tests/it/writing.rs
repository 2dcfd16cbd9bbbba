//! Requests that change files and names.

mod digests;
pub(crate) mod trees;

use crate::memory::on_each_backend;
use crate::rig::{Served, reply};
use std::io::{Read, Write};

/// A server for each backend.
fn served() -> [Served; 2] {
    on_each_backend(|settings| settings.write = true)
}

#[test]
fn a_file_that_was_put_has_its_checksums() {
    for served in served() {
        let reply = served.ask("PUT", "/file", &[], b"hello");
        assert_eq!(reply.status, 201);
        assert_eq!(served.get("/file", &[]).text(), "hello");
        let head = served.ask("HEAD", "/file", &["Want-Digest: adler32"], b"");
        assert_eq!(head.field("digest"), Some("adler32=062c0215"));
        let etag = reply.field("etag").unwrap();
        assert_eq!(head.field("etag").unwrap().trim_start_matches("W/"), etag);
        assert_eq!(served.ask("PUT", "/file", &[], b"jello").status, 204);
        assert_eq!(served.get("/file", &[]).text(), "jello");
        assert_eq!(served.ask("PUT", "/none/file", &[], b"1").status, 409);
        assert_eq!(served.ask("PUT", "/file/", &[], b"1").status, 405);
        assert_eq!(served.names(), ["file"]);
    }
}

/// Its bytes would count as another request, or as nothing.
#[test]
fn a_body_of_http_1_0_whose_length_is_not_stated_is_refused() {
    for served in served() {
        served.file("file", b"good");
        for method in ["PUT", "POST", "PROPPATCH", "QUERY"] {
            let mut stream = served.connect();
            let head = format!("{method} /file HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let _ = stream.write_all(b"DELETE /file HTTP/1.0\r\n\r\n");
            let reply = reply(&mut stream);
            assert_eq!(reply.status, 411, "{method}");
            assert!(reply.field("connection").unwrap().contains("close"), "{method}");
            assert_eq!(served.get("/file", &[]).text(), "good", "{method}");
        }
        let mut stream = served.connect();
        stream.write_all(b"PUT /file HTTP/1.0\r\nContent-Length: 3\r\n\r\nnew").unwrap();
        assert_eq!(reply(&mut stream).status, 204);
        assert_eq!(served.get("/file", &[]).text(), "new");
    }
}

#[test]
fn a_directory_that_only_looks_empty_is_removed_with_its_contents_only() {
    for served in served() {
        let delete = |fields: &[&str]| served.ask("DELETE", "/d/", fields, b"").status;
        assert_eq!(served.ask("MKCOL", "/d/", &[], b"").status, 201);
        let part = format!("/d/{}", hither_core::storage::partial_name(7));
        let piece = ["Content-Range: bytes 0-0/2"];
        assert!(served.ask("PUT", &part, &piece, b"1").status < 300);
        assert_eq!(delete(&["Hither-If-Empty: ?1"]), 409);
        assert_eq!(served.get(&part, &[]).status, 200);
        assert_eq!(served.ask("DELETE", &part, &[], b"").status, 204);
        assert_eq!(delete(&["Hither-If-Empty: ?1"]), 204);
        assert_eq!(served.ask("MKCOL", "/d/", &[], b"").status, 201);
        assert!(served.ask("PUT", &part, &piece, b"1").status < 300);
        assert_eq!((delete(&[]), delete(&[])), (204, 404));
    }
}

#[test]
fn conditions_guard_what_is_there() {
    for served in served() {
        served.file("file", b"one");
        let tag = served.etag("/file");
        assert_eq!(served.ask("PUT", "/file", &["If-None-Match: *"], b"two").status, 412);
        assert_eq!(served.ask("PUT", "/file", &["If-Match: \"other\""], b"two").status, 412);
        assert_eq!(served.ask("DELETE", "/file", &["If-Match: \"other\""], b"").status, 412);
        assert_eq!(served.get("/file", &[]).text(), "one");
        assert_eq!(served.ask("PUT", "/file", &[&format!("If-Match: {tag}")], b"two").status, 204);
        assert_eq!(served.ask("PUT", "/new", &["If-None-Match: *"], b"1").status, 201);
        assert_eq!(served.ask("PUT", "/other", &["If-Match: *"], b"1").status, 412);
    }
}

#[test]
fn a_checksum_mismatch_leaves_no_file() {
    for served in served() {
        let wrong = "Digest: adler32=00000001";
        assert_eq!(served.ask("PUT", "/file", &[wrong], b"hello").status, 400);
        let wrong = "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
        assert_eq!(served.ask("PUT", "/file", &[wrong], b"hello").status, 400);
        assert_eq!(served.names(), [""; 0]);
        let right = "Content-MD5: XUFAKrxLKna5cZ2REBfFkg==";
        assert_eq!(served.ask("PUT", "/file", &[right], b"hello").status, 201);
    }
}

#[test]
fn an_interrupted_upload_leaves_nothing() {
    for served in served() {
        served.file("file", b"old");
        let mut stream = served.connect();
        stream
            .write_all(b"PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
            .unwrap();
        stream.write_all(&[7; 500_000]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(served.get("/file", &[]).text(), "old");
        assert_eq!(served.names(), ["file"]);
    }
}

#[test]
fn a_put_is_rejected_before_its_body_is_sent() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.file_bytes = Some(1000);
    });
    for (target, length, status) in [("/file", 1001, 413), ("/none/file", 10, 409)] {
        let mut stream = served.connect();
        let head = format!(
            "PUT {target} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(reply(&mut stream).status, status, "{target}");
    }
    let mut stream = served.connect();
    let head = b"PUT /file HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    stream.write_all(head).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").unwrap();
    assert_eq!(reply(&mut stream).status, 201);
}

#[test]
fn parts_are_accepted_for_partial_files_only() {
    for served in served() {
        let piece = |target: &str, place: &str, bytes: &[u8]| {
            served.ask("PUT", target, &[&format!("Content-Range: bytes {place}")], bytes).status
        };
        let name = "/.hither-0123456789abcdef.part";
        assert_eq!(piece("/file", "0-1/4", b"ab"), 400);
        assert_eq!(piece(name, "2-3/4", b"cd"), 204);
        assert_eq!(piece(name, "0-1/4", b"ab"), 204);
        assert_eq!(piece(name, "0-2/4", b"ab"), 400);
        assert_eq!(piece(name, "4-5/4", b"ab"), 400);
        assert_eq!(served.ask("MOVE", name, &["Destination: /file"], b"").status, 201);
        assert_eq!(served.get("/file", &[]).text(), "abcd");
    }
}

#[test]
fn entries_are_created_moved_copied_and_removed() {
    for served in served() {
        let ask = |method: &str, target: &str, fields: &[&str]| {
            served.ask(method, target, fields, b"").status
        };
        assert_eq!(ask("MKCOL", "/d", &[]), 201);
        assert_eq!(ask("MKCOL", "/d/", &[]), 405);
        assert_eq!(ask("MKCOL", "/none/d", &[]), 409);
        assert_eq!(served.ask("PUT", "/d/file", &[], b"1").status, 201);
        assert_eq!(ask("COPY", "/d", &["Destination: /e"]), 201);
        let kept = served.ask("COPY", "/d", &["Destination: /e", "Overwrite: F"], b"");
        assert_eq!(kept.status, 412);
        assert!(kept.text().contains("the destination exists"), "{}", kept.text());
        assert!(kept.text().contains("send `Overwrite: T`"), "{}", kept.text());
        assert_eq!(ask("COPY", "/d", &["Destination: /d/d"]), 403);
        assert_eq!(ask("MOVE", "/e/file", &["Destination: http://localhost/e/moved"]), 201);
        assert_eq!(ask("MOVE", "/e/moved", &["Destination: http://elsewhere/e/moved"]), 502);
        assert_eq!(ask("MOVE", "/e/moved", &["Destination: /none/moved"]), 409);
        assert_eq!(ask("MOVE", "/e", &["Destination: /d"]), 204);
        assert_eq!(served.get("/d/moved", &[]).text(), "1");
        assert_eq!(ask("DELETE", "/d/moved/", &[]), 404);
        assert_eq!(ask("DELETE", "/d/", &[]), 204);
        assert_eq!(ask("DELETE", "/d/", &[]), 404);
        assert_eq!(ask("DELETE", "/", &[]), 403);
        assert_eq!(served.names(), [""; 0]);
    }
}

#[test]
fn properties_are_kept_and_move_with_their_file() {
    for served in served() {
        served.file("d/file", b"12345");
        let own = served.ask("PROPFIND", "/d/file", &["Depth: 0"], b"").text();
        assert!(own.contains("<D:getcontentlength>5</D:getcontentlength>"), "{own}");
        let children = served.ask("PROPFIND", "/d", &["Depth: 1"], b"").text();
        assert!(
            children.contains("<D:href>/d/</D:href>")
                && children.contains("<D:href>/d/file</D:href>")
        );
        let set = b"<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a xmlns='urn:x'>&lt;1&gt;</a></D:prop></D:set></D:propertyupdate>";
        let reply = served.ask("PROPPATCH", "/d/file", &[], set);
        assert_eq!(reply.status, 207);
        assert!(reply.text().contains("200 OK"), "{}", reply.text());
        assert_eq!(served.ask("MOVE", "/d/file", &["Destination: /d/other"], b"").status, 201);
        let which =
            b"<propfind xmlns='DAV:'><prop><a xmlns='urn:x'/><b xmlns='urn:x'/></prop></propfind>";
        let found = served.ask("PROPFIND", "/d/other", &["Depth: 0"], which).text();
        assert!(found.contains(">&lt;1&gt;</x:a>") && found.contains("404"), "{found}");
        let live = b"<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><D:getetag>1</D:getetag></D:prop></D:set></D:propertyupdate>";
        assert!(served.ask("PROPPATCH", "/d/other", &[], live).text().contains("403"));
        assert_eq!(served.ask("PROPFIND", "/d", &["Depth: 1"], b"<none>").status, 400);
        assert_eq!(served.ask("PROPFIND", "/none", &["Depth: 1"], b"").status, 404);
    }
}

#[test]
fn a_listing_above_the_limit_is_an_error() {
    let served = Served::new(|settings| {
        settings.limits.names = 10;
        settings.limits.infinite_depth = true;
    });
    for n in 0..5 {
        served.file(&format!("a/{n}"), b"");
        served.file(&format!("b/{n}"), b"");
    }
    assert_eq!(served.ask("PROPFIND", "/a/", &["Depth: infinity"], b"").status, 207);
    assert_eq!(served.ask("PROPFIND", "/", &["Depth: infinity"], b"").status, 403);
    assert_eq!(served.ask("PROPFIND", "/", &["Depth: 1"], b"").status, 207);
}
