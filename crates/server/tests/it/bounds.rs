//! Clients that request too much, are slow, or send nothing.

mod abandoned;
mod fairness;
mod listings;
mod space;

use crate::rig::{Served, reply};
use std::io::{Read, Write};

#[test]
fn a_header_above_the_limit_is_rejected() {
    let served = Served::new(|settings| settings.limits.header_bytes = 64 << 10);
    served.file("file", b"1");
    let field = format!("X-Long: {}", "a".repeat(30_000));
    assert_eq!(served.get("/file", &[&field]).status, 200);
    let field = format!("X-Long: {}", "a".repeat(100_000));
    assert_eq!(served.get("/file", &[&field]).status, 431);
}

#[test]
fn a_client_that_sends_no_complete_head_is_disconnected() {
    let served = Served::new(|settings| settings.limits.idle_seconds = 0.2);
    for begun in ["", "GET /file HT", "GET /file HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut stream = served.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        let mut came = Vec::new();
        let _ = stream.read_to_end(&mut came);
        assert!(!String::from_utf8_lossy(&came).contains("200"), "{begun:?}");
    }
}

/// Requests parts that pass through memory and exceed the kernel's buffers, and reads only the
/// first bytes of the response.
fn slow_reader(served: &Served) -> std::net::TcpStream {
    let mut stream = served.connect();
    let request =
        b"GET /large HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-29999999,30000001-59999999\r\n\r\n";
    stream.write_all(request).unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    stream
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let served = Served::new(|settings| {
        settings.limits.stall_seconds = 0.3;
        settings.limits.connections = 1;
    });
    served.file("large", &vec![7; 64 << 20]);
    let _slow = slow_reader(&served);
    // The limit is one connection: this one is served after the other has been closed.
    assert_eq!(served.get("/large", &["Range: bytes=0-3"]).body, [7; 4]);
}

#[test]
fn slow_readers_hold_two_blocks_each_and_delay_no_others() {
    let served = Served::new(|settings| {
        settings.limits.block_bytes = 256 << 10;
        settings.limits.memory_bytes = 7 * (256 << 10);
    });
    served.file("large", &vec![7; 64 << 20]);
    let _slow: Vec<_> = (0..3).map(|_| slow_reader(&served)).collect();
    for _ in 0..20 {
        assert_eq!(served.get("/large", &["Range: bytes=0-199999"]).body, [7; 200_000]);
        let parts = served.get("/large", &["Range: bytes=0-99999,200000-299999"]);
        assert!(parts.status == 206 && parts.body.len() > 200_000);
    }
}

#[test]
fn a_client_that_reads_nothing_of_a_whole_file_is_disconnected() {
    let served = Served::new(|settings| {
        settings.limits.stall_seconds = 0.3;
        settings.limits.connections = 1;
    });
    served.file("large", &vec![7; 64 << 20]);
    let mut slow = served.connect();
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    slow.read_exact(&mut [0; 12]).unwrap();
    assert_eq!(served.get("/large", &["Range: bytes=0-3"]).body, [7; 4]);
}

#[test]
fn no_more_connections_are_served_than_allowed() {
    let served = Served::new(|settings| settings.limits.connections = 1);
    served.file("file", b"1");
    served.file("large", &vec![7; 64 << 20]);
    let first = slow_reader(&served);
    let mut second = served.connect();
    second
        .write_all(b"GET /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    drop(first);
    assert_eq!(reply(&mut second).status, 200);
}

#[test]
fn a_server_that_stops_finishes_running_requests() {
    let mut served = Served::new(|settings| settings.limits.stop_seconds = 30.0);
    served.file("large", &vec![7; 32 << 20]);
    let mut stream = served.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    let server = served.server.take().unwrap();
    let port = server.addresses()[0].port();
    server.stopper().stop();
    let waiting = std::thread::spawn(move || server.wait());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(&[7; 1000]) && rest.len() > 32 << 20);
    waiting.join().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
