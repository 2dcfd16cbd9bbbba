//! Any bytes as the class descriptions of a ROOT file.
#![no_main]

#[path = "../../../crates/formats/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::streamer(data));
