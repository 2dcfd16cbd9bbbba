//! Every way of answering many ranges that servers are known to have: 5,000 random ranges from each, byte for byte; after a
//! first read, from which it is learned, no more than 1.2 times the fewest requests that this server allows (on one lane;
//! twice as many on four, which learn side by side); and never more than one download of the whole file, which is said.
//!
//! The fewest requests follow from what the server takes, and from the 7,900 bytes of ranges that are put into one header
//! at the most, because that is what the most common servers take.

use crate::rig::{content, network, peer, read, source_on, with_lanes};
use hither_core::{ErrorKind, Source, range};
use hither_testkit::peer::{Fault, Limit, OverLimit, Place, When};
use hither_testkit::random::Random;
use std::ops::Range;

/// Size of the file: whole, it is not cheap beside what one request asks for.
const SIZE: u64 = 2_000_000;
/// Ranges of a read.
const RANGES: usize = 5_000;
/// Bytes of ranges in one header.
const TEXT: usize = 7_900;
/// Framing and head of one part, and of one answer, with some reserve, in bytes.
const PART: u64 = 250;
const ANSWER: u64 = 1_000;

/// What bounds the requests to a server.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// The header alone.
    Header,
    /// So many ranges in one request.
    Ranges(usize),
    /// So many bytes of range text.
    Text(usize),
    /// So many bytes of the file in one answer.
    Answer(u64),
    /// So many bytes of a body, framing included.
    Body(u64),
    /// One request brings all there is, now or earlier.
    Whole,
}

impl Bound {
    fn fewest(self, wanted: &[Range<u64>]) -> usize {
        let text: usize = wanted.iter().map(range_text).sum();
        let by_header = text.div_ceil(TEXT);
        let bytes = range::total_bytes(wanted);
        let count = |bytes: u64| usize::try_from(bytes).unwrap();
        match self {
            Self::Header => by_header,
            Self::Ranges(most) => wanted.len().div_ceil(most).max(by_header),
            Self::Text(most) => text.div_ceil(most),
            Self::Answer(most) => count(bytes.div_ceil(most)).max(by_header),
            // What the peer frames a part with takes 120 bytes.
            Self::Body(most) => count((bytes + 120 * wanted.len() as u64).div_ceil(most)),
            Self::Whole => 1,
        }
    }
}

fn range_text(range: &Range<u64>) -> usize {
    format!("{}-{},", range.start, range.end - 1).len()
}

fn random_ranges(seed: u64, count: usize) -> Vec<Range<u64>> {
    let mut random = Random::new(seed);
    let range = |_| {
        let start = random.next_u64() % SIZE;
        start..(start + 1 + random.next_u64() % 100).min(SIZE)
    };
    (0..count).map(range).collect()
}

/// Reads from a server with these faults, on one lane and on four.
async fn expect(faults: &[Fault], bound: Bound) {
    let faults: Vec<_> = faults.iter().map(|fault| (When::Always, fault.clone())).collect();
    for lanes in [1, 4] {
        expect_on(&faults, bound, lanes).await;
    }
}

