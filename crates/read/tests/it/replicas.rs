//! A file in several places.

use crate::rig::{SIZE, check, content, drain, scattered};
use futures_core::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum};
use hither_core::source::{PartSink, ResponseMeta};
use hither_core::{Clock, Delivery, Endpoint, Error, ErrorKind, Failure, Limits, LinkEstimate};
use hither_core::{ReplicaSet, Request, Result, Source};
use hither_netem::Link;
use hither_read::{Reader, ReaderConfig};
use hither_replicas::{ChecksumQuery, Health, Replica, ReplicaDiscovery, Replicas, ReplicasConfig};
use hither_simulate::source::{FIRST_VALIDATOR, Fault, Logged, SimulatedSource};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn again() -> Error {
    Error::new(ErrorKind::Unavailable, "try again")
        .with_failure(Failure::Interrupted(Delivery::Sent))
}

/// Every kind of error that a server can be blamed for.
fn failures() -> Vec<Fault> {
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::Unauthenticated,
        ErrorKind::PermissionDenied,
        ErrorKind::Changed,
        ErrorKind::Corrupt,
        ErrorKind::Unsupported,
        ErrorKind::Protocol,
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
    ];
    let mut all: Vec<_> = kinds.map(|kind| Fault::Fail(Error::new(kind, "no"))).into();
    all.push(Fault::Fail(again()));
    all.push(Fault::Cut { after: 1 });
    all.push(Fault::Cut { after: 30_000 });
    all.push(Fault::Stall { after: 0 });
    all.push(Fault::Stall { after: 30_000 });
    all
}

fn source() -> SimulatedSource {
    let timeout = Duration::from_secs(30);
    named(SimulatedSource::new(content(), Link::G).with_max_connections(4).with_timeout(timeout))
}

