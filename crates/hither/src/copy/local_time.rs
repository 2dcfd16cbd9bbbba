//! Limits of bandwidth that change with the time of day, by the clock of the user.

use chrono::{Datelike, Local, Timelike};
use hither_load::bandwidth::BandwidthTimetable;
use hither_transfer::{BandwidthLimit, BandwidthLimiter};
use hither_transport::MonotonicClock;
use std::sync::Arc;

/// The minute of the week in the user's time zone; a week begins on Sunday at midnight.
#[must_use]
pub fn minute_of_week() -> u32 {
    let now = Local::now();
    (now.weekday().num_days_from_sunday() * 24 + now.hour()) * 60 + now.minute()
}

/// A limiter with the rates of a timetable, in the user's time zone.
#[must_use]
pub fn bandwidth_limiter(timetable: BandwidthTimetable) -> Arc<BandwidthLimiter> {
    let limit = BandwidthLimit { timetable, minute_of_week };
    Arc::new(BandwidthLimiter::new(limit, Arc::new(MonotonicClock::start())))
}
