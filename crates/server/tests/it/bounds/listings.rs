//! Listings that are too expensive for one request.

use crate::rig::{Reply, Served};
use std::fmt::Write as _;

/// A PROPFIND for this number of properties, which no file has.
fn named(served: &Served, count: usize, length: usize) -> Reply {
    let mut body = "<propfind xmlns='DAV:'><prop>".to_owned();
    for n in 0..count {
        write!(body, "<x{n:0length$} xmlns='urn:x'/>").unwrap();
    }
    body.push_str("</prop></propfind>");
    served.ask("PROPFIND", "/d/", &["Depth: 1"], body.as_bytes())
}

#[test]
fn a_request_for_too_many_properties_is_an_error() {
    let served = Served::for_reading();
    for n in 0..20 {
        served.file(&format!("d/{n}"), b"1");
    }
    assert_eq!(named(&served, 40, 8).status, 207);
    for (count, length) in [(990, 8), (1, 60_000)] {
        let reply = named(&served, count, length);
        assert_eq!(reply.status, 400, "{count} names of {length} bytes");
        assert!(reply.text().contains("properties"), "{}", reply.text());
    }
}

#[test]
fn a_listing_of_infinite_depth_is_refused_unless_the_settings_allow_it() {
    for allowed in [false, true] {
        let served = Served::new(|settings| settings.limits.infinite_depth = allowed);
        served.file("d/e/file", b"1");
        for fields in [&["Depth: infinity"][..], &[]] {
            let reply = served.ask("PROPFIND", "/d/", fields, b"");
            assert_eq!(reply.status, if allowed { 207 } else { 403 }, "{}", reply.text());
            let found = if allowed { "/d/e/file" } else { "<D:propfind-finite-depth/>" };
            assert!(reply.text().contains(found), "{}", reply.text());
            // A file has no members.
            assert_eq!(served.ask("PROPFIND", "/d/e/file", fields, b"").status, 207);
        }
    }
}

#[test]
fn every_entry_of_a_large_directory_is_listed_once() {
    let served = Served::for_reading();
    for n in 0..2500 {
        std::fs::create_dir_all(served.path().join("d")).unwrap();
        std::fs::write(served.path().join(format!("d/{n:04}")), b"").unwrap();
    }
    let text = served.ask("PROPFIND", "/d/", &["Depth: 1"], b"").text();
    let names = text.split("<D:href>/d/").skip(2).map(|rest| rest[..4].parse::<usize>().unwrap());
    assert!(names.eq(0..2500));
}

#[test]
fn the_names_of_listings_count_against_the_memory_of_the_server() {
    let served = Served::new(|settings| {
        settings.limits.block_bytes = 64 << 10;
        settings.limits.memory_bytes = 1 << 20;
    });
    served.file("few/file", b"1");
    for n in 0..6000 {
        served.file(&format!("many/{n:0200}"), b"");
    }
    let reply = served.ask("PROPFIND", "/many/", &["Depth: 1"], b"");
    assert_eq!(reply.status, 503, "more than a quarter of the memory");
    assert!(reply.field("retry-after").is_some());
    assert_eq!(served.get("/many/", &[]).status, 503);
    assert_eq!(served.ask("PROPFIND", "/few/", &["Depth: 1"], b"").status, 207);
}
