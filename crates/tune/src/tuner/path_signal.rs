//! Signs that the path itself is full.

use std::time::Duration;

/// Ratio of the round-trip time to its minimum from which on packets queue, where senders fill
/// queues until packets are lost (CUBIC).
const QUEUED_RATIO: f64 = 1.25;
/// The same where it is not known who sends, as in downloads, whose receivers measure the time with
/// less precision. A path on which packets queue is full, whoever sends.
const UNKNOWN_QUEUED_RATIO: f64 = 1.3;
/// The same where BBR sends, which keeps up to two bandwidth-delay products in flight beside other
/// flows: a ratio of two is its normal state.
const BBR_QUEUED_RATIO: f64 = 2.5;
/// The least queue that counts: below it processors that are late look the same.
const MIN_QUEUE: Duration = Duration::from_millis(5);
/// Share of segments sent again from which on packets are lost to congestion; CUBIC would need more
/// connections because of rarer losses, not fewer.
const LOST_SHARE: f64 = 0.005;
/// The same for BBR, which goes on at losses of 2 %.
const BBR_LOST_SHARE: f64 = 0.02;

/// State of the path in an interval, by the kernel's statistics of its connections (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathSignal {
    /// The round-trip time with what queues on the path.
    pub rtt: Option<Duration>,
    /// The shortest one.
    pub min_rtt: Option<Duration>,
    /// Share of the segments of this end that were sent again.
    pub lost_share: f64,
    /// The congestion control of the sender, if known.
    pub sender: Option<CongestionControl>,
}

/// A congestion control, as far as it makes a difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC, and others that lower their rate when packets are lost.
    Cubic,
    /// BBR.
    Bbr,
}

impl PathSignal {
    /// The ratio of the round-trip time to the shortest one; none where it was not measured.
    #[must_use]
    pub fn rtt_ratio(&self) -> Option<f64> {
        let min_rtt = self.min_rtt.filter(|rtt| !rtt.is_zero())?;
        Some(self.rtt?.as_secs_f64() / min_rtt.as_secs_f64())
    }

    /// Returns true if packets queue on the path, or are lost to congestion.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        let (ratio, lost) = match self.sender {
            Some(CongestionControl::Bbr) => (BBR_QUEUED_RATIO, BBR_LOST_SHARE),
            Some(CongestionControl::Cubic) => (QUEUED_RATIO, LOST_SHARE),
            None => (UNKNOWN_QUEUED_RATIO, LOST_SHARE),
        };
        let queue = self.rtt.zip(self.min_rtt).map(|(rtt, min_rtt)| rtt.saturating_sub(min_rtt));
        let waits = self.rtt_ratio().is_some_and(|it| it >= ratio)
            && queue.is_some_and(|it| it >= MIN_QUEUE);
        waits || self.lost_share >= lost
    }
}