async fn expect_on(faults: &[(When, Fault)], bound: Bound, lanes: usize) {
    let what = format!("{faults:?} on {lanes} lanes");
    let content = content(usize::try_from(SIZE).unwrap());
    let peer = peer(content.len(), []);
    faults.iter().for_each(|(when, fault)| peer.add_fault(*when, fault.clone()));
    let network = network(with_lanes(lanes));
    let source = source_on(&network, &peer.url());
    // That a server sends one range at a time is learned at once.
    let learn = if matches!(bound, Bound::Ranges(1)) { RANGES / 10 } else { RANGES };
    for (seed, count) in [(1, learn), (2, RANGES)] {
        let ranges = random_ranges(seed, count);
        let wanted = range::merged(&ranges, 0);
        let (sent, before) = (peer.log().len(), network.account().totals());
        let got = read(&source, &ranges).await.unwrap_or_else(|error| {
            panic!("{what}: {error:?} after {} requests", peer.log().len())
        });
        got.is_exact(&content, &ranges).unwrap_or_else(|error| panic!("{what}: {error}"));
        // On several lanes it depends on who is first what is learned when, and work is cut into equal turns.
        // What a server turns away for the time being cannot be avoided.
        let statuses: Vec<_> = peer.log()[sent..].iter().map(|it| it.status).collect();
        let requests = statuses.iter().filter(|status| !matches!(status, 429 | 503)).count();
        let fewest = bound.fewest(&wanted).max(lanes);
        let learned = source.endpoint();
        assert!(
            seed == 1 || requests * 5 <= fewest * if lanes == 1 { 6 } else { 10 },
            "{what}: {requests} requests, {fewest} would do; {learned:?}; {statuses:?}"
        );
        let after = network.account().totals();
        let received = after.bytes_received - before.bytes_received;
        let useful = range::total_bytes(&wanted) + PART * wanted.len() as u64;
        let most = useful * 5 / 4 + ANSWER * requests as u64 + SIZE;
        assert!(received <= most, "{what}: {received} bytes received, {useful} would do");
    }
    let whole_files = network.account().totals().whole_files;
    let expected = u64::from(matches!(bound, Bound::Whole));
    assert_eq!(whole_files, expected, "{what}");
}

fn most_ranges(ranges: usize, over: OverLimit) -> Fault {
    Fault::Most { limit: Limit::Ranges(ranges), over }
}

#[tokio::test]
async fn parts_as_asked_for() {
    expect(&[], Bound::Header).await;
}

#[tokio::test]
async fn parts_out_of_order() {
    expect(&[Fault::Reversed], Bound::Header).await;
}

#[tokio::test]
async fn parts_with_fields_that_nobody_needs() {
    expect(&[Fault::ExtraPartFields, Fault::NoETag], Bound::Header).await;
}

#[tokio::test]
async fn parts_without_a_closing_delimiter() {
    expect(&[Fault::NoClosingDelimiter], Bound::Header).await;
}

#[tokio::test]
async fn ranges_near_each_other_as_one() {
    expect(&[Fault::Coalesced(0)], Bound::Header).await;
    expect(&[Fault::Coalesced(80)], Bound::Header).await;
}

#[tokio::test]
async fn all_ranges_as_one() {
    expect(&[Fault::Merged], Bound::Header).await;
}

/// EOS, as long as no ranges overlap.
#[tokio::test]
async fn ranges_sorted_and_joined_wrongly() {
    let boundary = Fault::Boundary("EOSMULTIPARTBOUNDARY");
    expect(&[Fault::JoinedWrongly, Fault::LineFeeds, boundary], Bound::Header).await;
}

#[tokio::test]
async fn odd_boundaries() {
    for boundary in ["a/b:c=d?e (f)'g',h+_-.", "123456", "--", "squid/5.7:0D3F;x"] {
        expect(&[Fault::Boundary(boundary)], Bound::Header).await;
    }
}

#[tokio::test]
async fn lines_that_end_in_a_line_feed_alone() {
    expect(&[Fault::LineFeeds], Bound::Header).await;
}

#[tokio::test]
async fn a_range_with_a_blank_is_never_answered() {
    expect(&[Fault::BlanksUnanswered], Bound::Header).await;
}

#[tokio::test]
async fn the_first_range_alone() {
    expect(&[Fault::FirstOnly], Bound::Ranges(1)).await;
}

#[tokio::test]
async fn the_whole_file_always() {
    expect(&[Fault::Whole], Bound::Whole).await;
    expect(&[Fault::Whole, Fault::Chunked(5_000)], Bound::Whole).await;
}

/// Object stores.
#[tokio::test]
async fn the_whole_file_for_more_than_one_range() {
    expect(&[most_ranges(1, OverLimit::Whole)], Bound::Ranges(1)).await;
}

/// Varnish.
#[tokio::test]
async fn status_416_for_more_than_one_range() {
    expect(&[most_ranges(1, OverLimit::Status(416))], Bound::Ranges(1)).await;
}

