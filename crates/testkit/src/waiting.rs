//! Waiting for a condition under a deadline: the one place where tests poll.

use std::thread;
use std::time::{Duration, Instant};

/// Generous: a test that hangs must end, a busy machine must not fail.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Blocks until `condition` holds; returns false if it does not within a minute.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "what it waits for happens in real time")]
pub fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// Does the same in a task, while other tasks of its thread run.
#[expect(clippy::disallowed_methods, reason = "what it waits for happens in real time")]
pub async fn task_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}
