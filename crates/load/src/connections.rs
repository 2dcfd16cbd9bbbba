//! Number of connections that help.
//!
//! A new connection may send ten segments and then doubles its window once per round trip (RFC
//! 6928, RFC 5681), so `n` connections transfer `n` times as much in the first round trips. That is
//! worth a handshake if the path holds more than one initial window. Otherwise it gains nothing:
//! once the path and its queue are full, more connections only lose packets.
//!
//! Hence two rules. While only the round-trip time is known, [`speculative`] opens connections in
//! proportion to it: a handshake costs two small packets, a connection missing later costs a round
//! trip. Once the bandwidth is known, [`for_bytes`] returns the number to send on: one for every
//! two initial windows in the bandwidth-delay product. Fewer would leave the path partly empty for
//! longer than the two round trips in which they grow to fill it. With more, each window would be
//! so small when the path is full that a sender does not notice the queue before it overflows
//! (HyStart looks from 16 segments on), and repairing the losses on each connection costs more than
//! the early start gains.
//!
//! A positional read gets connections by its own size ([`for_read`]), and shares them with the
//! other reads that wait ([`fair_share`]). A copy lasts for many round trips and follows another
//! rule ([`for_bulk`]); its small files wait for round trips more than for bytes
//! ([`for_small_files`]).

use hither_core::LinkEstimate;
use hither_core::source::link::INITIAL_WINDOW_BYTES;
use std::time::Duration;

/// Maximum connections to one endpoint for a single interactive job.
pub const MAX_INTERACTIVE: usize = 64;
/// Connections used where the round-trip time is long but the bandwidth is unknown, as with a
/// server that paces its first window. Sixteen windows are a tenth of a second on a path of 18
/// Mbit/s.
const BANDWIDTH_UNKNOWN: usize = 16;
/// Minimum connections of a job: one is busy while the other waits for its next response.
const MIN: usize = 2;
/// Number of connections from which one more or less makes little difference.
const MANY: usize = 8;

/// Connections to open as soon as the handshake of the first one has shown the round-trip time:
/// one, and one more per 3 ms. At 100 Mbit/s that is the number that [`for_bytes`] returns once the
/// first response has shown the bandwidth. A connection that is opened only then is late by a round
/// trip, over TLS by two.
///
/// On a local network it is one: another is open almost as soon as it is needed, and local servers
/// with one thread serve one connection at a time and wait indefinitely for one that is not used
/// yet.
#[must_use]
pub fn speculative(rtt: Duration, cap: usize) -> usize {
    let by_rtt = usize::try_from(rtt.as_millis() / 3).unwrap_or(usize::MAX);
    by_rtt.saturating_add(1).min(cap.max(1))
}

/// Connections to send on for a job of `bytes`.
#[must_use]
pub fn for_bytes(bytes: u64, link: &LinkEstimate, cap: usize) -> usize {
    let by_size = usize::try_from(bytes.div_ceil(SHARE_FLOOR_BYTES)).unwrap_or(usize::MAX);
    let by_path = match (link.bandwidth_delay_bytes(), link.latency()) {
        (Some(product), _) => windows(product / WINDOWS_PER_CONNECTION) + 1,
        (None, Some(latency)) => speculative(latency, BANDWIDTH_UNKNOWN),
        (None, None) => MIN,
    };
    by_path.max(MIN).min(by_size).min(cap).max(1)
}

/// Connections to send on for a job of `bytes` that needs at least `requests` requests, where
/// [`for_bytes`] returned `useful`.
///
/// A response smaller than a window does not fill its connection, and each request waits for a
/// round trip. So there are as many connections as fill the windows of the useful ones: 2,000
/// requests of 2 KB at 150 ms took 19 s on the sixteen connections used while the bandwidth is
/// unknown, and 5 s on 64.
#[must_use]
pub fn for_requests(useful: usize, requests: usize, bytes: u64, cap: usize) -> usize {
    if requests <= useful {
        return useful;
    }
    let each = (bytes / requests as u64).max(1);
    let filled = (useful as u64).saturating_mul(INITIAL_WINDOW_BYTES) / each;
    usize::try_from(filled).unwrap_or(usize::MAX).min(requests).min(cap).max(useful)
}

