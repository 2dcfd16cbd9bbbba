//! The clock of the user.

use chrono::{Datelike, Local, Timelike};

/// The minute of the week in the user's time zone; a week begins on Sunday at midnight.
#[must_use]
pub fn minute_of_week() -> u32 {
    let now = Local::now();
    (now.weekday().num_days_from_sunday() * 24 + now.hour()) * 60 + now.minute()
}
