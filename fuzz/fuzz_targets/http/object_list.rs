//! Any bytes as a page of a list of an object store.
#![no_main]

#[path = "../../../crates/http/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;
#[path = "../../../crates/http/tests/it/parts.rs"]
mod parts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::object_list(data));
