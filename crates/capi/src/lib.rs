//! The C library `libhither`: conversions between C and the library, without logic.
//!
//! cbindgen generates `include/hither.h` from this crate; a test compares the two. The comments on
//! exported functions appear in the header.
//!
//! Every exported function has the same form. Handles are passed as `Option<&T>`, which is a
//! pointer that may be NULL; they are returned as `Option<Box<T>>`, and a function that frees one
//! takes that type. Texts and arrays are pointers, which [`foreign`] converts: it is the only file
//! with unsafe blocks. `border` runs the body: it catches panics, which must not unwind into C, and
//! stores the error. A handle belongs to the process that created it. Its threads do not exist in a
//! child of `fork`: there its use is an error, and freeing it has no effect.
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
