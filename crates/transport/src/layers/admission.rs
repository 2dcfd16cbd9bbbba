//! Admission of range requests at a server, and retries at a busy one.
//!
//! A server that rejects a request as one too many (429, 503) gets fewer at a time
//! ([`ConcurrencyLimiter`](crate::pool::concurrency_limiter::ConcurrencyLimiter)). The rejected
//! request waits, and is sent again as soon as the lower limit admits it. There is no deadline
//! while other requests are in flight. A request that is rejected while it is the only one is an
//! error, which the caller may retry.
//!
//! A 503 with `Retry-After` may be about the file and not about the server: a file that is staged
//! from tape. Then the request is not sent again here, and the limit stays ([`by_cause`]).

use crate::context::MonotonicClock;
use crate::location::Location;
use crate::pool::Pool;
use crate::pool::concurrency_limiter::ConcurrencyPermit;
use crate::pool::observation::ExchangeResult;
use hither_core::error::{Error, Failure, Result, Retry};
use hither_core::{Backoff, RetryPolicy};
use hither_load::concurrency_limit::RequestOutcome;
use std::time::Duration;
use tracing::debug;

/// The shortest pause for which a 503 asks that is taken for the time that staging a file takes.
const MIN_STAGING: Duration = Duration::from_secs(5);

/// The admission of one request.
#[derive(Debug)]
pub(crate) struct Admission {
    policy: RetryPolicy,
    backoff: Backoff,
    clock: MonotonicClock,
}

impl Admission {
    /// The admission of a request that no server has rejected yet.
    pub(crate) fn new() -> Self {
        let mut policy = RetryPolicy::default();
        policy.busy_timeout = Duration::MAX;
        Self { policy, backoff: Backoff::default(), clock: MonotonicClock::start() }
    }

    /// Waits until the concurrency limit of the server admits the request.
    ///
    /// # Errors
    ///
    /// As [`Pool::in_turn`].
    pub(crate) async fn enter<'p>(&self, pool: &'p Pool) -> Result<ConcurrencyPermit<'p>> {
        pool.in_turn(pool.limiter().admit()).await
    }

    /// Ends an admitted request to `location`. Returns true if it was rejected as one too many and
    /// is to be sent again, after the pause before that.
    pub(crate) async fn waits(
        &mut self,
        permit: ConcurrencyPermit<'_>,
        result: &ExchangeResult,
        location: &Location,
    ) -> bool {
        let (outcome, after) = outcome(result);
        if !permit.leave(outcome) {
            return false;
        }
        let busy = Retry::Busy { after };
        let Some(pause) = self.backoff.next(&self.policy, busy, false, &self.clock) else {
            return false;
        };
        debug!(url = %location, ?pause, "server overloaded, sending the request again");
        tokio::time::sleep(pause).await;
        true
    }
}

/// The outcome of a request for the concurrency limit, and the pause that the server has asked for
/// if it rejected the request as one too many.
fn outcome(result: &ExchangeResult) -> (RequestOutcome, Duration) {
    match result.outcome.as_ref().err().map(Error::retry) {
        None => (RequestOutcome::Served, Duration::ZERO),
        Some(Retry::Later { .. }) => (RequestOutcome::RetryAfter, Duration::ZERO),
        Some(Retry::Busy { after }) => (RequestOutcome::Overloaded, after),
        Some(retry) if result.busy && retry != Retry::OtherServer => {
            (RequestOutcome::Overloaded, Duration::ZERO)
        }
        Some(_) => (RequestOutcome::Failed, Duration::ZERO),
    }
}

/// The result of a 503 with `Retry-After`, which is about the file or about the server by the rule
/// of [`hither_load::concurrency_limit::ConcurrencyLimit`].
pub(crate) fn by_cause(pool: &Pool, result: ExchangeResult) -> ExchangeResult {
    match result.outcome {
        Err(error) if pool.limiter().is_about_the_file() => match error.retry() {
            Retry::Busy { after } if after >= MIN_STAGING => {
                let later = error.with_failure(Failure::Staging { after });
                ExchangeResult { busy: false, outcome: Err(later), ..result }
            }
            _ => ExchangeResult { outcome: Err(error), ..result },
        },
        _ => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TransportConfig;
    use crate::network::Network;
    use crate::pool::observation::ExchangeOutcome;
    use hither_core::ResponseMeta;
    use hither_core::error::ErrorKind;
    use std::sync::Arc;
    use tokio::runtime::Handle;

    fn pool() -> (Location, Arc<Pool>) {
        let location = Location::parse("http://127.0.0.1/f").unwrap();
        let network = Network::new(TransportConfig::default(), Handle::current(), None);
        let pool = network.pool(&location);
        (location, pool)
    }

    fn rejected(after: u64) -> ExchangeResult {
        let after = Duration::from_secs(after);
        let failure = Failure::Status { code: 503, after: Some(after) };
        let error = Error::new(ErrorKind::Unavailable, "busy").with_failure(failure);
        ExchangeResult { busy: true, ..ExchangeResult::failed(error) }
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_several_that_is_rejected_waits_and_the_last_one_fails() {
        let (location, pool) = pool();
        let mut admission = Admission::new();
        let other = admission.enter(&pool).await.unwrap();
        let permit = admission.enter(&pool).await.unwrap();
        let began = tokio::time::Instant::now();
        assert!(admission.waits(permit, &rejected(1), &location).await);
        assert!(began.elapsed() >= Duration::from_secs(1), "the server has asked for that");
        assert_eq!(pool.limiter().limit(), Some(1));
        drop(other);
        let permit = admission.enter(&pool).await.unwrap();
        assert!(!admission.waits(permit, &rejected(1), &location).await);
    }

    #[tokio::test]
    async fn what_is_served_or_fails_for_another_reason_is_not_sent_again() {
        let (location, pool) = pool();
        let error = Error::new(ErrorKind::NotFound, "no such file");
        let complete = Ok(ExchangeOutcome::Complete(ResponseMeta::default()));
        for result in [ExchangeResult::new(complete, true), ExchangeResult::failed(error)] {
            let mut admission = Admission::new();
            let other = admission.enter(&pool).await.unwrap();
            let permit = admission.enter(&pool).await.unwrap();
            assert!(!admission.waits(permit, &result, &location).await, "{result:?}");
            drop(other);
        }
        assert_eq!(pool.limiter().limit(), None);
    }

    #[tokio::test]
    async fn a_long_pause_of_a_server_that_serves_others_is_about_the_file() {
        let (_, pool) = pool();
        for (seconds, is_busy) in [(4, true), (5, false)] {
            let result = by_cause(&pool, rejected(seconds));
            assert_eq!(result.busy, is_busy, "{seconds}");
            let is_later = matches!(outcome(&result).0, RequestOutcome::RetryAfter);
            assert_eq!(is_later, !is_busy, "{seconds}");
        }
    }
}
