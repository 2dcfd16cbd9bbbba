//! Retries: which failed request is sent again, after which pause, and how often.
//!
//! [`decision`] derives from the facts of a failure which retry is allowed. A [`Backoff`] turns
//! that into a pause, or reports that the error is final. [`run`] is the loop of every operation
//! that is attempted again; state machines without a loop of their own (the reader, files that are
//! opened ahead, the files of a copy, waits for tape, servers that refuse connections) hold a
//! `Backoff`.
//!
//! *Pauses* are random, with decorrelated jitter (AWS Architecture Blog, "Exponential Backoff And
//! Jitter"): from [`RetryPolicy::min_pause`] to three times the pause before. Clients that a
//! restarting server disconnects at the same moment reconnect at different ones. A pause that the
//! server states is kept, and lengthened by up to a quarter, since it states the same one to many.
//!
//! *Budgets.* Failures without progress are counted ([`RetryPolicy::attempts`]). A server that
//! refuses requests because it is busy has a deadline instead ([`RetryPolicy::busy_timeout`]), one
//! that stages a file another ([`RetryPolicy::staging_timeout`]). No pause begins that would end
//! after the deadline. Progress renews all three.
//!
//! Clock and randomness come from a [`Clock`]. Dropping the future of [`run`] ends the operation,
//! and its pause.

pub mod decision;

use crate::error::{Error, Result};
use crate::source::clock::Clock;
pub use decision::{Delivery, Effect, Failure, Retry};
use std::time::Duration;
use tracing::{debug, info};

/// The part of a stated pause by which it is lengthened at most: a quarter.
const SPREAD: u32 = 4;

/// The shortest pause that is shown.
const MIN_SHOWN: Duration = Duration::from_secs(1);

/// Budgets and pauses of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Failures in a row, without progress in between, after which the last one is final. 4 by
    /// default.
    pub attempts: u32,
    /// Maximum time for which a request is repeated that a server refuses because it is busy. 60 s
    /// by default, the time for the start of a response.
    pub busy_timeout: Duration,
    /// Maximum total time to wait for a file that its server has to make ready first. 10 min by
    /// default; 0 means that it is not awaited.
    pub staging_timeout: Duration,
    /// The shortest pause. 100 ms by default.
    pub min_pause: Duration,
    /// The longest pause where no server has requested one. 10 s by default.
    pub max_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 4,
            busy_timeout: Duration::from_secs(60),
            staging_timeout: Duration::from_secs(600),
            min_pause: Duration::from_millis(100),
            max_pause: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// The policy of an operation that is attempted once.
    #[must_use]
    pub fn once() -> Self {
        Self {
            attempts: 1,
            busy_timeout: Duration::ZERO,
            staging_timeout: Duration::ZERO,
            ..Self::default()
        }
    }
}

/// The failures of one operation since its last progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    pause: Duration,
    /// The end of the pause.
    until: Duration,
    busy_since: Option<Duration>,
    staging_since: Option<Duration>,
}

impl Backoff {
    /// Failures that were counted since the last progress.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause before the next attempt, after a failure with this decision, and after progress if
    /// the attempt `progressed`; none if the failure is final. Failures within a pause, as of
    /// requests that were sent together, do not lengthen it.
    pub fn next(
        &mut self,
        policy: &RetryPolicy,
        retry: Retry,
        progressed: bool,
        clock: &dyn Clock,
    ) -> Option<Duration> {
        if progressed {
            *self = Self::default();
        }
        let now = clock.now();
        let (after, left) = match retry {
            Retry::Never | Retry::OtherServer | Retry::LookFirst => return None,
            Retry::AtOnce | Retry::SameServer { after: Duration::ZERO } if progressed => {
                return Some(Duration::ZERO);
            }
            Retry::AtOnce => return self.count(policy).then_some(Duration::ZERO),
            Retry::SameServer { after } if self.count(policy) => (after, Duration::MAX),
            Retry::SameServer { .. } => return None,
            Retry::Busy { after } => {
                let since = *self.busy_since.get_or_insert(now);
                (after, policy.busy_timeout.checked_sub(now.saturating_sub(since))?)
            }
            Retry::Later { after } => {
                let since = *self.staging_since.get_or_insert(now);
                (after, policy.staging_timeout.checked_sub(now.saturating_sub(since))?)
            }
        };
        if left.is_zero() || after > left {
            return None;
        }
        if now < self.until {
            return Some(self.until.saturating_sub(now).max(after));
        }
        let pause = if after.is_zero() {
            let min = policy.min_pause;
            let pause = between(min, self.pause.max(min).saturating_mul(3), clock.random());
            self.pause = pause.min(policy.max_pause);
            self.pause.min(left)
        } else {
            lengthened(after, clock.random()).min(left)
        };
        self.until = now.saturating_add(pause);
        Some(pause)
    }

