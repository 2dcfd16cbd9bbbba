//! Any bytes as the object of a tree.
#![no_main]

#[path = "../../../crates/formats/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::tree(data));
