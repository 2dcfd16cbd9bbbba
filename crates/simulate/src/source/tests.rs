//! Properties of the simulated link.

use super::*;
use hither_core::{Part, Retry};
use proptest::prelude::*;

const RTT: Duration = Duration::from_millis(240);

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251).to_le_bytes()[0]).collect()
}

fn request(ranges: &[Range<u64>]) -> Request {
    Request { ranges: ranges.to_vec(), ..Request::default() }
}

type Received = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

fn sink() -> (PartSink, Received) {
    let received = Received::default();
    let kept = Arc::clone(&received);
    let sink = Box::new(move |part: Part| {
        kept.lock().unwrap().push((part.offset, part.bytes.to_vec()));
    });
    (sink, received)
}

async fn get(source: &SimulatedSource, ranges: &[Range<u64>]) -> Result<ResponseMeta> {
    source.fetch(request(ranges), sink().0).await
}

#[tokio::test(start_paused = true)]
async fn first_request_takes_a_round_trip_after_connecting() {
    let source = SimulatedSource::new(content(14_480), Link::G);
    assert_eq!(source.link().rtt, None);
    let answer = get(&source, &[0..10, 100..14_480]).await.unwrap();
    assert_eq!(answer.size, Some(14_480));
    let log = source.log();
    assert_eq!((log[0].start, log[0].end, log[0].bytes), (RTT, Some(RTT * 2), 14_390));
    assert_eq!((source.round_trips(), source.connections_opened()), (1, 1));
    assert_eq!(source.link().rtt, Some(RTT));
    get(&source, &[5..6]).await.unwrap();
    assert_eq!(source.log()[1].end, Some(RTT * 3));
    assert_eq!((source.round_trips(), source.connections_opened()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn large_answer_pays_slow_start_and_connections_share_it() {
    let source = SimulatedSource::new(content(7_000_000), Link::G);
    get(&source, &[0..7_000_000]).await.unwrap();
    assert_eq!(source.log()[0].end, Some(RTT * 10));

    let striped = SimulatedSource::new(content(7_000_000), Link::G);
    let stripes: Vec<Range<u64>> = (0..16).map(|i| i * 437_500..(i + 1) * 437_500).collect();
    let stripes: Vec<_> =
        stripes.iter().map(|it| get(&striped, std::slice::from_ref(it))).collect();
    for outcome in futures_util::future::join_all(stripes).await {
        outcome.unwrap();
    }
    assert!(striped.log().iter().all(|it| it.end == Some(RTT * 6)));
    assert_eq!((striped.round_trips(), striped.connections_opened()), (1, 16));
}

#[tokio::test(start_paused = true)]
async fn connections_share_the_rate() {
    let rate = 8_000_000;
    let link = Link::new(Duration::from_millis(2), Some(rate));
    let source = SimulatedSource::new(content(1_000_000), link);
    let halves = [0..500_000, 500_000..1_000_000];
    let halves = halves.each_ref().map(|it| get(&source, std::slice::from_ref(it)));
    futures_util::future::join_all(halves).await;
    let end = source.log().iter().filter_map(|it| it.end).max().unwrap();
    let least = Duration::from_secs(1);
    assert!(end >= least && end < least + Duration::from_millis(20), "{end:?}");
    assert_eq!(source.link().bandwidth, Some(1e6));
}

#[tokio::test(start_paused = true)]
async fn warm_connections_save_the_handshake() {
    let source = SimulatedSource::new(content(100), Link::G).with_max_connections(3);
    source.preconnect(8);
    assert_eq!((source.idle_connections(), source.connections_opened()), (0, 3));
    tokio::time::sleep(RTT).await;
    assert_eq!(source.idle_connections(), 3);
    get(&source, &[0..1]).await.unwrap();
    assert_eq!(source.log()[0].end, Some(RTT * 2));
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_connections_wait_their_turn() {
    let source = SimulatedSource::new(content(100), Link::G).with_max_connections(2);
    let all: Vec<_> = (0..6).map(|_| get(&source, &[0..1])).collect();
    futures_util::future::join_all(all).await;
    let ends: Vec<_> = source.log().iter().filter_map(|it| it.end).collect();
    assert_eq!(ends, [2, 2, 3, 3, 4, 4].map(|trips| RTT * trips));
    assert_eq!((source.round_trips(), source.connections_opened()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn given_up_request_breaks_its_connection_and_frees_its_place() {
    let source = SimulatedSource::new(content(100), Link::G).with_max_connections(1);
    let given_up = tokio::time::timeout(RTT, get(&source, &[0..1])).await;
    assert!(given_up.is_err());
    get(&source, &[0..1]).await.unwrap();
    assert_eq!((source.connections_opened(), source.log()[0].end), (2, None));
}

#[tokio::test(start_paused = true)]
async fn faults_strike_the_request_they_are_for() {
    let fail = Error::new(ErrorKind::TooLarge, "no");
    let source = SimulatedSource::new(content(50_000), Link::G)
        .with_fault(0, Fault::Fail(fail))
        .with_fault(1, Fault::Cut { after: 20_000 })
        .with_fault(3, Fault::Change { validator: "\"second\"".to_owned() })
        .with_fault(5, Fault::Stall { after: 3 });
    let error = get(&source, &[0..50_000]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);

    let (parts, received) = sink();
    let error = source.fetch(request(&[0..50_000]), parts).await.unwrap_err();
    assert_eq!(error.retry(), Retry::SameServer { after: Duration::ZERO });
    assert_eq!(received.lock().unwrap().concat_bytes(), content(50_000)[..20_000]);
    assert_eq!(source.connections_opened(), 1);

    let answer = get(&source, &[0..1]).await.unwrap();
    assert_eq!(
        (answer.validator.as_deref(), source.connections_opened()),
        (Some(FIRST_VALIDATOR), 2)
    );
    let conditional = Request { validator: answer.validator, ..request(&[0..1]) };
    let error = source.fetch(conditional, sink().0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert_eq!(get(&source, &[0..1]).await.unwrap().validator.as_deref(), Some("\"second\""));

    let stalled = tokio::time::timeout(Duration::from_secs(3600), get(&source, &[0..9])).await;
    assert!(stalled.is_err());
    let log = source.log();
    assert_eq!(
        log.iter().map(|it| it.failed).collect::<Vec<_>>(),
        [true, true, false, true, false, false]
    );
    assert_eq!(log[5].bytes, 3);
}

#[tokio::test(start_paused = true)]
async fn requests_that_break_the_contract_are_refused() {
    let limits = Limits { max_ranges: 2, max_total_bytes: 50, ..Limits::unlimited() };
    let source = SimulatedSource::new(content(100), Link::G).with_limits(limits);
    for ranges in [&[0..1, 2..3, 4..5][..], &[0..51], &[5..6, 0..1], &[0..2, 1..3], &[3..3], &[]] {
        let error = get(&source, ranges).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{ranges:?}");
    }
    assert_eq!(get(&source, &[90..101]).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<(u64, Vec<u8>)> {
    /// The total range of parts that arrived in order and touch.
    fn concat_bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (offset, bytes) in self {
            assert_eq!(*offset, all.len() as u64);
            all.extend(bytes);
        }
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_byte_asked_for_arrives_once(
        cuts in prop::collection::btree_set(0_u64..60_000, 0..12),
        tail in 0_u64..70_000,
        rate in prop::option::of(1_000_000_u64..1_000_000_000),
    ) {
        let cuts: Vec<u64> = cuts.into_iter().collect();
        let ranges: Vec<Range<u64>> = cuts.chunks_exact(2).map(|it| it[0]..it[1]).collect();
        prop_assume!(!ranges.is_empty() || tail > 0);
        let bytes = content(60_000);
        let mut wanted = vec![false; bytes.len()];
        for range in ranges.iter().cloned().chain([60_000_u64.saturating_sub(tail)..60_000]) {
            for at in range { wanted[usize::try_from(at).unwrap()] = true; }
        }
        let (parts, received) = sink();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let source = SimulatedSource::new(bytes.clone(), Link::new(Duration::from_millis(10), rate));
        let request = Request { ranges, tail, ..Request::default() };
        runtime.block_on(source.fetch(request, parts)).unwrap();
        let mut seen = vec![false; bytes.len()];
        for (offset, part) in received.lock().unwrap().iter() {
            for (i, byte) in part.iter().enumerate() {
                let at = usize::try_from(*offset).unwrap() + i;
                prop_assert_eq!(*byte, bytes[at]);
                prop_assert!(!seen[at]);
                seen[at] = true;
            }
        }
        prop_assert_eq!(seen, wanted);
    }
}
