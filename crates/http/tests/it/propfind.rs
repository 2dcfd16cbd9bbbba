//! Answers to PROPFIND: recorded from real servers, written, and garbage.
//!
//! Recorded over loopback from the packages of Debian 12: `Depth: 1` and [`propfind::body`] for
//! `/data/`, which holds `a b.root` (12 bytes), `empty`, `sub dir` (a directory) and `ü&<.txt` (1
//! byte), all of 2026-01-02 03:04:05 UTC.

use hither_http::XmlError;
use hither_http::propfind::{self, PropfindError, PropfindLimits, Resource};
use http::{StatusCode, Uri};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

fn parse(body: &[u8]) -> Result<Vec<Resource>, PropfindError> {
    propfind::parse(
        body,
        &Uri::from_static("http://127.0.0.1:8471/data/"),
        &PropfindLimits::default(),
    )
}

/// A multistatus of one response, whose inner elements these are.
fn one(inner: &str) -> Result<Resource, PropfindError> {
    let body = format!(
        "<x:multistatus xmlns:x=\"DAV:\" xmlns=\"other\"><x:response>{inner}</x:response></x:multistatus>"
    );
    parse(body.as_bytes()).map(|mut found| {
        assert_eq!(found.len(), 1);
        found.remove(0)
    })
}

macro_rules! recorded {
    ($name:literal) => {{
        let recorded: &[u8] = include_bytes!(concat!("transcripts/", $name, ".http"));
        let end = recorded.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        assert!(recorded.starts_with(b"HTTP/1.1 207 "));
        &recorded[end + 4..]
    }};
}

#[test]
fn real_servers_list_the_same() {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
    for (body, tags) in [
        (recorded!("apache-2.4-propfind"), true),
        (recorded!("rclone-1.60-propfind"), true),
        (recorded!("xrootd-5.5-propfind"), false),
    ] {
        let found = parse(body).unwrap();
        let by_path: BTreeMap<_, _> = found.iter().map(|it| (it.path.as_str(), it)).collect();
        let names: Vec<_> = by_path.keys().copied().collect();
        assert_eq!(names, ["", "a b.root", "empty", "sub dir", "ü&<.txt"]);
        assert_eq!(found.len(), 5);
        for (path, is_collection, size) in [
            ("", true, None),
            ("a b.root", false, Some(12)),
            ("empty", false, Some(0)),
            ("sub dir", true, None),
            ("ü&<.txt", false, Some(1)),
        ] {
            let it = by_path[path];
            assert_eq!((it.is_collection, it.status), (is_collection, StatusCode::OK), "{path}");
            // XrdHttp states the size of the directory's own record.
            assert!(it.size == size || is_collection, "{path}");
            assert!(path.is_empty() || it.modified == Some(date), "{path}");
        }
        assert_eq!(by_path["a b.root"].etag.is_some(), tags);
    }
}

#[test]
fn the_names_of_xrdhttp_are_taken_as_they_are() {
    let body = String::from_utf8(recorded!("xrootd-5.5-propfind").to_vec()).unwrap();
    let body = body.replace("/data/empty<", "/data/a%41 %20b%<");
    let found = parse(body.as_bytes()).unwrap();
    assert!(found.iter().any(|it| it.path == "a%41 %20b%"), "{found:?}");
    let other = parse(body.replace(" xmlns:ns1", "  xmlns:ns1").as_bytes()).unwrap();
    assert!(other.iter().any(|it| it.path == "aA  b%"), "{other:?}");
}

