//! Adaptive limit on requests in flight at one server, active once the server has rejected one.
//!
//! A server that responds 429 or 503 (RFC 6585 section 4, RFC 9110 section 15.6.4) while it serves
//! other requests is busy, not broken. As in TCP congestion control, the client then sends fewer
//! requests at a time, and slowly increases their number while they are served (additive increase,
//! multiplicative decrease):
//!
//! - A rejection while others are served cuts the limit to nine tenths of the requests in flight.
//!   If more were rejected than served since the last cut, there are far too many, and the limit is
//!   cut to half. Requests that were sent before a cut cause no other cut.
//! - The limit grows by one for each round of responses up to just below the number at which the
//!   server rejected last (the ceiling), and twenty times as slowly above: most of the time it is
//!   close to what the server can do.
//!
//! There is no limit until the first rejection.
//!
//! **One file or the server.** Storage with tape behind it responds 503 with `Retry-After` for a
//! file that it has to stage first, and continues to serve others. A client that takes this for
//! overload slows down or stops for no reason: with one file in twenty being staged, the rule above
//! would settle at a dozen requests at a time, and each pause would delay all. A single response
//! does not tell the two cases apart, many do. A 503 with a time is about its file
//! ([`RequestOutcome::RetryAfter`]: only this request is retried, at that time) if less than half
//! of the latest responses were rejections, or if it was the only request in flight, which cannot
//! be too many. An overloaded server that rejects a dozen at a time exceeds the half within
//! `MEMORY` responses. For a server that rejects a few of many it is enough that these few wait. A
//! 202 is always about its file, a 429 never.

/// Factor on the requests in flight after a rejection while others were served.
const MILD_CUT: f64 = 0.9;
/// Factor on the requests in flight if more were rejected than served since the last cut.
const HARD_CUT: f64 = 0.5;
/// Growth per round of responses above the ceiling; below it is one.
const PROBING: f64 = 0.05;
/// Number of responses over which the share of rejections is averaged; older ones count less.
const MEMORY: f64 = 16.0;
/// Share of rejections from which on the server is busy.
const BUSY_SHARE: f64 = 0.5;

/// The limit on requests in flight at one server.
#[derive(Debug, Clone, PartialEq)]
pub struct ConcurrencyLimit {
    limit: f64,
    /// Requests in flight at the last rejection.
    ceiling: f64,
    in_flight: usize,
    /// Requests in flight when the limit was cut: their rejections cause no other cut.
    sent_before_cut: usize,
    served_since_cut: usize,
    rejected_since_cut: usize,
    /// Share of rejections in the latest responses.
    rejected_share: f64,
}

impl Default for ConcurrencyLimit {
    fn default() -> Self {
        Self {
            limit: f64::INFINITY,
            ceiling: f64::INFINITY,
            in_flight: 0,
            sent_before_cut: 0,
            served_since_cut: 1,
            rejected_since_cut: 0,
            rejected_share: 0.0,
        }
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The server served it.
    Served,
    /// The server was too busy and rejected it.
    Overloaded,
    /// The server has to stage the file first.
    RetryAfter,
    /// It failed for a reason that does not depend on the load of the server.
    Failed,
}

impl ConcurrencyLimit {
    /// Counts one more request as in flight if the limit allows it; true if so.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn try_acquire(&mut self) -> bool {
        let fits = self.in_flight == 0 || ((self.in_flight + 1) as f64) <= self.limit;
        self.in_flight += usize::from(fits);
        fits
    }

    /// Returns true if a rejection with a `Retry-After` is now about its file, not the server.
    #[must_use]
    pub fn is_about_the_file(&self) -> bool {
        self.in_flight <= 1 || self.rejected_share < BUSY_SHARE
    }