/// Connections to send on where `useful` would help and `open` are open: the open ones, if they are
/// many and at least two thirds of the useful ones.
///
/// Earlier responses have opened their windows. At 22 ms and 100 Mbit/s eight connections that have
/// transferred a tree fill the path at once; four more, each a handshake late, only overflowed its
/// queue, and repairing that took longer than they had gained (0.97 s on twelve connections, 0.89 s
/// on eight, medians of five). Where connections are few, each counts.
#[must_use]
pub fn prefer_open(useful: usize, open: usize) -> usize {
    let kept = open.min(useful);
    if kept >= MANY && 3 * kept >= 2 * useful { kept } else { useful }
}

/// Connections for a bulk job, one that lasts for many round trips.
///
/// Its speed depends less on slow start than on the steady rate of a connection, which is low on a
/// long path. With stock settings a Linux sender keeps at most 4 MiB in flight
/// (`tcp_wmem`), and CUBIC at a loss of one packet in 10,000 a window of `1.05 (rtt / loss)^0.75`
/// packets on average (RFC 9438 section 5.1): 310 KB at 120 ms, which is 20 Mbit/s. So there is one
/// connection for each 2 ms of round-trip time, which at that loss fill 1 Gbit/s, and without loss
/// ramp up sooner. Measured, 1 GiB at 120 ms and 1 Gbit/s: see `bench/copying.py`.
///
/// A narrow path gets fewer: at most as many as leave each connection an initial window when path
/// and queue are full.
#[must_use]
pub fn for_bulk(link: &LinkEstimate, cap: usize) -> usize {
    let count = |latency: Duration| usize::try_from(latency.as_millis() / 2).unwrap_or(usize::MAX);
    let by_latency = link.latency().map_or(0, count);
    let by_path = link.bandwidth_delay_bytes().map_or(usize::MAX, |product| windows(2.0 * product));
    by_latency.min(by_path).max(MIN_BULK).min(cap).max(1)
}

/// Connections for one positional read of `bytes` that needs at least `requests` requests: at most
/// as many as deliver an initial window each, which takes one round trip on a connection of any
/// age. A job spreads its requests over more connections, because more requests will follow; after
/// a single read that is unknown.
#[must_use]
pub fn for_read(bytes: u64, requests: usize) -> usize {
    initial_windows(bytes).max(requests)
}

/// Connections for a positional read of one range of `bytes` that needs at least `requests`
/// requests.
///
/// The bytes of one range are used in their order, while the rest arrives, so there is no need for
/// all of them in one round trip. Each connection gets a piece that is worth a request:
/// `PIECE_BYTES`. On paths of more than `LONG_PATH`, and before the latency is known, a round
/// trip costs more than requests do, and the rule is that of any read ([`for_read`]).
#[must_use]
pub fn for_range(bytes: u64, requests: usize, link: &LinkEstimate) -> usize {
    let Some(latency) = link.latency().filter(|latency| *latency <= LONG_PATH) else {
        return for_read(bytes, requests);
    };
    let most = usize::try_from(latency.as_millis() / MILLIS_PER_CONNECTION).unwrap_or(0) + 1;
    let useful = usize::try_from(bytes / PIECE_BYTES).unwrap_or(usize::MAX);
    useful.clamp(1, most).max(requests)
}

/// Connections to have open when a range of `bytes` is requested next: those of [`for_range`], on
/// paths that are not long. On others a read takes many more, which are opened when it starts.
#[must_use]
pub fn for_next_range(bytes: u64, link: &LinkEstimate) -> usize {
    let is_known = link.latency().is_some_and(|latency| latency <= LONG_PATH);
    if is_known { for_range(bytes, 1, link) } else { 0 }
}

/// Connections for a prefetch of one range for which `connections` would be useful, while other
/// requests are in flight: the free ones, if they are at least seven eighths of the useful ones.
/// With fewer, the last request would finish a round trip after the others.
#[must_use]
pub fn beside(in_flight: usize, connections: usize) -> usize {
    if 8 * in_flight <= connections { connections - in_flight } else { connections }
}

/// Share of `connections` for a read of `bytes` while other reads wait for `others` bytes.
///
/// A read gets the same share of the connections as of the bytes; but one that fits into a few
/// first windows may have a connection for each, because it then takes one round trip. A read of at
/// least half of the bytes may have any number: it is the main one, and the reads before it only
/// learned about the server.
#[must_use]
pub fn fair_share(bytes: u64, others: u64, connections: usize) -> usize {
    if others <= bytes {
        return usize::MAX;
    }
    let windows = initial_windows(bytes);
    let min = if windows <= SMALL_READ_CONNECTIONS { windows } else { 1 };
    let all = u128::from(bytes) + u128::from(others);
    let share = (u128::from(bytes) * connections as u128).div_ceil(all).max(min as u128);
    usize::try_from(share).unwrap_or(connections).max(1)
}

