//! Replays the seeds of the fuzz target, unchanged and damaged.

use crate::any_bytes;
use hither_testkit::fuzz_seeds;

#[test]
fn seeds_are_explained_as_they_are_and_damaged() {
    // The start of a payload in base64url: `{"`.
    let seeds = fuzz_seeds::replay("token", b".eyJ", any_bytes::token).unwrap();
    assert!(seeds >= 3, "{seeds} seeds");
}

#[test]
fn seeds_of_certificates() {
    // An object identifier, the start of an extension.
    let seeds = fuzz_seeds::replay("certificates", b"\x06\x08", any_bytes::certificates).unwrap();
    assert!(seeds >= 3, "{seeds} seeds");
}
