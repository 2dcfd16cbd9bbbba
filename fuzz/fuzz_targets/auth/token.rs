//! Any bytes as a token, as its claims, as a scope with a path, and as a server's challenge.
#![no_main]

#[path = "../../../crates/auth/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::token(data));
