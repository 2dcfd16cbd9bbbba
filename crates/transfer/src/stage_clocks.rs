//! Clocks of the stages that bytes go through: how long each was busy, starved and blocked.
//!
//! A stage is *busy* while it works, *starved* while it waits for the stage before it, and
//! *blocked* while it waits for the one behind it, or for a limit. Times are sums over workers. The
//! stage that is busy while the one before is blocked and the one behind is starved is what limits
//! a copy.
//!
//! | stage | busy | starved | blocked |
//! |---|---|---|---|
//! | fetch | a request is under way | no piece to fetch | memory, bandwidth |
//! | verify | checksums are computed | | the server computes its own |
//! | write | a write is under way | nothing has arrived | order of blocks |

use hither_tune::StageTimes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Clocks of one stage. Any thread adds to them without waiting.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    busy: AtomicU64,
    starved: AtomicU64,
    blocked: AtomicU64,
}

/// Times of all stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyStages {
    /// Fetching of pieces.
    pub fetch: StageTimes,
    /// Checksums.
    pub verify: StageTimes,
    /// Writing to the target.
    pub write: StageTimes,
}

impl StageClock {
    pub(crate) fn busy(&self, time: Duration) {
        add(&self.busy, time);
    }

    pub(crate) fn starved(&self, time: Duration) {
        add(&self.starved, time);
    }

    pub(crate) fn blocked(&self, time: Duration) {
        add(&self.blocked, time);
    }

    pub(crate) fn times(&self) -> StageTimes {
        let time = |clock: &AtomicU64| Duration::from_nanos(clock.load(Ordering::Relaxed));
        StageTimes {
            busy: time(&self.busy),
            starved: time(&self.starved),
            blocked: time(&self.blocked),
        }
    }
}

fn add(clock: &AtomicU64, time: Duration) {
    clock.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}
