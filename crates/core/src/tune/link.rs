//! Estimates of the link to a server.

use std::time::Duration;

/// Bytes that a server sends before it hears back: ten segments (RFC 6928) of 1,448 bytes, what is
/// left of an Ethernet frame of 1,500 after the headers of IPv4 and of TCP with timestamps.
pub const INITIAL_WINDOW_BYTES: u64 = 10 * 1448;

/// Size of the first request to an unknown server, if there is more: the response with its head
/// fits into an initial window, so that it arrives after one round trip.
pub const INITIAL_REQUEST_BYTES: u64 = 12 << 10;

/// Estimates of a path; `None` where nothing was measured yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkEstimate {
    /// Smallest round-trip time seen.
    pub rtt: Option<Duration>,
    /// Bottleneck bandwidth in bytes per second, as far as the arrivals show it. A path that was
    /// never filled is faster than this says.
    pub bandwidth: Option<f64>,
}

impl LinkEstimate {
    /// A handshake took this long.
    pub fn saw_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or(rtt, |best| best.min(rtt)));
    }

    /// The path looked at least this fast, in bytes per second.
    pub fn saw_bandwidth(&mut self, bandwidth: f64) {
        self.bandwidth = Some(self.bandwidth.map_or(bandwidth, |best| best.max(bandwidth)));
    }

    /// Bytes that fit on the path, if both figures are known.
    #[must_use]
    pub fn bandwidth_delay_bytes(&self) -> Option<f64> {
        Some(self.bandwidth? * self.rtt?.as_secs_f64())
    }
}

/// Bottleneck bandwidth from the arrival of a burst.
///
/// A server's first window leaves it back to back, so the bottleneck alone spaces it (Dovrolis et
/// al., "What do packet dispersion techniques measure?", INFOCOM 2001). Every read after the first
/// gives a rate, its bytes over the time since the read before; the estimate is their median by
/// bytes, which a reader that is late once does not move. What blurs the rest makes the path look
/// slower than it is:
///
/// - The answer takes several windows: a pause of a good part of a round trip ends the train. (What
///   came before it may be too little for a train: the end of another answer. Then the train begins
///   behind it.)
/// - The server is slow: a head, or an answer of a few bytes, leaves before the data has come from
///   its disk. So a train begins with the first read that is no such thing.
/// - The sender paces, as BBR does, which spreads its first window over about a third of a round
///   trip: a train spread like that says nothing.
/// - The receiver is busy elsewhere: then many segments lie ready when it comes to read. Where they
///   all came within one scheduling delay, the path was faster than the reader, and how fast the
///   reader was is all that is known.
#[derive(Debug, Clone, Default)]
pub struct BandwidthEstimator {
    rtt: Option<Duration>,
    first: Option<Duration>,
    last: Duration,
    bytes: u64,
    /// Time since the read before, and bytes, of every read but the first. Invariant: at most
    /// [`MAX_READS`].
    reads: Vec<(Duration, u64)>,
    over: bool,
}

/// Below this round-trip time a paced first window is spread over so little that a slow link is the
/// likelier cause.
const PACING_RTT: Duration = Duration::from_millis(20);
/// Reads closer together than this are not told apart: waking a process takes as long.
const RESOLUTION: Duration = Duration::from_micros(20);
/// A process that is not alone on its processor is late by up to this.
const LATE: Duration = Duration::from_millis(4);
/// Bandwidth assumed of a path that was faster than a late reader, in bytes per second: 64 Mbit/s,
/// the least that lets a path of 240 ms have all connections. More would flood the next slower one.
const FASTER_THAN_READER: f64 = 8e6;
/// Bytes that make a train, a third of an initial window: fewer are over before they can be timed.
const TRAIN_BYTES: u64 = INITIAL_WINDOW_BYTES / 3;
/// Half a segment: less is no data that was split into segments.
const DATA_BYTES: u64 = 1448 / 2;
/// Bytes per read, on average, from which on the reader was the slower one: two segments.
const COALESCED_BYTES: u64 = 2 * 1448;
/// Reads after which a train is no burst any more.
const MAX_READS: usize = 64;

