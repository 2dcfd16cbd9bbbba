//! Adaptive limit on requests in flight at one server, once it has rejected one as too many.
//!
//! A server that answers 429 or 503 (RFC 6585 section 4, RFC 9110 section 15.6.4) while it serves
//! others is busy, not broken. As with congestion in a network, the answer is to ask for less at a
//! time, and for a little more again as long as that goes well: the limit is cut to nine tenths of
//! what was under way when a request was refused while others were served, and to half of it when
//! more have been refused than served since the last cut: then there are far too many. It grows by
//! one for each round of answers up to just below where the server refused last, and twenty times
//! as slowly beyond: most of the time is spent close to what the server can do. Requests that were
//! refused together count as one sign.
//!
//! As long as nothing was refused there is no limit.
//!
//! **One file or the server.** Storage with tape behind it says 503 with `Retry-After` for a file
//! that it has to fetch first, and goes on serving the others. A client that takes that for
//! overload slows down or stops for no reason: with one file in twenty being fetched, the rule
//! above would settle at a dozen requests at a time, each pause holding up all. From a single
//! answer the two look alike, from many they do not. So a 503 that names a time is about its file
//! ([`RequestOutcome::RetryAfter`]: asked again when it said, by itself, and nothing else changes)
//! as long as less than half of the latest responses were rejections, and also when it was the only
//! request in flight: then there cannot have been too many. An overloaded server that refuses by
//! the dozen is past the half within `MEMORY` answers; one that refuses a few of many is served
//! well enough by those few waiting as long as it said. A 202 is always about its file, a 429
//! never.

/// Share of what was under way that is kept after a refusal while others were served.
const MILD_CUT: f64 = 0.9;
/// Share that is kept if more were refused than served since the last cut.
const HARD_CUT: f64 = 0.5;
/// Growth per round of answers above the ceiling, where below it is one.
const PROBING: f64 = 0.05;
/// Answers that the share of refusals is taken over, the older ones counting less.
const MEMORY: f64 = 16.0;
/// Share of refusals from which on it is the server that is busy.
const BUSY_SHARE: f64 = 0.5;

/// The limit on requests under way at one server.
#[derive(Debug, Clone, PartialEq)]
pub struct ConcurrencyLimit {
    limit: f64,
    /// Where the server refused last.
    ceiling: f64,
    running: usize,
    /// Requests that had been sent when the limit was cut: their refusals are the same sign.
    sent_before_cut: usize,
    served_since_cut: usize,
    refused_since_cut: usize,
    /// Share of the latest answers that were refusals.
    refused_share: f64,
}

impl Default for ConcurrencyLimit {
    fn default() -> Self {
        Self {
            limit: f64::INFINITY,
            ceiling: f64::INFINITY,
            running: 0,
            sent_before_cut: 0,
            served_since_cut: 1,
            refused_since_cut: 0,
            refused_share: 0.0,
        }
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It was answered.
    Served,
    /// The server was too busy for it.
    Overloaded,
    /// The server has to make the file ready first.
    RetryAfter,
    /// It failed in a way that says nothing about how busy the server is.
    Failed,
}

impl ConcurrencyLimit {
    /// Counts one more request as under way, if that is within the limit.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn try_acquire(&mut self) -> bool {
        let fits = self.running == 0 || ((self.running + 1) as f64) <= self.limit;
        self.running += usize::from(fits);
        fits
    }

    /// Returns true if a request in flight that is rejected with a `Retry-After` is so for its
    /// file's sake, not the server's.
    #[must_use]
    pub fn is_about_the_file(&self) -> bool {
        self.running <= 1 || self.refused_share < BUSY_SHARE
    }

