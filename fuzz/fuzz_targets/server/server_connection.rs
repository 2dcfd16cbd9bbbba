//! Any bytes as the input of a connection to the data server, which runs in this process.
#![no_main]

#[path = "../../../crates/server/tests/it/any_bytes.rs"]
mod any_bytes;
#[path = "../../../crates/server/tests/it/rig.rs"]
#[expect(dead_code, reason = "more than is needed here")]
mod rig;

thread_local! {
    static SERVED: rig::Served = any_bytes::served();
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| SERVED.with(|served| any_bytes::requests(served, data)));