/// Small files to copy at the same time, from or to a server that takes `max_requests` requests at
/// a time. A file of at most 128 KiB waits one round trip or more for each of its
/// requests, and moves few bytes. So there are sixteen files for each millisecond: of 10 KB and two
/// round trips each, they fill 640 Mbit/s on a path of any length up to 128 ms.
#[must_use]
pub fn for_small_files(link: &LinkEstimate, max_requests: usize) -> usize {
    let by_latency = link.latency().map_or(0, |latency| 16 * latency.as_millis().min(1000));
    let by_latency = usize::try_from(by_latency).unwrap_or(MAX_SMALL_FILES);
    by_latency.clamp(MIN_SMALL_FILES, MAX_SMALL_FILES).min(max_requests)
}

/// Small files at the same time on the shortest path.
pub const MIN_SMALL_FILES: usize = 16;
/// Maximum small files at the same time: together they hold less than the memory of a copy.
const MAX_SMALL_FILES: usize = 2048;

/// Number of initial windows that hold `bytes`.
#[must_use]
pub fn initial_windows(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(INITIAL_WINDOW_BYTES)).unwrap_or(usize::MAX)
}

/// Connections of a bulk job on the shortest path, and before anything is known: enough to open and
/// close small files while others are read.
pub const MIN_BULK: usize = 4;
/// Maximum connections of a small read, independent of the other reads.
const SMALL_READ_CONNECTIONS: usize = 4;

/// Minimum bytes of a range per connection.
const PIECE_BYTES: u64 = 192 << 10;
/// Maximum latency at which a range is split by `PIECE_BYTES`.
const LONG_PATH: Duration = Duration::from_millis(100);
/// Milliseconds of latency per additional connection of one range: eight connections at 50 ms.
const MILLIS_PER_CONNECTION: u128 = 7;

/// Initial windows of the bandwidth-delay product per connection.
const WINDOWS_PER_CONNECTION: f64 = 2.0;

/// Minimum share of a connection in bytes, two segments: less is not worth another request.
const SHARE_FLOOR_BYTES: u64 = 2 * 1448;