#[tokio::test]
async fn status_400_for_more_than_one_range() {
    expect(&[most_ranges(1, OverLimit::Status(400))], Bound::Ranges(1)).await;
}

/// Apache above 200 ranges, and others.
#[tokio::test]
async fn the_whole_file_above_a_number_of_ranges() {
    for most in [5, 50, 200, 300] {
        expect(&[most_ranges(most, OverLimit::Whole)], Bound::Ranges(most)).await;
    }
}

#[tokio::test]
async fn statuses_above_a_number_of_ranges() {
    for status in [400, 413, 416, 500, 502] {
        expect(&[most_ranges(60, OverLimit::Status(status))], Bound::Ranges(60)).await;
    }
}

#[tokio::test]
async fn a_dropped_connection_above_a_number_of_ranges() {
    expect(&[most_ranges(60, OverLimit::Close)], Bound::Ranges(60)).await;
}

/// XRootD 5.5, scaled down.
#[tokio::test]
async fn an_error_in_the_body_above_a_number_of_ranges() {
    for most in [20, 128] {
        expect(&[most_ranges(most, OverLimit::Corrupt)], Bound::Ranges(most)).await;
    }
}

#[tokio::test]
async fn ranges_left_out_above_a_number() {
    expect(&[most_ranges(33, OverLimit::LeaveOut)], Bound::Ranges(33)).await;
}

#[tokio::test]
async fn a_limit_on_the_header() {
    for (bytes, over) in [
        (2_000, OverLimit::Status(431)),
        (5_000, OverLimit::Status(400)),
        (1_000, OverLimit::Close),
        (2_500, OverLimit::Status(413)),
    ] {
        let limit = Fault::Most { limit: Limit::HeaderBytes(bytes), over };
        expect(&[limit], Bound::Text(bytes)).await;
    }
}

/// The 2 GiB less one byte of an XRootD vector read, scaled down.
#[tokio::test]
async fn a_limit_on_the_bytes_of_an_answer() {
    for over in [OverLimit::Status(500), OverLimit::Status(400), OverLimit::Corrupt] {
        let limit = Fault::Most { limit: Limit::AnswerBytes(10_000), over };
        expect(&[limit], Bound::Answer(10_000)).await;
    }
}

#[tokio::test]
async fn multipart_bodies_that_end_early() {
    expect(&[Fault::Truncate(30_000)], Bound::Body(30_000)).await;
}

#[tokio::test]
async fn connections_that_close_after_some_bytes() {
    expect(&[Fault::Close(Place::Body(30_000))], Bound::Body(30_000)).await;
}

/// Gives up rather than ask ten thousand times.
#[tokio::test]
async fn connections_that_close_after_a_few_bytes() {
    for lanes in [1, 4] {
        let peer = peer(usize::try_from(SIZE).unwrap(), []);
        peer.add_fault(When::Always, Fault::Close(Place::Body(300)));
        let source = source_on(&network(with_lanes(lanes)), &peer.url());
        let error = read(&source, &random_ranges(1, RANGES)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        let requests = peer.log().len();
        assert!(requests <= 6 * lanes, "{requests} requests on {lanes} lanes");
        // A small read is still worth it.
        let ranges = [7..150, 1_000..1_200];
        let got = read(&source, &ranges).await.unwrap();
        got.is_exact(&content(usize::try_from(SIZE).unwrap()), &ranges).unwrap();
    }
}

#[tokio::test]
async fn connections_that_close_after_each_answer() {
    expect(&[Fault::CloseAfter], Bound::Header).await;
}

#[tokio::test]
async fn bodies_in_chunks() {
    for size in [10, 100_000] {
        expect(&[Fault::Chunked(size)], Bound::Header).await;
    }
}

/// A server that has too much to do, every now and then; what it turns away is asked again.
#[tokio::test]
async fn requests_turned_away() {
    for status in [429, 503] {
        let busy = Fault::Status { status, retry_after: Some(0) };
        expect_on(&[(When::Every(8), busy)], Bound::Header, 4).await;
    }
}
