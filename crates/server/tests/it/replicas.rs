//! Replicas that are named to clients; and entries that some clients may not see.

use crate::rig::Served;
use hither_checksum::Checksum;
use hither_http::metalink::{MEDIA_TYPE, Metalink, MetalinkFile, MetalinkLimits};
use hither_server::{AccessRequest, Authorizer, Decision, PrepareFuture, ReplicaSettings};
use http::{HeaderMap, StatusCode};
use std::sync::Arc;

fn served() -> Served {
    let served = Served::new(|settings| {
        settings.write = true;
        let urls = vec!["https://a.example/x".to_owned(), "root://b.example//y/".to_owned()];
        settings.replicas = vec![ReplicaSettings { path: "/store".to_owned(), urls }];
    });
    std::fs::create_dir_all(served.path().join("store")).unwrap();
    assert_eq!(served.ask("PUT", "/store/f%20g", &[], b"content").status, 201);
    served.file("other", b"content");
    served
}

fn document(served: &Served, target: &str, accept: &str) -> MetalinkFile {
    let reply = served.get(target, &[&format!("Accept: {accept}")]);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some(MEDIA_TYPE)), "{target}");
    let mut files = Metalink::parse(&reply.body, &MetalinkLimits::default()).unwrap().files;
    assert_eq!(files.len(), 1);
    files.remove(0)
}

fn urls(file: &MetalinkFile) -> Vec<&str> {
    file.replicas.iter().map(|replica| replica.url.as_str()).collect()
}

#[test]
fn a_file_with_replicas_has_a_metalink_for_clients_that_accept_it() {
    let served = served();
    let elsewhere = ["https://a.example/x/f%20g", "root://b.example//y/f g"];
    for (target, accept) in [
        ("/store/f%20g", MEDIA_TYPE),
        ("/store/f%20g", "*/*,application/metalink4+xml,application/metalink+xml"),
        ("/store/f%20g?metalink", "*/*"),
    ] {
        let file = document(&served, target, accept);
        let own = urls(&file)[0].to_owned();
        assert_eq!(own, "http://localhost/store/f%20g");
        // The parser skips a `root://` URL with a space.
        assert_eq!(urls(&file)[1..], elsewhere[..1]);
        assert_eq!((file.name.as_str(), file.size), ("f g", Some(7)));
        let adler: Checksum = "adler32:0bcb02fc".parse().unwrap();
        assert!(file.digests.contains(&adler), "{:?}", file.digests);
    }
    for accept in ["*/*", "text/html", "application/metalink4+xml;q=0, */*"] {
        let reply = served.get("/store/f%20g", &[&format!("Accept: {accept}")]);
        assert_eq!((reply.status, reply.text().as_str()), (200, "content"), "{accept}");
    }
    let head = served.ask("HEAD", "/store/f%20g?metalink", &[], b"");
    assert_eq!(head.field("content-type"), Some(MEDIA_TYPE));
}

#[test]
fn responses_have_links_and_checksums() {
    let served = served();
    let reply = served.ask("HEAD", "/store/f%20g", &[], b"");
    let links: Vec<_> = reply.head.lines().filter_map(|line| line.strip_prefix("link: ")).collect();
    assert_eq!(links[0], "<https://a.example/x/f%20g>; rel=duplicate; pri=1");
    assert_eq!(links[1], "<root://b.example//y/f%20g>; rel=duplicate; pri=2");
    assert!(links[2].starts_with("</store/f%20g?metalink>; rel=describedby"), "{links:?}");
    assert!(reply.head.contains("digest: adler32="), "{}", reply.head);
    assert!(reply.field("vary").is_some_and(|vary| vary.eq_ignore_ascii_case("accept")));
    let other = served.ask("HEAD", "/other", &[], b"");
    assert_eq!((other.field("link"), other.field("digest")), (None, None));
    assert_eq!(served.get("/other", &[&format!("Accept: {MEDIA_TYPE}")]).text(), "content");
}

#[test]
fn a_missing_file_has_a_metalink_with_its_replicas() {
    let served = served();
    let file = document(&served, "/store/gone", MEDIA_TYPE);
    assert_eq!(
        (urls(&file).as_slice(), file.size),
        (["https://a.example/x/gone", "root://b.example//y/gone"].as_slice(), None)
    );
    assert_eq!(served.get("/store/gone", &[]).status, 404);
    assert_eq!(served.get("/gone?metalink", &[]).status, 404);
    assert_eq!(served.get("/store?metalink", &[]).status, 301, "a directory");
}

/// An authorizer that denies access to all secret names.
#[derive(Debug)]
pub(crate) struct Discreet;

impl Authorizer for Discreet {
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision {
        if asking.path.contains("secret") {
            Decision::Refused {
                status: StatusCode::FORBIDDEN,
                reason: "that is secret".to_owned(),
                challenge: None,
            }
        } else {
            Decision::Allowed
        }
    }

    fn writes(&self) -> bool {
        false
    }

    fn hides(&self) -> bool {
        true
    }

    fn name(&self, _: &AccessRequest<'_>) -> Result<String, Decision> {
        Ok("anybody".to_owned())
    }

    fn prepare(&self, _: &HeaderMap) -> Option<PrepareFuture> {
        None
    }
}

#[test]
fn listings_have_no_names_that_the_client_may_not_read() {
    let served = Served::with(Arc::new(Discreet));
    for name in ["d/open", "d/secret", "d/secrets/below", "d/e/open2"] {
        served.file(name, b"1");
    }
    let page = served.get("/d/", &[]);
    assert!(page.status == 200 && page.text().contains("open"), "{}", page.text());
    assert!(!page.text().contains("secret"), "{}", page.text());
    for depth in ["1", "infinity"] {
        let told = served.ask("PROPFIND", "/d/", &[&format!("Depth: {depth}")], b"");
        assert!(told.status == 207 && told.text().contains("/d/open"), "{}", told.text());
        assert_eq!(told.text().contains("open2"), depth == "infinity");
        assert!(
            !told.text().contains("secret") && !told.text().contains("below"),
            "{}",
            told.text()
        );
    }
    assert_eq!(served.get("/d/secret", &[]).status, 403);
}
