//! Estimates of the link to a server.

use std::time::Duration;

/// Bytes that a server sends before the first acknowledgement: ten segments (RFC 6928) of 1,448
/// bytes, the payload of an Ethernet frame of 1,500 with the headers of IPv4 and of TCP with
/// timestamps.
pub const INITIAL_WINDOW_BYTES: u64 = 10 * 1448;

/// Size of the first request to an unknown server, if there is more: the response with its head
/// fits into an initial window, so that it arrives after one round trip.
pub const INITIAL_REQUEST_BYTES: u64 = 12 << 10;

/// Time that a nearby server may need for a response; it shows nothing about the path.
pub const SERVER_TIME: Duration = Duration::from_millis(10);

/// Estimates of a path; `None` where nothing was measured yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkEstimate {
    /// Smallest duration of a handshake: the round-trip time to the next end of a TCP connection.
    pub rtt: Option<Duration>,
    /// Bottleneck bandwidth in bytes per second, estimated from arrivals. A path that was never
    /// filled is faster than this.
    pub bandwidth: Option<f64>,
    /// Shortest time from a request to the first byte of its response: a round trip and the time of
    /// the server.
    pub first_byte: Option<Duration>,
    /// The same on connections that had carried no response: a tunnel opens a connection of its own
    /// to the server meanwhile.
    pub fresh_first_byte: Option<Duration>,
    /// Highest rate at which one large response arrived, in bytes per second. The path is no slower
    /// than that, even where the spacing of small responses gives no estimate.
    pub response_rate: Option<f64>,
}

impl LinkEstimate {
    /// Records the duration of a handshake.
    pub fn saw_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or(rtt, |best| best.min(rtt)));
    }

    /// Records a bandwidth seen on the path, in bytes per second.
    pub fn saw_bandwidth(&mut self, bandwidth: f64) {
        self.bandwidth = Some(self.bandwidth.map_or(bandwidth, |best| best.max(bandwidth)));
    }

    /// Records a response of `bytes`: its first byte arrived after `first_byte`, the last one
    /// `transfer` later. The connection is `fresh` if it had carried no response.
    pub fn saw_response(
        &mut self,
        first_byte: Duration,
        bytes: u64,
        transfer: Duration,
        fresh: bool,
    ) {
        let least = if fresh { &mut self.fresh_first_byte } else { &mut self.first_byte };
        *least = Some(least.map_or(first_byte, |best| best.min(first_byte)));
        if bytes >= RATE_BYTES {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let rate = bytes as f64 / (first_byte + transfer).as_secs_f64().max(1e-6);
            self.response_rate = Some(self.response_rate.map_or(rate, |best| best.max(rate)));
        }
    }

    /// Time that a request waits for its response: that of the handshake, unless responses take
    /// much longer. A tunnel, or a proxy that ends connections, answers handshakes itself, and then
    /// the first response on a connection takes two round trips.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        let rtt = self.rtt?;
        let waited = self.response_time().filter(|it| *it >= rtt.saturating_add(SERVER_TIME));
        Some(waited.unwrap_or(rtt))
    }

    /// Shortest time from a request to the first byte of its response, on a connection that is
    /// open to its other end.
    #[must_use]
    pub fn response_time(&self) -> Option<Duration> {
        let tunnel = 2 * self.rtt.unwrap_or_default().saturating_add(SERVER_TIME);
        let fresh = || self.fresh_first_byte.map(|it| if it < tunnel { it } else { it / 2 });
        self.first_byte.or_else(fresh)
    }

    /// Bytes that arrive while a request waits, if both figures are known.
    #[must_use]
    pub fn bandwidth_delay_bytes(&self) -> Option<f64> {
        Some(self.bandwidth? * self.latency()?.as_secs_f64())
    }
}

/// Bottleneck bandwidth from the arrival of a burst.
///
/// A server's first window leaves it back to back, so the bottleneck alone spaces it (Dovrolis et
/// al., "What do packet dispersion techniques measure?", INFOCOM 2001). Every read after the first
/// gives a rate, its bytes over the time since the previous read. The estimate is their median by
/// bytes, which one late read does not change. These effects make the path look slower than it is:
///
/// - The response takes several windows: a pause of a third of a round trip ends the train. If
///   there are too few bytes before the pause, they are the end of another response, and the train
///   begins after it.
/// - The server is slow: a head, or a response of a few bytes, leaves before the data has come from
///   its disk. A train therefore begins with the first read of at least half a segment.
/// - The sender paces, as BBR does, which spreads its first window over about a third of a round
///   trip: a train with such a spread gives no estimate.
/// - The receiver is busy: many segments are ready when it reads. If all came within one scheduling
///   delay, the path was faster than the reader, and nothing more is known.
#[derive(Debug, Clone, Default)]
pub struct BandwidthEstimator {
    rtt: Option<Duration>,
    first: Option<Duration>,
    last: Duration,
    bytes: u64,
    /// Time since the previous read, and bytes, of every read but the first. Invariant: at most
    /// [`MAX_READS`].
    reads: Vec<(Duration, u64)>,
    over: bool,
}

