//! Piece sizes near the end of a job, from the rates of the workers.
//!
//! A worker that takes a whole block shortly before the end still fetches it when all others are
//! idle, and the path is nearly idle. So pieces become smaller towards the end. The bytes left,
//! divided by the rate of all workers, are the time left; a worker's next piece is the bytes that
//! it transfers in half of that. Half, because a rate is an estimate, and errors of later, smaller
//! pieces cost less. But each piece costs its worker a round trip. When only a few round trips are
//! left, a worker takes as much as it can transfer until the end, and all end at nearly the same
//! time.

use hither_core::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// The smallest piece, in bytes: for less, the request costs too much.
const MIN_PIECE_BYTES: u64 = 256 << 10;
/// A worker takes its last piece when this number of round trips is left.
const LAST_ROUND_TRIPS: f64 = 5.0;

/// The rates of the workers of a job.
#[derive(Debug, Default)]
pub(crate) struct WorkerRates {
    /// Bytes per second, including the wait for the response, by the number of the worker.
    rates: Mutex<BTreeMap<usize, f64>>,
}

impl WorkerRates {
    /// Records a piece that `worker` has transferred.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn note(&self, worker: usize, bytes: u64, took: Duration) {
        let seconds = took.as_secs_f64();
        if bytes > 0 && seconds > 0.0 {
            let mut rates = lock(&self.rates);
            rates.insert(worker, bytes as f64 / seconds);
        }
    }

    /// Bytes of the next piece of `worker`, one of `workers`, when `left_bytes` have not arrived
    /// yet.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate; a float cast saturates, which is what is meant"
    )]
    pub(crate) fn piece_bytes(
        &self,
        worker: usize,
        workers: usize,
        left_bytes: u64,
        rtt: Duration,
    ) -> u64 {
        let rates = lock(&self.rates);
        let mean = rates.values().sum::<f64>() / rates.len().max(1) as f64;
        let all = mean * workers.max(1) as f64;
        let bytes = if all > 0.0 {
            let seconds = left_bytes as f64 / all;
            let last = seconds < LAST_ROUND_TRIPS * rtt.as_secs_f64();
            rates.get(&worker).unwrap_or(&mean) * if last { seconds } else { seconds / 2.0 }
        } else {
            left_bytes as f64 / workers.max(1) as f64
        };
        (bytes as u64).max(MIN_PIECE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn all_workers_start_with_the_same_piece_size() {
        assert_eq!(WorkerRates::default().piece_bytes(3, 10, 40 * MIB, RTT), 4 * MIB);
    }

    #[test]
    fn faster_workers_take_larger_pieces_of_half_the_rest() {
        let rates = WorkerRates::default();
        for worker in 0..9 {
            rates.note(worker, MIB, Duration::from_secs(1));
        }
        rates.note(9, 11 * MIB, Duration::from_secs(1));
        // Twenty in a second: two seconds are left, then a quarter of one.
        assert_eq!(rates.piece_bytes(0, 10, 40 * MIB, RTT), MIB);
        assert_eq!(rates.piece_bytes(9, 10, 40 * MIB, RTT), 11 * MIB);
        assert_eq!(rates.piece_bytes(9, 10, 5 * MIB, RTT), 11 * MIB / 4);
        assert_eq!(rates.piece_bytes(0, 10, 5 * MIB, RTT), MIB / 4);
    }

    #[test]
    fn no_piece_is_smaller_than_the_minimum() {
        let rates = WorkerRates::default();
        rates.note(0, 1, Duration::from_secs(9));
        assert_eq!(rates.piece_bytes(0, 60, MIB, Duration::ZERO), MIN_PIECE_BYTES);
        assert_eq!(rates.piece_bytes(1, 0, 0, RTT), MIN_PIECE_BYTES);
    }
}
