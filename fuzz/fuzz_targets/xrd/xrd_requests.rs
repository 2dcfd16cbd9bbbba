//! Any bytes as an XRootD client's requests.
#![no_main]

#[path = "../../../crates/xrd/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::requests(data));
