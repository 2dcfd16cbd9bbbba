//! Reads of files and directories, and of paths outside of the tree.

pub(crate) mod trees;

use crate::memory::{CHANGING, on_each_backend};
use crate::rig::Served;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn a_response_has_length_version_and_media_type() {
    let served = Served::for_reading();
    served.file("d/a b.txt", b"hello");
    let reply = served.get("/d/a%20b.txt", &[]);
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
    assert_eq!(reply.field("content-length"), Some("5"));
    assert_eq!(reply.field("accept-ranges"), Some("bytes"));
    assert_eq!(reply.field("accept-query"), Some("\"application/vnd.hither.ranges.v1\""));
    assert!(reply.field("last-modified").is_some() && reply.field("date").is_some());
    let head = served.ask("HEAD", "/d/a%20b.txt", &["Range: bytes=0-1"], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.field("content-length"), Some("5"));
    assert_eq!(head.field("etag"), reply.field("etag"));
    let empty = Served::for_reading();
    empty.file("empty", b"");
    let reply = empty.get("/empty", &[]);
    assert_eq!((reply.status, reply.field("content-length")), (200, Some("0")));
}

#[test]
fn a_tag_changes_with_the_content() {
    let served = Served::for_reading();
    served.file("file", b"one");
    let tag = served.etag("/file");
    assert!(tag.starts_with('"'), "{tag}");
    assert_eq!(served.get("/file", &[&format!("If-None-Match: {tag}")]).status, 304);
    assert_eq!(served.get("/file", &[&format!("If-Match: {tag}")]).status, 200);
    // Overwritten in place with the same size; it has changed recently, so its tag is weak.
    std::fs::write(served.path().join("file"), b"two").unwrap();
    let young = served.etag("/file");
    assert_ne!(young.trim_start_matches("W/"), tag);
    let reply = served.get("/file", &[&format!("If-None-Match: {tag}")]);
    assert_eq!((reply.status, reply.text().as_str()), (200, "two"));
    assert_eq!(served.get("/file", &[&format!("If-Match: {tag}")]).status, 412);
    let reply = served.get("/file", &[&format!("If-Range: {tag}"), "Range: bytes=0-0"]);
    assert_eq!((reply.status, reply.text().as_str()), (200, "two"));
}

#[test]
fn nothing_outside_of_the_tree_is_read() {
    let served = Served::for_reading();
    served.file("file", b"inside");
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "outside").unwrap();
    std::os::unix::fs::symlink(outside.path(), served.path().join("link")).unwrap();
    for target in [
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/..%2fetc/passwd",
        "/link/secret",
        "/link/",
        "//etc/passwd",
        "/file%00",
        "/%c0%ae%c0%ae/etc/passwd",
    ] {
        let reply = served.get(target, &[]);
        assert!([400, 403, 404].contains(&reply.status), "{target}: {}", reply.status);
    }
    let page = served.get("/", &[]);
    assert!(page.text().contains("file") && !page.text().contains("secret"), "{}", page.text());
}

#[test]
fn a_directory_is_a_page_with_its_entries() {
    let served = Served::for_reading();
    served.file("d/<b>&'\"/inner", b"1");
    served.file("d/data.root", &[0; 2048]);
    served.file("d/.hither-0123456789abcdef.part", b"unfinished");
    let reply = served.get("/d", &[]);
    assert_eq!((reply.status, reply.field("location")), (301, Some("/d/")));
    let page = served.get("/d/", &[]);
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    assert!(text.contains("href=\"/d/data.root\"") && text.contains("2.0 KiB"), "{text}");
    assert!(text.contains("&lt;b&gt;&amp;") && !text.contains("<b>"), "{text}");
    assert!(!text.contains(".part"), "{text}");
    assert!(text.ends_with("</html>\n"));
}

