//! Support for tests of copies.

pub(crate) mod memory;
pub(crate) mod scripted;
