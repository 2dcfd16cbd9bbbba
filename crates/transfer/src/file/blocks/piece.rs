//! A piece of a file: the bytes that one worker fetches with one request, unless the rest of it is
//! given to others.

use crate::file::blocks::piece_buffer::PieceBuffer;
use futures_util::task::AtomicWaker;
use hither_load::straggler::RequestProgress;
use std::ops::Range;
use std::time::Duration;

/// A piece that a worker fetches.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) buffer: PieceBuffer,
    /// The number of its worker.
    worker: usize,
    /// Wakes the worker when the piece was cut off.
    pub(crate) cut_off: AtomicWaker,
    /// When it was taken, by the clock of the source.
    pub(crate) sent: Duration,
    /// The time for which it may be silent before it is split.
    silence_limit: Duration,
}

impl Piece {
    /// The number of its worker.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    pub(super) fn progress(&self) -> RequestProgress {
        let (received_bytes, missing_bytes) = self.buffer.progress();
        RequestProgress { sent: self.sent, received_bytes, missing_bytes }
    }

    pub(super) fn new(
        worker: usize,
        range: Range<u64>,
        sent: Duration,
        silence_limit: Duration,
    ) -> Self {
        Self {
            buffer: PieceBuffer::new(range),
            worker,
            cut_off: AtomicWaker::new(),
            sent,
            silence_limit,
        }
    }

    /// Returns true if its progress can be judged: it has received bytes, or should have by its
    /// allowed silence.
    pub(super) fn is_judged(&self, now: Duration) -> bool {
        self.buffer.progress().0 > 0 || now >= self.sent + self.silence_limit
    }

    /// The time for which the piece that takes over from it may be silent: twice as long as it was,
    /// if it was.
    pub(super) fn silence_limit_of_next(&self, now: Duration) -> Duration {
        let is_silent = self.buffer.progress().0 == 0;
        if is_silent { 2 * now.saturating_sub(self.sent) } else { Duration::ZERO }
    }

    /// Returns true if fewer bytes than `rate` have arrived in a second.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn is_slower_than(&self, rate: f64, now: Duration) -> bool {
        let seconds = now.saturating_sub(self.sent).as_secs_f64();
        (self.buffer.progress().0 as f64) < rate * seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_load::straggler::SplitRule;

    const LATENCY: Duration = Duration::from_millis(20);

    #[test]
    fn bytes_are_not_taken_for_ever_before_the_first_one_has_arrived() {
        let answers_after = 10 * LATENCY;
        let rule = SplitRule { min_bytes: 1, ..SplitRule::COPY };
        let mut now = Duration::ZERO;
        let mut piece = Piece::new(1, 0..9, now, Duration::ZERO);
        let mut taken = 0;
        while now < piece.sent + answers_after {
            now += LATENCY / 4;
            let judged = std::iter::once((piece.progress(), ())).filter(|_| piece.is_judged(now));
            if rule.slowest(judged, now, LATENCY).is_some() {
                piece =
                    Piece::new(1, piece.buffer.give(0.0), now, piece.silence_limit_of_next(now));
                taken += 1;
            }
        }
        assert!((1..=4).contains(&taken), "taken {taken} times");
    }
}
