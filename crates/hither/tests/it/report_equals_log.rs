//! Acceptance test T19: the report equals the server's log, to the byte, over random workloads:
//! some in each check, a thousand in `make soak`.

use crate::support::program::{Program, below, content, pick};
use crate::support::takeover;
use hither::{Client, ClientConfig};
use hither_netem::random::Random;
use hither_testkit::mock_http::{
    Fault, FaultTrigger, Limit, LoggedRequest, MockHttpServer, OverLimit,
};
use hither_testkit::waiting::wait_until;

const WORKLOADS: u64 = 250;
const SOAK_WORKLOADS: u64 = 1000;

/// The bytes that a request names; all of the file if it names no ranges, none for a HEAD.
fn requested(logged: &LoggedRequest, size: u64) -> u64 {
    if logged.method == "HEAD" {
        return 0;
    }
    let Some(ranges) = &logged.ranges else { return size };
    let of = |range: &str| {
        let (first, last) = range.split_once('-').unwrap();
        let last: u64 = last.parse().unwrap();
        if first.is_empty() { last } else { last + 1 - first.parse::<u64>().unwrap() }
    };
    ranges.split(',').map(of).sum()
}

/// Server behaviours; none for a good server.
fn behaviours() -> Vec<Option<Fault>> {
    let most = |limit, over| Some(Fault::Most { limit, over });
    vec![
        None,
        None,
        None,
        Some(Fault::Coalesced(100)),
        Some(Fault::Merged),
        Some(Fault::Reversed),
        Some(Fault::FirstOnly),
        Some(Fault::Whole),
        Some(Fault::Chunked(1000)),
        Some(Fault::CloseAfter),
        Some(Fault::SuffixRefused(416)),
        most(Limit::Ranges(2), OverLimit::Status(416)),
        most(Limit::Ranges(1), OverLimit::Whole),
        most(Limit::HeaderBytes(40), OverLimit::Status(431)),
        most(Limit::AnswerBytes(9_000), OverLimit::Status(500)),
        most(Limit::AnswerBytes(9_000), OverLimit::Status(400)),
        most(Limit::AnswerBytes(9_000), OverLimit::Corrupt),
        most(Limit::AnswerBytes(9_000), OverLimit::Less),
    ]
}

fn workload(seed: u64) {
    let random = &mut Random::new(seed);
    let size = 1 + below(random, 200_000);
    let content = content(size, random);
    let behaviour = pick(random, behaviours());
    let peer = MockHttpServer::start(content.clone()).unwrap();
    behaviour.iter().for_each(|fault| peer.add_fault(FaultTrigger::From(0), fault.clone()));
    let mut config = ClientConfig::default();
    config.transport.max_connections = usize::try_from(1 + below(random, 4)).unwrap();
    config.decode_threads = 1;
    let budget = pick(random, vec![20_000, 100_000, 1_000_000]);
    config.cache = hither::CacheConfig::with_budget(budget);
    let client = Client::new(config).unwrap();
    let files: Vec<_> =
        (0..1 + below(random, 3)).map(|_| client.open(&peer.url()).unwrap()).collect();
    let what = format!("seed {seed}, {size} bytes, {behaviour:?}");
    std::thread::scope(|scope| {
        for file in &files {
            let mut random = Random::new(random.next_u64());
            let client = &client;
            let content = &content;
            let what = &*what;
            scope.spawn(move || Program { client, file, content, what }.run(8, &mut random));
        }
    });
    // A read waits for requests in flight: afterwards there are none. Files must be closed later,
    // because closing ends requests that the server has logged.
    let piece = budget / 4;
    for start in (0..size).step_by(usize::try_from(piece).unwrap()) {
        let range = start..size.min(start + piece);
        let found = files[0].read_ranges(&client, std::slice::from_ref(&range));
        let found = found.unwrap_or_else(|error| panic!("{what}: {range:?}: {error:?}"));
        assert!(content.starts_with(&found[0]) || start > 0);
    }
    // Responses may still be ending, and read-ahead be in flight.
    let counters = || (reported(&client), logged(&peer, size));
    let is_equal = || {
        let (reported, logged) = counters();
        agree(&reported, &logged, taken_over(&peer.log()), behaviour.as_ref())
    };
    if !wait_until(is_equal) {
        let line = |it: &LoggedRequest| {
            format!("{} {:?}: {}\n", it.connection, it.ranges, it.payload_bytes)
        };
        let log: String = peer.log().iter().map(line).collect();
        let (reported, logged) = counters();
        panic!("{what}: {reported:?} is not {logged:?}\n{log}");
    }
}

/// The counters of one side.
#[derive(Debug, PartialEq, Eq)]
struct Counters {
    connections: u64,
    requests: u64,
    /// Bytes of the file that were requested.
    requested: u64,
    /// Bytes of the file that were sent.
    payload: u64,
}

fn reported(client: &Client) -> Counters {
    let it = client.counters().totals();
    Counters {
        connections: it.connections,
        requests: it.requests,
        requested: it.bytes_requested,
        payload: it.bytes_payload,
    }
}

fn logged(peer: &MockHttpServer, size: u64) -> Counters {
    let log = peer.log();
    Counters {
        connections: peer.connections() as u64,
        requests: log.len() as u64,
        requested: log.iter().map(|it| requested(it, size)).sum(),
        payload: log.iter().map(|it| it.payload_bytes).sum(),
    }
}

/// Bytes that the client may have left unread, while the server logs all that it meant to send.
fn taken_over(log: &[LoggedRequest]) -> u64 {
    let fast = (0..log.len()).filter_map(|slow| takeover::of(log, slow));
    fast.map(|fast| fast.payload_bytes).sum()
}

/// Compares counters. Of several whole files in place of ranges the client reads one to its end,
/// while the server logs all that it meant to send, as it does where a request is taken over.
fn agree(
    reported: &Counters,
    logged: &Counters,
    taken_over: u64,
    behaviour: Option<&Fault>,
) -> bool {
    let whole =
        matches!(behaviour, Some(Fault::Whole | Fault::Most { over: OverLimit::Whole, .. }));
    let unread = if whole { logged.payload } else { taken_over };
    let most = logged.payload;
    (most - unread..=most).contains(&reported.payload)
        && *logged == Counters { payload: most, ..*reported }
}

#[test]
fn a_half_that_another_connection_takes_over_may_stay_unread() {
    let sent = |connection, ranges: &str, payload_bytes| {
        let mut logged = LoggedRequest::default();
        logged.connection = connection;
        logged.ranges = Some(ranges.to_owned());
        logged.payload_bytes = payload_bytes;
        logged
    };
    let slow = sent(1, "90910-156814", 65_905);
    let fast = sent(0, "131021-156814", 25_794);
    assert_eq!(taken_over(&[slow.clone(), fast.clone()]), 25_794);
    // The connection of the slow one goes on.
    let next = sent(1, "0-99", 100);
    assert_eq!(taken_over(&[slow.clone(), fast, next]), 0);
    assert_eq!(taken_over(&[slow, sent(0, "131021-140000", 8_980)]), 0);
}

#[test]
fn the_report_equals_the_log_of_the_server() {
    (0..WORKLOADS).for_each(workload);
    // It depends on the order of its requests whether the limit of this server is found.
    (0..50).for_each(|_| workload(802));
}

#[test]
#[ignore = "soak: a minute"]
fn the_report_equals_the_log_of_the_server_over_many_workloads() {
    (WORKLOADS..SOAK_WORKLOADS).for_each(workload);
    (0..200).for_each(|_| workload(802));
}