#[test]
fn blanks_at_the_end_belong_to_a_name_unless_they_are_layout() {
    let xrdhttp = String::from_utf8(recorded!("xrootd-5.5-propfind").to_vec()).unwrap();
    for name in ["run", "run ", " run  ", "run\t", "run\n"] {
        let body = xrdhttp.replace("/data/empty<", &format!("/data/{name}<"));
        let found = parse(body.as_bytes()).unwrap();
        assert!(found.iter().any(|it| it.path == name), "{name:?}: {found:?}");
    }
    for (href, path) in [
        ("/data/run ", "run "),
        ("/data/run%20", "run "),
        (" /data/run ", "run"),
        ("\n    /data/run\n  ", "run"),
        ("/data/run\r\n  ", "run"),
    ] {
        assert_eq!(one(&format!("<x:href>{href}</x:href>")).unwrap().path, path, "{href:?}");
    }
}

#[test]
fn properties_count_where_their_status_is_a_success() {
    let it = one(
        "<x:href>/data/f</x:href>\
         <x:propstat><x:status>HTTP/1.1 404 Not Found</x:status><x:prop><x:getetag>\"no\"</x:getetag>\
         <x:getcontentlength>7</x:getcontentlength></x:prop></x:propstat>\
         <x:propstat><x:prop><x:getcontentlength> 8 </x:getcontentlength><getcontentlength>9</getcontentlength>\
         <x:quota-available-bytes>100</x:quota-available-bytes><x:quota-used-bytes>-1</x:quota-used-bytes>\
         <x:lockdiscovery><x:activelock><x:getcontentlength>1</x:getcontentlength></x:activelock></x:lockdiscovery>\
         </x:prop><x:status>HTTP/1.1 200 OK</x:status></x:propstat>",
    )
    .unwrap();
    assert_eq!((it.size, it.etag.as_deref(), it.modified), (Some(8), None, None));
}

#[test]
fn a_status_for_the_name_is_reported() {
    let it = one("<x:href>/data/f</x:href><x:status>HTTP/1.1 507 no</x:status>").unwrap();
    assert_eq!((it.path.as_str(), it.status), ("f", StatusCode::INSUFFICIENT_STORAGE));
}

#[test]
fn names_that_share_a_status_are_all_listed() {
    let found = parse(
        b"<x:multistatus xmlns:x=\"DAV:\"><x:response><x:href>/data/a</x:href><x:href>/data/b/</x:href>\
        <x:status>HTTP/1.1 403 no</x:status></x:response></x:multistatus>",
    )
    .unwrap();
    let found: Vec<_> =
        found.iter().map(|it| (it.path.as_str(), it.is_collection, it.status)).collect();
    assert_eq!(found, [("a", false, StatusCode::FORBIDDEN), ("b", true, StatusCode::FORBIDDEN)]);
}

#[test]
fn text_is_put_together_from_its_pieces() {
    let it = one("<x:href>/data/a&amp;<![CDATA[<b>]]>&#x63;<!-- -->d</x:href><x:propstat><x:prop>\
         <x:getetag>W/&quot;1&quot;</x:getetag></x:prop></x:propstat>")
    .unwrap();
    assert_eq!((it.path.as_str(), it.etag.as_deref()), ("a&<b>cd", Some("W/\"1\"")));
}

#[test]
fn what_cannot_be_used_is_refused() {
    let wrong = |seen: &str| PropfindError::NotMultistatus { seen: seen.into() };
    assert_eq!(parse(b""), Err(wrong("")));
    assert_eq!(parse(b"<html><body/></html>"), Err(wrong("html")));
    assert_eq!(parse(b"<multistatus/>"), Err(wrong("multistatus")));
    assert_eq!(one("<x:status>HTTP/1.1 200 OK</x:status>"), Err(PropfindError::NoHref));
    for inner in [
        "<x:href>/data/../etc</x:href>",
        "<x:href>http://elsewhere/data/f</x:href>",
        "<x:href>/other/f</x:href>",
    ] {
        assert!(matches!(one(inner), Err(PropfindError::Href { .. })), "{inner}");
    }
    assert_eq!(
        one(
            "<x:href>/data/f</x:href><x:propstat><x:prop><x:getcontentlength>1x</x:getcontentlength></x:prop></x:propstat>"
        ),
        Err(PropfindError::Value { property: "size", seen: "1x".into() })
    );
}

