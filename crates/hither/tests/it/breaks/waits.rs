//! A read that needs a second request while its first one has all connections ends.

use hither::{Client, ClientConfig};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than what the kernel and the HTTP codec hold of a response that nobody reads.
const SIZE: usize = 32 << 20;

/// Streams a file over one connection, of which the round-trip time is known before. Returns the
/// number of bytes, and the methods of the requests for them.
fn streamed(server: &MockHttpServer) -> (usize, Vec<String>) {
    let mut config = ClientConfig::default();
    config.transport.max_connections = 1;
    let client = Client::new(config).unwrap();
    let url = server.url();
    client.file(&url).unwrap().read_at(&client, 0, &mut [0; 100]).unwrap();
    let before = server.log().len();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let file = client.file(&url).unwrap();
        let mut bytes = 0;
        let write = |chunk: &[u8]| {
            bytes += chunk.len();
            Ok(())
        };
        file.stream_no_directory(&client, &url, 0..SIZE as u64, write).unwrap();
        done.send(bytes).unwrap();
    });
    let bytes = ended.recv_timeout(Duration::from_secs(60));
    let bytes = bytes.unwrap_or_else(|_| panic!("the read does not end"));
    (bytes, server.log().split_off(before).into_iter().map(|request| request.method).collect())
}

#[test]
fn a_stream_whose_server_is_asked_about_a_directory_ends_on_one_connection() {
    let server = MockHttpServer::start(vec![7; SIZE]).unwrap();
    let server = server.with_fault(FaultTrigger::Always, Fault::NoETag);
    let (bytes, methods) = streamed(&server);
    assert_eq!(bytes, SIZE);
    assert!(methods.iter().any(|method| method != "GET"), "{methods:?}");
}

#[test]
fn the_head_of_a_response_names_the_version_before_its_end() {
    let server = MockHttpServer::start(vec![7; SIZE]).unwrap();
    let (bytes, methods) = streamed(&server);
    assert_eq!(bytes, SIZE);
    assert!(methods.iter().all(|method| method == "GET"), "{methods:?}");
}
