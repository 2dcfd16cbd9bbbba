//! Waiting for a condition with a timeout: the only code of the tests that polls.

use std::thread;
use std::time::{Duration, Instant};

/// Maximum time of a wait: long enough for a busy machine, and finite, so that a hanging test ends.
const TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Blocks until `condition` holds; returns false if it does not hold within a minute.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "what it waits for happens in real time")]
pub fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > TIMEOUT {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// Waits like [`wait_until`], in a task: other tasks of its thread run meanwhile.
#[expect(clippy::disallowed_methods, reason = "what it waits for happens in real time")]
pub async fn task_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > TIMEOUT {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}
