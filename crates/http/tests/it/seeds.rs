//! The seeds of the fuzz targets, as they are and damaged: the first inputs of a fuzzer, without
//! one.

use crate::any_bytes;
use hither_testkit::fuzz_seeds;

fn replay(target: &str, check: fn(&[u8])) {
    let seeds = fuzz_seeds::replay(target, b"<!--\x00&#x;", check).unwrap();
    assert!(seeds >= 3, "{seeds} seeds of {target}");
}

#[test]
fn seeds_of_multipart() {
    replay("multipart", any_bytes::multipart);
}

#[test]
fn seeds_of_metalink() {
    replay("metalink", any_bytes::metalink);
}

#[test]
fn seeds_of_object_list() {
    replay("object_list", any_bytes::object_list);
}

#[test]
fn seeds_of_propfind_response() {
    replay("propfind_response", any_bytes::propfind_response);
}

#[test]
fn seeds_of_range_request() {
    replay("range_request", any_bytes::range_request);
}

#[test]
fn seeds_of_framed_response() {
    replay("framed_response", any_bytes::framed_response);
}

#[test]
fn seeds_of_tree() {
    replay("tree", any_bytes::tree);
}

#[test]
fn seeds_of_propfind_request() {
    replay("propfind_request", any_bytes::propfind_request);
}

#[test]
fn seeds_of_request_header() {
    replay("request_header", any_bytes::request_header);
}

#[test]
fn seeds_of_pelican_headers() {
    replay("pelican_headers", any_bytes::pelican_headers);
}
