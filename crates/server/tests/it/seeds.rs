//! The seeds of the fuzz target, as they are and damaged.

use crate::any_bytes;
use hither_testkit::fuzz_seeds;

#[test]
fn whatever_a_client_sends_the_server_goes_on() {
    let served = any_bytes::served();
    let seeds = fuzz_seeds::replay("server_connection", b"\r\n\r\n", |data| {
        any_bytes::requests(&served, data)
    });
    assert!(seeds.unwrap() >= 10);
}
