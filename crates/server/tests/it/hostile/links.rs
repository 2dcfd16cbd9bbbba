//! Symbolic links below the root, and permissions on their targets.

use crate::reading::trees::{asked, records};
use crate::rig::Served;
use hither_core::storage::partial_name;
use hither_http::tree::{TreeQuery, TreeRecord};
use hither_server::{AccessRequest, Authorizer, Decision, PrepareFuture, Settings};
use hither_testkit::waiting::wait_until;
use http::{HeaderMap, StatusCode};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Allows every access in the folder `public`, and none elsewhere.
#[derive(Debug)]
struct PublicFolder;

impl Authorizer for PublicFolder {
    fn decide(&self, asking: &AccessRequest<'_>) -> Decision {
        if asking.path == "public" || asking.path.starts_with("public/") {
            return Decision::Allowed;
        }
        let reason = "only /public is allowed".to_owned();
        Decision::Refused { status: StatusCode::FORBIDDEN, reason, challenge: None }
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

/// Creates links in `public`: two with targets in it, and two with targets in `private`.
fn with_links(served: Served) -> Served {
    served.file("public/file", b"public");
    served.file("public/folder/inner", b"public");
    served.file("private/file", b"secret");
    for (target, link) in [
        ("file", "near"),
        ("folder", "folder-near"),
        ("../private/file", "far"),
        ("../private", "folder-far"),
    ] {
        symlink(target, served.path().join("public").join(link)).unwrap();
    }
    served
}

fn with_auth(more: &str) -> Served {
    let text = format!("{more}\n[auth]\nanonymous = ['/public']");
    let settings = Settings::from_toml(&text).unwrap();
    with_links(Served::new(|it| (it.auth, it.links) = (settings.auth, settings.links)))
}

#[test]
fn with_auth_no_link_is_followed_by_default() {
    let served = with_auth("");
    for target in ["near", "far", "folder-near/inner", "folder-far/file", "folder-far/"] {
        let path = format!("/public/{target}");
        for method in ["GET", "HEAD", "PROPFIND"] {
            let reply = served.ask(method, &path, &["Depth: 1"], b"");
            assert_eq!(reply.status, 403, "{method} {path}");
        }
        let told = served.get(&path, &[]).text();
        assert!(told.contains("`links = true`"), "{told}");
    }
    let listed = served.ask("PROPFIND", "/public/", &["Depth: 1"], b"").text();
    for link in ["near", "far", "folder-near", "folder-far"] {
        assert!(listed.contains(&refused(link, "403 Forbidden")), "{link} in {listed}");
    }
}

#[test]
fn a_link_is_followed_only_to_where_the_client_may_read() {
    for served in [with_auth("links = true"), with_links(Served::with(Arc::new(PublicFolder)))] {
        for near in ["near", "folder-near/inner"] {
            let reply = served.get(&format!("/public/{near}"), &[]);
            assert_eq!((reply.status, &*reply.text()), (200, "public"), "{near}");
        }
        for far in ["far", "folder-far/file", "folder-far/", "folder-far/none"] {
            let path = format!("/public/{far}");
            for method in ["GET", "HEAD", "PROPFIND"] {
                let reply = served.ask(method, &path, &["Depth: 0"], b"");
                assert!([403, 404].contains(&reply.status), "{method} {path}");
                assert!(!reply.text().contains("private"), "{}", reply.text());
            }
        }
        for reply in
            [served.get("/public/", &[]), served.ask("PROPFIND", "/public/", &["Depth: 1"], b"")]
        {
            let text = reply.text();
            assert!(text.contains("folder-near/") && !text.contains("folder-far/"), "{text}");
            assert!(text.contains("not followed") && !text.contains("private"), "{text}");
        }
        let text = served.ask("PROPFIND", "/public/folder-near/", &["Depth: 1"], b"").text();
        assert!(text.contains("/public/folder-near/inner"), "{text}");
    }
}

#[test]
fn without_auth_links_below_the_root_are_followed_unless_the_settings_say_no() {
    let served = with_links(Served::for_reading());
    assert_eq!(served.get("/public/far", &[]).text(), "secret");
    assert_eq!(served.get("/public/folder-far/file", &[]).text(), "secret");
    assert!(served.get("/public/", &[]).text().contains("folder-far/"));
    let served = with_links(Served::new(|settings| settings.links = Some(false)));
    assert_eq!(served.get("/public/near", &[]).status, 403);
}

#[test]
fn nothing_is_written_moved_or_resumed_through_a_link() {
    let authorized = with_links(Served::with(Arc::new(PublicFolder)));
    let open = with_links(Served::new(|settings| settings.write = true));
    for served in [authorized, open] {
        let part = partial_name(7);
        let target = served.path().join("private/file");
        symlink("../private/file", served.path().join("public").join(&part)).unwrap();
        symlink("../private/new", served.path().join("public/dangling")).unwrap();
        let through = ["/public/folder-far/new", "/public/folder-near/new"];
        for path in through {
            let destination = format!("Destination: {path}");
            for (method, target, field, body) in [
                ("PUT", path, "", &b"x"[..]),
                ("MKCOL", path, "", b""),
                ("MOVE", "/public/file", &*destination, b""),
                ("COPY", "/public/file", &destination, b""),
            ] {
                let fields = [field].into_iter().filter(|field| !field.is_empty());
                let fields: Vec<_> = fields.collect();
                let reply = served.ask(method, target, &fields, body);
                assert_eq!(reply.status, 403, "{method} {target}: {}", reply.text());
            }
        }
        let resumed = format!("/public/{part}");
        let reply = served.ask("PUT", &resumed, &["Content-Range: bytes 0-5/6"], b"xxxxxx");
        assert_eq!(reply.status, 403, "{}", reply.text());
        for method in ["DELETE", "MOVE"] {
            let fields = ["Destination: /public/moved"];
            let reply = served.ask(method, "/public/folder-far/file", &fields, b"");
            assert_eq!(reply.status, 403, "{}", reply.text());
        }
        let change =
            b"<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"a:\">1</x></prop></set>\
                       </propertyupdate>";
        assert_eq!(served.ask("PROPPATCH", "/public/far", &[], change).status, 403);
        // These change the links themselves.
        assert_eq!(served.ask("PUT", "/public/dangling", &[], b"mine").status, 204);
        assert_eq!(served.ask("DELETE", "/public/folder-far", &[], b"").status, 204);
        assert_eq!(served.ask("DELETE", "/public/far", &[], b"").status, 204);
        let names = |folder| fs::read_dir(served.path().join(folder)).unwrap().count();
        assert_eq!((fs::read(target).unwrap(), names("private")), (b"secret".to_vec(), 1));
        assert_eq!(fs::read(served.path().join("public/dangling")).unwrap(), b"mine");
    }
}

#[test]
fn a_link_that_leads_to_nothing_takes_its_name() {
    let served = with_links(Served::new(|settings| settings.write = true));
    let public = served.path().join("public");
    let broken = ["a%20b", "again", "circle", "under-file"];
    for (target, link) in
        [("none", "a b"), ("a b", "again"), ("circle", "circle"), ("file/none", "under-file")]
    {
        symlink(target, public.join(link)).unwrap();
    }
    for link in broken {
        for path in [format!("/public/{link}"), format!("/public/{link}/inner")] {
            for method in ["GET", "HEAD", "PROPFIND", "COPY"] {
                let fields = ["Depth: 0", "Destination: /public/copied"];
                let reply = served.ask(method, &path, &fields, b"");
                assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text());
            }
            let told = served.get(&path, &[]).text();
            assert!(told.contains("leads to nothing"), "{path}: {told}");
        }
        let fields = [&*format!("Destination: /public/{link}"), "Overwrite: F"];
        assert_eq!(served.ask("MOVE", "/public/file", &fields, b"").status, 412, "{link}");
    }
    // A name behind a link with a valid target may be missing.
    for missing in ["/public/folder-near/none", "/public/near/none", "/public/none"] {
        assert_eq!(served.get(missing, &[]).status, 404, "{missing}");
    }
    let listed = served.ask("PROPFIND", "/public/", &["Depth: 1"], b"").text();
    let page = served.get("/public/", &[]).text();
    for link in broken {
        assert!(listed.contains(&refused(link, "403 Forbidden")), "{link} in {listed}");
        assert!(page.contains(&format!("<a href=\"/public/{link}\">")), "{link} in {page}");
    }
}

/// The entry of a link in `public` that is only named.
fn refused(link: &str, status: &str) -> String {
    format!("<D:href>/public/{link}</D:href><D:status>HTTP/1.1 {status}<")
}

#[test]
fn what_is_not_served_is_listed_with_the_status_of_its_response() {
    let served = with_links(Served::for_reading());
    let public = served.path().join("public");
    symlink("/etc", public.join("out")).unwrap();
    symlink("x".repeat(300), public.join("too-long")).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    for (kind, name) in [(FileType::Fifo, "pipe"), (FileType::Socket, "socket")] {
        mknodat(CWD, public.join(name), kind, mode, 0).unwrap();
        mknodat(CWD, public.join(format!("{name}\t")), kind, mode, 0).unwrap();
    }
    let listed = served.ask("PROPFIND", "/public/", &["Depth: 1"], b"").text();
    let page = served.get("/public/", &[]).text();
    let walk = TreeQuery::Walk { after: String::new() };
    let walked = records(&asked(&served, "/public/", &walk));
    for (name, status) in [
        ("out", "403 Forbidden"),
        ("too-long", "414 URI Too Long"),
        ("pipe", "403 Forbidden"),
        ("socket", "403 Forbidden"),
        ("pipe%09", "403 Forbidden"),
        ("socket%09", "403 Forbidden"),
    ] {
        assert!(listed.contains(&refused(name, status)), "{name} in {listed}");
        assert!(page.contains(&format!("<a href=\"/public/{name}\">")), "{name} in {page}");
        let alone = served.get(&format!("/public/{name}"), &[]).status;
        let is_failed = |record: &TreeRecord| match record {
            TreeRecord::Failed { path, status, .. } => path == name && *status == alone,
            _ => false,
        };
        if !name.ends_with("%09") {
            assert!(status.starts_with(&alone.to_string()), "{name}: {alone}");
            assert!(walked.iter().any(is_failed), "{name} in {walked:?}");
        }
    }
}

#[test]
fn a_copy_has_no_file_that_the_client_may_not_read() {
    let served = with_links(Served::with(Arc::new(PublicFolder)));
    for link in ["far", "folder-far"] {
        let target = format!("/public/{link}");
        let reply = served.ask("COPY", &target, &["Destination: /public/copy"], b"");
        assert_eq!(reply.status, 403, "{}", reply.text());
    }
    symlink("../../private/file", served.path().join("public/folder/far")).unwrap();
    symlink("../file", served.path().join("public/folder/near")).unwrap();
    let reply = served.ask("COPY", "/public/folder", &["Destination: /public/copy"], b"");
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(fs::read(served.path().join("public/copy/near")).unwrap(), b"public");
    assert!(fs::symlink_metadata(served.path().join("public/copy/far")).is_err());
    let reply = served.ask("COPY", "/public/near", &["Destination: /public/copied"], b"");
    assert_eq!(reply.status, 201, "{}", reply.text());
    let copied = fs::symlink_metadata(served.path().join("public/copied")).unwrap();
    assert!(copied.is_file());
}

#[test]
fn a_link_that_changes_after_the_decision_is_not_followed() {
    let served = with_links(Served::with(Arc::new(PublicFolder)));
    let public = served.path().join("public");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in ["../private", "folder"].into_iter().cycle() {
                symlink(target, public.join("next")).unwrap();
                fs::rename(public.join("next"), public.join("swapped")).unwrap();
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for n in 0..300 {
            let reply = served.get("/public/swapped/file", &[]);
            assert_ne!(reply.text(), "secret");
            let reply = served.ask("PUT", &format!("/public/swapped/{n}"), &[], b"x");
            assert!(reply.status >= 400, "{}", reply.status);
        }
        let is_found = wait_until(|| served.get("/public/swapped/inner", &[]).status == 200);
        is_over.store(true, Ordering::Relaxed);
        assert!(is_found, "the link never led to the folder");
    });
    assert_eq!(fs::read_dir(served.path().join("private")).unwrap().count(), 1);
}
