use crate::copy::context::CopyContext;
use crate::copy::tests::scripted::{CONTENT, Scripted, context, copy, failures, sends};
use crate::destination::Target;
use crate::options::{CopyOptions, Verify};
use hither_checksum::{Algorithm, Hasher};
use hither_core::ErrorKind;
use std::sync::Arc;

/// Copies a file that has to have the checksum of [`CONTENT`], from a server that sends these
/// bytes. Returns the number of requests.
async fn verified(answers: &[&'static [u8]]) -> (Arc<CopyContext>, usize) {
    let verify = Verify::Value(Hasher::of(Algorithm::Adler32, CONTENT));
    let storage = Scripted::new(answers.iter().map(|bytes| sends(bytes)), []);
    let shared = context(CopyOptions { verify, ..CopyOptions::default() });
    copy(&shared, storage.item(Target::Discard)).await;
    (shared, storage.requests().len())
}

#[tokio::test(start_paused = true)]
async fn a_file_with_the_expected_checksum_is_fetched_once() {
    let (shared, requests) = verified(&[CONTENT]).await;
    assert_eq!((requests, failures(&shared)), (1, vec![]));
    let summary = shared.results().summary();
    assert!(summary.checksums[0].compared && summary.notices.is_empty(), "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_came_damaged_is_fetched_again() {
    let (shared, requests) = verified(&[b"damaged", CONTENT]).await;
    assert_eq!((requests, failures(&shared)), (2, vec![]));
    let summary = shared.results().summary();
    assert_eq!((summary.files, summary.bytes_resent), (1, 7));
    assert_eq!(summary.notices, ["scripted:/file: 1 damaged block was fetched again"]);
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_file_that_is_wrong_twice_compares_both_attempts() {
    for (second, said) in [
        (b"damaged", "fetching again gave the same bytes"),
        (b"another", "1 blocks differed when fetched again"),
    ] {
        let (shared, requests) = verified(&[b"damaged", second]).await;
        assert_eq!((requests, failures(&shared)), (2, vec![ErrorKind::Corrupt]));
        let error = shared.results().summary().failures[0].error.to_string();
        assert!(error.contains(said) && error.contains("given by the user"), "{error}");
    }
}