#[test]
fn documents_stay_within_bounds() {
    let body = recorded!("apache-2.4-propfind");
    let asked = Uri::from_static("/data/");
    let mut bounds = PropfindLimits::default();
    bounds.max_resources = 4;
    assert_eq!(propfind::parse(body, &asked, &bounds), Err(PropfindError::TooMany { most: 4 }));
    bounds.max_bytes = 100;
    assert_eq!(
        propfind::parse(body, &asked, &bounds),
        Err(XmlError::TooLarge { bytes: body.len(), most: 100 }.into())
    );
    let deep = format!("<D:multistatus xmlns:D=\"DAV:\">{}", "<a>".repeat(100_000));
    assert_eq!(parse(deep.as_bytes()), Err(XmlError::TooDeep { most: 64 }.into()));
}

#[test]
fn nothing_is_expanded() {
    let laughs = "<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]>\
        <D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/data/&b;</D:href></D:response></D:multistatus>";
    let refused = Err(XmlError::Reference { name: "b".into() }.into());
    assert_eq!(parse(laughs.as_bytes()), refused);
}

/// A multistatus of one response and this, and after its end that.
fn with(inside: &str, behind: &str) -> Result<usize, PropfindError> {
    let response = "<D:response><D:href>/data/a</D:href></D:response>";
    let body =
        format!("<D:multistatus xmlns:D=\"DAV:\">{response}{inside}</D:multistatus>{behind}");
    parse(body.as_bytes()).map(|found| found.len())
}

#[test]
fn a_document_that_goes_on_after_its_end_is_an_error() {
    for behind in ["", " \t\r\n", "<!-- it took 3 ms -->", "\n<?x y?>\n<!---->"] {
        assert_eq!(with("", behind), Ok(1), "{behind}");
    }
    for behind in [
        "<D:multistatus xmlns:D=\"DAV:\"/>",
        "<?xml version=\"1.0\"?><a/>",
        "\nFatal error: memory exhausted",
        " <![CDATA[x]]>",
        "&#65;",
        "\u{0}",
    ] {
        let error = with("", behind).unwrap_err();
        assert!(matches!(error, PropfindError::Xml(XmlError::OutsideRoot { .. })), "{behind}");
    }
    for behind in ["<a", "</a>", "</D:multistatus>", "<!-- no end"] {
        assert!(matches!(with("", behind), Err(PropfindError::Xml(_))), "{behind}");
    }
    let before = "Warning: no such directory<D:multistatus xmlns:D=\"DAV:\"/>";
    let error = parse(before.as_bytes()).unwrap_err();
    assert!(matches!(error, PropfindError::Xml(XmlError::OutsideRoot { .. })), "{error}");
    let marked = "\u{feff}<D:multistatus xmlns:D=\"DAV:\"/>";
    assert_eq!(parse(marked.as_bytes()), Ok(Vec::new()), "a byte order mark");
}

#[test]
fn an_element_that_may_name_an_entry_is_not_skipped() {
    for inside in [
        "<D:responsedescription>a <b/></D:responsedescription>",
        "<D:sync-token>7</D:sync-token>",
        "<x:took xmlns:x=\"urn:x\"><x:ms>3</x:ms></x:took>",
        "<D:response><D:href>/data/b</D:href><D:error><x><D:href>/c</D:href></x></D:error>\
         <D:location><D:href>/d</D:href></D:location></D:response>",
    ] {
        assert!(with(inside, "").is_ok(), "{inside}");
    }
    for inside in [
        "<response xmlns=\"\"><D:href>/data/b</D:href></response>",
        "<x:response xmlns:x=\"DAV\"/>",
        "<x:response/>",
        "<D:Response/>",
        "<group><D:response><D:href>/data/b</D:href></D:response></group>",
        "<entry><a><href>/data/b</href></a></entry>",
        "<D:response><D:href>/data/b</D:href><href>/data/c</href></D:response>",
        "<D:response><D:href>/data/b</D:href><status>HTTP/1.1 507 no</status></D:response>",
        "<D:response><D:href>/data/b</D:href><propstat/></D:response>",
        "<D:response><D:href>/data/b</D:href><D:propstat><status>HTTP/1.1 507 no</status>\
         </D:propstat></D:response>",
    ] {
        let error = with(inside, "").unwrap_err();
        assert!(matches!(error, PropfindError::Foreign { .. }), "{inside}: {error}");
    }
}

