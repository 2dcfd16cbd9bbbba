//! Any bytes as what an XRootD server says to a session that asked all kinds of things.
#![no_main]

#[path = "../../crates/xrd/tests/it/any_bytes.rs"]
#[expect(dead_code, reason = "one check of several")]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    any_bytes::answers(data);
});
