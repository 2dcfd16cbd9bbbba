//! The deadline of a request that waits in line.
//!
//! A request may wait for as long as those before it take: their timeouts end them, as long as
//! somebody drives them. A request is not driven while its caller waits for another one, and then
//! the two may wait for each other. So who waits gives up where nothing moves for as long as the
//! connect timeout and the first-byte timeout together: no byte on any connection to the server,
//! and no connection that was handed on.

use super::Pool;
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use std::pin::pin;
use tokio::time::timeout;

/// The parts of the deadline at which the progress is looked at. A program that does not read for a
/// while drives nothing meanwhile: what moves then is seen before the deadline is over.
const LOOKS: u32 = 4;

impl Pool {
    /// Waits for `turn`, which another request of this pool has to bring about.
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

    /// Waits for `answer` as long as the caller's own timeout allows. Others that wait in line see
    /// that it is driven.
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
