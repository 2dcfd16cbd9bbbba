//! The codecs against what real servers sent, against written dialects, and against garbage.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say where they fail by panicking"
)]

mod answers;
mod any_bytes;
mod garbage;
mod metalink;
mod parts;
mod propfind;
mod recorded;
mod seeds;
mod written;