/// Minimum round-trip time for which a spread means pacing; below it, a slow link is the more
/// likely cause.
const PACING_RTT: Duration = Duration::from_millis(20);
/// Minimum time between reads, in which a process wakes up; shorter ones count as this.
const RESOLUTION: Duration = Duration::from_micros(20);
/// Scheduling delay of a process that shares its processor.
const LATE: Duration = Duration::from_millis(4);
/// Bandwidth assumed of a path that was faster than a late reader, in bytes per second: 64 Mbit/s,
/// the minimum for which a path of 240 ms gets all connections. More would overload slower paths.
const FASTER_THAN_READER: f64 = 8e6;
/// Minimum bytes of a train, a third of an initial window: fewer arrive too fast to be timed.
const TRAIN_BYTES: u64 = INITIAL_WINDOW_BYTES / 3;
/// Minimum bytes of the first read, half a segment: fewer are not data split into segments.
const DATA_BYTES: u64 = 1448 / 2;
/// Minimum bytes of a response whose rate is recorded: fewer may all lie in a buffer already.
const RATE_BYTES: u64 = 128 << 10;
/// Average bytes per read from which on the reader is slower than the path: two segments.
const COALESCED_BYTES: u64 = 2 * 1448;
/// Maximum number of reads in a train.
const MAX_READS: usize = 64;

impl BandwidthEstimator {
    /// An estimator for a path of this round-trip time.
    #[must_use]
    pub fn new(rtt: Option<Duration>) -> Self {
        Self { rtt, ..Self::default() }
    }

