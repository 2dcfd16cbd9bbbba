//! The seeds of the fuzz targets, as they are and damaged: what a fuzzer would try first, without one.

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
fn seeds_of_propfind() {
    replay("propfind", any_bytes::propfind);
}

#[test]
fn seeds_of_ranges() {
    replay("ranges", any_bytes::ranges);
}

#[test]
fn seeds_of_frames() {
    replay("frames", any_bytes::frames);
}

#[test]
fn seeds_of_questions() {
    replay("questions", any_bytes::questions);
}

#[test]
fn seeds_of_fields() {
    replay("fields", any_bytes::fields);
}