impl BandwidthEstimator {
    /// A train on a path of this round-trip time.
    #[must_use]
    pub fn new(rtt: Option<Duration>) -> Self {
        Self { rtt, ..Self::default() }
    }

    /// Notes that `bytes` arrived at `now`.
    pub fn arrived(&mut self, now: Duration, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            let pause = now.saturating_sub(self.last);
            let window_ended = self.rtt.is_some_and(|rtt| rtt >= PACING_RTT && pause > rtt / 3);
            let least = if window_ended { TRAIN_BYTES } else { DATA_BYTES };
            if !self.over && self.bytes < least {
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

    /// Bytes per second, or `None` where the burst was too short to tell or looks paced.
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

    fn mbit(train: &BandwidthEstimator) -> Option<f64> {
        train.bandwidth().map(|bytes| bytes * 8e-6)
    }

    #[test]
    fn the_bottleneck_spaces_a_train() {
        assert!((mbit(&train(Duration::from_micros(120), 22)).unwrap() - 96.5).abs() < 1.0);
        assert!((mbit(&train(Duration::from_micros(1500), 72)).unwrap() - 7.7).abs() < 0.1);
    }

    #[test]
    fn a_burst_that_comes_at_once_means_a_fast_path() {
        assert!(mbit(&train(Duration::ZERO, 240)).unwrap() > 200.0);
    }

    #[test]
    fn a_reader_that_comes_late_does_not_make_the_path_slow() {
        let mut train = BandwidthEstimator::new(Some(Duration::from_millis(240)));
        train.arrived(Duration::from_micros(1_000_000), 370);
        train.arrived(Duration::from_micros(1_003_000), 8_000);
        assert!((mbit(&train).unwrap() - 64.0).abs() < 0.1);
    }

    #[test]
    fn being_late_once_does_not_move_the_estimate() {
        let mut train = train(Duration::from_micros(30), 240);
        train.arrived(Duration::from_millis(1006), 1448);
        assert!(mbit(&train).unwrap() > 300.0);
    }

    #[test]
    fn a_paced_train_says_nothing() {
        assert_eq!(mbit(&train(Duration::from_millis(9), 240)), None);
    }

    #[test]
    fn the_second_window_is_another_train() {
        let mut two = train(Duration::from_micros(120), 22);
        let one = mbit(&two);
        two.arrived(Duration::from_millis(1022), 14_480);
        assert_eq!(mbit(&two), one);
    }

    #[test]
    fn the_end_of_another_answer_is_no_train() {
        let mut two = BandwidthEstimator::new(Some(Duration::from_millis(240)));
        two.arrived(Duration::from_millis(760), 560);
        for i in 0..6 {
            two.arrived(Duration::from_secs(1) + Duration::from_micros(120) * i, 1448);
        }
        assert!((mbit(&two).unwrap() - 96.5).abs() < 1.0, "{:?}", mbit(&two));
    }

    #[test]
    fn a_server_that_reads_its_disk_after_the_head_does_not_make_the_path_slow() {
        // Of Debian's xrootd, asked the first time for the end of a file.
        let mut train = BandwidthEstimator::new(Some(Duration::from_millis(240)));
        train.arrived(Duration::from_micros(723_894), 21);
        train.arrived(Duration::from_micros(742_467), 4096);
        train.arrived(Duration::from_micros(742_602), 3912);
        assert!((mbit(&train).unwrap() - 64.0).abs() < 0.1, "{:?}", mbit(&train));
    }

    #[test]
    fn a_few_bytes_say_nothing() {
        let mut train = BandwidthEstimator::default();
        train.arrived(Duration::ZERO, 400);
        train.arrived(Duration::from_millis(1), 400);
        assert_eq!(train.bandwidth(), None);
    }
}
