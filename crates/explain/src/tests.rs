//! Prepared evidence, and the bottleneck that is found in it.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the prepared figures are small and positive"
)]

use super::activity::{JobPhase, ServerShare, segments};
use super::attribution::diagnose;
use super::*;

const MB: f64 = 1e6;

/// A connection that opens within a round trip and has these requests: sent, first byte, last byte,
/// bytes, status.
fn connection(
    server: &str,
    rtt: f64,
    requests: &[(f64, f64, f64, f64, u16)],
) -> ConnectionActivity {
    let requests = requests.iter().map(|&(sent, first, last, bytes, status)| RequestActivity {
        sent,
        uploaded: sent,
        first_byte: Some(first),
        last_byte: last,
        bytes: bytes as u64,
        bytes_sent: 0,
        status: Some(status),
    });
    ConnectionActivity {
        server: server.to_owned(),
        connected: Some(rtt),
        rtt: Some(rtt),
        requests: requests.collect(),
        ..ConnectionActivity::default()
    }
}

/// A transfer of ten seconds at 10 MB/s over `connections`, without a delay at its start.
fn transfer(rtt: f64, connections: usize) -> JobEvidence {
    let bytes = 100.0 * MB / connections as f64;
    let one = connection("http://a", rtt, &[(rtt, 2.0 * rtt, 10.0, bytes, 206)]);
    let mut job = JobEvidence {
        seconds: 10.0,
        connections: vec![one; connections],
        max_connections: 64,
        ..JobEvidence::default()
    };
    for at in 0..1000 {
        job.arrivals.add(f64::from(at) * 0.01, 100_000);
    }
    job
}

fn probed(mut job: JobEvidence, steps: &[(usize, f64)]) -> JobEvidence {
    let step =
        |&(connections, rate): &(usize, f64)| ProbeStep { connections, bytes_per_s: rate * MB };
    job.probe = steps.iter().map(step).collect();
    job
}

fn expect(job: &JobEvidence, bottleneck: Bottleneck, gain: f64) -> Diagnosis {
    let found = diagnose(job);
    assert_eq!(found.bottleneck, bottleneck, "{found:#?}");
    let saved = found.gain_seconds.unwrap();
    assert!((saved - gain).abs() <= 0.1 * gain.max(0.1), "{saved} s: {found:#?}");
    let phases: f64 = segments(job).iter().map(|it| it.end - it.start).sum();
    assert!((phases - job.seconds).abs() < 1e-9, "{phases}");
    found
}

#[test]
fn a_full_path_has_no_faster_rate() {
    let job = probed(transfer(0.02, 4), &[(1, 9.0), (2, 10.0)]);
    assert!(!expect(&job, Bottleneck::PathRate, 4.98).inferred);
    assert!(expect(&transfer(0.02, 4), Bottleneck::PathRate, 4.98).inferred);
}

#[test]
fn a_connection_on_one_machine_is_as_fast_as_a_core() {
    let mut job = probed(transfer(0.000_1, 1), &[(1, 500.0), (2, 900.0)]);
    job.connections[0].requests[0].bytes = 5_000_000_000;
    let found = diagnose(&job);
    assert_eq!((found.bottleneck, found.gain_seconds), (Bottleneck::ThisMachine, None));
    assert!(found.inferred);
}

#[test]
fn a_cap_per_connection_is_lifted_by_connections() {
    let job = probed(transfer(0.000_2, 1), &[(1, 10.0), (2, 20.0), (4, 40.0)]);
    let found = expect(&job, Bottleneck::ConnectionCap, 7.5);
    assert!(found.change.contains("4 connections"), "{}", found.change);
}

#[test]
fn a_measurement_with_fewer_connections_than_the_job_is_no_evidence_of_a_full_path() {
    // 25 connections of 0.4 MB/s each.
    let fewer = [(1, 0.4), (2, 0.8), (4, 1.6), (8, 3.2), (16, 6.4)];
    let job = probed(transfer(0.000_2, 25), &fewer);
    assert!(expect(&job, Bottleneck::ConnectionCap, 6.1).inferred);
    let as_many = [(1, 0.4), (8, 3.2), (16, 6.4), (32, 12.8), (64, 25.6)];
    assert!(!expect(&probed(job.clone(), &as_many), Bottleneck::ConnectionCap, 6.1).inferred);
    let full = [(1, 8.0), (2, 10.0), (4, 10.5)];
    assert!(!expect(&probed(job, &full), Bottleneck::PathRate, 5.0).inferred);
}

