//! The C library `libhither`: conversions between C and the library, no logic.
//!
//! `include/hither.h` is generated from this crate by cbindgen; a test compares the two. The
//! comments on functions here are those of the header.
//!
//! Every exported function has the same form. Handles come in as `Option<&T>`, which is a pointer
//! that may be NULL; they leave as `Option<Box<T>>`, and a function that frees one takes that.
//! Texts and arrays are pointers, which [`foreign`] converts: it is the only file with unsafe
//! blocks. `border` runs the body: it catches panics, which must not unwind into C, and stores
//! the error. A handle is bound to the process that made it; in a child of `fork` it is an error to
//! use it, because the threads behind it are not there, and freeing it does nothing.
//!
//! # Where to start reading
//!
//! - how C calls the library: `src/lib.rs`, `src/foreign.rs`, `src/queue.rs`.
#![expect(unsafe_code, reason = "exported names; a test sees that only foreign.rs has blocks")]

mod border;
pub mod client;
pub mod copy;
pub mod entry;
pub mod error;
pub mod file;
pub mod foreign;
mod options;
pub mod queue;
pub mod storage;
