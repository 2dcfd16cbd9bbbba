//! The deadline of a request that waits in line.
//!
//! A request may wait as long as the requests before it take. Their timeouts end them, but only
//! while their futures are polled. A caller that waits for one request may not poll another one,
//! and then the two may wait for each other (deadlock). So the wait fails if there is no progress
//! for the connect timeout and the first-byte timeout together: no byte on any connection to the
//! server, and no connection that was given to the next request.

use super::Pool;
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use std::pin::pin;
use tokio::time::timeout;

/// The parts of the deadline at whose ends the progress is checked. A program that does not read
/// for a while polls nothing meanwhile: later progress is then seen before the deadline is over.
const LOOKS: u32 = 4;

impl Pool {
    /// Waits for `turn`, which another request of this pool completes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] if nothing moves on any connection.
    pub(crate) async fn in_turn<T>(&self, turn: impl Future<Output = T>) -> Result<T> {
        let limit = self.config().turn_timeout();
        let mut turn = pin!(turn);
        let mut count = self.progress.count();
        let mut still = 0;
        while still < LOOKS {
            if let Ok(done) = timeout(limit / LOOKS, &mut turn).await {
                return Ok(done);
            }
            let before = std::mem::replace(&mut count, self.progress.count());
            still = if before == count { still + 1 } else { 0 };
        }
        let what = format!(
            "{}: all connections are taken, and nothing moved on them for {} s",
            self.location.origin(),
            limit.as_secs_f64()
        );
        let unsent = Failure::Interrupted(Delivery::Unsent);
        Err(Error::new(ErrorKind::Timeout, what).with_failure(unsent))
    }

    /// Waits for `answer` as long as the caller's own timeout allows. Requests that wait in line
    /// see that it is polled.
    pub(crate) async fn driven<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        loop {
            if let Ok(done) = timeout(self.config().no_progress_timeout, &mut answer).await {
                return done;
            }
            self.progress.note();
        }
    }
}
