//! The clock of the forwarder: real time, because real packets wait for it.

use rustix::time::{ClockId, clock_gettime};

/// Monotonic time in nanoseconds.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec)
        .unwrap_or_default()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
}