    /// Records that `bytes` arrived at `now`.
    pub fn arrived(&mut self, now: Duration, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            let pause = now.saturating_sub(self.last);
            let window_ended = self.rtt.is_some_and(|rtt| rtt >= PACING_RTT && pause > rtt / 3);
            let min_bytes = if window_ended { TRAIN_BYTES } else { DATA_BYTES };
            if !self.over && self.bytes < min_bytes {
                *self = Self { first: Some(now), last: now, bytes, ..Self::new(self.rtt) };
                return;
            }
            self.over |= window_ended || self.reads.len() >= MAX_READS;
            if !self.over {
                self.reads.push((pause, bytes));
            }
        }
        if !self.over {
            self.last = now;
            self.bytes += bytes;
        }
    }

    /// Bytes per second; none if the burst was too short or looks paced.
    #[must_use]
    pub fn bandwidth(&self) -> Option<f64> {
        let spread = self.last.checked_sub(self.first?)?;
        if self.bytes < TRAIN_BYTES {
            return None;
        }
        if self.rtt.is_some_and(|rtt| rtt >= PACING_RTT && spread >= rtt / 4) {
            return None;
        }
        let reads = self.reads.len() as u64 + 1;
        if spread <= LATE && self.bytes >= reads * COALESCED_BYTES {
            return Some(FASTER_THAN_READER);
        }
        self.median_rate()
    }

    fn median_rate(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "bytes of one read fit a double exactly")]
        let rate =
            |&(time, bytes): &(Duration, u64)| bytes as f64 / time.max(RESOLUTION).as_secs_f64();
        let mut rates: Vec<_> = self.reads.iter().map(|read| (rate(read), read.1)).collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = rates.iter().map(|(_, bytes)| bytes).sum::<u64>() / 2;
        let mut below = 0;
        rates.into_iter().find_map(|(rate, bytes)| {
            below += bytes;
            (below >= half).then_some(rate)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine segments of an initial window, `gap` apart.
    fn train(gap: Duration, rtt_ms: u64) -> BandwidthEstimator {
        let mut train = BandwidthEstimator::new(Some(Duration::from_millis(rtt_ms)));
        for i in 0..9 {
            train.arrived(Duration::from_secs(1) + gap * i, 1448);
        }
        train
    }

    #[test]
    fn only_large_responses_tell_a_rate() {
        let mut link = LinkEstimate::default();
        link.saw_response(Duration::from_millis(30), 100_000, Duration::ZERO, false);
        assert_eq!((link.first_byte, link.response_rate), (Some(Duration::from_millis(30)), None));
        link.saw_response(Duration::from_millis(25), 1_000_000, Duration::from_millis(75), false);
        link.saw_response(Duration::from_millis(75), 1_000_000, Duration::from_millis(75), false);
        let (first_byte, rate) = (link.first_byte.unwrap(), link.response_rate.unwrap());
        assert_eq!(first_byte, Duration::from_millis(25));
        assert!((rate - 1e7).abs() < 1.0, "{rate}");
    }

    #[test]
    fn latency_is_that_of_responses_where_something_near_answers_the_handshake() {
        let ms = Duration::from_millis;
        let mut link = LinkEstimate::default();
        assert_eq!(link.latency(), None);
        link.saw_rtt(ms(1));
        assert_eq!(link.latency(), Some(ms(1)));
        link.saw_response(ms(51), 10_000, ms(1), false);
        assert_eq!(link.latency(), Some(ms(51)));
        link.saw_bandwidth(1e6);
        assert_eq!(link.bandwidth_delay_bytes(), Some(51_000.0));
        // It was the first response that took so long.
        link.saw_response(ms(9), 10_000, ms(1), false);
        assert_eq!(link.latency(), Some(ms(1)));
        // The first response on a connection of a tunnel takes a round trip more.
        let mut tunnel = LinkEstimate { rtt: Some(ms(1)), ..LinkEstimate::default() };
        tunnel.saw_response(ms(102), 10_000, ms(1), true);
        assert_eq!(tunnel.latency(), Some(ms(51)));
        tunnel.saw_response(ms(60), 10_000, ms(1), false);
        assert_eq!(tunnel.latency(), Some(ms(60)));
        // Responses of a server far away take a little more than its handshake.
        let mut far = LinkEstimate { rtt: Some(ms(100)), ..LinkEstimate::default() };
        far.saw_response(ms(104), 10_000, ms(1), false);
        assert_eq!(far.latency(), Some(ms(100)));
    }

    fn mbit(train: &BandwidthEstimator) -> Option<f64> {
        train.bandwidth().map(|bytes| bytes * 8e-6)
    }

    #[test]
    fn the_spacing_of_a_train_gives_the_bottleneck_rate() {
        assert!((mbit(&train(Duration::from_micros(120), 22)).unwrap() - 96.5).abs() < 1.0);
        assert!((mbit(&train(Duration::from_micros(1500), 72)).unwrap() - 7.7).abs() < 0.1);
    }

    #[test]
    fn a_train_without_spacing_means_a_fast_path() {
        assert!(mbit(&train(Duration::ZERO, 240)).unwrap() > 200.0);
    }

    #[test]
    fn a_late_reader_does_not_lower_the_estimate() {
        let mut train = BandwidthEstimator::new(Some(Duration::from_millis(240)));
        train.arrived(Duration::from_micros(1_000_000), 370);
        train.arrived(Duration::from_micros(1_003_000), 8_000);
        assert!((mbit(&train).unwrap() - 64.0).abs() < 0.1);
    }

    #[test]
    fn one_late_read_does_not_change_the_estimate() {
        let mut train = train(Duration::from_micros(30), 240);
        train.arrived(Duration::from_millis(1006), 1448);
        assert!(mbit(&train).unwrap() > 300.0);
    }

    #[test]
    fn a_train_paced_by_the_server_gives_no_estimate() {
        assert_eq!(mbit(&train(Duration::from_millis(9), 240)), None);
    }

    #[test]
    fn the_second_window_starts_another_train() {
        let mut two = train(Duration::from_micros(120), 22);
        let one = mbit(&two);
        two.arrived(Duration::from_millis(1022), 14_480);
        assert_eq!(mbit(&two), one);
    }

    #[test]
    fn the_end_of_another_response_is_no_train() {
        let mut two = BandwidthEstimator::new(Some(Duration::from_millis(240)));
        two.arrived(Duration::from_millis(760), 560);
        for i in 0..6 {
            two.arrived(Duration::from_secs(1) + Duration::from_micros(120) * i, 1448);
        }
        assert!((mbit(&two).unwrap() - 96.5).abs() < 1.0, "{:?}", mbit(&two));
    }

    #[test]
    fn a_pause_after_the_response_head_does_not_lower_the_estimate() {
        // Of Debian's xrootd, asked the first time for the end of a file.
        let mut train = BandwidthEstimator::new(Some(Duration::from_millis(240)));
        train.arrived(Duration::from_micros(723_894), 21);
        train.arrived(Duration::from_micros(742_467), 4096);
        train.arrived(Duration::from_micros(742_602), 3912);
        assert!((mbit(&train).unwrap() - 64.0).abs() < 0.1, "{:?}", mbit(&train));
    }

    #[test]
    fn a_short_response_gives_no_estimate() {
        let mut train = BandwidthEstimator::default();
        train.arrived(Duration::ZERO, 400);
        train.arrived(Duration::from_millis(1), 400);
        assert_eq!(train.bandwidth(), None);
    }
}
