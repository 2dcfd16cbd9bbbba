//! Any bytes as a ROOT file: open it, list its trees, open each, decode every basket.
#![no_main]

#[path = "../../../crates/formats/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::file(data));