    /// Records the end of a request. Returns true if it is worth repeating immediately: it was
    /// rejected, and the limit is now lower.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn release(&mut self, outcome: RequestOutcome) -> bool {
        let in_flight = self.in_flight;
        self.in_flight = in_flight.saturating_sub(1);
        let sent_before_cut = self.sent_before_cut > 0;
        self.sent_before_cut = self.sent_before_cut.saturating_sub(1);
        match outcome {
            RequestOutcome::Served => self.rejected_share -= self.rejected_share / MEMORY,
            RequestOutcome::Overloaded | RequestOutcome::RetryAfter => {
                self.rejected_share += (1.0 - self.rejected_share) / MEMORY;
            }
            RequestOutcome::Failed => {}
        }
        match outcome {
            RequestOutcome::Failed | RequestOutcome::RetryAfter => false,
            RequestOutcome::Served => {
                self.served_since_cut = self.served_since_cut.saturating_add(1);
                if self.limit.is_finite() && (in_flight as f64) + 1.0 >= self.limit {
                    let growth = if self.limit + 1.0 < self.ceiling { 1.0 } else { PROBING };
                    self.limit += growth / self.limit.max(1.0);
                }
                false
            }
            RequestOutcome::Overloaded if sent_before_cut => {
                self.rejected_since_cut = self.rejected_since_cut.saturating_add(1);
                true
            }
            RequestOutcome::Overloaded => {
                let mild = self.served_since_cut >= self.rejected_since_cut.max(1);
                let cut = if mild { MILD_CUT } else { HARD_CUT };
                self.ceiling = in_flight as f64;
                self.limit = (in_flight as f64 * cut).floor().max(1.0);
                self.sent_before_cut = self.in_flight;
                self.served_since_cut = 0;
                self.rejected_since_cut = 0;
                in_flight > 1
            }
        }
    }

    /// Maximum number of requests in flight; none if the server never rejected any.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite, at least one, and at most the number that was in flight"
    )]
    pub fn limit(&self) -> Option<usize> {
        self.limit.is_finite().then_some(self.limit as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests served and rejected by a server that serves `capacity` requests per tick and
    /// rejects all of a tick in which there are more.
    fn collapsing(capacity: usize, connections: usize, ticks: usize) -> (usize, usize) {
        let mut limit = ConcurrencyLimit::default();
        let mut served = 0;
        let mut rejected = 0;
        for _ in 0..ticks {
            let sent = (0..connections).take_while(|_| limit.try_acquire()).count();
            let outcome =
                if sent > capacity { RequestOutcome::Overloaded } else { RequestOutcome::Served };
            match outcome {
                RequestOutcome::Overloaded => rejected += sent,
                _ => served += sent,
            }
            for _ in 0..sent {
                limit.release(outcome);
            }
        }
        (served, rejected)
    }

    /// Acceptance test T14: a server that collapses above 64 requests stays at 90 % of its best.
    #[test]
    fn an_overloaded_server_stays_close_to_its_best_rate() {
        for (capacity, connections) in [(64, 65), (64, 128), (64, 1024), (10, 64), (2, 64)] {
            let (served, rejected) = collapsing(capacity, connections, 2_000);
            let best = capacity * 2_000;
            assert!(served * 10 >= best * 9, "{capacity} of {connections}: {served} of {best}");
            assert!(
                rejected < best / 10 + connections,
                "{capacity} of {connections}: {rejected} rejected"
            );
        }
    }

    /// A server that serves `capacity` of each round and rejects the others: far above it, the
    /// limit halves.
    #[test]
    fn the_limit_falls_quickly_under_heavy_overload() {
        let mut limit = ConcurrencyLimit::default();
        let capacity = 64;
        let mut rejected = 0;
        for _ in 0..8 {
            let sent = (0..1024).take_while(|_| limit.try_acquire()).count();
            for nth in 0..sent {
                limit.release(if nth < capacity {
                    RequestOutcome::Served
                } else {
                    RequestOutcome::Overloaded
                });
            }
            rejected += sent.saturating_sub(capacity);
        }
        let limit = limit.limit().unwrap();
        assert!((capacity / 2..=2 * capacity).contains(&limit), "{limit}, {rejected} rejected");
    }

    #[test]
    fn without_rejections_there_is_no_limit() {
        assert_eq!(collapsing(usize::MAX, 1024, 10), (10_240, 0));
        assert_eq!(ConcurrencyLimit::default().limit(), None);
    }

    #[test]
    fn the_limit_rises_when_the_server_recovers() {
        let mut limit = ConcurrencyLimit::default();
        assert!((0..100).all(|_| limit.try_acquire()));
        (0..100).for_each(|_| _ = limit.release(RequestOutcome::Overloaded));
        let after_cut = limit.limit().unwrap();
        for _ in 0..10_000 {
            let sent = (0..100).take_while(|_| limit.try_acquire()).count();
            (0..sent).for_each(|_| _ = limit.release(RequestOutcome::Served));
        }
        assert_eq!((after_cut, limit.limit().unwrap() >= 100), (90, true));
    }

    #[test]
    fn a_lone_request_always_starts_and_its_rejection_is_returned() {
        let mut limit = ConcurrencyLimit::default();
        for _ in 0..10 {
            assert!(limit.try_acquire());
            assert!(!limit.release(RequestOutcome::Overloaded));
        }
        assert_eq!(limit.limit(), Some(1));
    }

    /// One file in twenty is being staged: the others are not delayed.
    #[test]
    fn staging_files_do_not_lower_the_limit() {
        let mut limit = ConcurrencyLimit::default();
        for nth in 0..100_000 {
            while limit.in_flight < 64 {
                assert!(limit.try_acquire());
            }
            let staged = nth % 20 == 7;
            assert!(!staged || limit.is_about_the_file());
            limit.release(if staged { RequestOutcome::RetryAfter } else { RequestOutcome::Served });
        }
        assert_eq!(limit.limit(), None);
    }

    #[test]
    fn only_rejections_of_concurrent_requests_mean_overload() {
        let mut limit = ConcurrencyLimit::default();
        assert!((0..64).all(|_| limit.try_acquire()));
        let staged = (0..64).take_while(|_| {
            let about_the_file = limit.is_about_the_file();
            limit.release(if about_the_file {
                RequestOutcome::RetryAfter
            } else {
                RequestOutcome::Overloaded
            });
            about_the_file
        });
        let staged = staged.count();
        assert!((8..16).contains(&staged), "{staged}");
        assert!(limit.limit().is_some());
        while limit.in_flight > 1 {
            limit.release(RequestOutcome::Overloaded);
        }
        assert!(limit.is_about_the_file());
    }

    #[test]
    fn a_server_that_rejects_everything_soon_gets_one_request_at_a_time() {
        let mut limit = ConcurrencyLimit::default();
        for _ in 0..7 {
            let sent = (0..64).take_while(|_| limit.try_acquire()).count();
            (0..sent).for_each(|_| _ = limit.release(RequestOutcome::Overloaded));
        }
        assert_eq!(limit.limit(), Some(1));
    }
}
