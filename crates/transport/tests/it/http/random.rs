//! Many ranges from servers of every behaviour, with random faults.

use crate::fixture::{content, impatient, peer, read, source, with_connections};
use hither_core::{Error, ErrorKind};
use hither_netem::random::Random;
use hither_testkit::mock_http::{Fault, FaultTrigger, Limit, OverLimit, ResponsePosition};
use proptest::prelude::*;
use std::ops::Range;

const SIZE: u64 = 3_000_000;

fn random_ranges(seed: u64, count: usize) -> Vec<Range<u64>> {
    let mut random = Random::new(seed);
    let range = |_| {
        let start = random.next_u64() % SIZE;
        start..(start + random.next_u64() % 400).min(SIZE)
    };
    (0..count).map(range).collect()
}

async fn expect_exact(what: &str, count: usize, faults: Vec<Fault>, requests: usize) {
    let peer = peer(usize::try_from(SIZE).unwrap(), []);
    faults.into_iter().for_each(|fault| peer.add_fault(FaultTrigger::Always, fault));
    let source = source(&peer.url(), with_connections(4));
    let ranges = random_ranges(count as u64, count);
    let got = read(&source, &ranges).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let content = content(usize::try_from(SIZE).unwrap());
    got.is_exact(&content, &ranges).unwrap_or_else(|error| panic!("{what}: {error}"));
    let sent = peer.log().len();
    assert!(sent <= requests, "{what}: {sent} requests, expected at most {requests}");
}

#[tokio::test]
async fn nginx_gives_five_thousand_ranges() {
    expect_exact("nginx", 5_000, vec![Fault::Server("nginx/1.22.1".to_owned())], 30).await;
}

#[tokio::test]
async fn an_unknown_server_gives_five_thousand_ranges() {
    expect_exact("unknown", 5_000, vec![Fault::ExtraPartFields], 40).await;
}

#[tokio::test]
async fn apache_gives_five_thousand_ranges() {
    let most = Fault::Most { limit: Limit::Ranges(200), over: OverLimit::Whole };
    let faults = vec![most, Fault::Server("Apache/2.4.71 (Debian)".to_owned())];
    expect_exact("apache", 5_000, faults, 40).await;
}

#[tokio::test]
async fn xrootd_gives_five_thousand_ranges() {
    let most = Fault::Most { limit: Limit::Ranges(1024), over: OverLimit::Corrupt };
    let faults = vec![most, Fault::SuffixIgnored, Fault::Server("XrootD/v5.5.3".to_owned())];
    expect_exact("xrootd", 5_000, faults, 40).await;
}

#[tokio::test]
async fn a_server_that_reorders_gives_five_thousand_ranges() {
    expect_exact("reversed", 5_000, vec![Fault::Reversed, Fault::NoETag], 40).await;
}

#[tokio::test]
async fn a_server_of_single_ranges_gives_five_hundred() {
    expect_exact("single", 500, vec![Fault::FirstOnly], 600).await;
}

#[tokio::test]
async fn a_server_without_ranges_gives_five_thousand() {
    expect_exact("whole", 5_000, vec![Fault::Whole], 12).await;
}

#[tokio::test]
async fn a_server_that_merges_gives_five_thousand() {
    expect_exact("merged", 5_000, vec![Fault::Merged], 40).await;
}

#[tokio::test]
async fn a_server_that_closes_every_connection_gives_five_thousand() {
    expect_exact("close", 5_000, vec![Fault::CloseAfter], 40).await;
}

fn place() -> impl Strategy<Value = ResponsePosition> {
    prop_oneof![
        (0_usize..300).prop_map(ResponsePosition::Answer),
        (0_usize..5_000).prop_map(ResponsePosition::Body),
        (0_usize..4).prop_map(ResponsePosition::PartHead),
        (0_usize..4).prop_map(ResponsePosition::PartData),
    ]
}

fn over() -> impl Strategy<Value = OverLimit> {
    prop_oneof![Just(OverLimit::Status(400)), Just(OverLimit::Whole), Just(OverLimit::Corrupt)]
}

fn fault() -> impl Strategy<Value = Fault> {
    let status = prop::sample::select(vec![400, 403, 404, 413, 416, 431, 418, 501, 503]);
    prop_oneof![
        4 => place().prop_map(Fault::Close),
        2 => place().prop_map(Fault::Reset),
        1 => place().prop_map(Fault::Stall),
        2 => (0_usize..3_000).prop_map(Fault::Truncate),
        1 => Just(Fault::RangeBeyond),
        1 => Just(Fault::NoContentRange),
        1 => Just(Fault::Whole),
        1 => Just(Fault::FirstOnly),
        1 => Just(Fault::Merged),
        1 => Just(Fault::Reversed),
        1 => Just(Fault::NoClosingDelimiter),
        1 => Just(Fault::NoETag),
        2 => status.prop_map(|status| Fault::Status { status, retry_after: Some(0) }),
        1 => Just(Fault::Redirect("/other".to_owned())),
        1 => Just(Fault::Garbage),
        1 => Just(Fault::CloseAfter),
        2 => (1_usize..30, over()).prop_map(|(ranges, over)| Fault::Most { limit: Limit::Ranges(ranges), over }),
    ]
}

/// Never always: from a server that sends a few bytes per connection the file is read to its end,
/// which takes very long.
fn when() -> impl Strategy<Value = FaultTrigger> {
    prop_oneof![
        4 => (0_usize..8).prop_map(FaultTrigger::Nth),
        1 => (1_usize..50).prop_map(FaultTrigger::Before),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 6, ..ProptestConfig::default() })]
    #[test]
    fn random_faults_end_in_exact_bytes_or_an_error_with_a_reason(
        faults in prop::collection::vec((when(), fault()), 0..5),
        count in 1_usize..60,
        connections in 1_usize..4,
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome: Result<usize, TestCaseError> = runtime.block_on(async {
            let peer = peer(usize::try_from(SIZE).unwrap(), []);
            faults.into_iter().for_each(|(when, fault)| peer.add_fault(when, fault));
            let mut config = impatient();
            config.max_connections = connections;
            let source = source(&peer.url(), config);
            let ranges = random_ranges(seed, count);
            match read(&source, &ranges).await {
                Ok(got) => {
                    let content = content(usize::try_from(SIZE).unwrap());
                    got.is_exact(&content, &ranges).map_err(TestCaseError::fail)?;
                }
                Err(error) => check_error(&error)?,
            }
            Ok(peer.log().len())
        });
        let requests = outcome?;
        prop_assert!(requests < 2_000, "{requests} requests");
    }
}

/// Checks that a server can cause this kind of error, and that the error names the file.
fn check_error(error: &Error) -> Result<(), TestCaseError> {
    let kind = error.kind();
    let of_server = !matches!(
        kind,
        ErrorKind::Invalid | ErrorKind::Cancelled | ErrorKind::Local | ErrorKind::Unsupported
    );
    prop_assert!(of_server, "{error:?}");
    Ok(())
}