/// A name, by which replicas are distinguished.
fn named(source: SimulatedSource) -> SimulatedSource {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    source.with_name(format!("replica {}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

fn replica(source: &Arc<SimulatedSource>, site: usize) -> Replica {
    let source = Arc::clone(source) as Arc<dyn Source>;
    Replica { source, server: format!("site {site}"), digest: None }
}

/// Replicas on servers of their own.
fn replicas(sources: &[Arc<SimulatedSource>]) -> Replicas {
    let health = Health::new(Arc::clone(&sources[0]) as Arc<_>);
    let all = Replicas::new(replica(&sources[0], 0), health, ReplicasConfig::default());
    sources.iter().enumerate().skip(1).for_each(|(n, source)| all.add(replica(source, n)));
    all
}

async fn read(source: &dyn Source, ranges: &[Range<u64>]) -> Result<(), String> {
    let mut reader = Reader::new(source, None, ReaderConfig::default());
    reader.push(ranges, usize::MAX);
    let (pieces, result) = drain(&mut reader).await;
    result.map_err(|error| format!("{error:?}"))?;
    let bytes: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    let wanted: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    if bytes as u64 != wanted {
        return Err(format!("{bytes} bytes came, {wanted} were wanted"));
    }
    check(&pieces, ranges)
}

fn delivered(sources: &[Arc<SimulatedSource>]) -> u64 {
    sources.iter().flat_map(|source| source.log()).map(|it| it.bytes).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Acceptance test T4: as long as one of three replicas is good, everything arrives, whatever
    /// befalls the others at whatever stage, and nearly nothing arrives twice.
    #[test]
    fn one_good_replica_is_enough(
        good in 0_usize..3,
        faults in prop::collection::vec((0_usize..3, 0_usize..6, 0_usize..14), 1..12),
        pieces in 1_u64..400,
    ) {
        let mut sources = [source(), source(), source()];
        for (report, nth, which) in faults {
            if report != good {
                let fault = failures().swap_remove(which);
                let old = std::mem::replace(&mut sources[report], source());
                sources[report] = old.with_fault(nth, fault);
            }
        }
        let sources = sources.map(Arc::new);
        let ranges = scattered(pieces, 1_000);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let result = runtime.block_on(async {
            // With the round-trip time known there are four connections, and requests of a hundred
            // ranges.
            let all = replicas(&sources);
            all.preconnect(4);
            tokio::time::sleep(Link::G.rtt).await;
            read(&all, &ranges).await
        });
        prop_assert_eq!(result, Ok(()));
        prop_assert!(delivered(&sources) <= pieces * 1_000 + (1 << 20));
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_received_before_a_replica_fails_are_kept() {
    let dying =
        Arc::new(source().with_max_connections(1).with_fault(0, Fault::Cut { after: 1_234_567 }));
    let sources = [dying, Arc::new(source())];
    read(&replicas(&sources), &[0..SIZE as u64]).await.unwrap();
    // Two servers of a connection each have a half each, and the second one takes over the rest of
    // the first half.
    let taken_over = |it: &Logged| it.request.ranges == [1_234_567..SIZE as u64 / 2];
    assert!(sources[1].log().iter().any(taken_over));
    assert_eq!(delivered(&sources), SIZE as u64);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_which_the_end_of_the_response_shows_a_change_fail_the_request() {
    let at_end = |error| source().with_fault(0, Fault::FailAtEnd(error));
    let changed = || at_end(Error::new(ErrorKind::Changed, "the file is longer"));
    let silent =
        || source().with_timeout(Duration::from_secs(300)).with_fault(0, Fault::Stall { after: 0 });
    let request = Request { ranges: vec![0..1_000], ..Request::default() };
    for (sources, requests) in
        [([changed(), source(), source()], [1, 0, 0]), ([silent(), changed(), source()], [1, 1, 0])]
    {
        let sources = sources.map(Arc::new);
        let all = replicas(&sources);
        let error = all.fetch(request.clone(), Box::new(drop)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        assert_eq!(sources.each_ref().map(|it| it.log().len()), requests);
        // The next request goes to a replica that is not excluded.
        all.fetch(request.clone(), Box::new(drop)).await.unwrap();
    }
    // How else a response ends does not matter once all bytes have come.
    let sources = [at_end(again()), source()].map(Arc::new);
    replicas(&sources).fetch(request, Box::new(drop)).await.unwrap();
    assert_eq!(sources.each_ref().map(|it| it.log().len()), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn all_requests_go_to_the_first_healthy_replica() {
    let sources = [Arc::new(source()), Arc::new(source())];
    read(&replicas(&sources), &scattered(400, 1_000)).await.unwrap();
    assert!(!sources[0].log().is_empty() && sources[1].log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_connections_is_waited_for_only_if_no_other_is_left() {
    let refused = || {
        let cause = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Fault::Fail(Error::new(ErrorKind::Unavailable, "no server").with_source(cause))
    };
    let failovers = |source: &SimulatedSource| -> Vec<bool> {
        source.log().iter().map(|it| it.request.failover).collect()
    };
    let sources = [Arc::new(source().with_fault(0, refused())), Arc::new(source())];
    read(&replicas(&sources), &[0..1_000]).await.unwrap();
    assert_eq!(sources.each_ref().map(|it| failovers(it)), [vec![true], vec![true]]);

    let sources = [(), ()].map(|()| Arc::new(source().with_fault(0, refused())));
    read(&replicas(&sources), &[0..1_000]).await.unwrap();
    assert_eq!(sources.each_ref().map(|it| failovers(it)), [vec![true, false], vec![true]]);

    let sources = [Arc::new(source())];
    read(&replicas(&sources), &[0..1_000]).await.unwrap();
    assert_eq!(failovers(&sources[0]), [false]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_server_is_avoided_by_all_files() {
    let down = || {
        let no = || Fault::Fail(Error::new(ErrorKind::Timeout, "no connection"));
        Arc::new((0..9).fold(source(), |source, nth| source.with_fault(nth, no())))
    };
    let dead = [down(), down()];
    let alive = [Arc::new(source()), Arc::new(source())];
    let health = Health::new(Arc::clone(&alive[0]) as Arc<_>);
    for file in 0..2 {
        let config = ReplicasConfig::default();
        let all = Replicas::new(replica(&dead[file], 0), Arc::clone(&health), config);
        all.add(replica(&alive[file], 1));
        read(&all, &[0..1_000]).await.unwrap();
        assert_eq!(dead[file].log().len(), usize::from(file == 0), "file {file}");
        assert_eq!(all.notices().len(), usize::from(file == 0));
    }
    // It may have come back.
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!health.is_down("site 0"));
}

#[tokio::test(start_paused = true)]
async fn a_replica_of_another_size_is_excluded_and_named() {
    let other = Arc::new(named(SimulatedSource::new(content().slice(..SIZE - 1), Link::G)));
    let dying =
        Arc::new(source().with_max_connections(1).with_fault(0, Fault::Cut { after: 100_000 }));
    let all = replicas(&[dying, Arc::clone(&other), Arc::new(source())]);
    all.expect(Some(SIZE as u64), None);
    read(&all, &[0..1_000_000]).await.unwrap();
    assert_eq!(other.log().iter().map(|it| it.bytes).sum::<u64>(), 0);
    let notices = all.notices().join("\n");
    assert!(notices.contains("expected 4000000"), "{notices}");
}

#[tokio::test(start_paused = true)]
async fn the_size_is_learned_from_the_first_response() {
    let dying = Arc::new(source().with_max_connections(1).with_fault(1, Fault::Cut { after: 100 }));
    let other = Arc::new(named(SimulatedSource::new(content().slice(..SIZE - 1), Link::G)));
    let all = replicas(&[dying, Arc::clone(&other)]);
    read(&all, &[0..1_000]).await.unwrap();
    read(&all, &[0..1_000]).await.unwrap();
    assert_eq!(other.log().iter().map(|it| it.bytes).sum::<u64>(), 0);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_two_replicas_meet_only_if_both_tell_the_size() {
    let dying = || source().with_max_connections(1).with_fault(0, Fault::Cut { after: 100_000 });
    for (one, other, expected) in [
        (dying(), source(), None),
        (dying(), source().without_size(), Some("does not state the size")),
        (dying().without_size(), source(), Some("without telling the size")),
        (dying().without_size(), source().without_size(), Some("without telling the size")),
    ] {
        let sources = [Arc::new(one), Arc::new(other)];
        let all = replicas(&sources);
        let request = Request { ranges: vec![0..1_000_000], ..Request::default() };
        let fetched = all.fetch(request, Box::new(drop)).await;
        let senders = all.reports().iter().filter(|report| report.bytes > 0).count();
        match expected {
            None => assert_eq!((fetched.is_ok(), senders), (true, 2)),
            Some(what) => {
                let error = fetched.unwrap_err().to_string();
                assert!(error.contains(what), "{error}");
                assert_eq!(senders, 1, "{error}");
            }
        }
    }
}

#[derive(Debug)]
struct Says(&'static str);

impl ChecksumQuery for Says {
    fn checksum(&self, _: Algorithm) -> BoxFuture<'_, Result<Option<Checksum>>> {
        Box::pin(async { Ok(Some(self.0.parse()?)) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_another_checksum_is_excluded_and_named() {
    let dead = Arc::new(source().with_fault(0, Fault::Fail(Error::new(ErrorKind::NotFound, "no"))));
    let sources = [dead, Arc::new(source()), Arc::new(source())];
    let all = replicas(&sources[..1]);
    all.expect(None, Some("adler32:00000001".parse().unwrap()));
    for (n, says) in [(1, "adler32:00000002"), (2, "adler32:00000001")] {
        all.add(Replica { digest: Some(Arc::new(Says(says))), ..replica(&sources[n], n) });
    }
    read(&all, &[0..1_000]).await.unwrap();
    assert!(sources[1].log().is_empty() && !sources[2].log().is_empty());
    assert!(all.notices().join("\n").contains("adler32:00000002, expected adler32:00000001"));
}

#[tokio::test(start_paused = true)]
async fn bytes_of_replicas_that_agree_in_size_only_are_reported() {
    let sum = Some("adler32:00000001");
    for (expected, says, validator, is_told) in [
        (None, None, "\"second\"", true),
        (sum, None, "\"second\"", true),
        (sum, sum, "\"second\"", false),
        (None, None, FIRST_VALIDATOR, false),
    ] {
        let cut = source().with_fault(0, Fault::Cut { after: 300_000 });
        let other = Fault::Change { validator: validator.to_owned() };
        let sources = [cut, source().with_fault(0, other)];
        let sources = sources.map(Arc::new);
        let all = replicas(&sources[..1]);
        all.expect(None, expected.map(|checksum| checksum.parse().unwrap()));
        let digest = says.map(|says| Arc::new(Says(says)) as Arc<dyn ChecksumQuery>);
        all.add(Replica { digest, ..replica(&sources[1], 1) });
        read(&all, &[0..1_000_000]).await.unwrap();
        assert!(all.reports().iter().all(|report| report.bytes > 0), "{:?}", all.reports());
        let told = all.notices().iter().any(|notice| notice.contains("only the sizes"));
        assert_eq!(told, is_told, "{:?}", all.notices());
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_replica_that_only_a_response_names_are_mixed_only_with_those_of_its_version() {
    let of =
        |validator: &str| source().with_fault(0, Fault::Change { validator: validator.to_owned() });
    let cut = || source().with_max_connections(1).with_fault(0, Fault::Cut { after: 300_000 });
    let dead = || source().with_fault(0, Fault::Fail(Error::new(ErrorKind::Unavailable, "no")));
    for (first, other, is_found, is_ok) in [
        (cut(), of(FIRST_VALIDATOR), true, true),
        (cut(), of("\"second\""), false, true),
        (cut(), of("\"second\""), true, false),
        (dead(), of("\"second\""), true, true),
    ] {
        let case = format!("{first:?} {is_found} {is_ok}");
        let sources = [first, other].map(Arc::new);
        let all = replicas(&sources[..1]);
        let add = if is_found { Replicas::add_found } else { Replicas::add };
        add(&all, replica(&sources[1], 1));
        let request = Request { ranges: vec![0..1_000_000], ..Request::default() };
        let fetched = all.fetch(request.clone(), Box::new(drop)).await;
        assert_eq!(fetched.is_ok(), is_ok, "{case}: {fetched:?}");
        let brought: Vec<_> = all.reports().iter().map(|it| it.bytes > 0).collect();
        assert_eq!(brought[1], is_ok, "{case}");
        if !is_ok {
            assert!(all.notices().join("\n").contains("neither its date"), "{case}");
            // The first one goes on alone.
            all.fetch(request, Box::new(drop)).await.unwrap();
        } else if is_found && !brought[0] {
            // The whole file comes from the other one.
            all.fetch(request, Box::new(drop)).await.unwrap();
            assert_eq!(all.reports()[0].bytes, 0, "{case}");
        }
    }
}

/// A source whose responses state a date, beside an entity tag.
#[derive(Debug)]
struct Dated(SimulatedSource);

impl Source for Dated {
    fn name(&self) -> String {
        self.0.name()
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn link(&self) -> LinkEstimate {
        self.0.link()
    }
    fn clock(&self) -> &dyn Clock {
        self.0.clock()
    }
    fn endpoint(&self) -> Endpoint {
        self.0.endpoint()
    }
    fn max_connections(&self) -> usize {
        self.0.max_connections()
    }
    fn idle_connections(&self) -> usize {
        self.0.idle_connections()
    }
    fn preconnect(&self, connections: usize) {
        self.0.preconnect(connections);
    }
    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>> {
        request.version.note_modified("Sun, 22 Nov 2026 10:00:00 GMT");
        self.0.fetch(request, sink)
    }
}

#[tokio::test(start_paused = true)]
async fn equal_dates_admit_a_replica_that_a_response_names_though_its_tag_is_its_own() {
    let first = source().with_max_connections(1).with_fault(0, Fault::Cut { after: 300_000 });
    let other = source().with_fault(0, Fault::Change { validator: "\"second\"".to_owned() });
    let health = Health::new(Arc::new(source()));
    let [first, other] = [first, other].map(|source| Replica {
        server: source.name(),
        source: Arc::new(Dated(source)),
        digest: None,
    });
    let all = Replicas::new(first, health, ReplicasConfig::default());
    all.add_found(other);
    let validator = Some(FIRST_VALIDATOR.to_owned());
    let request = Request { ranges: vec![0..1_000_000], validator, ..Request::default() };
    all.fetch(request, Box::new(drop)).await.unwrap();
    assert!(all.reports().iter().all(|it| it.bytes > 0), "{:?}", all.notices());
}

#[tokio::test(start_paused = true)]
async fn a_silent_replica_is_hedged() {
    let silent = Arc::new(source().with_fault(0, Fault::Stall { after: 5_000 }));
    let sources = [silent, Arc::new(source())];
    let started = tokio::time::Instant::now();
    read(&replicas(&sources), &[0..20_000]).await.unwrap();
    // Connecting and an answer, 1.92 s of silence (eight round trips), connecting and an answer.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(delivered(&sources), 20_000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_three_times_is_not_waited_for_again() {
    let fault = || Fault::Stall { after: 0 };
    let silent = (0..4).fold(source(), |it, number| it.with_fault(number, fault()));
    let sources = [Arc::new(silent), Arc::new(source())];
    let all = replicas(&sources);
    for _ in 0..4 {
        read(&all, &[0..1_000]).await.unwrap();
    }
    assert_eq!((sources[0].log().len(), sources[1].log().len()), (3, 4));
}

#[tokio::test(start_paused = true)]
async fn hedging_stays_within_its_limit() {
    // Silent from the first byte on, and too large to be asked for twice: the third clock has to
    // end it.
    let silent =
        Arc::new(source().with_max_connections(1).with_fault(0, Fault::Stall { after: 0 }));
    let sources = [silent, Arc::new(source())];
    let started = tokio::time::Instant::now();
    read(&replicas(&sources), &[0..3_000_000]).await.unwrap();
    assert!(started.elapsed() > Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!(delivered(&sources), 3_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_large_read_is_shared_in_proportion_to_speed() {
    let big = bytes::Bytes::from(vec![7_u8; 150 << 20]);
    let server = |rate| {
        let link = Link { bandwidth: Some(rate), ..Link::G };
        Arc::new(named(SimulatedSource::new(big.clone(), link)).with_max_connections(4))
    };
    let sources = [server(200_000_000), server(50_000_000)];
    let all = replicas(&sources);
    let mut reader = Reader::new(&all, None, ReaderConfig::default());
    reader.push(&[0..150 << 20], usize::MAX);
    drain(&mut reader).await.1.unwrap();
    let bytes = all.reports().iter().map(|report| report.bytes).collect::<Vec<_>>();
    let total: u64 = bytes.iter().sum();
    assert!((150 << 20..160 << 20).contains(&total), "{bytes:?}");
    assert!(bytes[1] > 5 << 20 && bytes[1] < bytes[0] / 2, "{bytes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_not_shared_with_another_name_of_its_server() {
    let sources = [Arc::new(source()), Arc::new(source())];
    let health = Health::new(Arc::clone(&sources[0]) as Arc<_>);
    let all = Replicas::new(replica(&sources[0], 0), health, ReplicasConfig::default());
    all.add(replica(&sources[1], 0));
    // Sixteen at a time, where one server takes four.
    copy_blocks(&all, 100_000).await;
    assert_eq!((sources[0].log().len(), sources[1].log().len()), (SIZE.div_ceil(100_000), 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_large_for_another_replica_than_the_leader_goes_on() {
    let too_large = || source().with_fault(0, Fault::Fail(Error::new(ErrorKind::TooLarge, "no")));
    let silent = source().with_timeout(Duration::from_secs(3));
    let request = Request { ranges: vec![0..1_000], ..Request::default() };
    // The leader fails first, or after its request was hedged.
    for leader in [
        source().with_fault(0, Fault::Fail(again())),
        silent.with_fault(0, Fault::Stall { after: 0 }),
    ] {
        let sources = [leader, too_large(), source()].map(Arc::new);
        replicas(&sources).fetch(request.clone(), Box::new(drop)).await.unwrap();
        assert_eq!(sources.each_ref().map(|it| it.log().len()), [1, 1, 1]);
    }
    // Its own limits make the request smaller.
    let sources = [too_large(), source()].map(Arc::new);
    let error = replicas(&sources).fetch(request, Box::new(drop)).await.unwrap_err();
    assert_eq!((error.kind(), sources[1].log().len()), (ErrorKind::TooLarge, 0));
}

#[tokio::test(start_paused = true)]
async fn when_all_have_failed_the_error_names_them_all() {
    let no = |kind| Fault::Fail(Error::new(kind, format!("no: {kind:?}")));
    let sources = [
        Arc::new(source().with_fault(0, no(ErrorKind::NotFound))),
        Arc::new(source().with_fault(0, no(ErrorKind::PermissionDenied))),
    ];
    let all = replicas(&sources);
    let mut reader = Reader::new(&all, None, ReaderConfig::default());
    reader.push(&[0..1_000], 1);
    let error = drain(&mut reader).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("no: NotFound"), "{error}");
}

#[derive(Debug)]
struct Knows(Arc<SimulatedSource>);

impl ReplicaDiscovery for Knows {
    fn locate(&self, _: &[Error]) -> BoxFuture<'_, Option<Vec<Replica>>> {
        Box::pin(async { Some(vec![replica(&self.0, 1)]) })
    }
}

#[tokio::test(start_paused = true)]
async fn further_replicas_are_located_once_if_needed() {
    let no = || Fault::Fail(Error::new(ErrorKind::Unavailable, "no"));
    let dead = Arc::new(source().with_fault(1, no()).with_fault(2, no()));
    let other = Arc::new(source());
    let all =
        replicas(std::slice::from_ref(&dead)).with_discovery(Box::new(Knows(Arc::clone(&other))));
    read(&all, &[0..1_000]).await.unwrap();
    assert!(other.log().is_empty(), "nothing was needed yet");
    read(&all, &[1_000..2_000]).await.unwrap();
    assert_eq!(other.log().len(), 1);
}

/// Fetches the whole file in blocks by sixteen workers, as a copy does.
async fn copy_blocks(all: &Replicas, block: u64) {
    let next = AtomicUsize::new(0);
    let work = async || {
        loop {
            let start = next.fetch_add(1, Ordering::Relaxed) as u64 * block;
            if start >= SIZE as u64 {
                return;
            }
            let range = start..(start + block).min(SIZE as u64);
            let request = Request { ranges: vec![range], ..Request::default() };
            all.fetch(request, Box::new(|_| ())).await.unwrap();
        }
    };
    futures_util::future::join_all((0..16).map(|_| work())).await;
}

#[tokio::test(start_paused = true)]
async fn a_bulk_job_shares_the_file_in_proportion_to_the_measured_rates() {
    let sources = [8, 4, 2].map(|mbit| {
        let link = Link::new(Duration::from_millis(20), Some(mbit * 1_000_000));
        Arc::new(named(SimulatedSource::new(content(), link).with_max_connections(16)))
    });
    let all = replicas(&sources);
    all.begin_bulk();
    let start = tokio::time::Instant::now();
    copy_blocks(&all, 64 << 10).await;
    let seconds = start.elapsed().as_secs_f64();
    let brought: Vec<u64> = all.reports().iter().map(|it| it.bytes).collect();
    assert_eq!(brought.iter().sum::<u64>(), SIZE as u64, "{brought:?}");
    assert!(brought[0] > brought[1] && brought[1] > brought[2], "{brought:?}");
    let ideal = SIZE as f64 * 8.0 / 14e6;
    assert!(seconds < 1.4 * ideal, "{seconds} s, at best {ideal} s; {brought:?}");
}

#[tokio::test(start_paused = true)]
async fn a_first_replica_whose_connection_broke_is_asked_and_others_are_waited_for() {
    let fail = |kind| Fault::Fail(Error::new(kind, "no"));
    let status = |code| {
        let failure = Failure::Status { code, after: None };
        Fault::Fail(Error::new(ErrorKind::Unavailable, "no").with_failure(failure))
    };
    for (fault, would_wait) in [
        (Fault::Fail(again()), false),
        (Fault::Cut { after: 0 }, false),
        (fail(ErrorKind::NotFound), false),
        (fail(ErrorKind::Unavailable), true),
        (fail(ErrorKind::Timeout), true),
        (status(503), true),
        (status(502), true),
    ] {
        let case = format!("{fault:?}");
        let sources = [source().with_fault(0, fault), source()].map(Arc::new);
        let all = replicas(&sources);
        assert!(!all.first_would_wait());
        read(&all, &[0..1_000]).await.unwrap();
        assert_eq!(all.first_would_wait(), would_wait, "{case}");
    }
}
