//! Rule for splitting the request that all others wait for.
//!
//! On a path that several connections fill together, shares are equal but connections are not: one
//! that lost packets early has half the window of the others and is still receiving when they are
//! done, with most of the path empty. An idle connection then takes over the later half of the
//! bytes that the slowest request has not received. Servers send ranges in the requested order, so
//! the later half has not been sent yet. Once the earlier half has arrived, the request is aborted,
//! and with it its connection.
//!
//! A split costs a round trip, a request, and the bytes that the slow connection has in flight at
//! the end. So it is done only
//!
//! - on paths that one connection does not fill by itself ([`is_wide`]): on others, a connection
//!   that is alone gets all of it. On a short path a window recovers within the time for which a
//!   busy server or machine may pause, so a slow response shows nothing about the path;
//! - once windows have stopped doubling ([`SplitRule::min_active_round_trips`]): before, the past
//!   of a connection says little of its future;
//! - if the request, at its rate so far, needs much longer than a request for half of it
//!   ([`SplitRule::min_remaining_round_trips`]);
//! - if half of the rest is worth a request ([`SplitRule::min_bytes`]).

use hither_core::LinkEstimate;
use hither_core::source::link::{INITIAL_WINDOW_BYTES, SERVER_TIME};
use std::time::Duration;

/// Bandwidth-delay product, in bytes, below which a single connection fills the path within a round
/// trip or two.
const WIDE_PATH_BYTES: f64 = 4.0 * INITIAL_WINDOW_BYTES as f64;

/// Conditions under which a request is split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitRule {
    /// Round trips for which a request must have been receiving.
    pub min_active_round_trips: u32,
    /// Round trips that it must still need.
    pub min_remaining_round_trips: f64,
    /// Minimum bytes of each half.
    pub min_bytes: u64,
    /// Allows a request that has received nothing to be split. Its rate is unknown: its server may
    /// be slow.
    pub splits_silent: bool,
}

impl SplitRule {
    /// Rule for the requests of an interactive read. A window has doubled from ten segments to
    /// 2,500 after eight round trips. The remaining time covers one round trip until the other half
    /// arrives, and one more to gain from it.
    pub const READ: Self = Self {
        min_active_round_trips: 8,
        min_remaining_round_trips: 2.0,
        min_bytes: INITIAL_WINDOW_BYTES,
        splits_silent: false,
    };

    /// Rule for the pieces of a bulk copy, which are large: a piece that has received nothing while
    /// others were received is worth splitting, too.
    pub const COPY: Self = Self {
        min_active_round_trips: 0,
        min_remaining_round_trips: 3.0,
        min_bytes: 64 << 10,
        splits_silent: true,
    };

    /// The request to split, if any: the one that will need longest.
    pub fn slowest<T>(
        &self,
        requests: impl Iterator<Item = (RequestProgress, T)>,
        now: Duration,
        rtt: Duration,
    ) -> Option<T> {
        let worth_it = rtt.mul_f64(self.min_remaining_round_trips);
        requests
            .filter(|(progress, _)| progress.missing_bytes >= 2 * self.min_bytes)
            .filter_map(|(progress, request)| Some((self.remaining(&progress, now, rtt)?, request)))
            .filter(|(remaining, _)| *remaining > worth_it)
            .max_by_key(|(remaining, _)| *remaining)
            .map(|(_, request)| request)
    }

    /// Time for the rest of a request at its rate so far; none if that is unknown.
    fn remaining(
        &self,
        progress: &RequestProgress,
        now: Duration,
        rtt: Duration,
    ) -> Option<Duration> {
        let active = now.checked_sub(progress.sent + rtt)?;
        let silent = progress.received_bytes == 0;
        if active < rtt * self.min_active_round_trips || (silent && !self.splits_silent) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let ratio = progress.missing_bytes as f64 / progress.received_bytes.max(1) as f64;
        Some(active.mul_f64(ratio.min(1e6)))
    }
}

/// Progress of a request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestProgress {
    /// Time at which it was sent.
    pub sent: Duration,
    /// Bytes that have arrived.
    pub received_bytes: u64,
    /// Bytes that have not arrived yet.
    pub missing_bytes: u64,
}

/// Returns true if one connection does not fill the path by itself, and its round trips are longer
/// than the pauses of a nearby server.
#[must_use]
pub fn is_wide(link: &LinkEstimate) -> bool {
    link.latency().is_some_and(|latency| latency >= SERVER_TIME)
        && link.bandwidth_delay_bytes().is_some_and(|bytes| bytes >= WIDE_PATH_BYTES)
}
