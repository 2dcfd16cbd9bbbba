//! Any bytes as the certificate chain of a client and its proxies.
#![no_main]

#[path = "../../../crates/auth/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::certificates(data));