    /// A request is no longer under way. Tells whether it is worth sending again at once: it was
    /// refused, and fewer are asked for now than there were.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn release(&mut self, fate: RequestOutcome) -> bool {
        let running = self.running;
        self.running = running.saturating_sub(1);
        let same_sign = self.sent_before_cut > 0;
        self.sent_before_cut = self.sent_before_cut.saturating_sub(1);
        match fate {
            RequestOutcome::Served => self.refused_share -= self.refused_share / MEMORY,
            RequestOutcome::Overloaded | RequestOutcome::RetryAfter => {
                self.refused_share += (1.0 - self.refused_share) / MEMORY;
            }
            RequestOutcome::Failed => {}
        }
        match fate {
            RequestOutcome::Failed | RequestOutcome::RetryAfter => false,
            RequestOutcome::Served => {
                self.served_since_cut = self.served_since_cut.saturating_add(1);
                if self.limit.is_finite() && (running as f64) + 1.0 >= self.limit {
                    let pace = if self.limit + 1.0 < self.ceiling { 1.0 } else { PROBING };
                    self.limit += pace / self.limit.max(1.0);
                }
                false
            }
            RequestOutcome::Overloaded if same_sign => {
                self.refused_since_cut = self.refused_since_cut.saturating_add(1);
                true
            }
            RequestOutcome::Overloaded => {
                let close = self.served_since_cut >= self.refused_since_cut.max(1);
                let cut = if close { MILD_CUT } else { HARD_CUT };
                self.ceiling = running as f64;
                self.limit = (running as f64 * cut).floor().max(1.0);
                self.sent_before_cut = self.running;
                (self.served_since_cut, self.refused_since_cut) = (0, 0);
                running > 1
            }
        }
    }

    /// Requests that may be under way; none if the server never refused any.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite, at least one, and no more than were ever under way"
    )]
    pub fn limit(&self) -> Option<usize> {
        self.limit.is_finite().then_some(self.limit as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that serves `capacity` requests a tick and refuses all of a tick in which there are
    /// more.
    fn collapsing(capacity: usize, connections: usize, ticks: usize) -> (usize, usize) {
        let mut limit = ConcurrencyLimit::default();
        let mut served = 0;
        let mut refused = 0;
        for _ in 0..ticks {
            let sent = (0..connections).take_while(|_| limit.try_acquire()).count();
            let fate =
                if sent > capacity { RequestOutcome::Overloaded } else { RequestOutcome::Served };
            match fate {
                RequestOutcome::Overloaded => refused += sent,
                _ => served += sent,
            }
            for _ in 0..sent {
                limit.release(fate);
            }
        }
        (served, refused)
    }

    /// Acceptance test T14: a server that collapses above 64 requests is held at 90 % of its best.
    #[test]
    fn a_server_that_collapses_is_held_close_to_its_best() {
        for (capacity, connections) in [(64, 65), (64, 128), (64, 1024), (10, 64), (2, 64)] {
            let (served, refused) = collapsing(capacity, connections, 2_000);
            let best = capacity * 2_000;
            assert!(served * 10 >= best * 9, "{capacity} of {connections}: {served} of {best}");
            assert!(
                refused < best / 10 + connections,
                "{capacity} of {connections}: {refused} refused"
            );
        }
    }

    /// A server that serves `capacity` of each round and refuses the others: far above it, the
    /// limit halves.
    #[test]
    fn far_too_many_requests_are_soon_few_enough() {
        let mut limit = ConcurrencyLimit::default();
        let capacity = 64;
        let mut refused = 0;
        for _ in 0..8 {
            let sent = (0..1024).take_while(|_| limit.try_acquire()).count();
            for nth in 0..sent {
                limit.release(if nth < capacity {
                    RequestOutcome::Served
                } else {
                    RequestOutcome::Overloaded
                });
            }
            refused += sent.saturating_sub(capacity);
        }
        let limit = limit.limit().unwrap();
        assert!((capacity / 2..=2 * capacity).contains(&limit), "{limit}, {refused} refused");
    }

    #[test]
    fn without_refusals_there_is_no_limit() {
        assert_eq!(collapsing(usize::MAX, 1024, 10), (10_240, 0));
        assert_eq!(ConcurrencyLimit::default().limit(), None);
    }

    #[test]
    fn a_server_that_recovers_is_asked_for_more_again() {
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
    fn the_last_request_is_never_held_back_and_its_refusal_is_final() {
        let mut limit = ConcurrencyLimit::default();
        for _ in 0..10 {
            assert!(limit.try_acquire());
            assert!(!limit.release(RequestOutcome::Overloaded));
        }
        assert_eq!(limit.limit(), Some(1));
    }

    /// One in twenty is being fetched from tape: nobody else is held up.
    #[test]
    fn files_that_are_staged_do_not_slow_the_others_down() {
        let mut limit = ConcurrencyLimit::default();
        for nth in 0..100_000 {
            while limit.running < 64 {
                assert!(limit.try_acquire());
            }
            let staged = nth % 20 == 7;
            assert!(!staged || limit.is_about_the_file());
            limit.release(if staged { RequestOutcome::RetryAfter } else { RequestOutcome::Served });
        }
        assert_eq!(limit.limit(), None);
    }

    #[test]
    fn a_server_that_refuses_by_the_dozen_is_busy_and_one_that_refuses_a_lone_request_is_not() {
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
        while limit.running > 1 {
            limit.release(RequestOutcome::Overloaded);
        }
        assert!(limit.is_about_the_file());
    }

    #[test]
    fn a_server_that_serves_nothing_is_soon_asked_by_one() {
        let mut limit = ConcurrencyLimit::default();
        for _ in 0..7 {
            let sent = (0..64).take_while(|_| limit.try_acquire()).count();
            (0..sent).for_each(|_| _ = limit.release(RequestOutcome::Overloaded));
        }
        assert_eq!(limit.limit(), Some(1));
    }
}
