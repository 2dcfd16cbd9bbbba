//! The items of the Python module `hither._core`: conversions between Python and the library,
//! without logic.
//!
//! A blocking call is a `Job`: Python creates it, then waits for it with `wait`, which releases the
//! GIL, or with `await`. Users see the package in `python/hither`, with a function for each of the
//! two.
//!
//! # Where to start reading
//!
//! - how Python waits for operations: `src/job.rs`, `src/fork.rs`, then `python/hither/_file.py`.

mod buffer;
mod client;
mod column;
mod copy;
mod entry;
mod error;
mod file;
mod fork;
mod job;
mod module;
mod options;
mod shutdown;
mod staging;
mod tree;

pub use module::add_items;