#[test]
fn a_connection_that_keeps_a_core_busy_has_no_cap() {
    let mut job = probed(transfer(0.000_5, 1), &[(1, 457.0), (2, 900.0)]);
    job.connections[0].requests[0].bytes = 4_570_000_000;
    assert_eq!(diagnose(&job).bottleneck, Bottleneck::ThisMachine);
}

#[test]
fn a_window_is_full_in_every_round_trip() {
    // 10 MB/s x 100 ms = 1 MB.
    let mut job = probed(transfer(0.1, 1), &[(1, 10.0), (2, 20.0)]);
    job.tcp.window = Some(1_100_000);
    expect(&job, Bottleneck::Window, 4.9);
    // The server's window, whose bytes arrive in bursts.
    job.tcp.window = Some(100_000_000);
    job.arrivals = ArrivalSeries::default();
    for at in 0..100 {
        job.arrivals.add(f64::from(at) * 0.1, 1_000_000);
    }
    expect(&job, Bottleneck::Window, 4.9);
    // The handshake took longer than the round trips that followed.
    for connection in &mut job.connections {
        connection.rtt = Some(0.116);
    }
    expect(&job, Bottleneck::Window, 4.9);
}

#[test]
fn losses_are_one_where_more_connections_bring_more() {
    let mut job = probed(transfer(0.05, 1), &[(1, 10.0), (2, 20.0), (4, 38.0)]);
    job.tcp = TcpCounters { segments_received: 70_000, out_of_order: 700, ..job.tcp };
    expect(&job, Bottleneck::Loss, 9.9 - 100.0 / 38.0);
}

#[test]
fn growing_windows_are_slow_start() {
    let rtt = 0.1;
    let mut job = probed(JobEvidence::default(), &[(1, 50.0)]);
    job.seconds = 1.0;
    job.connections = vec![connection("http://a", rtt, &[(0.1, 0.2, 1.0, 5.1 * MB, 200)])];
    for round in 0..8 {
        job.arrivals.add(0.2 + f64::from(round) * rtt, 20_000 << round);
    }
    expect(&job, Bottleneck::SlowStart, 0.8 - 5.1 / 50.0);
}

#[test]
fn small_requests_one_after_the_other_wait_for_round_trips() {
    let requests: Vec<_> = (1..50)
        .map(|at| f64::from(at) * 0.1)
        .map(|at| (at, at + 0.1, at + 0.1, 4096.0, 206))
        .collect();
    let mut job = JobEvidence { seconds: 5.0, ..JobEvidence::default() };
    job.connections = vec![connection("http://a", 0.1, &requests)];
    expect(&job, Bottleneck::RoundTrips, 4.8);
}

#[test]
fn a_server_that_responds_late_is_slow_for_a_stated_reason() {
    let requests: Vec<_> = (0..20)
        .map(f64::from)
        .map(|at| (at * 0.2, at * 0.2 + 0.19, at * 0.2 + 0.2, 1e5, 206))
        .collect();
    let mut job = JobEvidence { seconds: 4.0, ..JobEvidence::default() };
    job.connections = vec![connection("http://a", 0.001, &requests)];
    assert!(expect(&job, Bottleneck::ServerDisk, 3.78).inferred);
    job.connections[0].reported = Some(ServerShare { total: 4.0, disk: 3.6, client: 0.0 });
    // The connection is idle, so its time has no weight.
    job.connections.push(connection("http://a", 0.001, &[(0.001, 0.002, 0.003, 100.0, 206)]));
    let idle = ServerShare { total: 4.0, disk: 0.0, client: 0.0 };
    job.connections.last_mut().unwrap().reported = Some(idle);
    assert!(!expect(&job, Bottleneck::ServerDisk, 3.4).inferred);
}