#[test]
fn what_is_asked_for_is_xml() {
    assert_eq!(
        parse(propfind::body().as_bytes()),
        Err(PropfindError::NotMultistatus { seen: "propfind".into() })
    );
}

/// Every prefix of an answer, and an answer with any one byte changed.
#[test]
fn damaged_answers_never_panic() {
    let body = recorded!("xrootd-5.5-propfind");
    for length in 0..body.len() {
        let _ = parse(&body[..length]);
        for byte in [b'<', b'>', b'/', b'&', b'"', b'%', 0xff] {
            let mut damaged = body.to_vec();
            damaged[length] = byte;
            let _ = parse(&damaged);
        }
    }
    let end = body.len() - "</D:multistatus>\n".len();
    assert!(parse(&body[..end]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn shuffled_pieces_never_panic(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<D:multistatus xmlns:D=\"DAV:\">", "<D:response>", "<D:href>/data/x", "</D:href>", "<D:propstat>",
            "<D:prop>", "</D:prop>", "<D:status>HTTP/1.1 200", "</D:status>", "</D:propstat>", "</D:response>",
            "</D:multistatus>", "<D:getcontentlength>", "9", "</D:getcontentlength>", "&amp;", "&x;", "&#0;", "<![CDATA[",
            "]]>", "<!--", "-->", "<!DOCTYPE a [", "]>", "<?x", "?>", "xmlns:D='", "<D:resourcetype><D:collection/>", "\u{0}",
        ]), 0..40),
    ) {
        let _ = parse(pieces.concat().as_bytes());
    }

    #[test]
    fn names_survive_any_encoding(name in "[^/\u{0}]{1,20}", encode in any::<bool>()) {
        let name = name.trim();
        prop_assume!(!matches!(name, "" | "." | ".."));
        let encoded: String = if encode {
            name.bytes().map(|byte| format!("%{byte:02X}")).collect()
        } else {
            name.replace('%', "%25").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
        };
        prop_assume!(!encoded.contains("://"));
        let it = one(&format!("<x:href>/data/{encoded}</x:href>")).unwrap();
        prop_assert_eq!(it.path, name);
    }
}

#[test]
fn a_refusal_of_all_properties_is_the_status_of_the_name() {
    let refused = |status: &str| {
        let properties = "<x:prop><x:getetag/></x:prop>";
        format!("<x:propstat>{properties}<x:status>HTTP/1.1 {status}</x:status></x:propstat>")
    };
    let told = "<x:propstat><x:prop><x:resourcetype/></x:prop><x:status>HTTP/1.1 200 OK</x:status></x:propstat>";
    for (inner, status) in [
        (told.to_owned(), StatusCode::OK),
        (refused("403 Forbidden"), StatusCode::FORBIDDEN),
        (refused("404 Not Found"), StatusCode::OK),
        (format!("{told}{}", refused("403 Forbidden")), StatusCode::OK),
        (format!("{told}{}", refused("507 X")), StatusCode::INSUFFICIENT_STORAGE),
        ("<x:status>HTTP/1.1 507 X</x:status>".to_owned(), StatusCode::INSUFFICIENT_STORAGE),
    ] {
        let found = one(&format!("<x:href>/data/a</x:href>{inner}")).unwrap();
        assert_eq!(found.status, status, "{inner}");
    }
}