/// Initial windows in a bandwidth-delay product, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a float cast saturates, which is intended"
)]
fn windows(product: f64) -> usize {
    ((product / INITIAL_WINDOW_BYTES as f64).ceil() as usize).min(1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rtt_ms: f64, mbit: f64) -> LinkEstimate {
        LinkEstimate {
            rtt: Some(Duration::from_secs_f64(rtt_ms / 1e3)),
            bandwidth: Some(mbit * 1e6 / 8.0),
            ..LinkEstimate::default()
        }
    }

    #[test]
    fn connections_follow_the_bandwidth_delay_product() {
        let job = 7_400_000;
        assert_eq!(for_bytes(job, &link(0.3, 100.0), 64), 2);
        assert_eq!(for_bytes(job, &link(2.0, 10.0), 64), 2);
        assert_eq!(for_bytes(job, &link(11.0, 100.0), 64), 6);
        assert_eq!(for_bytes(job, &link(22.0, 100.0), 64), 11);
        assert_eq!(for_bytes(job, &link(72.0, 8.0), 64), 4);
        assert_eq!(for_bytes(job, &link(240.0, 250.0), 64), 64);
    }

    #[test]
    fn bulk_copies_get_connections_by_the_round_trip_time() {
        assert_eq!(for_bulk(&link(120.0, 1000.0), 64), 60);
        assert_eq!(for_bulk(&link(240.0, 1000.0), 64), 64);
        assert_eq!(for_bulk(&link(20.0, 1000.0), 64), 10);
        assert_eq!(for_bulk(&link(0.1, 10_000.0), 64), MIN_BULK);
        assert_eq!(for_bulk(&link(72.0, 8.0), 64), 10);
        assert_eq!(for_bulk(&LinkEstimate::default(), 64), MIN_BULK);
        assert_eq!(for_bulk(&link(120.0, 1000.0), 2), 2);
    }

    #[test]
    fn small_files_are_copied_by_the_round_trip_time_as_far_as_the_server_takes_requests() {
        assert_eq!(for_small_files(&link(100.0, 1000.0), 4096), 1600);
        assert_eq!(for_small_files(&link(100.0, 1000.0), 64), 64);
        assert_eq!(for_small_files(&link(900.0, 1000.0), 4096), MAX_SMALL_FILES);
        assert_eq!(for_small_files(&LinkEstimate::default(), 4096), MIN_SMALL_FILES);
    }

    #[test]
    fn a_prefetch_takes_the_free_connections_if_nearly_all_are() {
        let free = [(0, 8), (1, 8), (2, 8), (2, 16), (9, 8), (0, 1), (1, 1)];
        let taken = free.map(|(in_flight, connections)| beside(in_flight, connections));
        assert_eq!(taken, [8, 7, 8, 14, 8, 1, 1]);
    }

    #[test]
    fn a_small_copy_gets_few_connections() {
        assert_eq!(for_bytes(5_000, &link(240.0, 1000.0), 64), 2);
        assert_eq!(for_bytes(0, &link(240.0, 1000.0), 64), 1);
    }

    #[test]
    fn small_requests_get_as_many_connections_as_fill_the_windows() {
        assert_eq!(for_requests(16, 2_000, 4_000_000, 64), 64);
        assert_eq!(for_requests(4, 2_000, 4_000_000, 64), 28);
        assert_eq!(for_requests(16, 20, 40_000, 64), 20);
        assert_eq!(for_requests(16, 2_000, 4_000_000, 16), 16);
        // Responses that fill windows by themselves, and requests that are all sent at once.
        assert_eq!(for_requests(8, 100, 100_000_000, 64), 8);
        assert_eq!(for_requests(8, 8, 100, 64), 8);
    }

    #[test]
    fn speculative_connections_match_later_use_on_common_paths() {
        for rtt in [11_u8, 22, 33] {
            let opened = speculative(Duration::from_millis(rtt.into()), 64);
            let used = for_bytes(1_000_000, &link(rtt.into(), 80.0), 64);
            assert!(opened.abs_diff(used) <= 1, "{opened} opened, {used} used at {rtt} ms");
        }
    }

    #[test]
    fn open_connections_that_nearly_suffice_are_preferred() {
        assert_eq!([prefer_open(12, 8), prefer_open(12, 7), prefer_open(13, 8)], [8, 12, 13]);
        assert_eq!([prefer_open(4, 9), prefer_open(6, 4), prefer_open(64, 64)], [4, 6, 64]);
    }

    #[test]
    fn the_callers_maximum_is_never_exceeded() {
        assert_eq!(for_bytes(7_400_000, &link(240.0, 1000.0), 1), 1);
        assert_eq!(speculative(Duration::from_millis(240), 8), 8);
        assert_eq!(speculative(Duration::from_millis(240), 64), 64);
        assert_eq!(speculative(Duration::from_micros(30), 64), 1);
    }

    #[test]
    fn one_range_gets_connections_by_the_latency_and_pieces_worth_a_request() {
        assert_eq!(for_range(5 << 20, 1, &link(0.1, 1_000.0)), 1);
        assert_eq!(for_range(8_000, 1, &link(50.0, 1_000.0)), 1);
        assert_eq!(for_range(400_000, 1, &link(50.0, 1_000.0)), 2);
        assert_eq!(for_range(5 << 20, 1, &link(50.0, 1_000.0)), 8);
        assert_eq!(for_range(5 << 20, 40, &link(50.0, 1_000.0)), 40);
        for link in [LinkEstimate::default(), link(240.0, 1_000.0)] {
            assert_eq!(for_range(5 << 20, 1, &link), for_read(5 << 20, 1));
        }
    }

    #[test]
    fn reads_that_wait_share_connections_by_their_bytes() {
        assert_eq!(fair_share(1 << 20, 0, 64), usize::MAX);
        assert_eq!(fair_share(1 << 20, 7 << 20, 64), 8);
        assert_eq!(fair_share(1 << 20, 31 << 20, 14), 1);
        assert_eq!(fair_share(40_000, 1 << 30, 64), 3);
        assert_eq!(fair_share(0, 1, 64), 1);
        assert_eq!(fair_share(20 << 20, 12 << 10, 1), usize::MAX);
        assert_eq!(fair_share(u64::MAX - 1, u64::MAX, 64), 32);
    }
}
