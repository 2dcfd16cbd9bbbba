//! File formats as sans-I/O state machines: from columns and entries to byte ranges, and from bytes
//! to arrays.
//!
//! This crate does no I/O. A reader is a function of the bytes fetched so far ([`SparseBytes`]); it
//! returns a [`DecodeResult`]: either the value, or the ranges that it still [needs](NeededRanges).
//! The caller fetches those ranges, adds them, and calls again. So with the same bytes in a disk
//! cache, an open needs no round trip.
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