    /// Counts a failure. Returns true if another attempt is left.
    fn count(&mut self, policy: &RetryPolicy) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures < policy.attempts
    }
}

/// A pause that a server has stated, lengthened at random: it states the same one to many clients.
#[must_use]
pub fn lengthened(pause: Duration, random: u64) -> Duration {
    between(pause, pause.saturating_add(pause / SPREAD), random)
}

/// A duration between two others.
fn between(min: Duration, max: Duration, random: u64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
    let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
    min.saturating_add(max.saturating_sub(min).mul_f64(share))
}

/// A failed attempt.
#[derive(Debug)]
pub struct Failed {
    error: Error,
    retry: Retry,
    progressed: bool,
}

impl From<Error> for Failed {
    /// A failure without progress, which [`Error::retry`] decides about.
    fn from(error: Error) -> Self {
        Self { retry: error.retry(), error, progressed: false }
    }
}

impl Failed {
    /// A failure that ends the operation, such as one of the receiver of the bytes.
    #[must_use]
    pub fn finally(error: Error) -> Self {
        Self { error, retry: Retry::Never, progressed: false }
    }

    /// The failure of an operation that looks at the server before it changes anything, so that it
    /// may be attempted again where the request may have been carried out.
    #[must_use]
    pub fn looking(error: Error) -> Self {
        let retry = match error.retry() {
            Retry::LookFirst => Retry::SameServer { after: Duration::ZERO },
            retry => retry,
        };
        Self { error, retry, progressed: false }
    }

    /// The same failure, before which the attempt made progress if `progressed`.
    #[must_use]
    pub fn after_progress(self, progressed: bool) -> Self {
        Self { progressed, ..self }
    }
}

/// An operation that may be attempted again: a closure that returns a future, or a type with the
/// state that attempts share.
pub trait Retryable: Send {
    /// The result of a successful attempt.
    type Done: Send;

    /// Makes an attempt. It chooses the server, and states in its error whether there was progress.
    fn attempt(&mut self) -> impl Future<Output = Result<Self::Done, Failed>> + Send;
}

impl<T, A, F> Retryable for F
where
    T: Send,
    A: Future<Output = Result<T, Failed>> + Send,
    F: FnMut() -> A + Send,
{
    type Done = T;

    fn attempt(&mut self) -> impl Future<Output = Result<T, Failed>> + Send {
        self()
    }
}

/// Attempts `operation` until it succeeds or its failure is final.
///
/// # Errors
///
/// The last one of the operation.
pub async fn run<O: Retryable>(
    policy: &RetryPolicy,
    clock: &dyn Clock,
    mut operation: O,
) -> Result<O::Done> {
    let mut backoff = Backoff::default();
    loop {
        let Failed { error, retry, progressed } = match operation.attempt().await {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        let Some(pause) = backoff.next(policy, retry, progressed, clock) else {
            return Err(error);
        };
        note(&error, retry, pause);
        if !pause.is_zero() {
            clock.sleep(pause).await;
        }
    }
}

/// Logs a retry. The command shows the target `hither_wait`: waits may last for minutes.
pub fn note(error: &Error, retry: Retry, pause: Duration) {
    if pause >= MIN_SHOWN {
        let seconds = pause.as_secs_f64();
        info!(target: "hither_wait", "{error}: waiting, asking again in {seconds:.0} s");
    } else {
        debug!(%error, ?retry, ?pause, "attempting again");
    }
}