#[test]
fn names_that_no_request_can_have_are_listed_as_refused() {
    let served = Served::new(|settings| {
        settings.write = true;
        settings.limits.infinite_depth = true;
    });
    served.file("d/back\\slash", b"1");
    served.file("d/a\nb", b"1");
    let latin = served.path().join("d").join(OsStr::from_bytes(b"run\xe9"));
    std::fs::create_dir(&latin).unwrap();
    std::fs::write(latin.join("lost"), b"1").unwrap();
    assert_eq!(served.get("/d/back%5Cslash", &[]).status, 200);
    for depth in ["1", "infinity"] {
        let text = served.ask("PROPFIND", "/d/", &[&format!("Depth: {depth}")], b"").text();
        assert!(text.contains("<D:href>/d/back%5Cslash</D:href><D:propstat>"), "{text}");
        for href in ["/d/a%0Ab", "/d/run%E9/"] {
            let refused = format!("<D:href>{href}</D:href><D:status>HTTP/1.1 403 Forbidden<");
            assert!(text.contains(&refused), "{href} in {text}");
        }
        assert!(!text.contains("lost"), "{text}");
    }
    let page = served.get("/d/", &[]).text();
    for link in ["/d/back%5Cslash", "/d/a%0Ab", "/d/run%E9/"] {
        assert!(page.contains(&format!("<a href=\"{link}\">")), "{link} in {page}");
    }
    // A copy would omit them.
    let copied = served.ask("COPY", "/d/", &["Destination: /e/"], b"");
    assert_eq!(copied.status, 403, "{}", copied.text());
    assert!(copied.text().contains("rename it"), "{}", copied.text());
    assert_eq!(served.get("/e/", &[]).status, 404);
}

#[test]
fn a_time_before_1970_is_not_stated_and_part_of_the_version() {
    let served = Served::for_reading();
    served.file("d/file", b"content");
    let before = |seconds| UNIX_EPOCH - Duration::from_secs(seconds);
    let set = |time| {
        let file = std::fs::File::options().write(true).open(served.path().join("d/file")).unwrap();
        file.set_modified(time).unwrap();
    };
    let mut tags = Vec::new();
    for time in [UNIX_EPOCH, before(1), before(2), before(1_000_000_000)] {
        set(time);
        let is_stated = time == UNIX_EPOCH;
        let seen = "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT";
        let reply = served.get("/d/file", &[seen]);
        let found = (reply.status, reply.field("last-modified").is_some());
        assert_eq!(found, (if is_stated { 304 } else { 200 }, is_stated), "{time:?}");
        let listed = served.ask("PROPFIND", "/d/", &["Depth: 1"], b"").text();
        let dates = listed.matches("<D:getlastmodified>").count();
        assert_eq!(dates, 1 + usize::from(is_stated), "{listed}");
        tags.push(served.etag("/d/file"));
    }
    tags.dedup();
    assert_eq!(tags.len(), 4, "{tags:?}");
}

#[test]
fn a_read_only_server_does_not_write() {
    let served = Served::for_reading();
    served.file("file", b"1");
    for method in ["PUT", "DELETE", "MKCOL", "MOVE", "COPY", "PROPPATCH", "POST"] {
        let status = served.ask(method, "/file", &["Destination: /other"], b"").status;
        assert!([403, 405].contains(&status), "{method}: {status}");
    }
    assert_eq!(std::fs::read(served.path().join("file")).unwrap(), b"1");
    let options = served.ask("OPTIONS", "*", &[], b"");
    assert_eq!(options.status, 200);
    assert!(!options.field("allow").unwrap().contains("PUT"));
}

#[test]
fn a_file_that_changes_while_its_checksum_is_computed_is_described_as_it_is_now() {
    let [_, served] = on_each_backend(|_| {});
    served.file(CHANGING, b"hello");
    let before = served.etag("/changing");
    let reply = served.ask("HEAD", "/changing", &["Want-Digest: adler32"], b"");
    assert_eq!((reply.status, reply.field("digest")), (200, None));
    assert_eq!(reply.field("content-length"), Some("7"));
    assert_ne!(reply.field("etag"), Some(&*before));
    assert_eq!(reply.field("etag"), Some(&*served.etag("/changing")));
}

#[test]
fn checksums_follow_the_content() {
    let served = Served::for_reading();
    served.file("file", b"hello");
    let want = |fields: &[&str]| served.ask("HEAD", "/file", fields, b"");
    let reply = want(&["Want-Digest: sha;q=1, adler32;q=0.5"]);
    assert_eq!(reply.field("digest"), Some("adler32=062c0215"));
    let tag = served.etag("/file");
    let reply = want(&["Want-Repr-Digest: md5=5, crc32c=9"]);
    assert_eq!(reply.field("repr-digest"), Some("crc32c=:mnG7TA==:"));
    assert_eq!(served.etag("/file"), tag, "noting a sum is not a change");
    assert_eq!(want(&["Want-Digest: md5"]).field("digest"), Some("md5=XUFAKrxLKna5cZ2REBfFkg=="));
    std::fs::write(served.path().join("file"), b"jello").unwrap();
    assert_eq!(want(&["Want-Digest: adler32"]).field("digest"), Some("adler32=06360217"));
    assert_eq!(want(&["Want-Digest: unixsum"]).field("digest"), None);
}
