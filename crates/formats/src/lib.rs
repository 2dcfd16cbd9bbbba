//! File formats as pure state machines: from columns and entries to byte ranges, and from bytes to
//! arrays.
//!
//! Nothing in this crate does I/O. A reader is a function of the bytes that are there so far
//! ([`SparseBytes`]); it returns a [`DecodeResult`]: either the value, or the ranges that it still
//! [needs](NeededRanges). The caller fetches those ranges, adds them, and calls again. The same
//! bytes kept on disk therefore replay an open without a single round trip.
//!
//! # Where to start reading
//!
//! - how a ROOT file is read: `src/root.rs`; a basket's offsets: `src/root/basket.rs`.

mod column;
mod error;
pub mod root;
mod sparse;
mod take;
mod values;

pub use column::{Column, ElementType, Strings, Values};
pub use error::{FormatError, Result};
pub use sparse::{DecodeResult, NeededRanges, SparseBytes};
