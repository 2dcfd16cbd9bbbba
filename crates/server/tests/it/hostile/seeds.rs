//! The seeds of the fuzz target, intact and damaged.

use crate::any_bytes;
use hither_testkit::fuzz_seeds;

#[test]
fn the_server_survives_any_bytes() {
    let served = any_bytes::served();
    let seeds = fuzz_seeds::replay("server_connection", b"\r\n\r\n", |data| {
        any_bytes::requests(&served, data)
    });
    assert!(seeds.unwrap() >= 10);
}
