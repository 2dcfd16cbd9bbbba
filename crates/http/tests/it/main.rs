//! The codecs against what real servers sent, against written dialects, and against garbage.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say where they fail by panicking"
)]

mod answers;
mod garbage;
mod parts;
mod propfind;
mod recorded;
mod written;