#[test]
fn responses_that_wait_for_each_other_show_the_servers_concurrency() {
    // Ten requests at a time; each waits 0.1 s longer than the one before.
    let connections = (1..=10).map(|at| {
        let late = 0.1 * f64::from(at);
        let requests: Vec<_> =
            (0..4).map(f64::from).map(|it| (it, it + late, it + late + 0.001, 1e4, 206)).collect();
        connection("http://a", 0.001, &requests)
    });
    let mut job = JobEvidence { seconds: 4.0, ..JobEvidence::default() };
    job.connections = connections.collect();
    assert_eq!(diagnose(&job).bottleneck, Bottleneck::ServerConcurrency);
    // A request that is refused, and repeated later.
    let refused = [(0.1, 0.11, 0.11, 0.0, 503), (3.0, 3.01, 3.1, 1e6, 206)];
    job.connections = vec![connection("http://a", 0.001, &refused)];
    expect(&job, Bottleneck::ServerConcurrency, 2.9);
}

#[test]
fn redirects_and_handshakes_are_set_up() {
    let requests: Vec<_> =
        (1..10).map(f64::from).map(|at| (at, at + 0.9, at + 0.9, 100.0, 307)).collect();
    let mut job = JobEvidence { seconds: 10.0, ..JobEvidence::default() };
    job.connections = vec![connection("http://a", 0.1, &requests)];
    let found = expect(&job, Bottleneck::SetUp, 8.2);
    assert!(found.change.contains("redirects"), "{}", found.change);
}

#[test]
fn a_slow_replica_ends_last() {
    let fast = connection("http://a", 0.001, &[(0.0, 0.01, 2.0, 80.0 * MB, 206)]);
    let slow = connection("http://b", 0.001, &[(0.0, 0.01, 10.0, 20.0 * MB, 206)]);
    let job =
        JobEvidence { seconds: 10.0, connections: vec![fast, slow], ..JobEvidence::default() };
    let found = expect(&job, Bottleneck::SlowReplica, 7.5);
    assert!(found.change.contains("http://b"), "{}", found.change);
}

#[test]
fn a_slow_replica_has_few_bytes_but_takes_connections() {
    let fast = connection("http://a", 0.001, &[(0.0, 0.01, 2.0, 20.0 * MB, 206)]);
    let slow = connection("http://b", 0.001, &[(0.0, 0.01, 2.0, 0.1 * MB, 206)]);
    let connections = vec![fast.clone(), fast, slow.clone(), slow];
    let job = JobEvidence { seconds: 2.0, connections, ..JobEvidence::default() };
    expect(&job, Bottleneck::SlowReplica, 1.0);
}

#[test]
fn busy_threads_decode_and_busy_writers_write() {
    let mut job = transfer(0.001, 2);
    job.decode_seconds = 18.0;
    job.decode_threads = 2;
    assert_eq!(diagnose(&job).bottleneck, Bottleneck::Decode);
    let mut job = transfer(0.001, 2);
    job.write = Some(StageSeconds { busy: 9.0, starved: 1.0, blocked: 0.0 });
    assert_eq!(diagnose(&job).bottleneck, Bottleneck::LocalDisk);
}

#[test]
fn bytes_are_counted_in_bins_that_double() {
    let mut series = ArrivalSeries::default();
    for at in 0..10_000 {
        series.add(f64::from(at) * 0.01, 10);
    }
    assert_eq!(series.bytes.iter().sum::<u64>(), 100_000);
    assert!(series.bytes.len() <= 800 && series.bin_seconds > 0.1);
    assert!((series.between(0.0, 50.0) - 50_000.0).abs() < 100.0);
}

#[test]
fn the_timeline_shows_the_phases_there_are() {
    let job = transfer(0.5, 1);
    let text = timeline::to_text(&job, 40);
    let lines: Vec<_> = text.lines().collect();
    let names = [JobPhase::Transfer, JobPhase::RoundTrip, JobPhase::Opening].map(JobPhase::name);
    for (line, name) in lines.iter().zip(names) {
        assert!(line.trim_start().starts_with(name), "{text}");
    }
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].contains("███") && lines[2].contains("|██  "), "{text}");
    let image = timeline::to_svg(&job);
    assert!(image.starts_with("<svg") && image.matches("<rect").count() == 6, "{image}");
}
