use super::*;
use crate::ClientConfig;
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};

/// Profiles a file without a limit of time.
fn profiled(url: &str, bytes: u64, goes_on: impl Fn(u64) -> bool) -> Result<PathProfile> {
    let client = Client::new(ClientConfig::default()).unwrap();
    let duration = Duration::from_secs(60);
    client.block_on(client.profile_path(url, duration, bytes, |_, bytes| goes_on(bytes)))
}

fn server(bytes: usize) -> MockHttpServer {
    MockHttpServer::start(vec![7; bytes]).unwrap()
}

#[test]
fn bytes_are_limited_and_go_through_no_cache() {
    let server = server(3 << 20);
    let profile = profiled(&server.url(), 8 << 20, |_| true).unwrap();
    let sent: u64 = server.log().iter().map(|it| it.payload_bytes).sum();
    // Requests of one byte come first.
    assert!(sent > 1 << 20 && sent <= (8 << 20) + 20, "{sent}");
    let counts: Vec<_> = profile.bandwidth.iter().map(|it| it.connections).collect();
    assert!(STEPS.starts_with(&counts) && !counts.is_empty(), "{counts:?}");
    assert!(profile.request_ms.is_some() && profile.segments_received > 0);
    assert!(profile.to_text().contains("connections: 1  "), "{}", profile.to_text());
}

#[test]
fn an_end_by_the_caller_is_an_error_only_before_the_first_response() {
    // Takes connections, and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/file", silent.local_addr().unwrap());
    assert_eq!(profiled(&url, 1 << 30, |_| false).unwrap_err().kind(), ErrorKind::Cancelled);
    let profile = profiled(&server(1 << 20).url(), 1 << 40, |bytes| bytes < 1 << 20).unwrap();
    assert!(profile.interrupted && profile.bytes_received >= 1 << 20, "{profile:?}");
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let whole = server(4 << 20).with_fault(FaultTrigger::Always, Fault::Whole);
    for (url, kind) in [
        (whole.url(), ErrorKind::Unsupported),
        (server(0).url(), ErrorKind::Invalid),
        ("/etc/hostname".to_owned(), ErrorKind::Invalid),
    ] {
        assert_eq!(profiled(&url, 1 << 30, |_| true).unwrap_err().kind(), kind, "{url}");
    }
}

#[test]
fn advice_has_the_numbers_behind_it() {
    let advice = |rates: &[f64], handshake_ms, out_of_order| {
        let mut profile = PathProfile { out_of_order, ..PathProfile::default() };
        for (rate, connections) in rates.iter().zip(STEPS) {
            profile.bandwidth.push(BandwidthStep { connections, bytes_per_s: rate * 1e6 });
        }
        profile.limit = PathLimit::of(&profile.bandwidth);
        (profile.request_ms, profile.tcp_handshake_ms) = (Some(120.0), Some(handshake_ms));
        (profile.receive_window, profile.rmem_max) = (Some(6 << 20), Some(212_992));
        profile.segments_received = 10_000;
        advice::of(&profile, &ClientConfig::default().transport).join("\n")
    };
    assert_eq!(
        advice(&[3.1, 6.1, 12.0, 24.0, 40.0], 119.0, 0),
        "one connection brings 3.10 MB/s of 40.00 MB/s: the window of this kernel, 6.0 MiB over 120.0 ms, allows 52.43 MB/s, so the server's limit, window or CPU holds each back; 16 bring that, hither tries up to 64"
    );
    let full = advice(&[48.0, 90.0, 91.0], 119.0, 0);
    assert!(full.contains("limit: raise net.core.rmem_max from 212992 to 4194304"), "{full}");
    let path = advice(&[40.0, 41.0], 1.0, 200);
    assert!(path.starts_with("a request takes 120.0 ms, TCP's handshake 1.0 ms"), "{path}");
    assert!(path.contains("one connection brings 40.00 MB/s, 2 bring 41.00 MB/s"), "{path}");
    assert!(path.contains("2.0 % of 10000 segments came out of order"), "{path}");
}
