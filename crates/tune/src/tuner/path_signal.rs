//! Signs that the path itself is full.

use std::time::Duration;

/// The ratio of the round-trip time to its minimum at which packets count as queued, where senders
/// fill queues until packets are lost (CUBIC).
const QUEUED_RATIO: f64 = 1.25;
/// The same where the sender's congestion control is unknown, as in downloads, whose receivers
/// measure the time less precisely. A path on which packets queue is full, whatever the sender
/// uses.
const UNKNOWN_QUEUED_RATIO: f64 = 1.3;
/// The same for senders with BBR, which keeps up to two bandwidth-delay products in flight when it
/// competes with other flows: a ratio of two is its normal state.
const BBR_QUEUED_RATIO: f64 = 2.5;
/// The shortest queue that counts: shorter delays may be those of busy processors.
const MIN_QUEUE: Duration = Duration::from_millis(5);
/// The share of retransmitted segments at which losses count as congestion. For rarer losses CUBIC
/// would need more connections, not fewer.
const LOST_SHARE: f64 = 0.005;
/// The same for BBR, which tolerates losses of 2 %.
const BBR_LOST_SHARE: f64 = 0.02;

/// State of the path in an interval, by the kernel's statistics of its connections (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathSignal {
    /// The round-trip time, including queues on the path.
    pub rtt: Option<Duration>,
    /// The shortest round-trip time.
    pub min_rtt: Option<Duration>,
    /// The share of this end's segments that were retransmitted.
    pub lost_share: f64,
    /// The congestion control of the sender, if known.
    pub sender: Option<CongestionControl>,
}

/// The kinds of congestion control that the signal distinguishes.
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
